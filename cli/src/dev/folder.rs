//! The data folder of `turnwright dev`: where everything lies in it, and the lock that keeps a
//! second one out.

use crate::{Error, connection};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// The log of a service is begun anew above this size, in bytes; one older one is kept.
const LOG_MAX: u64 = 16 << 20;
/// How much of a log an error quotes, in bytes.
const TAIL: usize = 2048;

/// A data folder that this process owns until it ends.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is not there and takes its lock.
    ///
    /// # Errors
    /// When it cannot be made, or another process owns it.
    pub fn own(path: &Path) -> Result<Self, Error> {
        // Others may pass through, as PostgreSQL does that runs as another user; they see nothing.
        make(path, 0o711)?;
        let shown = path.display().to_string();
        let unusable = |what: &str| Error::setup(format!("cannot {what} data folder {shown}"));
        let path = path.canonicalize().map_err(|e| unusable("resolve").because(e))?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("dev.lock"))
            .map_err(|e| unusable("write to").because(e))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut owner = String::new();
            let known = lock.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
            let owner = if known { format!(" (pid {})", owner.trim()) } else { String::new() };
            return Err(Error::setup(format!(
                "another `turnwright dev` runs in {shown}{owner}; stop it or choose another folder"
            )));
        }
        let pid = std::process::id().to_string();
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(pid.as_bytes()))
            .map_err(|e| unusable("write to").because(e))?;
        for private in ["logs", "workspaces"] {
            make(&path.join(private), 0o700)?;
        }
        Ok(Self { path, _lock: lock })
    }

    /// The folder, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Something in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The connection file.
    #[must_use]
    pub fn connection(&self) -> PathBuf {
        self.join(connection::FILE)
    }

    /// The log of a service.
    #[must_use]
    pub fn log(&self, service: &str) -> PathBuf {
        self.join("logs").join(format!("{service}.log"))
    }
}

fn make(path: &Path, mode: u32) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(mode).create(path);
    made.map_err(|e| Error::setup(format!("cannot create folder {}", path.display())).because(e))
}

/// Opens a log to append to, beginning it anew when it has grown too long.
///
/// # Errors
/// When the file system refuses.
pub(crate) fn open_log(path: &Path) -> std::io::Result<File> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() > LOG_MAX) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The last lines of a log, for an error.
pub(crate) fn tail(path: &Path) -> String {
    let Ok(text) = fs::read(path) else { return String::new() };
    let start = text.len().saturating_sub(TAIL);
    let text = String::from_utf8_lossy(&text[start..]);
    let whole =
        if start == 0 { &*text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    crate::out::visible(whole.trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let first = Folder::own(&data).unwrap();
        let refused = Folder::own(&data).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().contains(&std::process::id().to_string()));
        drop(first);
        assert!(Folder::own(&data).is_ok());
    }

    #[test]
    fn a_tail_begins_at_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        let lines: Vec<String> = (0..1000).map(|n| format!("line {n}")).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        let tail = tail(&log);
        assert!(tail.starts_with("line ") && tail.ends_with("line 999") && tail.len() <= TAIL);
        fs::write(&log, "only").unwrap();
        assert_eq!(super::tail(&log), "only");
    }

    #[test]
    fn a_long_log_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        File::create(&log).unwrap().set_len(LOG_MAX + 1).unwrap();
        open_log(&log).unwrap();
        assert_eq!(fs::metadata(&log).unwrap().len(), 0);
        assert!(dir.path().join("a.log.1").exists());
    }
}
