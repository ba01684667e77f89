//! The claim: one transaction gives one worker incarnation the right to run a turn.

use crate::{Error, Store, due::QueuedTurn, error::retrying, lane};
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use turnwright_types::{
    Fence, GatewayConversationId, Pool, SignalId, TurnId, TurnState, WorkerIncarnation,
};
use uuid::Uuid;

/// Signals in one batch.
const BATCH_SIGNALS: i64 = 50;
/// Bytes of text in one batch; its first signal is taken whatever its size.
const BATCH_BYTES: i64 = 64 << 10;

/// Who wants to run which dispatch of a turn.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The turn.
    pub turn: TurnId,
    /// The dispatch the worker holds.
    pub dispatch_no: i64,
    /// The worker's life.
    pub worker: WorkerIncarnation,
    /// The worker's pool.
    pub pool: Pool,
}

/// Why a claim was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotClaimed {
    /// Another worker owns it.
    AlreadyClaimed,
    /// It ended.
    Finished,
    /// It was dispatched again since.
    Superseded,
}

/// One signal of the frozen batch.
#[derive(Clone, Debug)]
pub struct BatchRow {
    /// Its id.
    pub signal: SignalId,
    /// Its event key.
    pub event_key: String,
    /// The provider's id of the speaker.
    pub speaker_id: String,
    /// The speaker's name, as the signal told it.
    pub speaker_name: String,
    /// How it addressed the agent.
    pub addressed: String,
    /// When the provider says it happened.
    pub occurred_at: DateTime<Utc>,
    /// Its text.
    pub body: String,
    /// The provider's id of the message it answers, or empty.
    pub reply_to: String,
    /// Whether it wakes; otherwise it is context.
    pub wakes: bool,
    /// Older than one already consumed.
    pub late: bool,
}

/// The answer to a claim.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per turn; most are `Claimed`")]
pub enum ClaimOutcome {
    /// The right to run the turn.
    Claimed {
        /// The turn as dispatched, with its revision pinned.
        turn: QueuedTurn,
        /// The pinned revision.
        revision: i64,
        /// The right to write.
        fence: Fence,
        /// The generation's gateway conversation.
        gateway_conversation: GatewayConversationId,
        /// The frozen batch, in order.
        batch: Vec<BatchRow>,
        /// Whether another worker may have written before.
        takeover: bool,
        /// PostgreSQL's clock.
        now: DateTime<Utc>,
    },
    /// No right.
    Not(NotClaimed),
}

struct Row {
    turn_seq: i64,
    state: String,
    kind: String,
    pool: String,
    dispatch_no: i64,
    epoch: i64,
    worker: Option<Uuid>,
    claimed_dispatch: Option<i64>,
    revision: Option<i64>,
    traceparent: Option<String>,
    crashes: i32,
    attempts: i32,
}

impl Store {
    /// Grants a claim, or says why not. The repeat of a granted claim gets the same answer.
    ///
    /// # Errors
    /// When the turn does not exist or PostgreSQL is away.
    pub async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, Error> {
        retrying!(self.claim_once(claim))
    }

    async fn claim_once(&self, claim: &Claim) -> Result<ClaimOutcome, Error> {
        let mut tx = self.pool.begin().await?;
        let conversation = lane::of_turn(&mut tx, claim.turn.uuid()).await?;
        let lane = lane::lock(&mut tx, conversation).await?;
        let row = lock_turn(&mut tx, claim.turn).await?;
        let state = TurnState::parse(&row.state).map_err(|e| Error::corrupt("turn state", e))?;
        let repeat = state == TurnState::Running
            && row.worker == Some(claim.worker.uuid())
            && row.claimed_dispatch == Some(claim.dispatch_no);
        let not = if state.is_terminal() {
            Some(NotClaimed::Finished)
        } else if claim.dispatch_no < row.dispatch_no {
            Some(NotClaimed::Superseded)
        } else if state != TurnState::Queued && !repeat {
            Some(NotClaimed::AlreadyClaimed)
        } else {
            None
        };
        if let Some(not) = not {
            return Ok(ClaimOutcome::Not(not));
        }
        let (epoch, revision) = if repeat {
            (row.epoch, row.revision.unwrap_or_default())
        } else {
            grant(&mut tx, claim, &lane, &row).await?
        };
        if row.revision.is_none() {
            freeze(&mut tx, claim.turn, conversation).await?;
        }
        let batch = batch(&mut tx, claim.turn).await?;
        let rest = sqlx::query!(
            r#"select g.gateway_conversation, now() as "now!",
                      coalesce((select p.state in ('failed', 'cancelled') from control.turns p
                                 where p.conversation = $1 and p.turn_seq = $2::bigint - 1), false)
                        as "after_failure!"
                 from control.generations g
                where g.conversation = $1 and g.generation = $3"#,
            conversation,
            row.turn_seq,
            lane.generation
        )
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(ClaimOutcome::Claimed {
            revision,
            fence: Fence { turn_seq: row.turn_seq, epoch },
            gateway_conversation: rest.gateway_conversation.into(),
            batch,
            takeover: row.crashes > 0
                || row.attempts > 0
                || row.dispatch_no > 1
                || rest.after_failure,
            now: rest.now,
            turn: QueuedTurn {
                turn: claim.turn,
                conversation: conversation.into(),
                agent: lane.agent,
                pool: row.pool,
                dispatch_no: row.dispatch_no,
                generation: lane.generation,
                kind: row.kind,
                revision: Some(revision),
                traceparent: row.traceparent,
                due: true,
            },
        })
    }
}

