//! Finds where a response goes, under its conversation's lock.

use super::{FencedRequest, Target};
use crate::{
    conversation::{Branch, Locked, create, end_overtaken, fork, lock, lock_for, root},
    error::{Error, Missing, Result},
};
use sqlx::PgConnection;
use turnwright_types::{GatewayConversationId, ResponseId};
use uuid::Uuid;

/// A branch to append to.
pub(super) struct Place {
    pub(super) conversation: Uuid,
    pub(super) branch: Branch,
    pub(super) last_seq: i64,
    /// Where its input begins, when that is before what it appends itself.
    pub(super) input_from: Option<i64>,
}

pub(super) enum Placed {
    Repeat(ResponseId),
    At(Place),
}

pub(super) async fn find(c: &mut PgConnection, target: &Target) -> Result<Placed> {
    match target {
        Target::Fenced(request) => fenced(c, request).await,
        Target::Chain { previous: None } => Ok(Placed::At(start(c).await?)),
        Target::Chain { previous: Some(previous) } => Ok(Placed::At(after(c, *previous).await?)),
        Target::Conversation(id) => Ok(Placed::At(at_end(c, *id).await?)),
    }
}

async fn fenced(c: &mut PgConnection, request: &FencedRequest) -> Result<Placed> {
    let locked = lock_for(c, &request.writer).await?;
    let fence = request.writer.fence;
    let row = sqlx::query!(
        r#"select b.id as "root!", b.head as "head!",
                  (select r.id from gateway.responses r
                    where r.conversation = $1 and r.turn_seq = $2 and r.epoch = $3
                      and r.request_no = $4) as "repeat?",
                  (select coalesce(r.output_upto, r.output_from) from gateway.responses r
                    where r.conversation = $1
                    order by r.turn_seq desc, r.created_at desc limit 1) as "input_from?",
                  exists (select from gateway.responses r
                           where r.conversation = $1 and r.status = 'in_progress'
                             and r.turn_seq is not null) as "generating!"
             from gateway.branches b where b.conversation = $1 and b.parent is null"#,
        locked.id,
        fence.turn_seq,
        fence.epoch,
        request.request_no,
    )
    .fetch_optional(&mut *c)
    .await?
    .ok_or(Error::Corrupt("root branch"))?;
    if let Some(repeat) = row.repeat {
        return Ok(Placed::Repeat(repeat.into()));
    }
    if row.head != request.head {
        return Err(Error::HeadMoved { head: row.head });
    }
    if row.generating {
        // What is left after this refuses the new row by its unique index.
        end_overtaken(c, locked.id, fence.turn_seq).await?;
    }
    Ok(Placed::At(Place {
        conversation: locked.id,
        branch: Branch { id: row.root, head: row.head },
        last_seq: locked.last_seq,
        input_from: Some(row.input_from.unwrap_or(1)),
    }))
}

async fn start(c: &mut PgConnection) -> Result<Place> {
    let conversation = Uuid::now_v7();
    let branch = create(c, conversation, None).await?;
    Ok(Place { conversation, branch, last_seq: 0, input_from: None })
}

/// Continues the branch of `previous` if nothing came after it there, else forks after it.
async fn after(c: &mut PgConnection, previous: ResponseId) -> Result<Place> {
    let missing = || Error::NotFound(Missing::Response(previous));
    let conversation = sqlx::query_scalar!(
        "select conversation from gateway.responses where id = $1",
        previous.uuid()
    )
    .fetch_optional(&mut *c)
    .await?
    .ok_or_else(missing)?;
    let locked = lock_unfenced(c, conversation).await?.ok_or_else(missing)?;
    let row = sqlx::query!(
        r#"select r.status, b.id as branch, b.head,
                  coalesce(r.output_upto, r.output_from) - 1 as "end!",
                  exists (select from gateway.responses g
                           where g.branch = r.branch and g.status = 'in_progress') as "busy!"
             from gateway.responses r join gateway.branches b on b.id = r.branch
            where r.id = $1"#,
        previous.uuid()
    )
    .fetch_one(&mut *c)
    .await?;
    if row.status == "in_progress" {
        return Err(Error::PreviousInProgress);
    }
    let branch = if row.head <= row.end && !row.busy {
        Branch { id: row.branch, head: row.head }
    } else {
        fork(c, conversation, row.branch, row.end).await?
    };
    Ok(Place { conversation, branch, last_seq: locked.last_seq, input_from: None })
}

async fn at_end(c: &mut PgConnection, id: GatewayConversationId) -> Result<Place> {
    let locked =
        lock_unfenced(c, id.uuid()).await?.ok_or(Error::NotFound(Missing::Conversation(id)))?;
    let branch = root(c, locked.id).await?;
    Ok(Place { conversation: locked.id, branch, last_seq: locked.last_seq, input_from: None })
}

async fn lock_unfenced(c: &mut PgConnection, id: Uuid) -> Result<Option<Locked>> {
    match lock(c, id).await? {
        Some(locked) if locked.fenced => Err(Error::Fenced),
        other => Ok(other),
    }
}
