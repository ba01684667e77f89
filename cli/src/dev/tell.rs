//! Tells what `dev` does: on standard output, and in the connection file that other commands read.

use crate::{Connection, Error, Format, Out};
use parking_lot::Mutex;
use serde_json::json;
use std::path::PathBuf;

/// The one voice of a `dev`.
pub struct Tell<'a> {
    out: Mutex<&'a mut Out>,
    published: Mutex<Option<Published>>,
}

/// A connection and the files that hold it.
struct Published {
    connection: Connection,
    files: Vec<PathBuf>,
}

impl<'a> Tell<'a> {
    /// Tells on `out`.
    #[must_use]
    pub fn on(out: &'a mut Out) -> Self {
        Self { out: Mutex::new(out), published: Mutex::new(None) }
    }

    /// A service is ready.
    pub fn started(&self, service: &str, pid: u32, address: &str) {
        let event = json!({ "event": "started", "service": service, "pid": pid });
        self.event(&event, &format!("{service:<14} {address} (pid {pid})"));
    }

    /// A service ended by itself.
    pub fn ended(&self, service: &str, status: &str) {
        let event = json!({ "event": "ended", "service": service, "status": status });
        self.event(&event, &format!("{service} ended ({status}); starting it again"));
    }

    /// A service that ended runs again; its new process id stands in the connection file.
    pub fn restarted(&self, service: &str, pid: u32) {
        let event = json!({ "event": "started", "service": service, "pid": pid });
        self.event(&event, &format!("{service} runs again (pid {pid})"));
        let mut published = self.published.lock();
        if let Some(published) = published.as_mut() {
            published.connection.pids.insert(service.to_owned(), pid);
            if let Err(e) = published.write() {
                tracing::warn!(error = %turnwright_kit::Chain(&e), "cannot tell a new process id");
            }
        }
    }

    /// Something for people; nothing for programs.
    pub fn note(&self, text: &str) {
        let mut out = self.out.lock();
        if out.format() == Format::Table {
            keep_quiet(out.line(text));
        }
    }

    /// Everything is ready: writes the connection into these files, now and whenever it changes.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn publish(&self, connection: Connection, files: Vec<PathBuf>) -> Result<(), Error> {
        let published = Published { connection, files };
        published.write()?;
        let data = published.connection.data.display().to_string();
        *self.published.lock() = Some(published);
        self.event(&json!({ "event": "ready", "data": data }), &format!("ready in {data}"));
        Ok(())
    }

    fn event(&self, event: &serde_json::Value, text: &str) {
        let mut out = self.out.lock();
        let told = match out.format() {
            Format::Json => out.line(event),
            Format::Table => out.line(text),
        };
        keep_quiet(told);
    }
}

impl Published {
    fn write(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| self.connection.write(file))
    }
}

/// Services do not stop because nobody can be told about them.
fn keep_quiet(told: Result<(), Error>) {
    if let Err(e) = told {
        tracing::debug!(error = %turnwright_kit::Chain(&e), "nobody was told");
    }
}
