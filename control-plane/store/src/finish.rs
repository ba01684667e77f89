//! The end of a turn: one transaction for the outcome, its deliveries, the dispositions of its
//! batch and the next turn.

use crate::{
    Error, Store,
    due::QueuedTurn,
    error::retrying,
    lane::{self, Lane, Outbound},
};
use sqlx::PgConnection;
use turnwright_types::{ConversationId, FailureClass, Fence, ResponseId, TurnId, TurnState};
use uuid::Uuid;

/// Dispatches after which infrastructure failures end a turn all the same.
const DISPATCH_LIMIT: i64 = 20;

/// How a worker says a turn ended.
#[derive(Clone, Debug)]
pub enum TurnEnd {
    /// With an answer.
    Completed {
        /// The answer.
        text: String,
        /// The stored response it came from.
        response: ResponseId,
    },
    /// Without one, on purpose.
    Silent {
        /// The stored response it came from.
        response: Option<ResponseId>,
    },
    /// Without one.
    Failed {
        /// A stable word.
        reason: String,
        /// For operators.
        detail: String,
    },
}

/// What the end of a turn set off.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The conversation.
    pub conversation: ConversationId,
    /// Whether its lane has something new to send.
    pub planned: bool,
    /// The next turn, to be dispatched.
    pub next: Option<QueuedTurn>,
}

/// The answer to a terminal call.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The turn's state now.
    pub state: TurnState,
    /// Whether it was so before this call.
    pub already: bool,
    /// What this call set off.
    pub finished: Option<Finished>,
    /// The turn itself, when it is to run again.
    pub requeued: Option<QueuedTurn>,
}

impl Store {
    /// Ends a turn. A repeat under the same fence answers the stored state.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker owns the turn; when PostgreSQL is away.
    pub async fn end_turn(
        &self,
        turn: TurnId,
        fence: Fence,
        end: &TurnEnd,
    ) -> Result<Ended, Error> {
        retrying!(self.end_once(turn, fence, end))
    }

    async fn end_once(&self, turn: TurnId, fence: Fence, end: &TurnEnd) -> Result<Ended, Error> {
        let mut tx = self.pool.begin().await?;
        let lane = match owned(&mut tx, turn, fence).await? {
            Owned::Over(state) => return Ok(over(state)),
            Owned::Running { lane, .. } => lane,
        };
        let finished = self::end(&mut tx, &lane, turn.uuid(), end).await?;
        tx.commit().await?;
        let state = match end {
            TurnEnd::Completed { .. } => TurnState::Completed,
            TurnEnd::Silent { .. } => TurnState::Silent,
            TurnEnd::Failed { .. } => TurnState::Failed,
        };
        Ok(Ended { state, already: false, finished: Some(finished), requeued: None })
    }

    /// Takes a failure: queues the turn again while its class and counts allow, else ends it.
    ///
    /// # Errors
    /// As [`Store::end_turn`].
    pub async fn fail_turn(
        &self,
        turn: TurnId,
        fence: Fence,
        class: FailureClass,
        reason: &str,
        detail: &str,
    ) -> Result<Ended, Error> {
        retrying!(self.fail_once(turn, fence, class, reason, detail))
    }

    async fn fail_once(
        &self,
        turn: TurnId,
        fence: Fence,
        class: FailureClass,
        reason: &str,
        detail: &str,
    ) -> Result<Ended, Error> {
        let mut tx = self.pool.begin().await?;
        let (lane, attempts, dispatch_no) = match owned(&mut tx, turn, fence).await? {
            Owned::Over(state) => return Ok(over(state)),
            Owned::Running { lane, attempts, dispatch_no } => (lane, attempts, dispatch_no),
        };
        let again = match class {
            FailureClass::Infrastructure => dispatch_no < DISPATCH_LIMIT,
            FailureClass::Transient => attempts + 1 < lane::RETRY_LIMIT,
            FailureClass::Permanent | FailureClass::Operator => false,
        };
        if class == FailureClass::Transient {
            sqlx::query!(
                "update control.turns set attempts = attempts + 1 where id = $1",
                turn.uuid()
            )
            .execute(&mut *tx)
            .await?;
        }
        if again {
            // 0.25 s, 0.5 s, … 8 s; a worker that is stopping hands back without delay
            let shift = u32::try_from(dispatch_no.clamp(1, 6) - 1).unwrap_or(0);
            let delay_ms = if reason == "worker_stopping" { 0 } else { 250 << shift };
            let requeued = requeue(&mut tx, &lane, turn.uuid(), delay_ms).await?;
            tx.commit().await?;
            return Ok(Ended {
                state: TurnState::Queued,
                already: false,
                finished: None,
                requeued: Some(requeued),
            });
        }
        let end = TurnEnd::Failed { reason: reason.to_owned(), detail: detail.to_owned() };
        let finished = self::end(&mut tx, &lane, turn.uuid(), &end).await?;
        tx.commit().await?;
        Ok(Ended {
            state: TurnState::Failed,
            already: false,
            finished: Some(finished),
            requeued: None,
        })
    }
}

fn over(state: TurnState) -> Ended {
    Ended { state, already: true, finished: None, requeued: None }
}

enum Owned {
    Over(TurnState),
    Running { lane: Lane, attempts: i32, dispatch_no: i64 },
}

