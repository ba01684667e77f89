//! A Chat Completions request as sent, and the few texts in it that rules look at. It must not judge the history.
use crate::history::{Flaw, HistoryError};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The parts of a request body that matter here; messages stay raw until asked for.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest<'a> {
    #[serde(borrow)]
    pub(crate) model: Cow<'a, str>,
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// One message; its content stays raw, for most contents are never read.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) role: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) tool_calls: Option<Vec<ToolCall<'a>>>,
    pub(crate) tool_call_id: Option<String>,
}

/// A call of an assistant message.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    /// Demanded as providers do, though nothing here reads it.
    #[serde(borrow, rename = "function")]
    _function: Function<'a>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(borrow, rename = "name")]
    _name: Cow<'a, str>,
    #[serde(borrow, rename = "arguments")]
    _arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

impl<'a> ChatRequest<'a> {
    /// Whether the answer is wanted as a stream.
    pub(crate) fn wants_stream(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether the stream should end with the usage.
    pub(crate) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true)
    }

    /// The text that is counted and cached: tools, then messages, as sent. A longer history extends it at the end.
    pub(crate) fn prompt(&self) -> String {
        let tools = self.tools.map_or("", RawValue::get);
        format!("{tools}\n{}", self.messages.get())
    }

    /// The messages, parsed but not checked against each other.
    pub(crate) fn messages(&self) -> Result<Vec<Message<'a>>, HistoryError> {
        serde_json::from_str(self.messages.get())
            .map_err(|error| HistoryError { at: None, flaw: Flaw::Shape(error.to_string()) })
    }
}

/// What rules match on and templates quote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The last text part of the last user message.
    pub(crate) last_user: Option<String>,
    /// The text of the last message, if that is a tool message.
    pub(crate) tool_output: Option<String>,
    /// The text of the first system or developer message; empty if there is none.
    pub(crate) instructions: String,
    /// The number of user messages.
    pub(crate) turn: usize,
}

impl View {
    /// Reads the contents that matter, and only those.
    pub(crate) fn of(messages: &[Message<'_>]) -> Result<Self, HistoryError> {
        let mut view = Self::default();
        let is = |at: &usize, role: &str| messages[*at].role == role;
        let mut places = 0..messages.len();
        if let Some(at) = places.clone().find(|at| is(at, "system") || is(at, "developer")) {
            view.instructions = texts(at, &messages[at])?.concat();
        }
        if let Some(at) = places.clone().rfind(|at| is(at, "user")) {
            view.last_user = Some(texts(at, &messages[at])?.pop().unwrap_or_default());
        }
        view.turn = places.clone().filter(|at| is(at, "user")).count();
        if let Some(at) = places.next_back().filter(|at| is(at, "tool")) {
            view.tool_output = Some(texts(at, &messages[at])?.concat());
        }
        Ok(view)
    }
}

/// The text parts of a message's content; other parts are passed over.
fn texts(at: usize, message: &Message<'_>) -> Result<Vec<String>, HistoryError> {
    let Some(content) = message.content else { return Ok(Vec::new()) };
    match serde_json::from_str(content.get()) {
        Ok(Content::Text(text)) => Ok(vec![text]),
        Ok(Content::Parts(parts)) => Ok(parts.into_iter().filter_map(|part| part.text).collect()),
        Err(_) => Err(HistoryError { at: Some(at), flaw: Flaw::Content }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn view(messages: &Value) -> View {
        let body = json!({"model": "m", "messages": messages}).to_string();
        let request: ChatRequest<'_> = serde_json::from_str(&body).unwrap();
        View::of(&request.messages().unwrap()).unwrap()
    }

    #[test]
    fn the_view_takes_the_last_text_part_and_the_newest_output() {
        let function = json!({"name": "f", "arguments": "{}"});
        let call = json!({"id": "c", "type": "function", "function": function});
        let mut messages = json!([
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "first"},
            {"role": "user", "content": [
                {"type": "text", "text": "context"},
                {"type": "text", "text": "second"},
                {"type": "image_url", "image_url": {"url": "x"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "out"},
        ]);
        let expected = View {
            last_user: Some("second".into()),
            tool_output: Some("out".into()),
            instructions: "be kind".into(),
            turn: 2,
        };
        assert_eq!(view(&messages), expected);
        messages.as_array_mut().unwrap().push(json!({"role": "user", "content": "third"}));
        let after = view(&messages);
        assert_eq!((after.tool_output, after.turn), (None, 3));
    }

    #[test]
    fn a_longer_history_extends_the_prompt() {
        let prompt = |messages: &Value| {
            let body = json!({"model": "m", "tools": [{"a": 1}], "messages": messages}).to_string();
            serde_json::from_str::<ChatRequest<'_>>(&body).unwrap().prompt()
        };
        let short = prompt(&json!([{"role": "user", "content": "a"}]));
        let long = prompt(&json!([{"role": "user", "content": "a"}, {"role": "assistant"}]));
        assert!(long.starts_with(short.trim_end_matches(']')));
    }
}
