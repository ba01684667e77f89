//! The safety net under the relays: work that is due and that nobody seems to have picked up.

use crate::{Error, Store};
use turnwright_types::{ConversationId, TurnId};

/// A queued turn, with all that its `TurnStart` needs beside the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its agent.
    pub agent: String,
    /// The pool that may run it.
    pub pool: String,
    /// Raised by every requeue.
    pub dispatch_no: i64,
    /// The conversation's generation.
    pub generation: i32,
    /// What started it.
    pub kind: String,
    /// The pinned revision, if a claim pinned one already.
    pub revision: Option<i64>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
    /// Whether it may be dispatched now.
    pub due: bool,
}

impl Store {
    /// Queued turns to publish again: those that came due within `recent_ms`, and with
    /// `overlooked_s` also those due for longer than so many seconds. At most 500, oldest first.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn due_turns(
        &self,
        recent_ms: i32,
        overlooked_s: Option<f64>,
    ) -> Result<Vec<QueuedTurn>, Error> {
        let rows = sqlx::query!(
            r#"select t.id, t.conversation, c.agent, t.pool, t.dispatch_no, t.generation, t.kind,
                      t.revision, t.traceparent
                 from control.turns t join control.conversations c on c.id = t.conversation
                where t.state = 'queued' and t.not_before <= now()
                  and ((t.not_before > t.queued_at
                        and t.not_before > now() - make_interval(secs => $1::int / 1000.0))
                       or greatest(t.not_before, t.queued_at) < now() - make_interval(secs => $2::float8))
                order by t.not_before limit 500"#,
            recent_ms,
            overlooked_s,
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|r| QueuedTurn {
                turn: r.id.into(),
                conversation: r.conversation.into(),
                agent: r.agent,
                pool: r.pool,
                dispatch_no: r.dispatch_no,
                generation: r.generation,
                kind: r.kind,
                revision: r.revision,
                traceparent: r.traceparent,
                due: true,
            })
            .collect())
    }
}
