//! A private PostgreSQL: one cluster in one folder, reachable on 127.0.0.1 only, by password.
//! It makes the superuser and one empty database; what is in it is the caller's.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::time::sleep;

use crate::{
    Binaries, ServerError,
    child::Child,
    error::Attempt,
    folder::DataFolder,
    launch::OnParentDeath,
    leftover,
    logfile::LogFile,
    port, random_secret,
    secret::{check_identifier, check_secret},
};

mod cluster;
mod database;

#[cfg(test)]
mod tests;

const SERVER: &str = "postgresql";

/// Recovery after a crash reads up to a checkpoint's worth of log.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Fast shutdown, immediate shutdown, and the end.
const STOP: [(Signal, Duration); 3] = [
    (Signal::INT, Duration::from_secs(20)),
    (Signal::QUIT, Duration::from_secs(5)),
    (Signal::KILL, Duration::from_secs(2)),
];

/// What to start. Make it with [`PostgresOptions::kept`] or [`PostgresOptions::throw_away`].
#[derive(Clone)]
pub struct PostgresOptions {
    /// Made if it is not there. Files `<data_dir>.lock`, and while the cluster is made
    /// `<data_dir>.new` and `<data_dir>.password`, lie beside it.
    pub data_dir: PathBuf,
    /// `None`: a free one. A port that is asked for and taken is an error.
    pub port: Option<u16>,
    /// Lower-case letters, digits and `_`. Counts only when the cluster is made.
    pub superuser: String,
    /// Letters, digits, `_` and `-`. Counts only when the cluster is made.
    pub password: String,
    /// Made if it is not there. Lower-case letters, digits and `_`.
    pub database: String,
    /// Whether a commit survives a crash of the machine. Off, it also skips what protects a
    /// cluster from torn writes: for tests only.
    pub durable: bool,
    /// PostgreSQL's `max_connections`.
    pub max_connections: u32,
    /// Appended to.
    pub log_file: PathBuf,
    /// Further settings by name; they override all but port and addresses.
    pub settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// A durable cluster that is kept between runs.
    pub fn kept(data_dir: PathBuf, password: String, log_file: PathBuf) -> Self {
        Self {
            data_dir,
            port: None,
            superuser: "turnwright".to_owned(),
            password,
            database: "turnwright".to_owned(),
            durable: true,
            max_connections: 200,
            log_file,
            settings: Vec::new(),
        }
    }

    /// A fast cluster for one run in `folder`, which the caller removes after the handle is gone.
    pub fn throw_away(folder: &Path) -> Self {
        let log_file = folder.join("postgres.log");
        let kept = Self::kept(folder.join("postgres"), random_secret(), log_file);
        // Every test of a run has an installation of its own in it.
        Self { durable: false, max_connections: 400, ..kept }
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        // Compiling a query just in time costs more than any of ours runs.
        let mut settings = vec!["jit=off".to_owned()];
        settings.push(format!("max_connections={}", self.max_connections));
        if !self.durable {
            let fast = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"];
            settings.extend(fast.map(str::to_owned));
        }
        settings.extend(self.settings.iter().map(|(name, value)| format!("{name}={value}")));
        settings.push(format!("port={port}"));
        // No socket files: their paths are limited to about 100 bytes.
        settings
            .extend(["listen_addresses=127.0.0.1", "unix_socket_directories="].map(str::to_owned));
        settings
    }
}

/// A running PostgreSQL. Dropping it is an immediate shutdown, which blocks for some milliseconds
/// and makes the next start recover; prefer [`Postgres::stop`] where the data is kept.
pub struct Postgres {
    child: Child,
    port: u16,
    options: PostgresOptions,
    log: LogFile,
    /// Given back after the process has ended: fields drop in this order.
    _folder: DataFolder,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("pid", &self.pid())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Makes the cluster if the folder is new, ends a server that a killed run left in it, starts
    /// PostgreSQL, waits until it accepts connections and makes the database. Cancel safe.
    ///
    /// # Errors
    /// When an option is malformed, the folder is in use or holds something else, the port is
    /// taken, or a program fails or takes longer than a minute.
    pub async fn start(binaries: &Binaries, options: PostgresOptions) -> Result<Self, ServerError> {
        check_identifier("superuser", &options.superuser)?;
        check_identifier("database", &options.database)?;
        check_secret("password", &options.password)?;
        let folder = DataFolder::claim(&options.data_dir).await?;
        let log = LogFile::open(&options.log_file)?;
        let leader = cluster::postmaster(folder.path()).map(|postmaster| postmaster.pid);
        let leads = |pid: Pid| Some(pid) == leader;
        leftover::end(SERVER, Path::new("postgres"), folder.path(), leads, Signal::INT).await?;
        cluster::forget_postmaster(folder.path())?;
        cluster::prepare(binaries, &options, &folder).await?;

        let mut tries = port::tries(options.port);
        let (child, port) = loop {
            tries -= 1;
            match launch(binaries, &options, folder.path(), &log).await {
                Err(ServerError::PortTaken { port, .. }) if tries > 0 => {
                    tracing::debug!(port, "port was taken meanwhile; trying another");
                }
                launched => break launched?,
            }
        };
        let postgres = Self { child, port, options, log, _folder: folder };
        database::ensure(&postgres.options, port).await.map_err(|failure| match failure {
            database::Failure::Refused(source) => ServerError::Database {
                database: postgres.options.database.clone(),
                source,
                log: postgres.log.tail(),
            },
            database::Failure::TooLate(limit) => {
                ServerError::NotReady { server: SERVER, limit, log: postgres.log.tail() }
            }
        })?;
        tracing::debug!(pid = postgres.pid(), port, "postgresql is ready");
        Ok(postgres)
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> u32 {
        self.child.pid().as_raw_pid().unsigned_abs()
    }

    /// On 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `postgres://superuser:password@127.0.0.1:port/database`, for the configured database.
    pub fn url(&self) -> String {
        self.url_of(&self.options.database)
    }

    /// The same for another database of this cluster.
    pub fn url_of(&self, database: &str) -> String {
        let PostgresOptions { superuser, password, .. } = &self.options;
        format!("postgres://{superuser}:{password}@127.0.0.1:{}/{database}", self.port)
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

    /// Fast shutdown: open transactions are rolled back and everything is written. Harsher signals
    /// follow if that takes longer than 20 s.
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
    options: &PostgresOptions,
    data: &Path,
    log: &LogFile,
) -> Result<(Child, u16), ServerError> {
    let port = port::choose(SERVER, options.port)?;
    let program = binaries.pg_bin().join("postgres");
    let launcher = binaries.launcher();
    let mut command = launcher.unprivileged(&program, Some(OnParentDeath::Interrupt))?;
    command.arg("-D").arg(data).current_dir(data);
    for setting in options.arguments(port) {
        command.arg("-c").arg(setting);
    }
    log.attach(&mut command)?;
    let child = Child::spawn("postgres", command, Signal::QUIT)
        .map_err(|source| ServerError::Spawn { program: "postgres", source })?;

    let pid = child.pid();
    let ready = async {
        // The pid tells this server's word from an earlier one's.
        while !cluster::postmaster(data).is_some_and(|master| master.pid == pid && master.ready) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let attempt = Attempt { server: SERVER, port, limit: READY_LIMIT, log };
    child.until_ready(ready, READY_LIMIT).await.map_err(|reason| attempt.failed(reason))?;
    Ok((child, port))
}
