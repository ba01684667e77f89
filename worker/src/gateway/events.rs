//! The events of a response stream, as far as the loop acts on them. Bytes in, events out; no
//! connection is known here.

use super::Error;
use eventsource_stream::{EventStreamError, Eventsource as _};
use futures::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use serde::Deserialize;
use std::{error::Error as StdError, time::Duration};
use turnwright_types::ResponseId;

/// The events of one response, in order; the last one is [`Event::Ended`].
pub(crate) type Events = BoxStream<'static, Result<Event, Error>>;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The response is stored; its input is part of the transcript.
    Begun(Option<ResponseId>),
    /// More text.
    Text(String),
    /// A call is whole and stored.
    Call(FunctionCall),
    /// The response is over; nothing follows.
    Ended(Ended),
}

/// A call the model made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct FunctionCall {
    pub(crate) call_id: String,
    pub(crate) name: String,
    /// As the model wrote them.
    #[serde(default)]
    pub(crate) arguments: String,
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) id: Option<ResponseId>,
    pub(crate) outcome: Outcome,
    /// The text of its messages, joined.
    pub(crate) text: String,
    pub(crate) calls: Vec<FunctionCall>,
    pub(crate) usage: Option<Usage>,
}

/// Whether a response is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// Cut, for the reason told.
    Incomplete(String),
    /// Failed, with the code told and how long to wait before another try.
    Failed {
        code: String,
        after: Option<Duration>,
    },
}

/// Tokens as the provider told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Usage {
    #[serde(default)]
    pub(crate) input_tokens: i64,
    #[serde(default)]
    pub(crate) output_tokens: i64,
}

/// Reads a body of server-sent events. Events that nothing here acts on are left out.
pub(crate) fn events<S, B, E>(bytes: S) -> Events
where
    S: Stream<Item = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]> + Send + 'static,
    E: StdError + Send + Sync + 'static,
{
    let read = bytes.eventsource().filter_map(|frame| {
        std::future::ready(match frame {
            Ok(frame) => parse(&frame.data).transpose(),
            Err(EventStreamError::Transport(_)) => Some(Err(Error::Cut)),
            Err(e) => Some(Err(Error::Malformed(e.to_string().into()))),
        })
    });
    // A body that ends without saying how the response ended is a cut one.
    let end = stream::once(std::future::ready(Err(Error::Cut)));
    read.chain(end).boxed()
}

/// Reads the data of one event; `None` for one that nothing here acts on.
pub(crate) fn parse(data: &str) -> Result<Option<Event>, Error> {
    if data == "[DONE]" {
        return Ok(None);
    }
    let wire: Wire = serde_json::from_str(data).map_err(|e| Error::Malformed(e.into()))?;
    Ok(match wire {
        Wire::Created { response } => Some(Event::Begun(response.id())),
        Wire::TextDelta { delta } => Some(Event::Text(delta)),
        Wire::ItemDone { item: Item::FunctionCall(call) } => Some(Event::Call(call)),
        Wire::ItemDone { .. } | Wire::Other => None,
        Wire::Completed { response } => Some(response.ended(|_| Outcome::Completed)),
        Wire::Incomplete { response } => Some(response.ended(|r| {
            let why = r.incomplete_details.as_ref().and_then(|d| d.reason.clone());
            Outcome::Incomplete(why.unwrap_or_default())
        })),
        Wire::Failed { response } => {
            Some(response.ended(|r| r.error.as_ref().map(failed).unwrap_or_else(unexplained)))
        }
        Wire::Error(Failure { error, code }) => {
            let told = error.unwrap_or_else(|| ErrorObject { code, ..ErrorObject::default() });
            Some(Response::default().ended(|_| failed(&told)))
        }
    })
}

fn failed(error: &ErrorObject) -> Outcome {
    Outcome::Failed { code: error.code(), after: error.retry_after_ms.map(Duration::from_millis) }
}

fn unexplained() -> Outcome {
    failed(&ErrorObject::default())
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Wire {
    #[serde(rename = "response.created")]
    Created { response: Response },
    #[serde(rename = "response.output_text.delta")]
    TextDelta { delta: String },
    #[serde(rename = "response.output_item.done")]
    ItemDone { item: Item },
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    #[serde(rename = "response.failed")]
    Failed { response: Response },
    #[serde(rename = "error")]
    Error(Failure),
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
struct Response {
    #[serde(default)]
    id: String,
    #[serde(default)]
    output: Vec<Item>,
    error: Option<ErrorObject>,
    incomplete_details: Option<IncompleteDetails>,
    usage: Option<Usage>,
}

/// An error event: the code stands in an error object or, as OpenAI writes it, beside the type.
#[derive(Deserialize)]
struct Failure {
    error: Option<ErrorObject>,
    code: Option<String>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

/// The OpenAI error object; its message is not read, for it may quote a conversation.
#[derive(Default, Deserialize)]
pub(super) struct ErrorObject {
    code: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The gateway's own field.
    retry_after_ms: Option<u64>,
}

impl ErrorObject {
    /// The code, or the type where there is none.
    pub(super) fn code(&self) -> String {
        self.code.clone().or_else(|| self.kind.clone()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Item {
    #[serde(rename = "message")]
    Message {
        #[serde(default)]
        content: Vec<Part>,
    },
    #[serde(rename = "function_call")]
    FunctionCall(FunctionCall),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Part {
    #[serde(rename = "output_text")]
    Text { text: String },
    #[serde(rename = "refusal")]
    Refusal { refusal: String },
    #[serde(other)]
    Other,
}

impl Response {
    fn id(&self) -> Option<ResponseId> {
        ResponseId::parse(self.id.strip_prefix("resp_").unwrap_or(&self.id)).ok()
    }

    fn ended(self, outcome: impl FnOnce(&Self) -> Outcome) -> Event {
        let (id, outcome) = (self.id(), outcome(&self));
        let (mut text, mut calls) = (String::new(), Vec::new());
        for item in self.output {
            match item {
                Item::Message { content } => content.iter().for_each(|part| match part {
                    Part::Text { text: more } | Part::Refusal { refusal: more } => {
                        text.push_str(more);
                    }
                    Part::Other => {}
                }),
                Item::FunctionCall(call) => calls.push(call),
                Item::Other => {}
            }
        }
        Event::Ended(Ended { id, outcome, text, calls, usage: self.usage })
    }
}

#[cfg(test)]
mod tests;
