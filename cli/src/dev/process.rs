//! A service as a child process: its output goes to a log, its end can be awaited, and it ends with
//! us however we end.

use crate::{Error, dev::folder::open_log};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{process::Command, time::timeout};
use turnwright_kit::config::Env;

/// How long a probe of `setpriv` may take.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How long a service may take after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone)]
pub struct Plan {
    /// The service's name, for people.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment: nothing of ours is passed on by itself.
    pub environment: Vec<(String, String)>,
    /// Where its output goes.
    pub log: PathBuf,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The environment holds secrets.
        f.debug_struct("Plan").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Ties children to our life, where the machine has a program that can: SIGTERM when we are gone,
/// also by SIGKILL.
#[derive(Clone, Debug)]
pub struct Tether(Option<PathBuf>);

impl Tether {
    /// Looks for `setpriv` and tries it once.
    pub async fn find(env: &Env) -> Self {
        let path = env.get("PATH").unwrap_or_default().to_owned();
        let usual = ["/usr/bin", "/bin"].map(PathBuf::from);
        let folders = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).chain(usual);
        let programs = folders.map(|dir| dir.join("setpriv")).filter(|program| program.is_file());
        for program in programs {
            let mut command = Command::new(&program);
            command.args(["--pdeathsig", "TERM", "--", "true"]).kill_on_drop(true);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if matches!(timeout(PROBE_LIMIT, command.status()).await, Ok(Ok(end)) if end.success())
            {
                return Self(Some(program));
            }
        }
        tracing::warn!("no usable setpriv: services outlive this process when it is killed");
        Self(None)
    }

    fn command(&self, program: &Path) -> Command {
        match &self.0 {
            Some(setpriv) => {
                // It replaces itself by the program, so the child's pid is the service's.
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "TERM", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        }
    }
}

/// A running service. Dropping it kills it; prefer [`Process::end`].
#[derive(Debug)]
pub struct Process {
    child: tokio::process::Child,
    pid: u32,
}

impl Process {
    /// Starts a service. Must be called on the main thread: the tether follows the thread that
    /// starts it.
    ///
    /// # Errors
    /// When the program or its log cannot be opened.
    pub fn start(plan: &Plan, tether: &Tether) -> Result<Self, Error> {
        let failed = || {
            let (name, program) = (plan.name, plan.program.display());
            Error::setup(format!("cannot start {name} ({program}); build all programs first"))
        };
        if !plan.program.is_file() {
            return Err(failed());
        }
        let log = open_log(&plan.log).map_err(|e| failed().because(e))?;
        let errors = log.try_clone().map_err(|e| failed().because(e))?;
        let child = tether
            .command(&plan.program)
            .args(&plan.arguments)
            .env_clear()
            .envs(plan.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // A Ctrl-C in the terminal reaches us alone.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| failed().because(e))?;
        let pid = child.id().unwrap_or_default();
        Ok(Self { child, pid })
    }

    /// The process id.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Resolves when it has ended. Cancel safe.
    ///
    /// # Errors
    /// When the system does not tell.
    pub async fn exited(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to end, waits for `grace`, then kills it.
    pub async fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        for (signal, limit) in [(Signal::TERM, grace), (Signal::KILL, KILL_LIMIT)] {
            self.signal(signal);
            if let Ok(Ok(status)) = timeout(limit, self.child.wait()).await {
                return Some(status);
            }
        }
        None
    }

    fn signal(&self, signal: Signal) {
        // Without an id it has been reaped: another process may have its pid by now.
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::warn!(pid = self.pid, %error, "cannot signal a service");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dir: &Path, script: &str) -> Plan {
        Plan {
            name: "shell",
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("SHOWN".to_owned(), "yes".to_owned())],
            log: dir.join("shell.log"),
        }
    }

    #[tokio::test]
    async fn output_goes_to_the_log_and_only_the_given_environment_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let tether = Tether::find(&Env::of([])).await;
        let script = "echo \"$SHOWN\"; echo \"home=$HOME\" >&2; exit 78";
        let mut process = Process::start(&plan(dir.path(), script), &tether).unwrap();
        assert_eq!(process.exited().await.unwrap().code(), Some(78));
        let log = std::fs::read_to_string(dir.path().join("shell.log")).unwrap();
        assert_eq!(log, "yes\nhome=\n");
    }

    #[tokio::test]
    async fn who_does_not_obey_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; echo ready; while :; do sleep 1; done";
        let mut process = Process::start(&plan(dir.path(), script), &Tether(None)).unwrap();
        // Only once the trap is set does ending tell anything.
        while std::fs::read_to_string(dir.path().join("shell.log")).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let status = process.end(Duration::from_millis(50)).await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = Plan { program: "/nonexistent/x".into(), ..plan(dir.path(), "") };
        let refused = Process::start(&missing, &Tether(None)).unwrap_err();
        assert!(refused.to_string().contains("/nonexistent/x"));
    }
}
