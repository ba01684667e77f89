//! The console's message store: an append-only file of JSON lines, one writer, and a bounded index
//! in memory. A message is told to nobody before it is on disk.

mod file;
mod index;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::Writer;

use super::{hub::Hub, lane::Lane};
use crate::api::{By, Message};
use index::Index;
use parking_lot::RwLock;
use std::{io, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};
use turnwright_kit::{Class, Classify};
use turnwright_types::Sha256;
use uuid::Uuid;

/// Appends that may wait for the writer.
const QUEUE: usize = 256;
/// How long an append may take, the sync to disk included.
const APPEND_WITHIN: Duration = Duration::from_secs(10);
/// The namespace of message ids.
const MESSAGE_IDS: Uuid = Uuid::from_u128(0x0197_a5b0_3c11_7d6e_9f42_6b1d_52c8_e07a);

/// The store cannot be opened, or did not take a message.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be used.
    #[error("cannot use the journal {}; set TURNWRIGHT_CONSOLE_JOURNAL to a writable file", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another process writes the file.
    #[error("the journal {} is in use by another process; give each its own file", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The message could not be written; nothing of it is in the file.
    #[error("the journal did not take the message; is the disk full?")]
    Write(#[source] Arc<io::Error>),
    /// The writer has stopped.
    #[error("the journal is closed; the process is stopping")]
    Closed,
    /// The disk is too slow; the message may still be written.
    #[error("the journal did not take the message in time")]
    Late,
}

impl Classify for JournalError {
    fn class(&self) -> Class {
        match self {
            Self::Open { .. } | Self::InUse { .. } => Class::Internal,
            Self::Write(_) | Self::Closed => Class::Unavailable,
            Self::Late => Class::Timeout,
        }
    }
}

/// A message to append. Its nonce makes appending idempotent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Where.
    pub lane: Lane,
    /// Names the act of posting; appending with a known nonce changes nothing.
    pub nonce: String,
    /// What.
    pub text: String,
    /// By whom.
    pub by: By,
}

/// What the store remembers of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The message's place.
    pub index: u64,
    /// What was said where: tells a repeat from another message under the same nonce.
    pub content: Sha256,
}

/// The id of the message posted with `nonce`.
#[must_use]
pub fn message_id(nonce: &str) -> Uuid {
    Uuid::new_v5(&MESSAGE_IDS, nonce.as_bytes())
}

/// The hash of what is said where.
#[must_use]
pub fn content(lane: &Lane, text: &str) -> Sha256 {
    Sha256::of(format!("{}\n{}\n{text}", lane.binding, lane.conversation))
}

#[derive(Debug)]
struct Append {
    draft: Draft,
    done: oneshot::Sender<Result<Appended, JournalError>>,
}

/// The store; cheap to clone.
#[derive(Clone, Debug)]
pub struct Journal {
    queue: mpsc::Sender<Append>,
    index: Arc<RwLock<Index>>,
}

/// Opens the store, or makes it. Nothing is appended before [`Writer::run`] runs; what it appends
/// is told to `hub`.
///
/// # Errors
/// When the file cannot be used, or another process uses it.
pub async fn open(path: PathBuf, hub: Arc<Hub>) -> Result<(Journal, Writer), JournalError> {
    let opening = tokio::task::spawn_blocking(move || file::open(path));
    let opened = opening.await.map_err(|_| JournalError::Closed)??;
    let index = Arc::new(RwLock::new(opened.index));
    let (queue, appends) = mpsc::channel(QUEUE);
    let writer = Writer::new(opened.file, opened.length, appends, index.clone(), hub);
    Ok((Journal { queue, index }, writer))
}

impl Journal {
    /// Appends a message and waits until it is on disk. A known nonce is answered with what was
    /// stored under it; the draft is then dropped.
    ///
    /// # Errors
    /// When the disk does not take it; repeating with the same nonce is safe.
    pub async fn append(&self, draft: Draft) -> Result<Appended, JournalError> {
        let (done, answer) = oneshot::channel();
        let append = async {
            let sent = self.queue.send(Append { draft, done }).await;
            sent.map_err(|_| JournalError::Closed)?;
            answer.await.map_err(|_| JournalError::Closed)?
        };
        tokio::time::timeout(APPEND_WITHIN, append).await.map_err(|_| JournalError::Late)?
    }

    /// What is stored under `nonce`, if it is one of the last that were used.
    #[must_use]
    pub fn find(&self, nonce: &str) -> Option<Appended> {
        self.index.read().find(&message_id(nonce))
    }

    /// The messages of `lane` above `index` that are in memory, in order.
    #[must_use]
    pub fn after(&self, lane: &Lane, index: u64) -> Vec<Arc<Message>> {
        self.index.read().after(lane, index)
    }

    /// The newest order key that was stored.
    #[must_use]
    pub fn last_order_key(&self) -> Option<String> {
        self.index.read().last_order_key().map(str::to_owned)
    }

    /// Shows every message in memory to `look`, each conversation in order.
    pub fn each(&self, mut look: impl FnMut(&Lane, &Message)) {
        for (lane, message) in self.index.read().messages() {
            look(lane, message);
        }
    }
}
