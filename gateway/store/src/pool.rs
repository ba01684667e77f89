//! The connection pool and the limits that every session of it carries.

use crate::error::Result;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgPool};
use std::{str::FromStr as _, time::Duration};

/// The pool that every use case takes.
pub type Pool = PgPool;

/// Idle connections are asked whether they still live before they are used again.
const IDLE_BEFORE_PING: Duration = Duration::from_secs(1);

/// Opens a pool on schema `gateway` and one connection in it.
///
/// # Errors
/// When the URL is malformed or the database cannot be reached within five seconds.
pub async fn connect(url: &str, max_connections: u32) -> Result<Pool> {
    let options =
        PgConnectOptions::from_str(url)?.application_name("turnwright-gateway").options([
            // A frozen replica must not keep a conversation's lock.
            ("idle_in_transaction_session_timeout", "2s"),
            ("lock_timeout", "5s"),
            ("statement_timeout", "15s"),
            ("tcp_user_timeout", "10s"),
            // Every statement here is short; compiling one costs more than running it.
            ("jit", "off"),
        ]);
    let pool = PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(Duration::from_secs(5))
        // The callback below asks only connections that have been idle: a busy pool saves the trip.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for >= IDLE_BEFORE_PING {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_with(options)
        .await?;
    Ok(pool)
}

/// Whether the database answers.
///
/// # Errors
/// When it does not.
pub async fn ping(pool: &Pool) -> Result<()> {
    let mut connection = pool.acquire().await?;
    connection.ping().await?;
    Ok(())
}
