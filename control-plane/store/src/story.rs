//! What operators read of turns: lists, one turn's story, what could not be admitted.

use crate::{Error, Store};
use chrono::{DateTime, Utc};
use turnwright_types::TurnId;
use uuid::Uuid;

/// Which turns to list.
#[derive(Clone, Debug, Default)]
pub struct TurnFilter {
    /// Only this agent's.
    pub agent: Option<String>,
    /// Only this conversation's.
    pub conversation: Option<Uuid>,
    /// Only the conversation of this key.
    pub key: Option<String>,
    /// Only the turn of this number in its conversation.
    pub turn_seq: Option<i64>,
    /// Only this turn.
    pub turn: Option<Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// A turn in a list.
#[derive(Clone, Debug)]
pub struct TurnRow {
    /// Its id.
    pub id: Uuid,
    /// Its agent.
    pub agent: String,
    /// Its conversation.
    pub conversation: Uuid,
    /// The conversation's key.
    pub key: String,
    /// Its place there.
    pub turn_seq: i64,
    /// Where it stands.
    pub state: String,
    /// What started it.
    pub kind: String,
    /// The pinned revision.
    pub revision: Option<i64>,
    /// Why that one.
    pub revision_reason: Option<String>,
    /// Its own failures.
    pub attempts: i32,
    /// Leases lost.
    pub crashes: i32,
    /// The newest epoch.
    pub epoch: i64,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last queued.
    pub queued_at: DateTime<Utc>,
    /// When it was last claimed.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it failed.
    pub end_reason: Option<String>,
    /// More about it.
    pub end_detail: Option<String>,
    /// Its worker.
    pub worker: Option<Uuid>,
    /// Its trace.
    pub traceparent: Option<String>,
    /// Its generation's gateway conversation.
    pub gateway_conversation: Uuid,
}

/// A signal in a turn's story.
#[derive(Clone, Debug)]
pub struct StoryRow {
    /// Its event key.
    pub event_key: String,
    /// Who spoke.
    pub sender_name: String,
    /// How it addressed the agent.
    pub addressed: String,
    /// Whether it wakes.
    pub wakes: bool,
    /// Its text's size.
    pub bytes: i32,
    /// When the stream took it.
    pub published_at: DateTime<Utc>,
    /// When it was admitted.
    pub admitted_at: DateTime<Utc>,
}

/// A delivery in a turn's story.
#[derive(Clone, Debug)]
pub struct DeliveryRow {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub state: String,
    /// Its text.
    pub body: String,
    /// The provider's id.
    pub provider_message_id: Option<String>,
    /// What went wrong.
    pub detail: Option<String>,
    /// When it was planned.
    pub planned_at: DateTime<Utc>,
    /// When it settled.
    pub settled_at: Option<DateTime<Utc>>,
}

/// A signal that could not be admitted.
#[derive(Clone, Debug)]
pub struct QuarantineRow {
    /// Its number.
    pub id: i64,
    /// Its subject.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// When.
    pub created_at: DateTime<Utc>,
    /// Its size.
    pub bytes: i32,
}

impl Store {
    /// Turns, newest first.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn turns(&self, filter: &TurnFilter) -> Result<Vec<TurnRow>, Error> {
        Ok(sqlx::query_as!(
            TurnRow,
            r#"select t.id, c.agent, t.conversation, c.key, t.turn_seq, t.state, t.kind, t.revision,
                      t.revision_reason, t.attempts, t.crashes, t.epoch, t.created_at, t.queued_at,
                      t.claimed_at, t.ended_at, t.end_reason, t.end_detail, t.worker, t.traceparent,
                      g.gateway_conversation
                 from control.turns t
                 join control.conversations c on c.id = t.conversation
                 join control.generations g
                   on g.conversation = t.conversation and g.generation = t.generation
                where ($1::text is null or c.agent = $1)
                  and ($2::uuid is null or t.conversation = $2)
                  and ($3::uuid is null or t.id = $3)
                  and ($5::text is null or c.key = $5)
                  and ($6::bigint is null or t.turn_seq = $6)
                order by t.created_at desc, t.turn_seq desc limit $4"#,
            filter.agent,
            filter.conversation,
            filter.turn,
            filter.limit,
            filter.key,
            filter.turn_seq
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The signals a turn consumed or holds, in batch order.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn turn_signals(&self, turn: TurnId) -> Result<Vec<StoryRow>, Error> {
        Ok(sqlx::query_as!(
            StoryRow,
            r#"select s.event_key, s.sender_name, s.addressed, s.wakes,
                      octet_length(s.body) as "bytes!", s.published_at, s.admitted_at
                 from control.signals s
                where s.id in (select id from control.signals where disposition_turn = $1
                               union select signal from control.mailbox where turn = $1)
                order by s.order_key, s.admitted_at"#,
            turn.uuid()
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The deliveries of a turn, in lane order.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn turn_deliveries(&self, turn: TurnId) -> Result<Vec<DeliveryRow>, Error> {
        Ok(sqlx::query_as!(
            DeliveryRow,
            "select id, state, body, provider_message_id, detail, planned_at, settled_at
               from control.deliveries where turn = $1 order by lane_seq",
            turn.uuid()
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// What could not be admitted, newest first.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn quarantined(&self, limit: i64) -> Result<Vec<QuarantineRow>, Error> {
        Ok(sqlx::query_as!(
            QuarantineRow,
            r#"select id, subject, reason, created_at, octet_length(payload) as "bytes!"
                 from control.signal_quarantine order by id desc limit $1"#,
            limit
        )
        .fetch_all(&self.pool)
        .await?)
    }
}
