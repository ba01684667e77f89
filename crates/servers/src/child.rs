//! A server process that this one owns. It knows signals and exits, not what the process serves.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// How long dropping waits for the gentle signal, and again after SIGKILL.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// Reported when the system does not tell how the process ended: exit code 1.
const UNKNOWN: i32 = 1 << 8;

/// Dropping it ends the process: `on_drop` first, SIGKILL if that is not obeyed. Dropping may
/// block for up to four seconds, and takes milliseconds with a healthy server.
///
/// The process is started and awaited by a thread of its own, for two reasons. The death signal of
/// `setpriv --pdeathsig` follows the *thread* that started the process, and a runtime's threads
/// come and go. And a handle made in one tokio runtime can be used in another.
pub(crate) struct Child {
    pid: Pid,
    status: watch::Receiver<Option<ExitStatus>>,
    on_drop: Signal,
}

/// What kept a process from getting ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotReady {
    Ended(ExitStatus),
    TooLate,
}

impl Child {
    /// Starts `command`; returns when the process exists or could not be made.
    pub(crate) fn spawn(name: &str, command: Command, on_drop: Signal) -> io::Result<Self> {
        let (started, starting) = mpsc::sync_channel(1);
        let (ended, status) = watch::channel(None);
        thread::Builder::new()
            .name(format!("{name}-keeper"))
            .spawn(move || keep(command, &started, &ended))?;
        let pid = starting.recv().map_err(io::Error::other)??;
        Ok(Self { pid, status, on_drop })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Does nothing once the process has ended, so it never hits a process that got the same pid.
    pub(crate) fn signal(&self, signal: Signal) {
        // This borrow keeps the keeper from reaping until the signal is sent.
        let status = self.status.borrow();
        if status.is_none()
            && let Err(error) = kill_process(self.pid, signal)
        {
            tracing::warn!(pid = self.pid.as_raw_pid(), %error, "cannot signal a server");
        }
    }

    /// Resolves when the process has ended; at once if it has already. Cancel safe.
    pub(crate) async fn exited(&self) -> ExitStatus {
        let mut status = self.status.clone();
        let seen = status.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        seen.unwrap_or_else(|| ExitStatus::from_raw(UNKNOWN))
    }

    /// Waits for `ready`, but not past the end of the process nor past `limit`.
    pub(crate) async fn until_ready(
        &self,
        ready: impl Future<Output = ()>,
        limit: Duration,
    ) -> Result<(), NotReady> {
        tokio::select! {
            () = ready => Ok(()),
            status = self.exited() => Err(NotReady::Ended(status)),
            () = sleep(limit) => Err(NotReady::TooLate),
        }
    }

    /// Sends each signal in turn and waits that long for its effect; `None` if the process
    /// outlives them all.
    pub(crate) async fn end(&self, steps: &[(Signal, Duration)]) -> Option<ExitStatus> {
        for (signal, limit) in steps {
            self.signal(*signal);
            if let Ok(status) = timeout(*limit, self.exited()).await {
                return Some(status);
            }
        }
        None
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        for signal in [self.on_drop, Signal::KILL] {
            self.signal(signal);
            let end = Instant::now() + DROP_LIMIT;
            while Instant::now() < end {
                if self.status.borrow().is_some() {
                    return;
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
        tracing::error!(pid = self.pid.as_raw_pid(), "a server outlived SIGKILL; end it by hand");
    }
}

/// The keeper thread: lives exactly as long as the process.
fn keep(
    mut command: Command,
    started: &mpsc::SyncSender<io::Result<Pid>>,
    ended: &watch::Sender<Option<ExitStatus>>,
) {
    let spawned = command.spawn();
    // Closes our copies of the log file.
    drop(command);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let pid = Pid::from_child(&child);
    if started.send(Ok(pid)).is_err() {
        let _ = child.kill();
    }
    // Sees the end without reaping; reaping, which frees the pid, happens under the lock that
    // `signal` holds while it sends.
    if let Err(error) =
        retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT))
    {
        tracing::warn!(pid = pid.as_raw_pid(), %error, "cannot wait for a server");
    }
    ended.send_modify(|status| {
        *status = Some(child.wait().unwrap_or_else(|_| ExitStatus::from_raw(UNKNOWN)));
    });
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command, time::Duration};

    use rustix::process::{Signal, test_kill_process};

    use super::{Child, NotReady};

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("600");
        Child::spawn("sleep", command, Signal::TERM).unwrap()
    }

    #[tokio::test]
    async fn an_exit_is_seen_by_all_who_wait_and_by_those_who_come_later() {
        let child = sleeper();
        let kill = async { child.signal(Signal::KILL) };
        let (one, other, ()) = tokio::join!(child.exited(), child.exited(), kill);
        assert_eq!(one.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(one, other);
        assert_eq!(child.exited().await, one);
        child.signal(Signal::TERM);
    }

    #[tokio::test]
    async fn the_next_signal_follows_when_one_is_not_obeyed() {
        let child = sleeper();
        let steps =
            [(Signal::CONT, Duration::from_millis(20)), (Signal::KILL, Duration::from_secs(10))];
        let status = child.end(&steps).await.unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_in_time_and_one_that_ended_are_told_apart() {
        let child = sleeper();
        let never = std::future::pending::<()>();
        let late = child.until_ready(never, Duration::from_millis(20)).await;
        assert_eq!(late, Err(NotReady::TooLate));
        let ready = child.until_ready(std::future::ready(()), Duration::from_secs(10)).await;
        assert_eq!(ready, Ok(()));
        child.signal(Signal::KILL);
        let never = std::future::pending::<()>();
        let ended = child.until_ready(never, Duration::from_secs(10)).await;
        assert_eq!(ended, Err(NotReady::Ended(child.exited().await)));
    }

    #[test]
    fn dropping_ends_and_reaps_the_process() {
        let child = sleeper();
        let pid = child.pid();
        test_kill_process(pid).unwrap();
        drop(child);
        assert!(test_kill_process(pid).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(Child::spawn("none", Command::new("/nonexistent"), Signal::KILL).is_err());
    }
}
