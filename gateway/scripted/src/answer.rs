//! What JSON and streamed answers share: who answers, and what it counts.
pub(crate) mod json;
pub(crate) mod sse;

use crate::usage::{PromptTokens, tokens};
use serde_json::{Value, json};
use std::io;

/// The facts about an answer that are known before it is spoken.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) prompt: PromptTokens,
}

impl Head {
    /// The usage object for an answer of so many bytes.
    fn usage(&self, output_bytes: usize) -> Value {
        let PromptTokens { total, cached } = self.prompt;
        let output = tokens(output_bytes);
        json!({
            "prompt_tokens": total,
            "completion_tokens": output,
            "total_tokens": total + output,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": 0},
        })
    }
}

/// Ends a body so that the server drops the connection.
async fn cut() -> io::Error {
    // The server flushes while a body is pending; without this the cut would overtake the bytes before it.
    tokio::task::yield_now().await;
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut by a rule")
}
