//! Leases: one per worker incarnation, by PostgreSQL's clock; and what happens when one ends.

use crate::{Error, Store, due::QueuedTurn, error::retrying, finish, lane};
use chrono::{DateTime, Utc};
use std::time::Duration;
use turnwright_types::{Fence, GatewayConversationId, TurnId, WorkerIncarnation};

/// A turn of a renewal.
#[derive(Clone, Debug)]
pub struct RenewedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Whether it is still this incarnation's.
    pub owned: bool,
    /// Its agent.
    pub agent: String,
    /// Its gateway conversation.
    pub gateway_conversation: GatewayConversationId,
    /// The newest fence.
    pub fence: Fence,
    /// When it was claimed, by PostgreSQL's clock.
    pub claimed_at: Option<DateTime<Utc>>,
    /// PostgreSQL's clock.
    pub now: DateTime<Utc>,
}

/// What became of a turn whose worker was lost.
#[derive(Clone, Debug)]
pub struct Reaped {
    /// The turn.
    pub turn: TurnId,
    /// Leases lost while it ran.
    pub crashes: i32,
    /// How it goes on: again, or over.
    pub next: Option<QueuedTurn>,
    /// Whether it ended as poison.
    pub poison: bool,
    /// Conversations whose lane has something new to send.
    pub finished: Option<finish::Finished>,
}

impl Store {
    /// Renews a worker's lease and answers how its turns stand.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn renew(
        &self,
        worker: WorkerIncarnation,
        pool: &str,
        draining: bool,
        turns: &[TurnId],
    ) -> Result<Vec<RenewedTurn>, Error> {
        let ids: Vec<uuid::Uuid> = turns.iter().map(|t| t.uuid()).collect();
        let rows = sqlx::query!(
            r#"with lease as (
                 insert into control.worker_leases (worker, pool, draining) values ($1, $2, $3)
                 on conflict (worker) do update set renewed_at = now(), draining = excluded.draining)
               select t.id, (t.worker = $1 and t.state in ('running', 'cancelling')) is true as "owned!",
                      c.agent, g.gateway_conversation, t.turn_seq, t.epoch, t.claimed_at,
                      now() as "now!"
                 from control.turns t
                 join control.conversations c on c.id = t.conversation
                 join control.generations g
                   on g.conversation = t.conversation and g.generation = t.generation
                where t.id = any($4)"#,
            worker.uuid(),
            pool,
            draining,
            &ids
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|r| RenewedTurn {
                turn: r.id.into(),
                owned: r.owned,
                agent: r.agent,
                gateway_conversation: r.gateway_conversation.into(),
                fence: Fence { turn_seq: r.turn_seq, epoch: r.epoch },
                claimed_at: r.claimed_at,
                now: r.now,
            })
            .collect())
    }

    /// Running turns whose worker has not renewed for `lease`.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn lost_turns(&self, lease: Duration) -> Result<Vec<(TurnId, i64)>, Error> {
        let rows = sqlx::query!(
            "select t.id, t.epoch from control.turns t
               left join control.worker_leases l on l.worker = t.worker
              where t.state in ('running', 'cancelling')
                and (l.worker is null or l.renewed_at < now() - make_interval(secs => $1))
              order by t.claimed_at limit 200",
            lease.as_secs_f64()
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|r| (r.id.into(), r.epoch)).collect())
    }

    /// Takes a turn from a worker that is gone: raises the epoch and queues it again, or ends it
    /// as poison. Nothing happens if the turn moved on or its worker renewed in the meantime.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn reap(
        &self,
        turn: TurnId,
        epoch: i64,
        lease: Duration,
    ) -> Result<Option<Reaped>, Error> {
        retrying!(self.reap_once(turn, epoch, lease))
    }

    async fn reap_once(
        &self,
        turn: TurnId,
        epoch: i64,
        lease: Duration,
    ) -> Result<Option<Reaped>, Error> {
        let mut tx = self.pool.begin().await?;
        let conversation = lane::of_turn(&mut tx, turn.uuid()).await?;
        let lane = lane::lock(&mut tx, conversation).await?;
        let row = sqlx::query!(
            "select t.crashes from control.turns t
               left join control.worker_leases l on l.worker = t.worker
              where t.id = $1 and t.epoch = $2 and t.state = 'running'
                and (l.worker is null or l.renewed_at < now() - make_interval(secs => $3))
                for no key update of t",
            turn.uuid(),
            epoch,
            lease.as_secs_f64()
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let crashes = row.crashes + 1;
        sqlx::query!(
            "with lane as (update control.conversations set epoch = epoch + 1 where id = $2
                           returning epoch)
             update control.turns set crashes = $3, epoch = lane.epoch from lane
              where control.turns.id = $1",
            turn.uuid(),
            conversation,
            crashes
        )
        .execute(&mut *tx)
        .await?;
        let poison = crashes >= lane::RETRY_LIMIT;
        let (next, finished) = if poison {
            let end = finish::TurnEnd::Failed {
                reason: "poison".into(),
                detail: format!("its worker was lost {crashes} times"),
            };
            (None, Some(finish::end(&mut tx, &lane, turn.uuid(), &end).await?))
        } else {
            (Some(finish::requeue(&mut tx, &lane, turn.uuid(), 0).await?), None)
        };
        tx.commit().await?;
        Ok(Some(Reaped { turn, crashes, next, poison, finished }))
    }

    /// Forgets leases that no turn refers to and nobody renewed for an hour.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn forget_old_leases(&self) -> Result<u64, Error> {
        let done = sqlx::query!(
            "delete from control.worker_leases l where l.renewed_at < now() - interval '1 hour'
               and not exists (select from control.turns t where t.worker = l.worker
                                and t.state in ('running', 'cancelling'))"
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }
}
