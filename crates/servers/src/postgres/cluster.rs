//! The files of a cluster: making them with `initdb`, and reading `postmaster.pid`, in which the
//! server says who it is and whether it is ready.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Pid;
use tokio::time::timeout;

use super::PostgresOptions;
use crate::{
    Binaries, ServerError,
    folder::{DataFolder, if_there},
    logfile::last_lines,
    secret::write_private,
};

const INITDB_LIMIT: Duration = Duration::from_secs(60);

/// What a running server says of itself.
pub(super) struct Postmaster {
    pub(super) pid: Pid,
    pub(super) ready: bool,
}

/// `None` if no server has run since the last clean shutdown.
pub(super) fn postmaster(data: &Path) -> Option<Postmaster> {
    parse_postmaster(&fs::read_to_string(data.join("postmaster.pid")).ok()?)
}

/// The first line is the pid; the eighth, which comes late, the state.
fn parse_postmaster(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines();
    // A single-user server writes its pid negated.
    let pid =
        lines.next()?.trim().parse::<i32>().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
    let ready = lines.nth(6).is_some_and(|state| state.trim() == "ready");
    Some(Postmaster { pid, ready })
}

/// Removes a `postmaster.pid` whose server is known to be gone. Another process may have its pid
/// by now, which PostgreSQL would take for a living server.
pub(super) fn forget_postmaster(data: &Path) -> Result<(), ServerError> {
    // Without /proc nobody has looked whether the server is gone.
    if !Path::new("/proc/self/cwd").exists() {
        return Ok(());
    }
    let path = data.join("postmaster.pid");
    if_there(fs::remove_file(&path)).map_err(ServerError::file("remove", &path))
}

/// Leaves an existing cluster as it is, and makes a new one in a folder that is empty or not
/// there. A cluster is made beside its folder and moved there whole, so one that was interrupted
/// is never taken for one that is complete.
pub(super) async fn prepare(
    binaries: &Binaries,
    options: &PostgresOptions,
    folder: &DataFolder,
) -> Result<(), ServerError> {
    let data = folder.path();
    let launcher = binaries.launcher();
    launcher.check_reachable(data)?;
    if let Some(made_by) = made_by(data)? {
        let found = binaries.pg_version();
        if made_by != found.major.to_string() {
            return Err(ServerError::OtherVersion { folder: data.into(), made_by, found });
        }
        return launcher.hand_over(data);
    }
    if fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(ServerError::ForeignFolder { server: super::SERVER, folder: data.into() });
    }
    let building = folder.sibling(".new");
    if_there(fs::remove_dir_all(&building)).map_err(ServerError::file("remove", &building))?;
    let create = DirBuilder::new().mode(0o700).create(&building);
    create.map_err(ServerError::file("create", &building))?;
    launcher.hand_over(&building)?;

    let password = PasswordFile::create(folder.sibling(".password"), &options.password)?;
    launcher.hand_over(&password.path)?;
    initdb(binaries, options, &building, &password.path).await?;
    drop(password);
    let finish = || -> io::Result<()> {
        fs::rename(&building, data)?;
        match data.parent() {
            Some(parent) if options.durable => File::open(parent)?.sync_all(),
            Some(_) | None => Ok(()),
        }
    };
    finish().map_err(ServerError::file("move the new cluster to", data))
}

fn made_by(data: &Path) -> Result<Option<String>, ServerError> {
    let path = data.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(version) => Ok(Some(version.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ServerError::file("read", &path)(error)),
    }
}

async fn initdb(
    binaries: &Binaries,
    options: &PostgresOptions,
    building: &Path,
    password: &Path,
) -> Result<(), ServerError> {
    let program = binaries.pg_bin().join("initdb");
    let mut command = binaries.launcher().unprivileged(&program, None)?;
    command.current_dir(building).arg("-D").arg(building);
    command.arg("-U").arg(&options.superuser).arg("--pwfile").arg(password);
    command.args(["-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]);
    if !options.durable {
        command.arg("--no-sync");
    }
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let Ok(run) = timeout(INITDB_LIMIT, command.output()).await else {
        return Err(ServerError::NotReady {
            server: "initdb",
            limit: INITDB_LIMIT,
            log: String::new(),
        });
    };
    let run = run.map_err(|source| ServerError::Spawn { program: "initdb", source })?;
    if run.status.success() {
        return Ok(());
    }
    let output = last_lines(&String::from_utf8_lossy(&run.stderr));
    Err(ServerError::Initdb { status: run.status, output })
}

/// The superuser's password for `initdb`, gone when dropped.
struct PasswordFile {
    path: PathBuf,
}

impl PasswordFile {
    fn create(path: PathBuf, password: &str) -> Result<Self, ServerError> {
        write_private(&path, password)?;
        Ok(Self { path })
    }
}

impl Drop for PasswordFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a password file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_postmaster;

    const STARTING: &str = "4723\n/data\n1796083397\n54911\n\n127.0.0.1\n 10018820 4\nstarting\n";

    #[test]
    fn a_server_is_ready_when_its_last_line_says_so() {
        let starting = parse_postmaster(STARTING).unwrap();
        assert_eq!(starting.pid.as_raw_pid(), 4723);
        assert!(!starting.ready);
        assert!(parse_postmaster(&STARTING.replace("starting", "ready   ")).unwrap().ready);
        assert!(!parse_postmaster("4723\n/data\n").unwrap().ready);
    }

    #[test]
    fn what_names_no_process_is_no_server() {
        for text in ["", "\n", "x\n", "0\n", "-4723\n/data\n"] {
            assert!(parse_postmaster(text).is_none(), "{text:?}");
        }
    }
}
