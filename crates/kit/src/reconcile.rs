//! A loop that compares what is with what should be. A pass takes no input on purpose: after a
//! restart, a fail-over and in the happy case it is the same code.

use crate::{backoff::Backoff, class::Chain};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Asks for a pass soon. Cheap to clone; many asks before a pass become one.
#[derive(Clone, Default, Debug)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    /// Asks for a pass.
    pub fn now(&self) {
        self.0.notify_one();
    }

    /// Resolves at the next ask.
    pub async fn asked(&self) {
        self.0.notified().await;
    }
}

/// Runs `pass` on every nudge and at least every `period` until stopped. A failed pass is logged
/// and tried again after a growing delay; a pass is never cancelled half-way.
///
/// # Errors
/// Never; the result fits a supervised task.
pub async fn run<F, Pass>(
    name: &'static str,
    period: Duration,
    nudge: Nudge,
    stop: CancellationToken,
    mut pass: F,
) -> anyhow::Result<()>
where
    F: FnMut() -> Pass,
    Pass: Future<Output = anyhow::Result<()>>,
{
    let fresh = || Backoff::endless(Duration::from_millis(100), Duration::from_secs(5));
    let mut backoff = fresh();
    loop {
        let wait = match pass().await {
            Ok(()) => {
                backoff = fresh();
                period
            }
            Err(e) => {
                tracing::warn!(name, error = %Chain(e.as_ref()), "pass failed; it will be repeated");
                backoff.next().unwrap_or(period).min(period)
            }
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = nudge.asked() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}
