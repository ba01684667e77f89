//! Ends a response: one commit with its output items and its status. What a response that did not
//! complete produced goes to a side branch, so that it is kept and is off the path.

use crate::{
    conversation::{Branch, Locked, advance, fork, lock},
    error::{Error, Missing, Result, Tries},
    item::{NewItem, Spot, append},
    pool::Pool,
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use std::time::Duration;
use turnwright_types::{ResponseId, Sha256};
use uuid::Uuid;

/// How a response ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// As the provider meant it to.
    Completed,
    /// Before its end; `code` is the reason.
    Incomplete(Value),
    /// With an error: `code`, `message` and what else the API tells.
    Failed(Value),
}

impl End {
    /// The status in the schema and on the wire.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Failed(_) => "failed",
        }
    }

    const fn error(&self) -> Option<&Value> {
        match self {
            Self::Completed => None,
            Self::Incomplete(error) | Self::Failed(error) => Some(error),
        }
    }
}

/// A response to end.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Which.
    pub response: ResponseId,
    /// How.
    pub end: End,
    /// What it produced, in order.
    pub output: Vec<NewItem>,
    /// Token usage as the provider told it, in the API's form.
    pub usage: Option<Value>,
    /// SHA-256 of the body sent to the provider.
    pub upstream_sha256: Option<Sha256>,
    /// How long ago its first content arrived.
    pub first_content_ago: Option<Duration>,
}

/// A stored end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The head of the conversation's path.
    pub head: i64,
    /// When it was stored.
    pub ended_at: DateTime<Utc>,
}

/// Ends a response. A repeat of an end that is stored is accepted.
///
/// # Errors
/// [`Error::FenceStale`] when a later turn began in its conversation, [`Error::Ended`] when it was
/// ended otherwise before; both leave it `incomplete`. Else when the database fails.
pub async fn finish_response(pool: &Pool, finish: &Finish) -> Result<Finished> {
    let mut tries = Tries::new();
    loop {
        let outcome = finish_once(pool, finish).await;
        if !tries.again(&outcome).await {
            return outcome;
        }
    }
}

/// The response as it stands under the lock.
struct Standing {
    status: String,
    turn_seq: Option<i64>,
    branch: Branch,
    output_from: i64,
    ended_at: Option<DateTime<Utc>>,
}

async fn finish_once(pool: &Pool, finish: &Finish) -> Result<Finished> {
    let id = finish.response.uuid();
    let mut tx = pool.begin().await?;
    let missing = || Error::NotFound(Missing::Response(finish.response));
    let conversation =
        sqlx::query_scalar!("select conversation from gateway.responses where id = $1", id)
            .fetch_optional(&mut *tx)
            .await?
            .ok_or_else(missing)?;
    let locked = lock(&mut tx, conversation).await?.ok_or_else(missing)?;
    let standing = standing(&mut tx, id).await?;
    if standing.status != "in_progress" {
        return already(standing, &finish.end);
    }
    if standing.turn_seq.is_some_and(|turn| turn < locked.fence.turn_seq) {
        overtaken(&mut tx, id).await?;
        tx.commit().await?;
        return Err(Error::FenceStale);
    }
    let finished = store(&mut tx, finish, &locked, &standing).await?;
    tx.commit().await?;
    Ok(finished)
}

async fn standing(c: &mut PgConnection, id: Uuid) -> Result<Standing> {
    let row = sqlx::query!(
        "select r.status, r.turn_seq, r.output_from, r.ended_at, b.id as branch, b.head
           from gateway.responses r join gateway.branches b on b.id = r.branch where r.id = $1",
        id
    )
    .fetch_one(c)
    .await?;
    Ok(Standing {
        status: row.status,
        turn_seq: row.turn_seq,
        branch: Branch { id: row.branch, head: row.head },
        output_from: row.output_from,
        ended_at: row.ended_at,
    })
}

/// Only its own generation completes or fails a response, so the same status is the answer to a
/// commit whose outcome was lost.
fn already(standing: Standing, end: &End) -> Result<Finished> {
    match standing.ended_at {
        Some(ended_at) if standing.status == end.status() => {
            Ok(Finished { head: standing.branch.head, ended_at })
        }
        _ => Err(Error::Ended { status: standing.status }),
    }
}

async fn overtaken(c: &mut PgConnection, id: Uuid) -> Result<()> {
    sqlx::query!(
        r#"update gateway.responses
              set status = 'incomplete', ended_at = clock_timestamp(),
                  error = jsonb_build_object('code', 'taken_over',
                    'message', 'a later turn or another worker took over')
            where id = $1"#,
        id
    )
    .execute(c)
    .await?;
    Ok(())
}

async fn store(
    c: &mut PgConnection,
    finish: &Finish,
    locked: &Locked,
    standing: &Standing,
) -> Result<Finished> {
    let first_seq = locked.last_seq + 1;
    let on_path = finish.end == End::Completed;
    let branch = match (on_path, finish.output.is_empty()) {
        (true, _) | (false, true) => standing.branch,
        (false, false) => fork(c, locked.id, standing.branch.id, standing.branch.head).await?,
    };
    let spot = Spot {
        conversation: locked.id,
        branch: branch.id,
        first_seq,
        response: Some(finish.response.uuid()),
        // The epoch may have risen while it generated: the new owner of the same turn attached.
        fence: locked.fenced.then_some(locked.fence),
    };
    let end = append(c, &spot, &finish.output).await?;
    let (output_from, output_upto) = if end == first_seq {
        (standing.output_from, standing.output_from)
    } else {
        (first_seq, end)
    };
    let ended_at = end_row(c, finish, branch.id, (output_from, output_upto)).await?;
    if end > first_seq {
        advance(c, locked.id, branch.id, end - 1, None).await?;
    }
    let head = if on_path && end > first_seq { end - 1 } else { standing.branch.head };
    Ok(Finished { head, ended_at })
}

async fn end_row(
    c: &mut PgConnection,
    finish: &Finish,
    branch: Uuid,
    (output_from, output_upto): (i64, i64),
) -> Result<DateTime<Utc>> {
    let ended_at = sqlx::query_scalar!(
        r#"update gateway.responses
              set status = $2, branch = $3, output_from = $4, output_upto = $5, usage = $6,
                  error = $7, upstream_sha256 = $8, ended_at = clock_timestamp(),
                  first_content_at = clock_timestamp() - make_interval(secs => $9::float8)
            where id = $1 returning ended_at as "ended_at!""#,
        finish.response.uuid(),
        finish.end.status(),
        branch,
        output_from,
        output_upto,
        finish.usage.as_ref() as _,
        finish.end.error() as _,
        finish.upstream_sha256.map(|hash| hash.as_bytes().to_vec()) as _,
        finish.first_content_ago.map(|ago| ago.as_secs_f64()),
    )
    .fetch_one(c)
    .await?;
    Ok(ended_at)
}
