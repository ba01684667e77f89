//! Finds and starts a private PostgreSQL and a private nats-server as children of this process,
//! for `turnwright dev` (folder kept) and for tests (folder thrown away). It never touches a server
//! that it did not start, and knows nothing of what is stored in them.
//!
//! Both handles own their process: it ends with [`Postgres::stop`] and [`Nats::stop`], when the
//! handle is dropped, and, where `setpriv` exists, when this process is killed.

mod binaries;
mod child;
mod error;
mod folder;
mod launch;
mod leftover;
mod logfile;
mod nats;
mod port;
mod postgres;
mod secret;
#[cfg(test)]
mod testing;
mod version;

pub use binaries::{Binaries, LocateError, Missing, Program, Search};
pub use error::ServerError;
pub use nats::{Nats, NatsOptions};
pub use postgres::{Postgres, PostgresOptions};
pub use secret::random_secret;
pub use version::Version;
