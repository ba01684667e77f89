//! The journal's file: its lines, how it is opened after a crash, how lines reach the disk. Blocks;
//! must run off the async threads.

use super::{JournalError, index::Index};
use crate::{api::Message, console::lane::Lane};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A journal that can be appended to.
pub struct Opened {
    /// Locked for this process; ends after a complete line.
    pub file: File,
    /// Its length in bytes.
    pub length: u64,
    /// What it holds.
    pub index: Index,
}

/// What reading a journal found.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The bytes of its complete lines.
    pub length: u64,
    /// Complete lines that are no records.
    pub unreadable: u64,
}

/// Why lines are not on disk.
#[derive(Debug)]
pub enum WriteError {
    /// The file is as it was.
    Undone(io::Error),
    /// Nobody can say what is in the file.
    Broken(io::Error),
}

#[derive(Serialize)]
struct Line<'a> {
    lane: &'a Lane,
    message: &'a Message,
}

#[derive(Deserialize)]
struct Record {
    lane: Lane,
    message: Message,
}

/// Adds the line of a message to `out`.
///
/// # Errors
/// When the message cannot be encoded.
pub fn encode(out: &mut Vec<u8>, lane: &Lane, message: &Message) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, &Line { lane, message })?;
    out.push(b'\n');
    Ok(())
}

/// Reads complete lines into `index`; what follows the last line end was torn by a crash.
///
/// # Errors
/// When reading fails.
pub fn load(mut from: impl BufRead, index: &mut Index) -> io::Result<Loaded> {
    let mut loaded = Loaded { length: 0, unreadable: 0 };
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(loaded);
        }
        loaded.length += read as u64;
        match serde_json::from_slice::<Record>(&line) {
            Ok(Record { lane, message }) => index.push(&lane, Arc::new(message)),
            Err(_) => loaded.unreadable += 1,
        }
    }
}

/// Opens or makes the file, locks it, reads it and cuts off a torn last line.
///
/// # Errors
/// When the file cannot be used, or another process uses it.
pub fn open(path: PathBuf) -> Result<Opened, JournalError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let opened = options.open(&path).and_then(|file| match file.try_lock() {
        Ok(()) => read(file, &path).map(Some),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    });
    match opened {
        Ok(Some(opened)) => Ok(opened),
        Ok(None) => Err(JournalError::InUse { path }),
        Err(source) => Err(JournalError::Open { path, source }),
    }
}

fn read(file: File, path: &Path) -> io::Result<Opened> {
    let mut index = Index::default();
    let Loaded { length, unreadable } = load(BufReader::new(&file), &mut index)?;
    if unreadable > 0 {
        tracing::warn!(unreadable, path = %path.display(), "lines of the journal are not readable");
    }
    if file.metadata()?.len() > length {
        tracing::info!(path = %path.display(), "the journal's last line was torn; it is cut off");
        file.set_len(length)?;
    }
    file.sync_all()?;
    // A new file is there after a power cut only if its folder was synced too.
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    File::open(folder)?.sync_all()?;
    Ok(Opened { file, length, index })
}

/// Appends `lines` at `length` and syncs; answers the new length.
///
/// # Errors
/// When the disk refuses; says whether the file is as it was.
pub fn write(file: &File, length: u64, lines: &[u8]) -> Result<u64, WriteError> {
    let mut end = file;
    let cause = match end.write_all(lines).and_then(|()| file.sync_data()) {
        Ok(()) => return Ok(length + lines.len() as u64),
        Err(cause) => cause,
    };
    match file.set_len(length).and_then(|()| file.sync_all()) {
        Ok(()) => Err(WriteError::Undone(cause)),
        Err(_) => Err(WriteError::Broken(cause)),
    }
}
