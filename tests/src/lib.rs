//! The harness: real PostgreSQL, real nats-server, real services. One PostgreSQL cluster a run
//! with a migrated template, a database and a nats-server per test; waits are for states, never
//! for time; a test ends with `finish`, which fails on a task that will not stop and on a ledger
//! that does not hold.
#![expect(clippy::expect_used, clippy::panic, reason = "a harness fails its test by panicking")]

pub mod cluster;
pub mod database;
pub mod eventually;
pub mod programs;

pub use cluster::TestCluster;
pub use database::TestDatabase;
pub use eventually::eventually;
