//! A conversation's row: its lock, its fence and its heads.

use crate::error::{Error, Result};
use sqlx::PgConnection;
use turnwright_types::{AgentSlug, Fence, GatewayConversationId};
use uuid::Uuid;

/// Who writes in an agent's conversation: what its agent token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The only conversation it may write.
    pub conversation: GatewayConversationId,
    /// The agent whose conversation it is.
    pub agent: AgentSlug,
    /// Its right to write.
    pub fence: Fence,
}

/// A conversation under this transaction's lock.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) id: Uuid,
    pub(crate) fenced: bool,
    agent: Option<String>,
    pub(crate) fence: Fence,
    pub(crate) last_seq: i64,
}

/// Where a branch ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub(crate) id: Uuid,
    pub(crate) head: i64,
}

/// Locks a conversation until the transaction ends.
pub(crate) async fn lock(c: &mut PgConnection, id: Uuid) -> Result<Option<Locked>> {
    let row = sqlx::query!(
        "select fenced, agent, turn_seq, epoch, last_seq from gateway.conversations
          where id = $1 for no key update",
        id
    )
    .fetch_optional(c)
    .await?;
    Ok(row.map(|r| Locked {
        id,
        fenced: r.fenced,
        agent: r.agent,
        fence: Fence { turn_seq: r.turn_seq, epoch: r.epoch },
        last_seq: r.last_seq,
    }))
}

/// Locks the writer's conversation, making it first if it is absent, and checks that the writer
/// may write in it.
pub(crate) async fn lock_for(c: &mut PgConnection, writer: &Writer) -> Result<Locked> {
    let id = writer.conversation.uuid();
    let locked = match lock(c, id).await? {
        Some(locked) => locked,
        None => {
            create(c, id, Some(writer)).await?;
            // Whoever made it, it is there now.
            lock(c, id).await?.ok_or(Error::Corrupt("conversation"))?
        }
    };
    locked.admit(writer)?;
    Ok(locked)
}

impl Locked {
    /// Whether `writer` may write here.
    pub(crate) fn admit(&self, writer: &Writer) -> Result<()> {
        if !self.fenced || self.agent.as_deref() != Some(writer.agent.as_str()) {
            return Err(Error::NotTheAgents);
        }
        if writer.fence < self.fence { Err(Error::FenceStale) } else { Ok(()) }
    }
}

/// Makes a conversation with its root branch; does nothing when it is there.
pub(crate) async fn create(
    c: &mut PgConnection,
    id: Uuid,
    writer: Option<&Writer>,
) -> Result<Branch> {
    let branch = Uuid::now_v7();
    let fence = writer.map_or(Fence { turn_seq: 0, epoch: 0 }, |w| w.fence);
    sqlx::query!(
        "with made as (
           insert into gateway.conversations (id, fenced, agent, turn_seq, epoch)
           values ($1, $2, $3, $4, $5) on conflict (id) do nothing returning id)
         insert into gateway.branches (id, conversation) select $6::uuid, made.id from made",
        id,
        writer.is_some(),
        writer.map(|w| w.agent.as_str()),
        fence.turn_seq,
        fence.epoch,
        branch,
    )
    .execute(c)
    .await?;
    Ok(Branch { id: branch, head: 0 })
}

/// The root branch of a conversation.
pub(crate) async fn root(c: &mut PgConnection, conversation: Uuid) -> Result<Branch> {
    let row = sqlx::query!(
        "select id, head from gateway.branches where conversation = $1 and parent is null",
        conversation
    )
    .fetch_optional(c)
    .await?
    .ok_or(Error::Corrupt("root branch"))?;
    Ok(Branch { id: row.id, head: row.head })
}

/// Makes a branch that shares its parent's past up to a sequence number.
pub(crate) async fn fork(
    c: &mut PgConnection,
    conversation: Uuid,
    parent: Uuid,
    upto: i64,
) -> Result<Branch> {
    let id = Uuid::now_v7();
    sqlx::query!(
        "insert into gateway.branches (id, conversation, parent, parent_upto, head)
         values ($1, $2, $3, $4, $4)",
        id,
        conversation,
        parent,
        upto,
    )
    .execute(c)
    .await?;
    Ok(Branch { id, head: upto })
}

/// Moves a branch's head and its conversation's counter to `last_seq`, and raises the fence.
pub(crate) async fn advance(
    c: &mut PgConnection,
    conversation: Uuid,
    branch: Uuid,
    last_seq: i64,
    fence: Option<Fence>,
) -> Result<()> {
    sqlx::query!(
        "with moved as (
           update gateway.branches set head = greatest(head, $3) where id = $2)
         update gateway.conversations
            set last_seq = greatest(last_seq, $3),
                turn_seq = coalesce($4, turn_seq), epoch = coalesce($5, epoch)
          where id = $1",
        conversation,
        branch,
        last_seq,
        fence.map(|f| f.turn_seq),
        fence.map(|f| f.epoch),
    )
    .execute(c)
    .await?;
    Ok(())
}

/// Ends what was generating for an older turn, or for a replica that stopped renewing, so that the
/// generating slot yields to the fence at hand.
pub(crate) async fn end_overtaken(
    c: &mut PgConnection,
    conversation: Uuid,
    turn_seq: i64,
) -> Result<()> {
    sqlx::query!(
        r#"update gateway.responses r
              set status = 'incomplete', ended_at = clock_timestamp(),
                  error = jsonb_build_object('code', 'taken_over',
                    'message', 'a later turn or another worker took over')
            where r.conversation = $1 and r.status = 'in_progress'
              and (r.turn_seq < $2 or not gateway.replica_lives(r.owner))"#,
        conversation,
        turn_seq,
    )
    .execute(c)
    .await?;
    Ok(())
}
