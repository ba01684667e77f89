//! Brings schema `gateway` to the shape this build expects. Run by the migration job with the
//! owner's credentials, never by a serving process.

use crate::error::{Error, Result};
use sqlx::{Connection as _, PgConnection, migrate::Migrator};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/gateway");
const ROLES: &str = include_str!("../../../migrations/roles.sql");

/// Makes the roles and the schema if they are absent and applies what has not been applied yet.
/// The history table lies in the schema itself.
///
/// # Errors
/// When the database cannot be reached, a statement fails, or an applied migration was edited.
pub async fn migrate(owner_url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(owner_url).await?;
    sqlx::raw_sql(ROLES).execute(&mut connection).await?;
    sqlx::raw_sql("create schema if not exists gateway; set search_path to gateway")
        .execute(&mut connection)
        .await?;
    MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(Error::Migrate)?;
    connection.close().await?;
    Ok(())
}
