//! Makes the database in a cluster that is up. Speaks SQL about databases only.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Config, NoTls};

use super::PostgresOptions;

const LIMIT: Duration = Duration::from_secs(20);

pub(super) enum Failure {
    Refused(tokio_postgres::Error),
    TooLate(Duration),
}

/// Makes the configured database if it is not there; that it could sign in also shows that the
/// password is this cluster's.
pub(super) async fn ensure(options: &PostgresOptions, port: u16) -> Result<(), Failure> {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user(&options.superuser).password(&options.password);
    config.dbname("postgres").application_name("turnwright-servers");
    match timeout(LIMIT, create(&config, &options.database)).await {
        Ok(done) => done.map_err(Failure::Refused),
        Err(_) => Err(Failure::TooLate(LIMIT)),
    }
}

/// `name` must be a checked identifier.
async fn create(config: &Config, name: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    let work = async move {
        let found =
            client.query_opt("select 1 from pg_database where datname = $1", &[&name]).await?;
        if found.is_none() {
            client.batch_execute(&format!("create database \"{name}\"")).await?;
        }
        Ok::<_, tokio_postgres::Error>(())
        // The client ends here, and with it the connection beside us.
    };
    let (done, closed) = tokio::join!(work, connection);
    done.and(closed)
}
