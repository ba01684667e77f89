//! The story of a turn: what the ledger and the gateway saw of it, as one list in order of time. A
//! pure merge; it asks nobody.

use crate::turn::TurnView;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use turnwright_proto::{convert, v1::GetTurnResponse};
use turnwright_types::gateway::{PromptRequest, TurnPrompt};

/// The longest argument or output that a detail quotes, in characters.
const QUOTE_MAX: usize = 80;

/// A turn and what happened in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// The turn.
    pub turn: Option<TurnView>,
    /// Why it used its revision.
    pub revision_reason: String,
    /// The trace it belongs to, or empty.
    pub trace_id: String,
    /// What happened, in order of time.
    pub events: Vec<Event>,
    /// What it sent.
    pub deliveries: Vec<Delivery>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When.
    pub at: DateTime<Utc>,
    /// Milliseconds since the first step.
    pub offset_ms: f64,
    /// Who saw it: `ledger` or `gateway`.
    pub by: &'static str,
    /// What it is.
    pub step: String,
    /// More about it.
    pub detail: String,
}

/// One message that a turn sent or tried to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// Its id.
    pub delivery_id: String,
    /// Where it stands.
    pub state: String,
    /// What it says.
    pub text: String,
    /// The provider's id of it, or empty.
    pub provider_message_id: String,
}

impl Story {
    /// Merges both views. Steps of one instant keep the order of their source, the ledger's first.
    #[must_use]
    pub fn merge(ledger: GetTurnResponse, prompt: &TurnPrompt) -> Self {
        let told = ledger.story.into_iter().filter_map(|event| {
            let at = convert::time("at", event.at).ok()?;
            Some(step(at, "ledger", event.step, event.detail))
        });
        let mut events: Vec<Event> = told.collect();
        for (at, request) in prompt.requests.iter().enumerate() {
            model_call(request, at + 1 == prompt.requests.len(), &mut events);
        }
        // Stable: what happened at one instant stays as it was told.
        events.sort_by_key(|event| event.at);
        if let Some(first) = events.first().map(|event| event.at) {
            for event in &mut events {
                event.offset_ms = millis(event.at - first);
            }
        }
        let deliveries = ledger.deliveries.into_iter().map(|d| Delivery {
            delivery_id: d.delivery_id,
            state: d.state,
            text: d.text,
            provider_message_id: d.provider_message_id,
        });
        Self {
            turn: ledger.turn.map(Into::into),
            revision_reason: ledger.revision_reason,
            trace_id: ledger.trace_id,
            deliveries: deliveries.collect(),
            events,
        }
    }
}

fn step(at: DateTime<Utc>, by: &'static str, step: String, detail: String) -> Event {
    Event { at, offset_ms: 0.0, by, step, detail }
}

fn millis(since: chrono::TimeDelta) -> f64 {
    // Exact up to 2^53 microseconds, which no turn lasts.
    since.num_microseconds().map_or(f64::MAX, |us| us as f64 / 1000.0)
}

/// The steps of one model call: the outputs it was given, the request, its first content, its end,
/// the calls it made.
fn model_call(request: &PromptRequest, newest: bool, events: &mut Vec<Event>) {
    let PromptRequest { created_at, first_content_at, ended_at, .. } = *request;
    let mut tell = |at, name: &str, detail| {
        events.push(step(at, "gateway", name.to_owned(), detail));
    };
    let no = request.request_no;
    for output in of_type(&request.input, "function_call_output") {
        let text = text_of(output.get("output"));
        tell(created_at, "tool_output", format!("{} {}", field(output, "call_id"), quote(&text)));
    }
    let asked = format!("request {no} to {} at fence {}", request.model, request.fence);
    tell(created_at, "model_request", asked);
    if let Some(at) = first_content_at {
        tell(at, "first_content", format!("request {no}"));
    }
    let Some(at) = ended_at else {
        if newest {
            tell(created_at, "model_answering", format!("request {no} is {}", request.status));
        }
        return;
    };
    let why = request.error.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    let tokens = request.usage.as_ref().map(tokens).unwrap_or_default();
    tell(at, "model_answer", format!("request {no} {}{why}{tokens}", request.status));
    for call in of_type(&request.output, "function_call") {
        let (tool, id) = (field(call, "name"), field(call, "call_id"));
        let arguments = quote(field(call, "arguments"));
        tell(at, "tool_call", format!("{tool} {arguments} {id}"));
    }
}