async fn lock_turn(db: &mut PgConnection, turn: TurnId) -> Result<Row, Error> {
    Ok(sqlx::query_as!(
        Row,
        "select turn_seq, state, kind, pool, dispatch_no, epoch, worker, claimed_dispatch,
                revision, traceparent, crashes, attempts
           from control.turns where id = $1 for no key update",
        turn.uuid()
    )
    .fetch_one(db)
    .await?)
}

/// Raises the epoch, pins the revision at the first claim, and begins the worker's lease.
async fn grant(
    db: &mut PgConnection,
    claim: &Claim,
    lane: &lane::Lane,
    row: &Row,
) -> Result<(i64, i64), Error> {
    let granted = sqlx::query!(
        r#"with lane as (update control.conversations set epoch = epoch + 1 where id = $1
                         returning epoch),
                lease as (insert into control.worker_leases as l (worker, pool)
                          select $4, $5 where not exists (
                            -- A row that is fresh is not held until the commit: renewals wait.
                            select from control.worker_leases w where w.worker = $4
                             and w.renewed_at > now() - interval '1500 milliseconds')
                          on conflict (worker) do update set renewed_at = now())
           update control.turns t
              set state = 'running', epoch = lane.epoch, worker = $4, claimed_dispatch = $3,
                  claimed_at = now(),
                  revision = coalesce(t.revision,
                                      (select revision from control.revision_counter)),
                  revision_reason = coalesce(t.revision_reason, 'newest at the first claim')
             from lane
            where t.id = $2
           returning t.epoch, t.revision as "revision!""#,
        lane.conversation,
        claim.turn.uuid(),
        row.dispatch_no,
        claim.worker.uuid(),
        claim.pool.as_str()
    )
    .fetch_one(db)
    .await?;
    Ok((granted.epoch, granted.revision))
}

/// Freezes the batch: the signals that wake first, then context, as far as the limits reach; in
/// the provider's order. The rest is the next turn's.
async fn freeze(db: &mut PgConnection, turn: TurnId, conversation: Uuid) -> Result<(), Error> {
    sqlx::query!(
        r#"with picked as (
             select signal, order_key, seq, wakes,
                    sum(bytes) over (order by wakes desc, order_key, seq) - bytes as before,
                    row_number() over (order by wakes desc, order_key, seq) as n
               from control.mailbox where conversation = $2 and turn is null),
           batch as (
             select signal, row_number() over (order by order_key, seq) as batch_no
               from picked where n <= $3 and (n = 1 or before + 1 <= $4)),
           frozen as (
             update control.mailbox m set turn = $1, batch_no = b.batch_no::int
               from batch b where m.signal = b.signal
             returning m.signal, m.wakes, m.batch_no),
           newest as (
             select max(order_key) as order_key from control.signals
              where conversation = $2 and disposition = 'consumed'),
           late as (
             update control.signals s set late = true from frozen f, newest
              where s.id = f.signal and s.order_key < newest.order_key)
           update control.turns t set reply_signal =
             (select signal from frozen where wakes order by batch_no desc limit 1)
            where t.id = $1"#,
        turn.uuid(),
        conversation,
        BATCH_SIGNALS,
        BATCH_BYTES
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn batch(db: &mut PgConnection, turn: TurnId) -> Result<Vec<BatchRow>, Error> {
    Ok(sqlx::query_as!(
        BatchRow,
        r#"select s.id as "signal: Uuid", s.event_key, p.external_id as speaker_id,
                  s.sender_name as speaker_name, s.addressed, s.occurred_at, s.body, s.reply_to,
                  s.wakes, s.late
             from control.mailbox m
             join control.signals s on s.id = m.signal
             join control.principals p on p.id = s.sender
            where m.turn = $1 order by m.batch_no"#,
        turn.uuid()
    )
    .fetch_all(db)
    .await?)
}
