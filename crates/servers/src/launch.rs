//! How a server program is started here: with which rights, in which environment, and tied to the
//! life of this process. The programs that change these (`unshare`, `setpriv`) replace themselves
//! by the server, so its pid is that of the child.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        fs::{MetadataExt, lchown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    ServerError,
    binaries::{folders, is_program},
    version::output,
};

/// User and group `nobody` by number. As the user inside a namespace it has the advantage of
/// being in every passwd file: `initdb` refuses a user without a name.
const NOBODY: u32 = 65_534;

/// What was found out once about starting programs on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    rights: Rights,
    /// `setpriv`, if it can tie a process to the life of its parent.
    tether: Option<PathBuf>,
}

/// As whom PostgreSQL, which refuses uid 0, runs.
#[derive(Debug, Clone)]
enum Rights {
    /// We are not root: as we are.
    Own,
    /// Root, through `unshare`: another uid inside a user namespace, root's files outside.
    Namespace(PathBuf),
    /// Root without namespaces, through `setpriv`: user nobody, whose files they must be.
    Nobody(PathBuf),
    /// Root, and nothing works.
    None,
}

/// The signal that a server gets when this process dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnParentDeath {
    Interrupt,
    Terminate,
}

impl OnParentDeath {
    const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
        }
    }
}

impl Launcher {
    /// Tries what works, with `postgres --version` as the program to run.
    pub(crate) fn probe(path: Option<&OsStr>, postgres: &Path) -> Self {
        let works = |launcher: &Path, args: &[OsString]| {
            let run = args.iter().map(OsString::as_os_str);
            output(launcher, run.chain([postgres.as_os_str(), OsStr::new("--version")])).is_ok()
        };
        let setpriv = find(path, "setpriv");
        let tied = tether_args(OnParentDeath::Interrupt);
        let tether = setpriv.clone().filter(|setpriv| works(setpriv, &tied));
        let namespace = || find(path, "unshare").filter(|it| works(it, &namespace_args()));
        let nobody = || setpriv.filter(|it| works(it, &nobody_args()));
        let rights = if !rustix::process::geteuid().is_root() {
            Rights::Own
        } else if let Some(unshare) = namespace() {
            Rights::Namespace(unshare)
        } else if let Some(setpriv) = nobody() {
            Rights::Nobody(setpriv)
        } else {
            Rights::None
        };
        Self { rights, tether }
    }

    /// A command for `program` as whoever we are.
    pub(crate) fn own(&self, program: &Path, on_death: OnParentDeath) -> Command {
        let mut line = Vec::new();
        self.tie(&mut line, on_death);
        command(line, program)
    }

    /// A command for a PostgreSQL `program`, never as root. Only a program that is to live as long
    /// as we do is tied to us.
    pub(crate) fn unprivileged(
        &self,
        program: &Path,
        on_death: Option<OnParentDeath>,
    ) -> Result<Command, ServerError> {
        let mut line = Vec::new();
        match &self.rights {
            Rights::Own => {}
            Rights::Namespace(unshare) => {
                line.push(unshare.clone().into_os_string());
                line.extend(namespace_args());
            }
            Rights::Nobody(setpriv) => {
                line.push(setpriv.clone().into_os_string());
                line.extend(nobody_args());
            }
            Rights::None => return Err(ServerError::RefusesRoot),
        }
        // The tie comes last: changing user would undo it.
        if let Some(on_death) = on_death {
            self.tie(&mut line, on_death);
        }
        Ok(command(line, program))
    }

    fn tie(&self, line: &mut Vec<OsString>, on_death: OnParentDeath) {
        if let Some(setpriv) = &self.tether {
            line.push(setpriv.clone().into_os_string());
            line.extend(tether_args(on_death));
        }
    }

    /// Gives `path`, with all in it, to the user as whom PostgreSQL runs; does nothing if it is
    /// that user's already. A folder may come from a start with other rights.
    pub(crate) fn hand_over(&self, path: &Path) -> Result<(), ServerError> {
        let owner = match self.rights {
            Rights::Own | Rights::None => return Ok(()),
            Rights::Namespace(_) => 0,
            Rights::Nobody(_) => NOBODY,
        };
        let give = || -> io::Result<()> {
            if fs::symlink_metadata(path)?.uid() == owner { Ok(()) } else { give_all(path, owner) }
        };
        give().map_err(ServerError::file("change the owner of", path))
    }

