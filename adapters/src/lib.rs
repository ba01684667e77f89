//! Chat adapters: signals in, deliveries out. They reach the rest of the installation only through
//! the public contract on NATS (`docs/adapters.md`), as an adapter in any other language does.

pub mod api;
pub mod client;
pub mod config;
pub mod error;
pub mod transport;

mod bindings;
mod console;

pub use client::Client;
pub use config::Config;
pub use error::Error;

use tokio::net::TcpListener;
use turnwright_kit::Supervisor;

/// The `service.name` of this process.
pub const SERVICE: &str = "turnwright-adapters";

/// Starts the console adapter on `listener`; returns once it answers requests. `/readyz` says when
/// it also receives deliveries, which needs the control plane.
///
/// # Errors
/// When the journal cannot be used, or NATS is not there within the start timeout.
pub async fn serve(config: Config, listener: TcpListener, sup: &Supervisor) -> Result<(), Error> {
    console::serve(config, listener, sup).await
}
