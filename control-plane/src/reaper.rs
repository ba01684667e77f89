//! Takes turns from workers that stopped renewing. A replica judges only after it has itself been
//! able to accept renewals for one whole lease: a database that was away expires nobody.

use crate::dispatch::Dispatch;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turnwright_control_store::Store;
use turnwright_kit::{Chain, Nudge, reconcile};

const PERIOD: Duration = Duration::from_millis(500);

/// Since when this replica has been able to accept renewals without a break.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Option<Instant>>>);

impl Health {
    /// A renewal, or a pass, could not be written.
    pub fn broken(&self) {
        *self.0.lock() = None;
    }

    /// Watches one renewal: unless it is said to be accepted, health is broken. A caller that gave
    /// up drops its renewal half-way, and that is no health either.
    pub fn watch(&self) -> Watch<'_> {
        Watch { health: self, accepted: false }
    }

    fn sound(&self) -> Duration {
        self.0.lock().get_or_insert_with(Instant::now).elapsed()
    }
}

/// See [`Health::watch`].
#[derive(Debug)]
pub struct Watch<'a> {
    health: &'a Health,
    accepted: bool,
}

impl Watch<'_> {
    /// Says whether the renewal was accepted.
    pub fn accepted(&mut self, accepted: bool) {
        self.accepted = accepted;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.accepted {
            self.health.broken();
        }
    }
}

/// The reaper of one replica.
#[derive(Clone, Debug)]
pub struct Reaper {
    store: Store,
    dispatch: Dispatch,
    lease: Duration,
    health: Health,
}

impl Reaper {
    /// Judges by `lease`, counted on PostgreSQL's clock.
    #[must_use]
    pub fn new(store: Store, dispatch: Dispatch, lease: Duration, health: Health) -> Self {
        Self { store, dispatch, lease, health }
    }

    /// Runs until stopped.
    ///
    /// # Errors
    /// Never; the result fits a supervised task.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut last = Instant::now();
        let mut passes = 0_u64;
        reconcile::run("reaper", PERIOD, Nudge::default(), stop, move || {
            // A gap means that this process itself stood still and could accept nothing.
            if last.elapsed() > PERIOD * 4 {
                self.health.broken();
            }
            last = Instant::now();
            passes += 1;
            let (this, pass) = (self.clone(), passes);
            async move {
                let end = this.pass(pass).await;
                if end.is_err() {
                    this.health.broken();
                }
                Ok(end?)
            }
        })
        .await
    }

    async fn pass(&self, passes: u64) -> Result<(), turnwright_control_store::Error> {
        let lost = self.store.lost_turns(self.lease).await?;
        if self.health.sound() < self.lease {
            return Ok(());
        }
        for (turn, epoch) in lost {
            let Some(reaped) = self.store.reap(turn, epoch, self.lease).await? else { continue };
            tracing::warn!(turn.id = %turn, crashes = reaped.crashes, poison = reaped.poison,
                "worker lost; turn taken from it");
            if let Some(next) = &reaped.next {
                self.dispatch.turn(next).await;
            }
            if let Some(finished) = &reaped.finished {
                self.dispatch.after(finished).await;
            }
        }
        // Every ten minutes or so.
        if passes % 1200 == 1199 {
            let forgotten = self.store.forget_old_leases().await;
            if let Err(e) = forgotten {
                tracing::warn!(error = %Chain(&e), "old leases not forgotten");
            }
        }
        Ok(())
    }
}
