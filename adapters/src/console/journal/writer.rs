//! The one task that appends. Messages that wait together share one sync to disk.

use super::{
    Append, Appended, JournalError, content,
    file::{self, WriteError},
    index::Index,
    message_id,
};
use crate::{
    api::Message,
    console::{
        hub::{Hub, Live},
        lane::Lane,
    },
};
use anyhow::Context as _;
use chrono::Utc;
use parking_lot::RwLock;
use std::{collections::HashMap, fs::File, sync::Arc};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use turnwright_types::Sha256;
use uuid::Uuid;

/// Messages that share one sync at most.
const BATCH: usize = 64;

/// Appends to the journal's file.
#[derive(Debug)]
pub struct Writer {
    file: Arc<File>,
    length: u64,
    appends: mpsc::Receiver<Append>,
    index: Arc<RwLock<Index>>,
    hub: Arc<Hub>,
}

type Done = oneshot::Sender<Result<Appended, JournalError>>;

/// A batch on its way to disk.
#[derive(Default)]
struct Batch {
    lines: Vec<u8>,
    messages: Vec<(Lane, Arc<Message>, Sha256)>,
    staged: HashMap<Uuid, Appended>,
    answers: Vec<(Done, Appended)>,
}

impl Writer {
    pub(super) fn new(
        file: File,
        length: u64,
        appends: mpsc::Receiver<Append>,
        index: Arc<RwLock<Index>>,
        hub: Arc<Hub>,
    ) -> Self {
        Self { file: Arc::new(file), length, appends, index, hub }
    }

    /// Appends until stopped, and then what was waiting.
    ///
    /// # Errors
    /// When nobody can say any more what is in the file; a restart reads it again.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let next = tokio::select! {
                next = self.appends.recv() => next,
                () = stop.cancelled() => {
                    self.appends.close();
                    self.appends.recv().await
                }
            };
            let Some(first) = next else { return Ok(()) };
            let mut batch = self.stage(Batch::default(), first)?;
            while batch.answers.len() < BATCH
                && let Ok(next) = self.appends.try_recv()
            {
                batch = self.stage(batch, next)?;
            }
            self.commit(batch).await?;
        }
    }

    fn stage(&self, mut batch: Batch, append: Append) -> anyhow::Result<Batch> {
        let Append { draft, done } = append;
        let id = message_id(&draft.nonce);
        let index = self.index.read();
        let known = index.find(&id).or_else(|| batch.staged.get(&id).copied());
        if let Some(known) = known {
            batch.answers.push((done, known));
            return Ok(batch);
        }
        let staged = Appended {
            index: index.next_index() + batch.messages.len() as u64,
            content: content(&draft.lane, &draft.text),
        };
        let message = Message {
            index: staged.index,
            message_id: id,
            at: Utc::now(),
            text: draft.text,
            by: draft.by,
        };
        file::encode(&mut batch.lines, &draft.lane, &message).context("encode a message")?;
        batch.messages.push((draft.lane, Arc::new(message), staged.content));
        batch.staged.insert(id, staged);
        batch.answers.push((done, staged));
        Ok(batch)
    }

    async fn commit(&mut self, batch: Batch) -> anyhow::Result<()> {
        let Batch { lines, messages, answers, .. } = batch;
        if !lines.is_empty() {
            let (file, length) = (self.file.clone(), self.length);
            let writing = tokio::task::spawn_blocking(move || file::write(&file, length, &lines));
            match writing.await.context("write to the journal")? {
                Ok(length) => self.length = length,
                Err(WriteError::Undone(e)) => {
                    tracing::error!(error = %e, "the journal cannot be written");
                    let cause = Arc::new(e);
                    for (done, _) in answers {
                        // The caller may have given up; its next try is a new append.
                        let _ = done.send(Err(JournalError::Write(cause.clone())));
                    }
                    return Ok(());
                }
                Err(WriteError::Broken(e)) => {
                    return Err(e).context("the journal is in an unknown state");
                }
            }
        }
        for (lane, message, content) in messages {
            self.index.write().push_hashed(&lane, message.clone(), content);
            self.hub.tell(&lane, Live::Message(message));
        }
        for (done, appended) in answers {
            let _ = done.send(Ok(appended));
        }
        Ok(())
    }
}
