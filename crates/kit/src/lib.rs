//! What every Turnwright service does the same way: failure classes, supervision, configuration,
//! telemetry, authentication, reconcilers. Knows no domain.

pub mod agent_token;
pub mod auth;
pub mod backoff;
pub mod class;
pub mod config;
pub mod health;
pub mod listen;
pub mod nats_url;
pub mod reconcile;
pub mod signals;
pub mod supervisor;
pub mod telemetry;
pub mod trace;

pub use class::{Chain, Class, Classify};
pub use nats_url::{Credentials, NatsUrl};
pub use reconcile::Nudge;
pub use supervisor::{OnExit, Outcome, Supervisor};
