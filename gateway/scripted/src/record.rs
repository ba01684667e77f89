//! The requests file: every body as it was sent, one JSON object a line. Lines are whole whatever becomes of the request.
use crate::Error;
use axum::body::Bytes;
use parking_lot::Mutex;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// The open requests file. Clones append to the same file.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    lines: Arc<Mutex<Lines>>,
}

#[derive(Debug)]
struct Lines {
    file: File,
    /// Lines written by this process.
    written: u64,
}

impl Record {
    /// Opens the file for appending and makes it if absent.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| Error::OpenRequests { path: path.to_owned(), source })?;
        Ok(Self { lines: Arc::new(Mutex::new(Lines { file, written: 0 })) })
    }

    /// Appends a body and returns when the system has it. `is_json` says whether the body is valid JSON.
    ///
    /// The write runs to its end on a blocking thread even if the caller gives up, so no line is cut.
    pub(crate) async fn append(&self, body: Bytes, is_json: bool) -> io::Result<()> {
        let received = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let lines = Arc::clone(&self.lines);
        let write = move || lines.lock().append(&body, is_json, received.as_millis());
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}

impl Lines {
    fn append(&mut self, body: &[u8], is_json: bool, received_at_ms: u128) -> io::Result<()> {
        let n = self.written + 1;
        let mut line = Vec::with_capacity(body.len() + 80);
        write!(line, r#"{{"n":{n},"received_at_ms":{received_at_ms},"body":"#)?;
        if is_json {
            // JSON has line breaks between tokens only, so a space in their place changes nothing.
            line.extend(body.iter().map(|byte| match byte {
                b'\n' | b'\r' => b' ',
                other => *other,
            }));
        } else {
            line.extend_from_slice(br#"null,"malformed":"#);
            serde_json::to_writer(&mut line, &String::from_utf8_lossy(body))?;
        }
        line.extend_from_slice(b"}\n");
        self.file.write_all(&line)?;
        self.written = n;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::value::RawValue;

    #[derive(Deserialize)]
    struct Line {
        n: u64,
        body: Option<Box<RawValue>>,
        malformed: Option<String>,
    }

    #[tokio::test]
    async fn bodies_are_kept_as_they_were_sent_one_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("requests.jsonl");
        let record = Record::open(&path).unwrap();
        let compact = r#"{"b":1.0,  "a":"\n"}"#;
        record.append(Bytes::from_static(compact.as_bytes()), true).await.unwrap();
        record.append(Bytes::from_static(b"{\n \"a\":\r\n1}"), true).await.unwrap();
        record.append(Bytes::from_static(b"no\njson\xff"), false).await.unwrap();
        drop(record);

        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Line> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line.n).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(lines[0].body.as_ref().unwrap().get(), compact);
        assert_eq!(lines[1].body.as_ref().unwrap().get(), "{  \"a\":  1}");
        assert!(lines[2].body.is_none());
        assert_eq!(lines[2].malformed.as_deref(), Some("no\njson\u{fffd}"));
    }
}
