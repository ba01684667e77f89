//! Brings schema `control` to this build's version. Its history table lives in the schema itself.

use crate::Error;
use sqlx::{Connection as _, Executor as _, PgConnection, postgres::PgConnectOptions};
use std::str::FromStr as _;

static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/control");

/// Makes roles and schema if need be and applies what is missing. Idempotent; concurrent calls
/// wait for each other.
///
/// # Errors
/// When PostgreSQL is away, the login may not create, or an applied migration was edited.
pub async fn migrate(owner_url: &str) -> Result<(), Error> {
    let options = PgConnectOptions::from_str(owner_url)?.options([("search_path", "control")]);
    let mut db = PgConnection::connect_with(&options).await?;
    db.execute(sqlx::raw_sql(include_str!("../../../migrations/roles.sql"))).await?;
    db.execute("create schema if not exists control").await?;
    MIGRATOR.run(&mut db).await.map_err(Error::Migrate)?;
    db.close().await?;
    Ok(())
}
