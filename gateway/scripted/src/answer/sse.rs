//! Streamed answers: `chat.completion.chunk` events. The stream itself plays the reply; dropping it ends everything.
use super::{Head, cut};
use crate::play::{Beat, Play};
use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::stream;
use serde_json::{Value, json};
use std::io;

/// Answers as a stream, with the usage at its end if that is wanted.
pub(crate) fn response(head: Head, play: Play, include_usage: bool) -> Response {
    let events =
        Events { head, play, include_usage, greeted: false, left: None, phase: Phase::Speaking };
    let body = stream::unfold(events, |mut events| async move {
        events.next().await.map(|event| (event, events))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(body)).into_response()
}

struct Events {
    head: Head,
    play: Play,
    include_usage: bool,
    /// Whether the chunk with the role is out.
    greeted: bool,
    /// Bytes until the cut, once a rule has asked for one.
    left: Option<usize>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Speaking,
    /// The last event is out; a cut may still be due.
    Spoken,
    Over,
}

impl Events {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.phase == Phase::Over {
                return None;
            }
            if self.left == Some(0) {
                self.phase = Phase::Over;
                return Some(Err(cut().await));
            }
            if self.phase == Phase::Spoken {
                return None;
            }
            let event = match self.play.next().await {
                Ok(Some(Beat::CutAfter(bytes))) => {
                    self.left = Some(bytes);
                    continue;
                }
                Ok(Some(Beat::Text(text))) => self.speak(&json!({"content": text})),
                Ok(Some(Beat::CallStart { index, id, name })) => {
                    let function = json!({"name": name, "arguments": ""});
                    self.speak(&json!({"tool_calls": [
                        {"index": index, "id": id, "type": "function", "function": function},
                    ]}))
                }
                Ok(Some(Beat::CallArguments { index, piece })) => self.speak(
                    &json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                ),
                Ok(None) => {
                    self.phase = Phase::Spoken;
                    self.ending()
                }
                Err(why) => {
                    self.phase = Phase::Over;
                    return Some(Err(io::Error::other(why)));
                }
            };
            return Some(Ok(self.up_to_cut(event)));
        }
    }

    /// A chunk with content; the chunk with the role goes before the first one.
    fn speak(&mut self, delta: &Value) -> String {
        let mut events = self.greeting(delta.get("content").is_some());
        events.push_str(&self.delta(delta, None));
        events
    }

    /// All that follows the last content.
    fn ending(&mut self) -> String {
        let mut events = self.greeting(true);
        events.push_str(&self.delta(&json!({}), Some(self.play.finish())));
        if self.include_usage {
            let usage = self.head.usage(self.play.output_bytes());
            events.push_str(&self.chunk(&json!([]), &usage));
        }
        events.push_str("data: [DONE]\n\n");
        events
    }

    /// The chunk with the role, or nothing if it is out already.
    fn greeting(&mut self, has_text: bool) -> String {
        if std::mem::replace(&mut self.greeted, true) {
            return String::new();
        }
        let content = has_text.then_some("");
        self.delta(&json!({"role": "assistant", "content": content}), None)
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> String {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        self.chunk(&json!([choice]), &Value::Null)
    }

    fn chunk(&self, choices: &Value, usage: &Value) -> String {
        let mut chunk = json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "system_fingerprint": null,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage.clone();
        }
        format!("data: {chunk}\n\n")
    }

    fn up_to_cut(&mut self, event: String) -> Bytes {
        let mut bytes = Bytes::from(event);
        if let Some(left) = &mut self.left {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        bytes
    }
}
