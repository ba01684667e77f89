//! Every long-lived task is started here; nothing else calls `tokio::spawn`.

use crate::class::Chain;
use std::{future::Future, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

/// What the end of a task before shutdown means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnExit {
    /// By `Ok`, `Err` or panic: the process comes down.
    StopProcess,
    /// It is logged; the process goes on.
    Log,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every task ended in time.
    Clean,
    /// A task that must not end did.
    Failed,
    /// Tasks were still running at the deadline.
    DeadlinePassed {
        /// How many.
        still_running: usize,
    },
}

/// Owns the tasks of a process, or of one service in a test.
#[derive(Clone, Default, Debug)]
pub struct Supervisor {
    stop: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
}

impl Supervisor {
    /// For work that belongs to one request or stream: drained at shutdown, never fatal.
    #[must_use]
    pub fn scoped(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Cancelled when the process is to stop.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    /// Asks every task to stop, without waiting.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Starts a task and watches over its end.
    pub fn spawn<F>(
        &self,
        name: &'static str,
        on_exit: OnExit,
        run: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let task = run(self.token());
        let (stop, failed) = (self.stop.clone(), self.failed.clone());
        let watch = async move {
            #[expect(clippy::disallowed_methods, reason = "a panic must become a JoinError")]
            let end = tokio::spawn(task.in_current_span()).await;
            let early = !stop.is_cancelled();
            match &end {
                Ok(Ok(())) if early => tracing::warn!("task ended before shutdown"),
                Ok(Ok(())) => tracing::debug!("task stopped"),
                Ok(Err(e)) => tracing::error!(error = %Chain(e.as_ref()), "task failed"),
                Err(e) => tracing::error!(error = %e, "task panicked"),
            }
            if on_exit == OnExit::StopProcess && (early || !matches!(end, Ok(Ok(())))) {
                failed.cancel();
                stop.cancel();
            }
        };
        self.tasks.spawn(watch.instrument(tracing::info_span!(parent: None, "task", name)));
    }

    /// Waits for `signal` or a fatal task, then for all tasks, at most `grace`.
    pub async fn run_until(self, signal: impl Future<Output = ()>, grace: Duration) -> Outcome {
        tokio::select! { () = signal => {}, () = self.stop.cancelled() => {} }
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            return Outcome::DeadlinePassed { still_running: self.tasks.len() };
        }
        if self.failed.is_cancelled() { Outcome::Failed } else { Outcome::Clean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panicking_critical_task_stops_the_process() {
        let sup = Supervisor::default();
        sup.spawn("ok", OnExit::StopProcess, |stop| async move {
            stop.cancelled().await;
            Ok(())
        });
        sup.spawn("bad", OnExit::StopProcess, |_| async { panic!("boom") });
        let end = sup.run_until(std::future::pending(), Duration::from_secs(5)).await;
        assert_eq!(end, Outcome::Failed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deaf_task_is_counted() {
        let sup = Supervisor::default();
        sup.spawn("deaf", OnExit::Log, |_| std::future::pending());
        let end = sup.run_until(async {}, Duration::from_secs(5)).await;
        assert_eq!(end, Outcome::DeadlinePassed { still_running: 1 });
    }
}
