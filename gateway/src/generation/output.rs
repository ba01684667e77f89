//! The items a response produces, while they grow and as they are stored and told.

use crate::ids;
use serde::Serialize;
use serde_json::value::RawValue;
use turnwright_gateway_store::{NewItem, new_item_id};

/// An item under way.
#[derive(Clone, Debug)]
pub(super) enum Draft {
    Message(MessageDraft),
    Call(CallDraft),
}

#[derive(Clone, Debug)]
pub(super) struct MessageDraft {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) is_done: bool,
}

#[derive(Clone, Debug)]
pub(super) struct CallDraft {
    pub(super) id: String,
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// The provider's place of it.
    pub(super) index: usize,
    /// Another item began after it, so that nothing more of it comes.
    pub(super) is_whole: bool,
}

/// `status` of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Body<'a> {
    Message {
        id: &'a str,
        role: &'static str,
        status: ItemStatus,
        content: &'a [TextPart<'a>],
    },
    FunctionCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
        status: ItemStatus,
    },
}

#[derive(Serialize)]
struct TextPart<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
    logprobs: [(); 0],
}

impl MessageDraft {
    pub(super) fn new() -> Self {
        Self { id: new_item_id("message"), text: String::new(), is_done: false }
    }

    pub(super) fn to_raw(&self, status: ItemStatus) -> Box<RawValue> {
        let text =
            [TextPart { r#type: "output_text", text: &self.text, annotations: [], logprobs: [] }];
        // A message begins without content; its part is added by an event of its own.
        let content: &[TextPart<'_>] = if status == ItemStatus::InProgress { &[] } else { &text };
        raw(&Body::Message { id: &self.id, role: "assistant", status, content })
    }
}

impl CallDraft {
    pub(super) fn new(index: usize) -> Self {
        Self {
            id: new_item_id("function_call"),
            call_id: ids::new_call(),
            name: String::new(),
            arguments: String::new(),
            index,
            is_whole: false,
        }
    }

    pub(super) fn to_raw(&self, status: ItemStatus) -> Box<RawValue> {
        let arguments = if status == ItemStatus::InProgress { "" } else { &self.arguments };
        raw(&Body::FunctionCall {
            id: &self.id,
            call_id: &self.call_id,
            name: &self.name,
            arguments,
            status,
        })
    }
}

/// An item that is over: to store, and to tell.
#[derive(Clone, Debug)]
pub(super) struct OutputItem {
    pub(super) raw: Box<RawValue>,
    id: String,
    kind: &'static str,
    call_id: Option<String>,
}

impl OutputItem {
    pub(super) fn of(draft: &Draft, status: ItemStatus) -> Self {
        match draft {
            Draft::Message(message) => Self {
                raw: message.to_raw(status),
                id: message.id.clone(),
                kind: "message",
                call_id: None,
            },
            Draft::Call(call) => Self {
                raw: call.to_raw(status),
                id: call.id.clone(),
                kind: "function_call",
                call_id: Some(call.call_id.clone()),
            },
        }
    }

    pub(super) fn to_store(&self) -> NewItem {
        NewItem {
            id: self.id.clone(),
            kind: self.kind.to_owned(),
            role: (self.kind == "message").then(|| "assistant".to_owned()),
            call_id: self.call_id.clone(),
            kinds: Vec::new(),
            signal: None,
            body: self.raw.get().to_owned(),
        }
    }
}

fn raw(body: &Body<'_>) -> Box<RawValue> {
    // Strings and nothing else: there is nothing in it that JSON cannot say.
    serde_json::value::to_raw_value(body).unwrap_or_default()
}
