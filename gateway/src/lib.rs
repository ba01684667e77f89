//! The gateway: an OpenAI-compatible Responses API in front of model providers. It owns every
//! transcript, and is the only part that talks to providers. What must survive is in schema
//! `gateway`: any number of replicas may run, and each may be killed at any instant.

mod app;
mod caller;
mod config;
mod event;
mod generation;
mod ids;
mod json_object;
mod lease;
mod listener;
mod models;
mod problem;
mod replay;
mod request;
mod resource;
mod routes;
mod start;
mod upstream;

pub use config::{Config, Limits};
pub use models::{Model, Models};
pub use start::{Error, serve};
pub use turnwright_gateway_store::migrate;
pub use upstream::Patience;
