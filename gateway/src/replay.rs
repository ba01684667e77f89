//! Tells a stored response again: to the repeat of a request whose answer was lost. One that is
//! still being generated is waited for.

use crate::{
    app::{App, Slot},
    event::{Event, Stage},
    generation::audience::Audience,
    problem::Problem,
    resource::{Resource, Status},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::Instant};
use turnwright_gateway_store as store;
use turnwright_types::ResponseId;

/// How often a response under way is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long one is waited for.
const PATIENCE: Duration = Duration::from_secs(900);

/// A response to tell again.
pub(crate) struct Replay {
    pub(crate) app: Arc<App>,
    pub(crate) id: ResponseId,
    pub(crate) audience: Audience,
    /// Gets the response as a whole.
    pub(crate) answer: oneshot::Sender<Resource>,
    /// Its place among the requests in flight.
    pub(crate) slot: Slot,
}

impl Replay {
    /// Tells it from its beginning to its end. `first` is the response as it stands now.
    pub(crate) async fn run(self, first: Resource) {
        let Self { app, id, mut audience, answer, slot } = self;
        let begun = Resource::begun(first.facts.clone(), first.head);
        for stage in [Stage::Created, Stage::InProgress] {
            audience.tell(&Event::Response { stage, response: Box::new(begun.clone()) });
        }
        let over = match ended(&app, id, first).await {
            Ok(over) => over,
            Err(problem) => Resource { status: Status::Failed(problem), ..begun },
        };
        let completed = matches!(over.status, Status::Completed);
        for (output_index, item) in over.output.iter().enumerate() {
            for event in events(output_index, item, completed) {
                audience.tell(&event);
            }
        }
        audience.tell(&Event::over(over.clone()));
        // A client that left reads it again.
        let _ = answer.send(over);
        drop(slot);
    }
}

/// Reads a response.
pub(crate) async fn read(app: &App, id: ResponseId) -> Result<Resource, Problem> {
    Resource::stored(store::get_response(&app.pool, id).await?)
}

async fn ended(app: &App, id: ResponseId, first: Resource) -> Result<Resource, Problem> {
    let deadline = Instant::now() + PATIENCE;
    let mut seen = first;
    // Made once: it counts from the stop.
    let must_end = app.must_end();
    tokio::pin!(must_end);
    while !seen.is_over() {
        if Instant::now() > deadline {
            let message = "the response is still being generated; read it later";
            return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = &mut must_end => {
                let message = "the gateway is stopping; send the request again";
                return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message));
            }
        }
        match read(app, id).await {
            Ok(now) => seen = now,
            // It will be there again when the database is.
            Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(seen)
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        id: String,
        role: String,
        content: Vec<Value>,
    },
    FunctionCall {
        id: String,
        call_id: String,
        name: String,
        arguments: String,
    },
    #[serde(other)]
    Other,
}

/// The events of one finished item.
fn events(output_index: usize, raw: &RawValue, completed: bool) -> Vec<Event> {
    let done = |events: &mut Vec<Event>| {
        events.push(Event::ItemDone { output_index, item: raw.to_owned() });
    };
    match serde_json::from_str(raw.get()).unwrap_or(Item::Other) {
        Item::Message { id, role, content } => {
            let begun = json!({ "type": "message", "id": id, "role": role,
                "status": "in_progress", "content": [] });
            let mut events = vec![added(output_index, &begun)];
            for (content_index, part) in content.into_iter().enumerate() {
                events.extend(part_events(&id, output_index, content_index, part));
            }
            done(&mut events);
            events
        }
        Item::FunctionCall { id, call_id, name, arguments } if completed => {
            let begun = json!({ "type": "function_call", "id": id, "call_id": call_id,
                "name": name, "arguments": "", "status": "in_progress" });
            let mut events = vec![added(output_index, &begun)];
            let (item_id, piece) = (id.clone(), arguments.clone());
            events.push(Event::ArgumentsDelta { item_id, output_index, piece });
            events.push(Event::ArgumentsDone { item_id: id, output_index, name, arguments });
            done(&mut events);
            events
        }
        // A call of a response that did not complete is never told as done.
        Item::FunctionCall { .. } => Vec::new(),
        Item::Other => {
            let mut events = vec![Event::ItemAdded { output_index, item: raw.to_owned() }];
            done(&mut events);
            events
        }
    }
}

fn added(output_index: usize, begun: &Value) -> Event {
    let item = serde_json::value::to_raw_value(begun).unwrap_or_default();
    Event::ItemAdded { output_index, item }
}

fn part_events(id: &str, output_index: usize, content_index: usize, part: Value) -> Vec<Event> {
    let item_id = || id.to_owned();
    let event =
        |added, part| Event::Part { added, item_id: item_id(), output_index, content_index, part };
    let Some(text) = part.get("text").and_then(Value::as_str).map(str::to_owned) else {
        return vec![event(true, part.clone()), event(false, part)];
    };
    let mut empty = part.clone();
    empty["text"] = "".into();
    let logprobs = [];
    vec![
        event(true, empty),
        Event::TextDelta {
            item_id: item_id(),
            output_index,
            content_index,
            delta: text.clone(),
            logprobs,
        },
        Event::TextDone { item_id: item_id(), output_index, content_index, text, logprobs },
        event(false, part),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(body: &Value, completed: bool) -> Vec<&'static str> {
        let raw = serde_json::value::to_raw_value(body).unwrap();
        events(0, &raw, completed).iter().map(Event::name).collect()
    }

    #[test]
    fn a_stored_message_has_the_events_of_a_live_one() {
        let body = json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}]});
        let expected = [
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
        ];
        assert_eq!(names(&body, true), expected);
    }

    #[test]
    fn a_call_is_told_only_if_its_response_completed() {
        let body = json!({"type": "function_call", "id": "f", "call_id": "c", "name": "n",
            "arguments": "{}", "status": "completed"});
        assert_eq!(names(&body, true).last(), Some(&"response.output_item.done"));
        assert!(names(&body, false).is_empty());
    }
}
