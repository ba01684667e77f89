//! The lease of this worker incarnation: renewed every second by one call that lists its turns.
//! What the answer says of a turn is applied to its seat; nothing is decided here about how a turn
//! ends.

use crate::{
    control::{CallError, ControlPlane},
    running::Running,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;
use turnwright_kit::Chain;
use turnwright_proto::v1;
use turnwright_types::{Pool, WorkerIncarnation};

/// How often the lease is renewed.
const PERIOD: Duration = Duration::from_secs(1);

/// A renewal that was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    /// Local work may go on until then: two thirds of the lease, counted from the sending.
    work_until: Instant,
}

impl Renewal {
    /// A renewal sent at `sent` and answered with a lease of so many milliseconds.
    pub(crate) fn of(sent: Instant, lease_ms: i64) -> Self {
        let lease = Duration::from_millis(u64::try_from(lease_ms).unwrap_or(0));
        Self { work_until: sent + lease * 2 / 3 }
    }
}

/// Whether the lease is held, as running turns see it.
#[derive(Clone)]
pub(crate) struct Lease(watch::Receiver<Instant>);

impl Lease {
    /// Resolves when local work must stop because no renewal was accepted for too long.
    pub(crate) async fn lapsed(&mut self) {
        loop {
            let until = *self.0.borrow_and_update();
            tokio::select! {
                changed = self.0.changed() => if changed.is_err() {
                    // The keeper is gone: nothing extends the lease any more.
                    return sleep_until(until).await;
                },
                () = sleep_until(until) => return,
            }
        }
    }

    /// Resolves when local work may go on.
    pub(crate) async fn held(&mut self) {
        loop {
            let until = *self.0.borrow_and_update();
            if until > Instant::now() {
                return;
            }
            if self.0.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Renews the lease.
pub(crate) struct Keeper {
    control: ControlPlane,
    running: Running,
    worker: WorkerIncarnation,
    pool: Pool,
    work_until: watch::Sender<Instant>,
}

impl Keeper {
    /// A keeper that goes on from a first renewal, and the lease it keeps.
    pub(crate) fn new(
        control: ControlPlane,
        running: Running,
        worker: WorkerIncarnation,
        pool: Pool,
        first: Renewal,
    ) -> (Self, Lease) {
        let (work_until, held) = watch::channel(first.work_until);
        (Self { control, running, worker, pool, work_until }, Lease(held))
    }

    /// Renews until stopped and every slot is free again.
    pub(crate) async fn run(
        self,
        slots: Arc<Semaphore>,
        all: u32,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut due = interval(PERIOD);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut draining = false;
        let mut failing = false;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = stop.cancelled(), if !draining => draining = true,
                free = slots.acquire_many(all), if draining => {
                    drop(free?);
                    return Ok(());
                }
            }
            match self.renew(draining).await {
                Ok(()) if failing => {
                    failing = false;
                    tracing::info!("lease is renewed again");
                }
                Ok(()) => {}
                Err(e) if !failing => {
                    failing = true;
                    tracing::warn!(error = %Chain(&e), "lease was not renewed; it is tried on");
                }
                Err(e) => tracing::debug!(error = %Chain(&e), "lease was not renewed"),
            }
        }
    }

    async fn renew(&self, draining: bool) -> Result<(), CallError> {
        let seats = self.running.claimed();
        let sent = Instant::now();
        let answer = self
            .control
            .renew(v1::RenewLeaseRequest {
                worker_incarnation: self.worker.to_string(),
                pool: self.pool.to_string(),
                turn_ids: seats.iter().map(|seat| seat.turn.to_string()).collect(),
                draining,
            })
            .await?;
        self.work_until.send_replace(Renewal::of(sent, answer.lease_ms).work_until);
        if answer.turns.is_empty() {
            return Ok(());
        }
        let seats: HashMap<_, _> = seats.iter().map(|s| (s.turn.to_string(), s)).collect();
        for status in &answer.turns {
            let Some(seat) = seats.get(&status.turn_id) else { continue };
            if status.lost {
                tracing::warn!(turn.id = %seat.turn, "turn is another worker's now");
                seat.lose();
            } else if !status.agent_token.is_empty() {
                seat.keep_token(&status.agent_token);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn work_stops_at_two_thirds_of_the_lease_and_goes_on_after_a_renewal() {
        let start = Instant::now();
        let (renewed, held) = watch::channel(Renewal::of(start, 3000).work_until);
        let (mut lease, mut other) = (Lease(held.clone()), Lease(held));
        lease.lapsed().await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));

        renewed.send_replace(Renewal::of(Instant::now(), 3000).work_until);
        lease.held().await;
        advance(Duration::from_secs(1)).await;
        renewed.send_replace(Renewal::of(Instant::now(), 3000).work_until);
        other.lapsed().await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }
}