/// The items of one type.
pub(crate) fn of_type<'a>(items: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    items.iter().filter(move |item| item.get("type").and_then(Value::as_str) == Some(kind))
}

/// A text field of an item; empty when it is not there.
pub(crate) fn field<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A text, or the JSON of what is no text.
pub(crate) fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn tokens(usage: &Value) -> String {
    let count = |at: &str| usage.pointer(at).and_then(Value::as_i64);
    match (count("/input_tokens"), count("/output_tokens")) {
        (Some(input), Some(output)) => {
            let cached = count("/input_tokens_details/cached_tokens").unwrap_or(0);
            format!(": {input} tokens in ({cached} cached), {output} out")
        }
        _ => String::new(),
    }
}

fn quote(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    if line.chars().count() <= QUOTE_MAX {
        return line;
    }
    let mut kept: String = line.chars().take(QUOTE_MAX).collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnwright_proto::v1::StoryEvent;
    use turnwright_types::{Fence, ResponseId, Sha256};

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_790_000_000_000 + ms).unwrap()
    }

    fn told(ms: i64, step: &str) -> StoryEvent {
        StoryEvent {
            at: Some(convert::timestamp(at(ms))),
            step: step.to_owned(),
            detail: String::new(),
        }
    }

    fn request(no: i32, from: i64, to: i64) -> PromptRequest {
        PromptRequest {
            response_id: ResponseId::new(),
            request_no: no,
            fence: Fence { turn_seq: 1, epoch: 1 },
            status: "completed".to_owned(),
            model: "scripted".to_owned(),
            instructions: String::new(),
            instructions_sha256: Sha256::of(""),
            input: Vec::new(),
            output: Vec::new(),
            manifest: json!({}),
            usage: Some(json!({
                "input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}
            })),
            upstream_sha256: None,
            created_at: at(from),
            first_content_at: Some(at(from + 1)),
            ended_at: Some(at(to)),
            error: None,
        }
    }

    #[test]
    fn both_views_are_one_list_in_order_of_time() {
        let mut first = request(1, 10, 20);
        first.output = vec![json!({
            "type": "function_call", "name": "skill_view", "call_id": "c1", "arguments": "{}"
        })];
        let mut second = request(2, 30, 40);
        second.input =
            vec![json!({"type": "function_call_output", "call_id": "c1", "output": "a  b"})];
        let ledger = GetTurnResponse {
            story: vec![told(0, "signal"), told(5, "claimed"), told(40, "ended"), told(50, "sent")],
            ..GetTurnResponse::default()
        };
        let story =
            Story::merge(ledger, &TurnPrompt { agent: None, requests: vec![first, second] });
        let steps: Vec<_> = story.events.iter().map(|e| e.step.as_str()).collect();
        assert_eq!(
            steps,
            [
                "signal",
                "claimed",
                "model_request",
                "first_content",
                "model_answer",
                "tool_call",
                "tool_output",
                "model_request",
                "first_content",
                "ended",
                "model_answer",
                "sent"
            ]
        );
        assert!(story.events.is_sorted_by_key(|e| e.at));
        assert!((story.events[2].offset_ms - 10.0).abs() < f64::EPSILON);
        assert!(story.events[4].detail.contains("9 tokens in (4 cached), 2 out"));
        assert!(story.events[6].detail.ends_with("c1 a b"));
    }

    #[test]
    fn a_turn_without_requests_has_the_ledgers_story() {
        let ledger = GetTurnResponse { story: vec![told(0, "queued")], ..Default::default() };
        let story = Story::merge(ledger, &TurnPrompt { agent: None, requests: Vec::new() });
        assert_eq!(story.events.len(), 1);
    }
}
