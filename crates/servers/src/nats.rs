//! A private nats-server with JetStream: one store in one folder, reachable on 127.0.0.1 only, by
//! token. It makes no streams.

use std::{
    fmt,
    fs::DirBuilder,
    net::Ipv4Addr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use rustix::process::Signal;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpStream,
    time::sleep,
};

use crate::{
    Binaries, ServerError,
    child::Child,
    error::Attempt,
    folder::DataFolder,
    launch::OnParentDeath,
    leftover,
    logfile::LogFile,
    port, random_secret,
    secret::{check_secret, write_private},
};

#[cfg(test)]
mod tests;

const SERVER: &str = "nats-server";

/// Restoring large streams takes a while.
const READY_LIMIT: Duration = Duration::from_secs(30);

const STOP: [(Signal, Duration); 2] =
    [(Signal::TERM, Duration::from_secs(20)), (Signal::KILL, Duration::from_secs(2))];

/// Larger than any message of the turn protocol; a publisher that passes it gets an error.
const MAX_PAYLOAD: u32 = 1 << 20;

/// A greeting is some hundred bytes.
const GREETING_LIMIT: u64 = 64 << 10;

/// What to start. Make it with [`NatsOptions::kept`] or [`NatsOptions::throw_away`].
#[derive(Clone)]
pub struct NatsOptions {
    /// Made if it is not there; holds the configuration and the store. `<data_dir>.lock` lies
    /// beside it.
    pub data_dir: PathBuf,
    /// `None`: a free one. A port that is asked for and taken is an error.
    pub port: Option<u16>,
    /// Letters, digits, `_` and `-`.
    pub token: String,
    /// Whether JetStream acknowledges a publish only after it is on disk. Off, a crash of the
    /// machine may lose the last two minutes of acknowledged messages.
    pub sync_always: bool,
    /// Appended to.
    pub log_file: PathBuf,
}

impl NatsOptions {
    /// A store that is kept between runs, and safe against a crash of the machine.
    pub fn kept(data_dir: PathBuf, token: String, log_file: PathBuf) -> Self {
        Self { data_dir, port: None, token, sync_always: true, log_file }
    }

    /// A fast store for one run in `folder`, which the caller removes after the handle is gone.
    pub fn throw_away(folder: &Path) -> Self {
        let log_file = folder.join("nats.log");
        Self { sync_always: false, ..Self::kept(folder.join("nats"), random_secret(), log_file) }
    }

    fn config(&self, name: &str, port: u16, store: &Path) -> Result<String, ServerError> {
        let plain = |text: &&str| !text.contains(|c: char| c.is_control() || "\"\\".contains(c));
        let store = store.to_str().filter(plain).ok_or(ServerError::Option {
            option: "data_dir",
            wanted: "a path in UTF-8 without quotes, backslashes and control characters",
        })?;
        let sync = if self.sync_always { "\n  sync_interval: always" } else { "" };
        let token = &self.token;
        Ok(format!(
            "server_name: \"{name}\"\n\
             listen: \"127.0.0.1:{port}\"\n\
             max_payload: {MAX_PAYLOAD}\n\
             authorization {{\n  token: \"{token}\"\n}}\n\
             jetstream {{\n  store_dir: \"{store}\"{sync}\n}}\n"
        ))
    }
}

/// A running nats-server. Dropping it kills it, as a crash would; prefer [`Nats::stop`] where the
/// store is kept.
pub struct Nats {
    child: Child,
    port: u16,
    token: String,
    log: LogFile,
    /// Given back after the process has ended: fields drop in this order.
    _folder: DataFolder,
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats")
            .field("pid", &self.pid())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Nats {
    /// Ends a server that a killed run left in the folder, starts nats-server and waits until it
    /// greets with JetStream on. Cancel safe.
    ///
    /// # Errors
    /// When an option is malformed, the folder is in use, the port is taken, or the server fails
    /// or takes longer than half a minute.
    pub async fn start(binaries: &Binaries, options: NatsOptions) -> Result<Self, ServerError> {
        check_secret("token", &options.token)?;
        let folder = DataFolder::claim(&options.data_dir).await?;
        let data = folder.path();
        let log = LogFile::open(&options.log_file)?;
        let every = |_| true;
        leftover::end(SERVER, binaries.nats_server(), data, every, Signal::TERM).await?;
        let mut builder = DirBuilder::new();
        let create = builder.recursive(true).mode(0o700).create(data);
        create.map_err(ServerError::file("create", data))?;

        let mut tries = port::tries(options.port);
        let (child, port) = loop {
            tries -= 1;
            match launch(binaries, &options, data, &log).await {
                Err(ServerError::PortTaken { port, .. }) if tries > 0 => {
                    tracing::debug!(port, "port was taken meanwhile; trying another");
                }
                launched => break launched?,
            }
        };
        let nats = Self { child, port, token: options.token, log, _folder: folder };
        tracing::debug!(pid = nats.pid(), port, "nats-server is ready");
        Ok(nats)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.child.pid().as_raw_pid().unsigned_abs()
    }

    /// On 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `nats://token@127.0.0.1:port`. Some clients ignore what stands before the `@`; those need
    /// [`Nats::address`] and [`Nats::token`].
    pub fn url(&self) -> String {
        format!("nats://{}@127.0.0.1:{}", self.token, self.port)
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What clients sign in with.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The last lines that the server wrote to its log.
    pub fn log_tail(&self) -> String {
        self.log.tail()
    }

    /// Resolves when the server has ended, for whatever reason; at once if it has already. A
    /// supervisor then drops this handle and starts another in the same folder. Cancel safe.
    pub async fn exited(&self) -> ExitStatus {
        self.child.exited().await
    }

    /// Asks the server to end and to write what it holds; kills it after 20 s.
    ///
    /// # Errors
    /// When the process outlives even SIGKILL.
    pub async fn stop(self) -> Result<ExitStatus, ServerError> {
        let ended = self.child.end(&STOP).await;
        ended.ok_or_else(|| ServerError::NotStopped { server: SERVER, pid: self.pid() })
    }
}

async fn launch(
    binaries: &Binaries,
    options: &NatsOptions,
    data: &Path,
    log: &LogFile,
) -> Result<(Child, u16), ServerError> {
    let port = port::choose(SERVER, options.port)?;
    // A name of this start's own, by which we know that it is not somebody else who greets.
    let name = format!("turnwright-{}", random_secret());
    let config = data.join("nats.conf");
    write_private(&config, &options.config(&name, port, data)?)?;

    let mut command = binaries.launcher().own(binaries.nats_server(), OnParentDeath::Terminate);
    command.arg("-c").arg(&config).current_dir(data);
    log.attach(&mut command)?;
    let child = Child::spawn("nats", command, Signal::KILL)
        .map_err(|source| ServerError::Spawn { program: "nats-server", source })?;

    let ready = async {
        while greeting(port).await.is_none_or(|info| info.server_name != name || !info.jetstream) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let attempt = Attempt { server: SERVER, port, limit: READY_LIMIT, log };
    child.until_ready(ready, READY_LIMIT).await.map_err(|reason| attempt.failed(reason))?;
    Ok((child, port))
}

/// The part of the `INFO` line that we look at.
#[derive(Deserialize)]
struct Info {
    server_name: String,
    #[serde(default)]
    jetstream: bool,
}

/// What a NATS server says first to whoever connects; `None` if nobody listens or it is no NATS.
async fn greeting(port: u16) -> Option<Info> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(GREETING_LIMIT)).read_line(&mut line).await.ok()?;
    serde_json::from_str(line.strip_prefix("INFO ")?).ok()
}
