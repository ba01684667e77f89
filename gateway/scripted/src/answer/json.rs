//! Answers in one piece: `chat.completion`.
use super::{Head, cut};
use crate::{
    play::{Beat, Interrupted, Play},
    refusal::Refusal,
};
use axum::{
    Json,
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

/// Plays the reply to its end, then answers.
pub(crate) async fn response(head: Head, mut play: Play) -> Result<Response, Refusal> {
    let Message { text, calls, cut_after } = Message::hear(&mut play).await?;
    let content = if text.is_empty() && !calls.is_empty() { None } else { Some(text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into_iter().map(Call::into_json).collect();
    }
    let finish = play.finish();
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
    let answer = json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": null,
        "choices": [choice],
        "usage": head.usage(play.output_bytes()),
    });
    Ok(match cut_after {
        None => Json(answer).into_response(),
        Some(bytes) => cut_response(answer.to_string().into(), bytes),
    })
}

/// Sends the first bytes of a body and drops the connection; a body that ends before that is sent as it is.
fn cut_response(mut body: Bytes, bytes: usize) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    if body.len() < bytes {
        return (json, body).into_response();
    }
    body.truncate(bytes);
    let start = stream::once(async move { Ok(body) });
    let end = stream::once(async { Err(cut().await) });
    (json, Body::from_stream(start.chain(end))).into_response()
}

#[derive(Default)]
struct Message {
    text: String,
    calls: Vec<Call>,
    cut_after: Option<usize>,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Message {
    async fn hear(play: &mut Play) -> Result<Self, Interrupted> {
        let mut message = Self::default();
        while let Some(beat) = play.next().await? {
            match beat {
                Beat::Text(text) => message.text.push_str(&text),
                Beat::CallStart { id, name, .. } => {
                    message.calls.push(Call { id, name, arguments: String::new() });
                }
                Beat::CallArguments { index, piece } => {
                    if let Some(call) = message.calls.get_mut(index) {
                        call.arguments.push_str(&piece);
                    }
                }
                Beat::CutAfter(bytes) => message.cut_after = Some(bytes),
            }
        }
        Ok(message)
    }
}

impl Call {
    fn into_json(self) -> Value {
        let function = json!({"name": self.name, "arguments": self.arguments});
        json!({"id": self.id, "type": "function", "function": function})
    }
}
