//! The events of a response stream and their one spelling. Sequence numbers are given out by who
//! tells them.

use crate::resource::{Resource, Status};
use axum::response::sse;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// One event.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Event {
    /// The response as a whole: begun, under way or over.
    Response {
        #[serde(skip)]
        stage: Stage,
        response: Box<Resource>,
    },
    ItemAdded {
        output_index: usize,
        item: Box<RawValue>,
    },
    ItemDone {
        output_index: usize,
        item: Box<RawValue>,
    },
    Part {
        #[serde(skip)]
        added: bool,
        item_id: String,
        output_index: usize,
        content_index: usize,
        part: Value,
    },
    TextDelta {
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
        logprobs: [(); 0],
    },
    TextDone {
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
        logprobs: [(); 0],
    },
    ArgumentsDelta {
        item_id: String,
        output_index: usize,
        #[serde(rename = "delta")]
        piece: String,
    },
    ArgumentsDone {
        item_id: String,
        output_index: usize,
        name: String,
        arguments: String,
    },
    /// The stream ends before the response does.
    Error {
        code: &'static str,
        message: &'static str,
        param: Option<String>,
    },
}

/// Which of the events that carry a whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Created,
    InProgress,
    Over,
}

impl Event {
    /// The one event that ends a response.
    pub(crate) fn over(response: Resource) -> Self {
        Self::Response { stage: Stage::Over, response: Box::new(response) }
    }

    /// The event's `type`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Response { stage: Stage::Created, .. } => "response.created",
            Self::Response { stage: Stage::InProgress, .. } => "response.in_progress",
            Self::Response { stage: Stage::Over, response } => match response.status {
                Status::Completed => "response.completed",
                Status::Incomplete { .. } => "response.incomplete",
                Status::Failed(_) | Status::InProgress => "response.failed",
            },
            Self::ItemAdded { .. } => "response.output_item.added",
            Self::ItemDone { .. } => "response.output_item.done",
            Self::Part { added: true, .. } => "response.content_part.added",
            Self::Part { added: false, .. } => "response.content_part.done",
            Self::TextDelta { .. } => "response.output_text.delta",
            Self::TextDone { .. } => "response.output_text.done",
            Self::ArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::ArgumentsDone { .. } => "response.function_call_arguments.done",
            Self::Error { .. } => "error",
        }
    }

    /// Whether a stream ends with it.
    pub(crate) const fn is_terminal(&self) -> bool {
        matches!(self, Self::Response { stage: Stage::Over, .. } | Self::Error { .. })
    }

    /// The event's JSON.
    pub(crate) fn data(&self, sequence_number: u64) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'static str,
            sequence_number: u64,
            #[serde(flatten)]
            event: &'a Event,
        }
        let line = Line { r#type: self.name(), sequence_number, event: self };
        serde_json::to_string(&line).unwrap_or_else(|e| {
            // Everything in an event is JSON already or text.
            tracing::error!(error = %e, event = self.name(), "an event cannot be written");
            String::new()
        })
    }

    /// The event as it goes over the wire.
    pub(crate) fn to_sse(&self, sequence_number: u64) -> sse::Event {
        sse::Event::default().event(self.name()).data(self.data(sequence_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_flat_and_begins_with_its_type() {
        let event = Event::TextDelta {
            item_id: "msg_1".into(),
            output_index: 0,
            content_index: 0,
            delta: "a\nb".into(),
            logprobs: [],
        };
        assert_eq!(
            event.data(3),
            r#"{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"a\nb","logprobs":[]}"#
        );
        assert!(!event.is_terminal());
    }

    #[test]
    fn items_stand_in_events_as_they_are_stored() {
        let item = RawValue::from_string(r#"{"type":"message" ,"x":1.0}"#.into()).unwrap();
        let event = Event::ItemDone { output_index: 1, item };
        assert_eq!(
            event.data(0),
            r#"{"type":"response.output_item.done","sequence_number":0,"output_index":1,"item":{"type":"message" ,"x":1.0}}"#
        );
    }
}
