//! What users rely on, on real parts. One binary, so that it links once.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod broker;
mod configuration;
mod crash;
mod dev;
mod example_adapter;
mod fences;
mod ledger_check;
mod prompt;
mod schema;
mod trace;
mod turn;
mod workspace;
