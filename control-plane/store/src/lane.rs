//! What every ledger transaction does to a conversation: lock it first, plan deliveries into its
//! lane, start its next turn.

use crate::{Error, due::QueuedTurn, plan};
use sqlx::PgConnection;
use uuid::Uuid;

/// How often a turn's own failures are tried, and how many lost leases it survives.
pub const RETRY_LIMIT: i32 = 3;

/// A locked conversation, as of the lock.
pub(crate) struct Lane {
    pub conversation: Uuid,
    pub agent: String,
    pub binding: String,
    pub channel: Uuid,
    pub generation: i32,
    pub turn_seq: i64,
    pub epoch: i64,
}

/// Locks a conversation until the transaction ends.
pub(crate) async fn lock(db: &mut PgConnection, conversation: Uuid) -> Result<Lane, Error> {
    sqlx::query_as!(
        Lane,
        "select id as conversation, agent, binding, channel, generation, turn_seq, epoch
           from control.conversations where id = $1 for no key update",
        conversation
    )
    .fetch_optional(db)
    .await?
    .ok_or_else(|| Error::NotFound { what: "conversation", name: conversation.to_string() })
}

/// The conversation of a turn, which never changes.
pub(crate) async fn of_turn(db: &mut PgConnection, turn: Uuid) -> Result<Uuid, Error> {
    sqlx::query_scalar!("select conversation from control.turns where id = $1", turn)
        .fetch_optional(db)
        .await?
        .ok_or_else(|| Error::NotFound { what: "turn", name: turn.to_string() })
}

/// Queues the next turn of a lane that has no live one; answers it as it must be dispatched.
pub(crate) async fn queue_turn(
    db: &mut PgConnection,
    lane: &Lane,
    traceparent: Option<&str>,
    debounce_ms: i32,
) -> Result<QueuedTurn, Error> {
    let seq = lane.turn_seq + 1;
    let turn = Uuid::now_v7();
    let row = sqlx::query!(
        r#"with moved as (update control.conversations set turn_seq = $2 where id = $1)
           insert into control.turns (id, conversation, generation, turn_seq, kind, pool,
                                      traceparent, not_before)
           values ($3, $1, $4, $2, 'message', 'default', $5,
                   now() + make_interval(secs => $6::int / 1000.0))
           returning pool, dispatch_no, not_before <= now() as "due!""#,
        lane.conversation,
        seq,
        turn,
        lane.generation,
        traceparent,
        debounce_ms,
    )
    .fetch_one(db)
    .await?;
    Ok(QueuedTurn {
        turn: turn.into(),
        conversation: lane.conversation.into(),
        agent: lane.agent.clone(),
        pool: row.pool,
        dispatch_no: row.dispatch_no,
        generation: lane.generation,
        kind: "message".to_owned(),
        revision: None,
        traceparent: traceparent.map(str::to_owned),
        due: row.due,
    })
}

/// Queues the next turn if a signal that wakes is open; called where a turn ends.
pub(crate) async fn queue_next(
    db: &mut PgConnection,
    lane: &Lane,
) -> Result<Option<QueuedTurn>, Error> {
    let waking = sqlx::query!(
        "select s.traceparent from control.mailbox m join control.signals s on s.id = m.signal
          where m.conversation = $1 and m.turn is null and m.wakes
          order by m.order_key, m.seq limit 1",
        lane.conversation
    )
    .fetch_optional(&mut *db)
    .await?;
    match waking {
        Some(w) => queue_turn(db, lane, w.traceparent.as_deref(), 0).await.map(Some),
        None => Ok(None),
    }
}

/// What a reply or a notice is for and to.
pub(crate) struct Outbound<'a> {
    pub origin: &'static str,
    /// Unique for ever; chunks add their ordinal.
    pub origin_key: String,
    pub turn: Option<Uuid>,
    pub epoch: i64,
    pub reply_signal: Option<Uuid>,
    pub text: &'a str,
    pub traceparent: Option<&'a str>,
}

/// Plans a text into the lane, one row per provider message. Planning the same origin again
/// changes nothing. Answers whether anything was planned.
pub(crate) async fn plan(
    db: &mut PgConnection,
    lane: &Lane,
    out: Outbound<'_>,
) -> Result<bool, Error> {
    let binding = sqlx::query!(
        "select adapter, max_message_bytes from control.bindings
          where id = $1 order by rev_from desc limit 1",
        lane.binding
    )
    .fetch_one(&mut *db)
    .await?;
    let max = usize::try_from(binding.max_message_bytes).unwrap_or(256);
    let bodies = plan::chunks(out.text, max);
    if bodies.is_empty() {
        return Ok(false);
    }
    let ids: Vec<Uuid> = bodies.iter().map(|_| Uuid::now_v7()).collect();
    let planned = sqlx::query!(
        r#"with lane as (
             update control.conversations set lane_seq = lane_seq + cardinality($2::uuid[])
              where id = $1 returning lane_seq - cardinality($2::uuid[]) as base),
           target as (
             select coalesce(s.message_id, '') as reply_to, coalesce(s.event_key, '') as event_key
               from (select $3::uuid as id) w left join control.signals s on s.id = w.id)
           insert into control.deliveries (id, conversation, lane_seq, origin, origin_key, turn,
             epoch, ordinal, chunks, binding, adapter, channel, reply_to, reply_event_key, body,
             traceparent, not_after)
           select c.id, $1, lane.base + c.n, $4, $5 || '/' || (c.n - 1), $6,
                  $7, c.n - 1, cardinality($2::uuid[]), $8, $9, $10, target.reply_to,
                  target.event_key, c.body, $11, now() + interval '1 day'
             from unnest($2::uuid[], $12::text[]) with ordinality as c(id, body, n), lane, target
           on conflict on constraint deliveries_origin_once do nothing"#,
        lane.conversation,
        &ids,
        out.reply_signal,
        out.origin,
        out.origin_key,
        out.turn,
        out.epoch,
        lane.binding,
        binding.adapter,
        lane.channel,
        out.traceparent,
        &bodies,
    )
    .execute(db)
    .await?;
    Ok(planned.rows_affected() > 0)
}
