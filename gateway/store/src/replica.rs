//! The lease of a gateway process, and the end of what dead ones left generating.

use crate::{error::Result, pool::Pool};
use std::time::Duration;
use turnwright_types::ResponseId;
use uuid::Uuid;

/// How long a replica lives after its last renewal, as `gateway.replica_lives` has it.
pub const OWNER_LEASE: Duration = Duration::from_secs(3);

/// Renews the lease of this process, or takes it.
///
/// # Errors
/// When the database fails.
pub async fn renew(pool: &Pool, replica: Uuid) -> Result<()> {
    sqlx::query!(
        "insert into gateway.replicas (replica) values ($1)
         on conflict (replica) do update set renewed_at = now()",
        replica
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Gives the lease back; what it left generating is ended by the next sweep.
///
/// # Errors
/// When the database fails.
pub async fn leave(pool: &Pool, replica: Uuid) -> Result<()> {
    sqlx::query!("delete from gateway.replicas where replica = $1", replica).execute(pool).await?;
    Ok(())
}

/// Ends as `incomplete` what dead replicas left generating, and what this one began but is not
/// generating: `active` are the responses it knows of. Returns the ended ones.
///
/// # Errors
/// When the database fails.
pub async fn sweep(pool: &Pool, me: Uuid, active: &[ResponseId]) -> Result<Vec<ResponseId>> {
    let active: Vec<Uuid> = active.iter().map(|id| id.uuid()).collect();
    // Conversations first, as everywhere; those that are locked now are the next pass's.
    let ended = sqlx::query_scalar!(
        r#"with due as (
             select r.id, r.conversation from gateway.responses r
              where r.status = 'in_progress'
                and (not gateway.replica_lives(r.owner)
                     or (r.owner = $1 and r.id <> all ($2)
                         and r.created_at < now() - interval '10 seconds'))),
           locked as materialized (
             select c.id from gateway.conversations c
              where c.id in (select due.conversation from due)
                for no key update skip locked)
           update gateway.responses r
              set status = 'incomplete', ended_at = clock_timestamp(),
                  error = jsonb_build_object('code', 'gateway_restarted',
                    'message', 'the process that generated it ended')
             from due join locked on locked.id = due.conversation
            where r.id = due.id and r.status = 'in_progress'
           returning r.id"#,
        me,
        active as _,
    )
    .fetch_all(pool)
    .await?;
    sqlx::query!("delete from gateway.replicas where renewed_at < now() - interval '1 hour'")
        .execute(pool)
        .await?;
    Ok(ended.into_iter().map(ResponseId::from).collect())
}
