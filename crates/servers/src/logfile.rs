//! The file that a server's output goes to, and its last lines for error texts.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::ServerError;

/// A larger file is set aside as `<name>.old` when the server starts.
const KEEP_BYTES: u64 = 16 << 20;
const TAIL_BYTES: u64 = 8 << 10;
const TAIL_LINES: usize = 20;

/// A log that is appended to, over all starts of the server.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// Where this start's lines begin.
    begin: u64,
}

impl LogFile {
    /// Makes the folder, and sets a large old log aside.
    pub(crate) fn open(path: &Path) -> Result<Self, ServerError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ServerError::file("create", parent))?;
        }
        let mut begin = fs::metadata(path).map_or(0, |meta| meta.len());
        if begin > KEEP_BYTES {
            let mut old = path.as_os_str().to_owned();
            old.push(".old");
            fs::rename(path, old).map_err(ServerError::file("set aside", path))?;
            begin = 0;
        }
        Ok(Self { path: path.to_path_buf(), begin })
    }

    /// Sends the output of `command` here.
    pub(crate) fn attach(&self, command: &mut Command) -> Result<(), ServerError> {
        let open = || -> io::Result<_> {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).mode(0o600).open(&self.path)?;
            Ok((file.try_clone()?, file))
        };
        let (stdout, stderr) = open().map_err(ServerError::file("open", &self.path))?;
        command.stdout(stdout).stderr(stderr);
        Ok(())
    }

    /// The last lines written since the start.
    pub(crate) fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.path)?;
            let end = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.begin.max(end.saturating_sub(TAIL_BYTES))))?;
            let mut bytes = Vec::new();
            file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(last_lines(&String::from_utf8_lossy(&bytes)))
        };
        read().unwrap_or_else(|error| format!("({}: {error})", self.path.display()))
    }
}

/// The end of a text that may be long.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::{KEEP_BYTES, LogFile};

    fn write(log: &LogFile, lines: &str) {
        let mut command = Command::new("printf");
        command.args(["%s\\n"]).args(lines.split(' '));
        log.attach(&mut command).unwrap();
        assert!(command.status().unwrap().success());
    }

    #[test]
    fn the_tail_holds_this_starts_last_lines_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/server.log");
        let log = LogFile::open(&path).unwrap();
        write(&log, "old");
        assert_eq!(log.tail(), "old");
        let log = LogFile::open(&path).unwrap();
        assert_eq!(log.tail(), "");
        let many: Vec<_> = (0..30).map(|n| n.to_string()).collect();
        write(&log, &many.join(" "));
        assert_eq!(log.tail(), many[10..].join("\n"));
        assert!(fs::read_to_string(&path).unwrap().starts_with("old\n0\n"));
    }

    #[test]
    fn a_large_log_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        fs::File::create(&path).unwrap().set_len(KEEP_BYTES + 1).unwrap();
        let log = LogFile::open(&path).unwrap();
        write(&log, "new");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert_eq!(fs::metadata(dir.path().join("server.log.old")).unwrap().len(), KEEP_BYTES + 1);
    }
}
