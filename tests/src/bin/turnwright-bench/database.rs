//! A connection to the installation's database, for the floor and for the counters.

use anyhow::Context as _;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};
use turnwright_kit::{OnExit, Supervisor};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Connects; the connection ends with the client.
///
/// # Errors
/// When PostgreSQL does not answer or refuses.
pub async fn connect(url: &str, sup: &Supervisor) -> anyhow::Result<Client> {
    let connecting = timeout(CONNECT_WITHIN, tokio_postgres::connect(url, NoTls)).await;
    let (client, connection) = connecting
        .context("PostgreSQL does not answer")?
        .context("cannot connect to the installation's database")?;
    sup.spawn("database connection", OnExit::Log, |stop| async move {
        tokio::select! {
            end = connection => end?,
            () = stop.cancelled() => {}
        }
        Ok(())
    });
    Ok(client)
}
