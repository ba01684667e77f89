//! The lease of this process, and the sweep of what dead processes left generating.

use crate::app::App;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turnwright_gateway_store::{self as store, OWNER_LEASE};
use turnwright_kit::{Chain, health::Readiness};

const PERIOD: Duration = Duration::from_secs(1);

/// How well the renewals went.
#[derive(Debug)]
struct Renewals {
    /// Since when each one was accepted.
    steady_since: Option<Instant>,
    last: Instant,
}

impl Renewals {
    /// Only who was heard for a whole lease may call others dead: after an outage of the database
    /// everyone looks dead for a moment.
    fn may_sweep(&self, now: Instant) -> bool {
        self.steady_since.is_some_and(|since| now.duration_since(since) > OWNER_LEASE)
    }
}

/// Renews every second and sweeps. Once the process is to stop it goes on until nothing is being
/// generated, then gives the lease back.
///
/// # Errors
/// Never; the result fits a supervised task.
pub(crate) async fn run(
    app: Arc<App>,
    ready: Readiness,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let now = Instant::now();
    let mut renewals = Renewals { steady_since: Some(now), last: now };
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(PERIOD) => {}
        }
        renew(&app, &mut renewals, &ready).await;
        if renewals.may_sweep(Instant::now()) {
            sweep(&app).await;
        }
    }
    ready.set(false);
    let drained = app.registry.drained();
    tokio::pin!(drained);
    loop {
        tokio::select! {
            () = &mut drained => break,
            () = tokio::time::sleep(PERIOD) => {}
        }
        renew(&app, &mut renewals, &Readiness::default()).await;
    }
    if let Err(error) = store::leave(&app.pool, app.replica).await {
        tracing::debug!(error = %Chain(&error), "the lease was not given back; it expires");
    }
    app.pool.close().await;
    Ok(())
}

async fn renew(app: &App, renewals: &mut Renewals, ready: &Readiness) {
    match store::renew(&app.pool, app.replica).await {
        Ok(()) => {
            let now = Instant::now();
            renewals.steady_since.get_or_insert(now);
            renewals.last = now;
            ready.set(true);
        }
        Err(error) => {
            renewals.steady_since = None;
            if renewals.last.elapsed() > OWNER_LEASE {
                ready.set(false);
            }
            tracing::warn!(error = %Chain(&error), "the lease was not renewed");
        }
    }
}

async fn sweep(app: &App) {
    match store::sweep(&app.pool, app.replica, &app.registry.active()).await {
        Ok(ended) if ended.is_empty() => {}
        Ok(ended) => {
            tracing::warn!(responses = ended.len(), "ended what dead processes left generating");
        }
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "the sweep failed; it will be repeated");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_called_dead_by_one_that_was_away_itself() {
        let now = Instant::now();
        let mut renewals = Renewals { steady_since: Some(now), last: now };
        assert!(!renewals.may_sweep(now));
        assert!(!renewals.may_sweep(now + OWNER_LEASE));
        assert!(renewals.may_sweep(now + OWNER_LEASE + PERIOD));
        renewals.steady_since = None;
        assert!(!renewals.may_sweep(now + OWNER_LEASE * 10));
    }
}