/// Locks conversation and turn and checks the fence.
async fn owned(db: &mut PgConnection, turn: TurnId, fence: Fence) -> Result<Owned, Error> {
    let conversation = lane::of_turn(db, turn.uuid()).await?;
    let lane = lane::lock(db, conversation).await?;
    let row = sqlx::query!(
        "select turn_seq, epoch, state, attempts, dispatch_no from control.turns
          where id = $1 for no key update",
        turn.uuid()
    )
    .fetch_one(db)
    .await?;
    let state = TurnState::parse(&row.state).map_err(|e| Error::corrupt("turn state", e))?;
    if (row.turn_seq, row.epoch) != (fence.turn_seq, fence.epoch) {
        return Err(Error::Fenced { turn: turn.to_string() });
    }
    if state == TurnState::Running {
        return Ok(Owned::Running { lane, attempts: row.attempts, dispatch_no: row.dispatch_no });
    }
    Ok(Owned::Over(state))
}

/// Writes the end of a running turn and all that follows from it.
pub(crate) async fn end(
    db: &mut PgConnection,
    lane: &Lane,
    turn: Uuid,
    end: &TurnEnd,
) -> Result<Finished, Error> {
    let (state, reason, detail, response) = match end {
        TurnEnd::Completed { response, .. } => ("completed", None, None, Some(response.uuid())),
        TurnEnd::Silent { response } => ("silent", None, None, response.map(ResponseId::uuid)),
        TurnEnd::Failed { reason, detail } => {
            ("failed", Some(reason.as_str()), Some(detail.as_str()), None)
        }
    };
    let row = sqlx::query!(
        r#"with ended as (
             update control.turns set state = $2, end_reason = $3, end_detail = $4, response = $5,
                    ended_at = now()
              where id = $1 returning epoch, reply_signal, traceparent),
           emptied as (delete from control.mailbox where turn = $1 returning signal),
           disposed as (
             update control.signals s
                set disposition = 'consumed', disposition_turn = $1, disposed_at = now()
               from emptied e where s.id = e.signal)
           select epoch, reply_signal, traceparent from ended"#,
        turn,
        state,
        reason,
        detail,
        response
    )
    .fetch_one(&mut *db)
    .await?;
    let (origin, text) = match end {
        TurnEnd::Completed { text, .. } => ("reply", text.clone()),
        TurnEnd::Silent { .. } => ("reply", String::new()),
        TurnEnd::Failed { reason, .. } => ("notice", notice(reason)),
    };
    let out = Outbound {
        origin,
        origin_key: format!("{origin}/{turn}"),
        turn: Some(turn),
        epoch: row.epoch,
        reply_signal: row.reply_signal,
        text: &text,
        traceparent: row.traceparent.as_deref(),
    };
    let planned = lane::plan(db, lane, out).await?;
    let next = lane::queue_next(db, lane).await?;
    Ok(Finished { conversation: lane.conversation.into(), planned, next })
}

/// What the user is told when a turn failed; the stable word leads an operator to the rest.
fn notice(reason: &str) -> String {
    format!(
        "I could not finish this ({reason}). Your message is kept; please send it again, or ask \
         an operator to look at this turn."
    )
}

/// Queues a running turn again, under a new dispatch number.
pub(crate) async fn requeue(
    db: &mut PgConnection,
    lane: &Lane,
    turn: Uuid,
    delay_ms: i32,
) -> Result<QueuedTurn, Error> {
    let row = sqlx::query!(
        r#"update control.turns
              set state = 'queued', worker = null, dispatch_no = dispatch_no + 1, queued_at = now(),
                  not_before = now() + make_interval(secs => $2::int / 1000.0)
            where id = $1
           returning pool, dispatch_no, kind, revision, traceparent, not_before <= now() as "due!""#,
        turn,
        delay_ms
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
        kind: row.kind,
        revision: row.revision,
        traceparent: row.traceparent,
        due: row.due,
    })
}

impl Store {
    /// Ends a queued turn that no worker could ever run, with a notice. `None` when it is not
    /// queued any more.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn refuse_turn(
        &self,
        turn: TurnId,
        reason: &str,
        detail: &str,
    ) -> Result<Option<Finished>, Error> {
        retrying!(self.refuse_once(turn, reason, detail))
    }

    async fn refuse_once(
        &self,
        turn: TurnId,
        reason: &str,
        detail: &str,
    ) -> Result<Option<Finished>, Error> {
        let mut tx = self.pool.begin().await?;
        let conversation = lane::of_turn(&mut tx, turn.uuid()).await?;
        let lane = lane::lock(&mut tx, conversation).await?;
        let queued = sqlx::query_scalar!(
            "select id from control.turns where id = $1 and state = 'queued' for no key update",
            turn.uuid()
        )
        .fetch_optional(&mut *tx)
        .await?;
        if queued.is_none() {
            return Ok(None);
        }
        // If no claim froze a batch, every signal that waited is this turn's.
        sqlx::query!(
            "with last as (select coalesce(max(batch_no), 0) as n from control.mailbox where turn = $1),
                  open as (select signal, row_number() over (order by order_key, seq) as n
                             from control.mailbox where conversation = $2 and turn is null
                              and (select revision is null from control.turns where id = $1))
             update control.mailbox m set turn = $1, batch_no = last.n + open.n::int
               from open, last where m.signal = open.signal",
            turn.uuid(),
            conversation
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "update control.turns set reply_signal = coalesce(reply_signal,
               (select signal from control.mailbox where turn = $1 and wakes
                 order by batch_no desc limit 1)) where id = $1",
            turn.uuid()
        )
        .execute(&mut *tx)
        .await?;
        let end = TurnEnd::Failed { reason: reason.to_owned(), detail: detail.to_owned() };
        let finished = self::end(&mut tx, &lane, turn.uuid(), &end).await?;
        tx.commit().await?;
        Ok(Some(finished))
    }
}
