//! Why a private server could not be started or stopped.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use crate::{Version, child::NotReady, logfile::LogFile, port};

/// Everything that can go wrong with a private server. Texts that carry a `log` end with its last
/// lines; no text carries a password or token.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An option holds something that would need escaping somewhere.
    #[error("option `{option}` must be {wanted}")]
    Option {
        /// The field's name.
        option: &'static str,
        /// What it may hold.
        wanted: &'static str,
    },
    /// Somebody listens on the port that was asked for.
    #[error(
        "{server}: port {port} on 127.0.0.1 is in use; stop what listens there or choose another"
    )]
    PortTaken {
        /// The server to be started.
        server: &'static str,
        /// The port in question.
        port: u16,
    },
    /// No port could be had.
    #[error("{server}: cannot find a free port on 127.0.0.1")]
    NoPort {
        /// The server to be started.
        server: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Another live process owns the folder.
    #[error("{} is in use by another process; stop it or choose another folder", .folder.display())]
    FolderInUse {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder holds something else than this server's data.
    #[error("{} is not empty and holds no {server} data; choose another folder", .folder.display())]
    ForeignFolder {
        /// The server to be started.
        server: &'static str,
        /// The data folder.
        folder: PathBuf,
    },
    /// The data was written by another major version.
    #[error(
        "{} was made by PostgreSQL {made_by}, but the one found is {found}; install PostgreSQL \
         {made_by} or choose another folder", .folder.display()
    )]
    OtherVersion {
        /// The data folder.
        folder: PathBuf,
        /// What `PG_VERSION` in the folder says.
        made_by: String,
        /// The programs' version.
        found: Version,
    },
    /// The file system said no.
    #[error("cannot {action} {}", .path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A program could not be run.
    #[error("cannot start {program}")]
    Spawn {
        /// Its name.
        program: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// No way was found to run PostgreSQL as another user than root.
    #[error(
        "postgresql refuses to run as root, and neither a user namespace (`unshare --user`) nor \
         user nobody (`setpriv`) can run it here; run as another user, or put its programs where \
         everybody may reach them"
    )]
    RefusesRoot,
    /// The server runs as user nobody, who cannot enter this folder.
    #[error(
        "{} cannot be entered by user nobody, as whom postgresql runs here; put the data in a \
         folder below one that everybody may enter, such as /var/tmp", .folder.display()
    )]
    Unreachable {
        /// The closed folder.
        folder: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb failed ({status}): {output}")]
    Initdb {
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it printed.
        output: String,
    },
    /// The server ended by itself while it was started.
    #[error("{server} ended before it was ready ({status}); last lines of its log:\n{log}")]
    Ended {
        /// The server.
        server: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// The server took too long.
    #[error("{server} was not ready within {} s; last lines of its log:\n{log}", .limit.as_secs())]
    NotReady {
        /// The server or program.
        server: &'static str,
        /// How long it was waited for.
        limit: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The server runs, but the database could not be made in it.
    #[error(
        "cannot prepare database `{database}` (was the data folder made with another password or \
         superuser?); last lines of the log:\n{log}"
    )]
    Database {
        /// The database's name.
        database: String,
        /// What PostgreSQL said.
        #[source]
        source: tokio_postgres::Error,
        /// The last lines of its log.
        log: String,
    },
    /// The server outlived every signal and deadline.
    #[error("{server} (pid {pid}) did not end; end it by hand")]
    NotStopped {
        /// The server.
        server: &'static str,
        /// Its process.
        pid: u32,
    },
}

impl ServerError {
    /// For `map_err` on file operations.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { action, path, source }
    }
}

/// One attempt to start a server, for telling why it failed.
pub(crate) struct Attempt<'a> {
    pub(crate) server: &'static str,
    pub(crate) port: u16,
    pub(crate) limit: Duration,
    pub(crate) log: &'a LogFile,
}

impl Attempt<'_> {
    /// Asks the system whether the port was the reason: logs are prose.
    pub(crate) fn failed(&self, reason: NotReady) -> ServerError {
        let Self { server, port, limit, log } = *self;
        match reason {
            NotReady::Ended(_) if port::is_taken(port) => ServerError::PortTaken { server, port },
            NotReady::Ended(status) => ServerError::Ended { server, status, log: log.tail() },
            NotReady::TooLate => ServerError::NotReady { server, limit, log: log.tail() },
        }
    }
}