    /// Refuses a path that user nobody cannot reach, where PostgreSQL runs as nobody.
    pub(crate) fn check_reachable(&self, path: &Path) -> Result<(), ServerError> {
        if let Rights::Nobody(_) = &self.rights
            && let Some(folder) = closed_ancestor(path)
        {
            return Err(ServerError::Unreachable { folder });
        }
        Ok(())
    }
}

fn namespace_args() -> Vec<OsString> {
    vec![
        "--user".into(),
        format!("--map-user={NOBODY}").into(),
        format!("--map-group={NOBODY}").into(),
        "--".into(),
    ]
}

fn nobody_args() -> Vec<OsString> {
    vec![
        format!("--reuid={NOBODY}").into(),
        format!("--regid={NOBODY}").into(),
        "--clear-groups".into(),
        "--".into(),
    ]
}

fn tether_args(on_death: OnParentDeath) -> Vec<OsString> {
    vec!["--pdeathsig".into(), on_death.name().into(), "--".into()]
}

/// `program`, run through the programs in `line`, in a process group of its own so that a Ctrl-C
/// in the terminal reaches us alone, and with nothing of our environment: `PGPORT` and the like
/// must not leak into a private server.
fn command(line: Vec<OsString>, program: &Path) -> Command {
    let mut words = line.into_iter();
    let mut command = match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    };
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .process_group(0);
    command
}

fn find(path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    let usual = ["/usr/bin", "/bin"].into_iter().map(PathBuf::from);
    folders(path).chain(usual).map(|dir| dir.join(name)).find(|program| is_program(program))
}

/// The folder itself last, so that an interrupted change is seen and done again.
fn give_all(path: &Path, owner: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_all(&entry?.path(), owner)?;
        }
    }
    lchown(path, Some(owner), Some(owner))
}

/// The first folder above `path` that not everybody may enter.
fn closed_ancestor(path: &Path) -> Option<PathBuf> {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    let closed = |dir: &&Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 == 0);
    above.into_iter().find(closed).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use super::{Launcher, OnParentDeath, Rights, closed_ancestor, find};
    use crate::ServerError;

    fn words(command: &std::process::Command) -> Vec<String> {
        let program = std::iter::once(command.get_program());
        program.chain(command.get_args()).map(|word| word.display().to_string()).collect()
    }

    #[test]
    fn rights_change_before_the_tie_to_the_parent() {
        let launcher = |rights| Launcher { rights, tether: Some("/bin/setpriv".into()) };
        let line = |rights| {
            let command = launcher(rights)
                .unprivileged(Path::new("/pg/postgres"), Some(OnParentDeath::Interrupt))?;
            Ok::<_, ServerError>(words(&command).join(" "))
        };
        assert_eq!(line(Rights::Own).unwrap(), "/bin/setpriv --pdeathsig INT -- /pg/postgres");
        assert_eq!(
            line(Rights::Namespace("/bin/unshare".into())).unwrap(),
            "/bin/unshare --user --map-user=65534 --map-group=65534 -- \
             /bin/setpriv --pdeathsig INT -- /pg/postgres"
        );
        assert_eq!(
            line(Rights::Nobody("/bin/setpriv".into())).unwrap(),
            "/bin/setpriv --reuid=65534 --regid=65534 --clear-groups -- \
             /bin/setpriv --pdeathsig INT -- /pg/postgres"
        );
        assert!(matches!(line(Rights::None), Err(ServerError::RefusesRoot)));

        let untied = Launcher { rights: Rights::Own, tether: None };
        let command = untied.own(Path::new("/bin/nats-server"), OnParentDeath::Terminate);
        assert_eq!(words(&command), ["/bin/nats-server"]);
    }

    #[test]
    fn only_nobody_needs_open_folders_above_the_data() {
        let root = tempfile::tempdir_in("/tmp").unwrap();
        let closed = root.path().join("closed");
        fs::create_dir_all(closed.join("data")).unwrap();
        let open = |dir: &Path, mode| {
            fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(root.path(), 0o755);
        open(&closed, 0o700);
        let data = closed.join("data");
        assert_eq!(closed_ancestor(&data).as_deref(), Some(closed.as_path()));
        let launcher = |rights| Launcher { rights, tether: None };
        assert!(launcher(Rights::Nobody("x".into())).check_reachable(&data).is_err());
        assert!(launcher(Rights::Own).check_reachable(&data).is_ok());
        open(&closed, 0o711);
        assert!(launcher(Rights::Nobody("x".into())).check_reachable(&data).is_ok());
    }

    #[test]
    fn system_programs_are_found_without_a_path() {
        assert!(find(None, "sh").is_some());
        assert!(find(None, "no-such-program").is_none());
    }
}
