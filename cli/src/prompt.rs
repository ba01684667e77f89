//! `turnwright prompt show`: what a turn sent to the model, with the source of each part in the
//! margin, or its exact bytes.

use crate::{
    Connection, Error, Format, Out,
    args::PromptArgs,
    gateway,
    out::visible,
    story::{field, text_of},
    turn,
};
use serde_json::Value;
use std::borrow::Cow;
use turnwright_prompt::{ContentPart, InputMessage, Manifest, Role, render_margin};
use turnwright_types::gateway::{FIELD, ItemExtension, PromptRequest, TurnPrompt};

/// The kind of a part of which neither item nor manifest tells one.
const KIND_UNKNOWN: &str = "input_text";

/// Shows what a turn sent.
///
/// # Errors
/// When there is no such turn, it sent nothing yet, or a service does not answer or refuses.
pub async fn show(args: &PromptArgs, connection: &Connection, out: &mut Out) -> Result<(), Error> {
    let found = turn::find(connection, &args.turn).await?;
    let seq = found.turn.as_ref().map_or(0, |t| t.turn_seq);
    let prompt = gateway::prompt(connection, &found.gateway_conversation_id, seq).await?;
    if args.json || (out.format() == Format::Json && !args.raw) {
        return out.json(&prompt);
    }
    let nothing = || Error::failed("this turn has sent nothing to a model yet");
    let first = prompt.requests.first().ok_or_else(nothing)?;
    if args.raw {
        return out.bytes(first.instructions.as_bytes());
    }
    let shown = if args.all { prompt.requests.as_slice() } else { std::slice::from_ref(first) };
    for request in shown {
        out.text(&render(request, usize::from(args.width)))?;
    }
    hidden(&prompt, shown.len(), out)
}

fn hidden(prompt: &TurnPrompt, shown: usize, out: &mut Out) -> Result<(), Error> {
    match prompt.requests.len().saturating_sub(shown) {
        0 => Ok(()),
        more => out.line(format_args!("({more} more requests of this turn: --all)")),
    }
}

/// One request as a page with a margin of `width` columns.
#[must_use]
pub fn render(request: &PromptRequest, width: usize) -> String {
    let mut page = format!(
        "request {} · {} · {} · fence {} · instructions {} bytes, sha256 {}\n",
        request.request_no,
        request.model,
        request.status,
        request.fence,
        request.instructions.len(),
        request.instructions_sha256
    );
    let manifest = manifest(request);
    let messages = messages(request, manifest.as_ref());
    match &manifest {
        Some(manifest) => {
            page.push_str(&render_margin(&request.instructions, &messages, manifest, width));
        }
        None => {
            page.push_str("(stored without a manifest: no source is known)\n");
            page.push_str(&visible(&request.instructions));
            page.push('\n');
        }
    }
    for item in request.input.iter().filter(|item| !is_message(item)) {
        let label = field(item, "type");
        let text = text_of(item.get("output"));
        page.push_str(&format!("{label:width$} │ {}\n", field(item, "call_id")));
        for line in text.lines() {
            page.push_str(&format!("{:width$} │ {}\n", "", visible(line)));
        }
    }
    page
}

/// The manifest that was stored with a request, if it can be read.
#[must_use]
pub fn manifest(request: &PromptRequest) -> Option<Manifest> {
    serde_json::from_value(request.manifest.clone()).ok()
}

fn is_message(item: &Value) -> bool {
    matches!(field(item, "type"), "message" | "") && item.get("role").is_some()
}

/// The messages that a request added, as the assembler wrote them. The stored kind of each part
/// stands in its item, or else in the manifest.
#[must_use]
pub fn messages(request: &PromptRequest, manifest: Option<&Manifest>) -> Vec<InputMessage> {
    let mut messages = Vec::new();
    for item in request.input.iter().filter(|item| is_message(item)) {
        let role = match field(item, "role") {
            "developer" => Role::Developer,
            "user" => Role::User,
            _ => continue,
        };
        let extension: ItemExtension = item
            .get(FIELD)
            .and_then(|raw| serde_json::from_value(raw.clone()).ok())
            .unwrap_or_default();
        let message = messages.len();
        let kind = |part: usize| -> Cow<'static, str> {
            let stored = extension.kinds.get(part).cloned().map(Cow::Owned);
            let described = || {
                let parts = manifest.into_iter().flat_map(|m| &m.input);
                let mut parts = parts.filter(|p| (p.message, p.part) == (message, part));
                parts.next().map(|p| p.kind.clone())
            };
            stored.or_else(described).unwrap_or(Cow::Borrowed(KIND_UNKNOWN))
        };
        let content = texts(item.get("content"))
            .into_iter()
            .enumerate()
            .map(|(part, text)| ContentPart { kind: kind(part), text })
            .collect();
        let signal_id = extension.signal_id.map(|id| id.to_string());
        messages.push(InputMessage { role, content, signal_id });
    }
    messages
}

fn texts(content: Option<&Value>) -> Vec<String> {
    match content {
        Some(Value::Array(parts)) => {
            parts.iter().map(|part| field(part, "text").to_owned()).collect()
        }
        Some(Value::String(text)) => vec![text.clone()],
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnwright_types::{Fence, ResponseId, Sha256, SignalId};

    fn request(input: Vec<Value>) -> PromptRequest {
        PromptRequest {
            response_id: ResponseId::new(),
            request_no: 1,
            fence: Fence { turn_seq: 1, epoch: 1 },
            status: "completed".to_owned(),
            model: "scripted".to_owned(),
            instructions: "You are\nhelpful".to_owned(),
            instructions_sha256: Sha256::of("You are\nhelpful"),
            input,
            output: Vec::new(),
            manifest: json!(null),
            usage: None,
            upstream_sha256: None,
            created_at: chrono::DateTime::UNIX_EPOCH,
            first_content_at: None,
            ended_at: None,
            error: None,
        }
    }

    #[test]
    fn stored_items_become_the_messages_they_were() {
        let signal = SignalId::new();
        let request = request(vec![
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
                "turnwright": {"signal_id": signal, "kinds": ["turn_context", "user_text"]}}),
            json!({"type": "function_call_output", "call_id": "c", "output": "o"}),
            json!({"role": "user", "content": "plain"}),
        ]);
        let messages = messages(&request, None);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].content[1].kind, "user_text");
        assert_eq!(messages[0].signal_id, Some(signal.to_string()));
        assert_eq!(messages[1].content[0].text, "plain");
    }

    #[test]
    fn a_request_without_a_manifest_is_still_shown() {
        let outputs =
            vec![json!({"type": "function_call_output", "call_id": "c1", "output": "x\ny"})];
        let page = render(&request(outputs), 24);
        assert!(page.contains("helpful"));
        assert!(page.lines().any(|l| l.starts_with("function_call_output") && l.ends_with("c1")));
        assert!(page.lines().any(|l| l.ends_with("│ y")));
    }
}
