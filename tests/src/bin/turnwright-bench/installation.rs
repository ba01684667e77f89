//! An installation of its own to measure: `turnwright dev` on an empty, throw-away data folder,
//! reached through the file it writes when it is ready. It ends and is removed with its handle.

use crate::provider::Provider;
use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

/// The service that runs turns, as the connection file calls it.
pub const WORKER: &str = "worker";
/// Our services whose memory counts, beside `turnwright dev` itself: no server, no scripted
/// provider.
const SERVICES: [&str; 4] = ["control-plane", "gateway", WORKER, "adapters"];
/// Names the variable that holds the provider's key; without our prefix, only the gateway sees it.
const KEY: &str = "BENCH_KEY";
const START_LIMIT: Duration = Duration::from_secs(180);
const STOP_LIMIT: Duration = Duration::from_secs(90);
const RESTART_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks for a state.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a probe of `setpriv` may take.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How much of a log an error quotes, in bytes.
const TAIL: usize = 2000;

/// How the parts of an installation are reached: what is used of the connection file.
#[derive(Debug, Deserialize)]
pub struct Connection {
    /// Base URL of the console.
    pub console: String,
    /// URL of the NATS server, with its token.
    pub nats: String,
    /// URL of the database.
    pub database: String,
    /// The operator's token.
    pub token: String,
    /// Process ids by service.
    pub pids: BTreeMap<String, u32>,
}

/// A running `turnwright dev`. Dropping it stops it, which blocks for some seconds; prefer
/// [`Installation::stop`], which also says how it ended.
#[derive(Debug)]
pub struct Installation {
    child: Child,
    began: Instant,
    folder: TempDir,
}

impl Installation {
    /// Starts it with `provider` answering for every agent; returns when it is ready. Must be
    /// called on the main thread: what ties it to our life follows the thread that starts it.
    ///
    /// # Errors
    /// When a program is missing, or it does not start.
    pub async fn start(provider: &Provider) -> anyhow::Result<Self> {
        let program = beside("turnwright")?;
        // Others may pass through, as PostgreSQL does that runs as another user.
        let folder = tempfile::Builder::new()
            .prefix("turnwright-bench-")
            .permissions(Permissions::from_mode(0o711))
            .tempdir()
            .context("cannot make a temporary folder")?;
        let log = File::create(folder.path().join("dev.log")).context("cannot make a log")?;
        let errors = log.try_clone().context("cannot share a log")?;
        let mut command = tied(&program).await;
        command
            .args(["dev", "--unrecorded", "--model", "bench", "--key-env", KEY])
            .args(["--provider-url", &provider.url()])
            .arg("--data")
            .arg(folder.path().join("data"))
            .arg("--ready")
            .arg(folder.path().join("ready.json"))
            .env(KEY, provider.key())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // A Ctrl-C in the terminal reaches us alone, and we stop it in order.
            .process_group(0)
            .kill_on_drop(true);
        let began = Instant::now();
        let child =
            command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut installation = Self { child, began, folder };
        while !installation.ready_file().exists() {
            installation.must_run()?;
            if began.elapsed() > START_LIMIT {
                bail!("`turnwright dev` is not ready in time:\n{}", installation.log_tail());
            }
            sleep(PAUSE).await;
        }
        Ok(installation)
    }

    /// When its program was started.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// How it is reached now; process ids change when services are started again.
    ///
    /// # Errors
    /// When the file is not what was agreed.
    pub fn connection(&self) -> anyhow::Result<Connection> {
        let text = fs::read_to_string(self.ready_file()).context("cannot read the ready file")?;
        serde_json::from_str(&text).context("the ready file is not a connection file")
    }

    /// Fails when it has ended by itself.
    ///
    /// # Errors
    /// With how it ended.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().context("cannot watch `turnwright dev`")? {
            None => Ok(()),
            Some(status) => bail!("`turnwright dev` ended ({status}):\n{}", self.log_tail()),
        }
    }

    /// The memory of all our processes together, in megabytes.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn rss_mb(&self) -> anyhow::Result<f64> {
        let pids = self.connection()?.pids;
        let mut total = rss_kib(self.child.id().context("`turnwright dev` has ended")?)?;
        for service in SERVICES {
            let pid = pids.get(service).with_context(|| format!("{service} has no process"))?;
            total += rss_kib(*pid).with_context(|| format!("memory of {service}"))?;
        }
        Ok(f64::from(total) * 1024.0 / 1e6)
    }

    /// Kills a service as `kill -9` does, and returns the process id it had.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, service: &str) -> anyhow::Result<u32> {
        let pids = self.connection()?.pids;
        let pid = *pids.get(service).with_context(|| format!("{service} has no process"))?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
        // It may have died by itself, and somebody else have its id by now.
        let expected = format!("turnwright-{service}");
        ensure!(program.ends_with(expected.as_bytes()), "process {pid} is not {expected}");
        signal(pid, Signal::KILL).with_context(|| format!("cannot kill {expected}"))?;
        Ok(pid)
    }

    /// Waits until a service runs again under another process id.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn replaced(&self, service: &str, old: u32) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.connection()?.pids.get(service).is_none_or(|pid| *pid == old) {
            ensure!(began.elapsed() < RESTART_LIMIT, "{service} is not started again in time");
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Stops it with SIGTERM.
    ///
    /// # Errors
    /// When it does not end in time, or not with exit code 0.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.must_run()?;
        terminate(&self.child);
        let status = timeout(STOP_LIMIT, self.child.wait()).await;
        let status = status.context("`turnwright dev` does not stop on SIGTERM")??;
        ensure!(status.success(), "`turnwright dev` stopped with {status}:\n{}", self.log_tail());
        Ok(())
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.path().join("ready.json")
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.folder.path().join("dev.log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(TAIL)..]).trim_end().to_owned()
    }
}

impl Drop for Installation {
    /// In order where that is possible; afterwards the child is killed if it still runs.
    fn drop(&mut self) {
        terminate(&self.child);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < STOP_LIMIT {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A program beside this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let program = own.with_file_name(name);
    ensure!(
        program.is_file(),
        "there is no {}; run `cargo build --release --workspace --bins`",
        program.display()
    );
    Ok(program)
}

/// Starts `program` so that it gets SIGTERM when we are killed, where the machine can do that.
async fn tied(program: &Path) -> Command {
    const TIE: [&str; 4] = ["setpriv", "--pdeathsig", "TERM", "--"];
    let [setpriv, arguments @ ..] = TIE;
    let mut probe = Command::new(setpriv);
    probe.args(arguments).arg("true").kill_on_drop(true);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if matches!(timeout(PROBE_LIMIT, probe.status()).await, Ok(Ok(end)) if end.success()) {
        // It replaces itself by the program, so the child's pid is the program's.
        let mut command = Command::new(setpriv);
        command.args(arguments).arg(program);
        return command;
    }
    Command::new(program)
}

fn terminate(child: &Child) {
    // Without an id it has been reaped: another process may have its pid by now.
    if let Some(pid) = child.id() {
        // It may be ending by itself.
        let _ = signal(pid, Signal::TERM);
    }
}

fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process id")?;
    Ok(kill_process(pid, signal)?)
}

fn rss_kib(pid: u32) -> anyhow::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is not there"))?;
    parse_rss(&status).with_context(|| format!("process {pid} tells no memory"))
}

fn parse_rss(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_system() {
        assert_eq!(parse_rss("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2048));
        assert_eq!(parse_rss("Name:\tx\n"), None);
        assert!(rss_kib(std::process::id()).unwrap() > 100);
    }
}
