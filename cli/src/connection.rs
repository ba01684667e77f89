//! Where an installation is reached, and how a command finds out. Written by `turnwright dev`, read
//! by everything else; it holds a token, so only its owner may read it.

use crate::{Error, args::Global};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};
use turnwright_kit::config::Env;

/// The name of the file in a data folder.
pub const FILE: &str = "connection.json";

/// How the parts of an installation are reached.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Base URL of the control plane's gRPC services.
    pub control_plane: String,
    /// Base URL of the gateway.
    pub gateway: String,
    /// Base URL of the console adapter.
    pub console: String,
    /// URL of the NATS server, with its token.
    pub nats: String,
    /// URL of the database, with the owner's password.
    pub database: String,
    /// The operator's token.
    pub token: String,
    /// The data folder.
    pub data: PathBuf,
    /// Process ids by service.
    pub pids: BTreeMap<String, u32>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("control_plane", &self.control_plane)
            .field("gateway", &self.gateway)
            .field("console", &self.console)
            .field("data", &self.data)
            .field("pids", &self.pids)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads a connection file.
    ///
    /// # Errors
    /// When it cannot be read or holds something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|e| {
            let path = path.display();
            let why = if e.kind() == io::ErrorKind::NotFound {
                format!("there is no {path}; start it with `turnwright dev --data DIR`")
            } else {
                format!("cannot read {path}")
            };
            Error::setup(why).because(e)
        })?;
        serde_json::from_str(&text).map_err(|e| {
            Error::setup(format!("{} is not a connection file", path.display())).because(e)
        })
    }

    /// Writes it in one step, readable by its owner only: readers never see half of it.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::setup("cannot write the connection as json").because(e))?;
        write_private(path, &format!("{text}\n"))
    }

    /// The connection that the command line, the environment or the last start names.
    ///
    /// # Errors
    /// When nothing names one, or the file named is not there.
    pub fn locate(global: &Global, env: &Env) -> Result<Self, Error> {
        Self::read(&locate(global, env)?)
    }
}

/// Writes a file in one step that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let write = || -> io::Result<()> {
        match fs::remove_file(&part) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&part, path)
    };
    write().map_err(|e| Error::setup(format!("cannot write {}", path.display())).because(e))
}

/// The path of the connection file: the command line decides before the environment, and the last
/// installation started on this machine is used when neither says anything.
fn locate(global: &Global, env: &Env) -> Result<PathBuf, Error> {
    match (&global.connection, &global.data) {
        (Some(_), Some(_)) => {
            return Err(Error::setup("give either --connection or --data, not both"));
        }
        (Some(file), None) => return Ok(file.clone()),
        (None, Some(data)) => return Ok(data.join(FILE)),
        (None, None) => {}
    }
    if let Some(file) = env.get("TURNWRIGHT_CONNECTION") {
        return Ok(PathBuf::from(file));
    }
    if let Some(data) = env.get("TURNWRIGHT_DATA") {
        return Ok(Path::new(data).join(FILE));
    }
    let none = || {
        Error::setup(
            "no installation is named and none was started here; run `turnwright dev --data DIR`, \
             or pass --data DIR or --connection FILE",
        )
    };
    let data = fs::read_to_string(current(env).ok_or_else(none)?).map_err(|_| none())?;
    Ok(Path::new(data.trim_end_matches('\n')).join(FILE))
}

/// The file that names the data folder of the last start.
fn current(env: &Env) -> Option<PathBuf> {
    let state = match (env.get("XDG_STATE_HOME"), env.get("HOME")) {
        (Some(state), _) if Path::new(state).is_absolute() => PathBuf::from(state),
        (_, Some(home)) => Path::new(home).join(".local/state"),
        (_, None) => return None,
    };
    Some(state.join("turnwright/current"))
}

/// Remembers `data` as the installation that commands use by themselves.
///
/// # Errors
/// When there is no home, or the file system refuses.
pub(crate) fn remember(data: &Path, env: &Env) -> Result<(), Error> {
    let path =
        current(env).ok_or_else(|| Error::setup("neither XDG_STATE_HOME nor HOME is set"))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|e| Error::setup(format!("cannot create {}", folder.display())).because(e))?;
    }
    write_private(&path, &format!("{}\n", data.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::of(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    fn global(connection: Option<&str>, data: Option<&str>) -> Global {
        Global {
            connection: connection.map(Into::into),
            data: data.map(Into::into),
            ..Global::default()
        }
    }

    #[test]
    fn the_command_line_decides_before_the_environment() {
        let both = env(&[("TURNWRIGHT_CONNECTION", "/e/c.json"), ("TURNWRIGHT_DATA", "/e/d")]);
        let at = |global, env: &Env| locate(&global, env).unwrap();
        assert_eq!(at(global(Some("c.json"), None), &both), Path::new("c.json"));
        assert_eq!(at(global(None, Some("d")), &both), Path::new("d/connection.json"));
        assert_eq!(at(global(None, None), &both), Path::new("/e/c.json"));
        let data = env(&[("TURNWRIGHT_DATA", "/e/d")]);
        assert_eq!(at(global(None, None), &data), Path::new("/e/d/connection.json"));
        assert!(locate(&global(Some("c"), Some("d")), &data).is_err());
    }

    #[test]
    fn the_last_start_is_found_again_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        let env = env(&[("HOME", home.path().to_str().unwrap())]);
        assert_eq!(locate(&Global::default(), &env).unwrap_err().exit_code(), 2);
        remember(Path::new("/some/data"), &env).unwrap();
        let found = locate(&Global::default(), &env).unwrap();
        assert_eq!(found, Path::new("/some/data/connection.json"));
    }

    #[test]
    fn what_is_written_reads_back_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let connection = Connection {
            control_plane: "http://127.0.0.1:1".into(),
            gateway: "http://127.0.0.1:2".into(),
            console: "http://127.0.0.1:3".into(),
            nats: "nats://hunter2@127.0.0.1:4".into(),
            database: "postgres://a:hunter2@127.0.0.1:5/b".into(),
            token: "hunter2".into(),
            data: dir.path().into(),
            pids: BTreeMap::from([("worker".to_owned(), 7)]),
        };
        connection.write(&path).unwrap();
        connection.write(&path).unwrap();
        assert_eq!(Connection::read(&path).unwrap(), connection);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!format!("{connection:?}").contains("hunter2"));
    }
}
