//! Items of a path as Chat Completions messages. A call and its output may lie apart on a path;
//! here the outputs follow the message that calls, in call order, and none is missing.

use crate::{json_object::Fields, problem::Problem};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use std::{borrow::Cow, collections::HashMap};
use turnwright_gateway_store::{Item, UNFINISHED_CALL};

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    /// Nothing but calls.
    Null,
    Text(Text<'a>),
    Parts(Vec<Part<'a>>),
}

/// A text: as stored, or our own.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Text<'a> {
    Stored(&'a RawValue),
    Ours(Cow<'a, str>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Text<'a> },
    ImageUrl { image_url: Image<'a> },
}

#[derive(Debug, Serialize)]
struct Image<'a> {
    url: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CalledFunction<'a> {
    name: &'a RawValue,
    arguments: Text<'a>,
}

/// The messages for a path, `instructions` first.
pub(super) fn of_path<'a>(
    instructions: Option<&'a str>,
    path: &'a [Item],
    images: bool,
) -> Result<Vec<Message<'a>>, Problem> {
    let is_output = |item: &&Item| item.kind == "function_call_output";
    let outputs = path.iter().filter(is_output).filter_map(|i| Some((i.call_id.as_deref()?, i)));
    let mut writer =
        Writer { images, outputs: outputs.collect(), messages: Vec::new(), open: None };
    if let Some(text) = instructions.filter(|text| !text.is_empty()) {
        writer.messages.push(Message::plain("system", Content::Text(Text::Ours(text.into()))));
    }
    for item in path {
        writer.item(item)?;
    }
    writer.close()?;
    Ok(writer.messages)
}

/// An assistant message that later items of the same response may still extend.
struct Open<'a> {
    item: &'a Item,
    content: Content<'a>,
    calls: Vec<&'a Item>,
}

struct Writer<'a> {
    images: bool,
    outputs: HashMap<&'a str, &'a Item>,
    messages: Vec<Message<'a>>,
    open: Option<Open<'a>>,
}

impl<'a> Message<'a> {
    const fn plain(role: &'static str, content: Content<'a>) -> Self {
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None }
    }
}

impl<'a> Writer<'a> {
    fn item(&mut self, item: &'a Item) -> Result<(), Problem> {
        match item.kind.as_str() {
            "message" => self.message(item),
            "function_call" => self.call(item),
            // Written after its call; what comes next is another step of the model.
            "function_call_output" => self.close(),
            // Reasoning of another issuer and types this wire has no word for.
            _ => Ok(()),
        }
    }

    fn message(&mut self, item: &'a Item) -> Result<(), Problem> {
        self.close()?;
        let content = self.content(item, "content")?;
        let role = match item.role.as_deref() {
            Some("assistant") => {
                self.open = Some(Open { item, content, calls: Vec::new() });
                return Ok(());
            }
            Some("user") => "user",
            _ => "system",
        };
        self.messages.push(Message::plain(role, content));
        Ok(())
    }

    fn call(&mut self, item: &'a Item) -> Result<(), Problem> {
        if self.open.as_ref().is_some_and(|open| open.item.response != item.response) {
            self.close()?;
        }
        let open = self.open.get_or_insert_with(|| Open {
            item,
            content: Content::Null,
            calls: Vec::new(),
        });
        open.calls.push(item);
        Ok(())
    }

    /// Writes the open assistant message and the outputs of its calls.
    fn close(&mut self) -> Result<(), Problem> {
        let Some(Open { content, calls, .. }) = self.open.take() else { return Ok(()) };
        let mut tool_calls = Vec::with_capacity(calls.len());
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            let fields = fields(call)?;
            let id = call.call_id.as_deref().ok_or_else(|| unreadable(call))?;
            let field = |name| fields.get(name).ok_or_else(|| unreadable(call));
            let function =
                CalledFunction { name: field("name")?, arguments: arguments(field("arguments")?) };
            tool_calls.push(ToolCall { id, r#type: "function", function });
            let content = match self.outputs.get(id) {
                Some(output) => self.content(output, "output")?,
                None => Content::Text(Text::Ours(UNFINISHED_CALL.into())),
            };
            answers.push(Message { tool_call_id: Some(id), ..Message::plain("tool", content) });
        }
        self.messages.push(Message { tool_calls, ..Message::plain("assistant", content) });
        self.messages.append(&mut answers);
        Ok(())
    }

    /// A text, or a list of parts: one text part is a text, several stay parts, so that no byte of
    /// any is altered.
    fn content(&self, item: &'a Item, field: &str) -> Result<Content<'a>, Problem> {
        let raw = fields(item)?.get(field).ok_or_else(|| unreadable(item))?;
        if !raw.get().starts_with('[') {
            return Ok(Content::Text(Text::Stored(raw)));
        }
        let parts: Vec<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| unreadable(item))?;
        let mut parts: Vec<Part<'a>> =
            parts.into_iter().map(|part| self.part(item, part)).collect::<Result<_, _>>()?;
        Ok(match parts.pop() {
            None => Content::Text(Text::Ours("".into())),
            Some(Part::Text { text }) if parts.is_empty() => Content::Text(text),
            Some(last) => {
                parts.push(last);
                Content::Parts(parts)
            }
        })
    }

    fn part(&self, item: &Item, raw: &'a RawValue) -> Result<Part<'a>, Problem> {
        let fields = Fields::parse(raw.get()).map_err(|_| unreadable(item))?;
        let kind: String = fields
            .get("type")
            .and_then(|kind| serde_json::from_str(kind.get()).ok())
            .ok_or_else(|| unreadable(item))?;
        let stored = |name| fields.get(name).map(|raw| Part::Text { text: Text::Stored(raw) });
        let omitted = || {
            let text = format!("[{kind} left out: this model does not take it]");
            Part::Text { text: Text::Ours(text.into()) }
        };
        Ok(match kind.as_str() {
            "refusal" => stored("refusal").unwrap_or_else(omitted),
            "input_image" => match fields.get("image_url") {
                Some(url) if self.images && url.get() != "null" => {
                    let detail = fields.get("detail").filter(|detail| detail.get() != "null");
                    Part::ImageUrl { image_url: Image { url, detail } }
                }
                _ => omitted(),
            },
            _ => stored("text").unwrap_or_else(omitted),
        })
    }
}

/// Arguments as they are stored, if they are an object. What a model failed to write is wrapped:
/// providers that parse arguments would refuse this and every later request. A function of the row
/// alone, so that the prefix stays.
fn arguments(raw: &RawValue) -> Text<'_> {
    let text: String = serde_json::from_str(raw.get()).unwrap_or_default();
    if serde_json::from_str::<serde_json::Map<String, Value>>(&text).is_ok() {
        return Text::Stored(raw);
    }
    let ours = if text.trim().is_empty() {
        "{}".to_owned()
    } else {
        json!({ "unparsed": text }).to_string()
    };
    Text::Ours(ours.into())
}

fn fields(item: &Item) -> Result<Fields<'_>, Problem> {
    Fields::parse(&item.body).map_err(|_| unreadable(item))
}

/// An item that was accepted and cannot be sent.
fn unreadable(item: &Item) -> Problem {
    let message =
        format!("item `{}` of type `{}` cannot be sent: it is not complete", item.id, item.kind);
    Problem::new(StatusCode::BAD_REQUEST, "invalid_prompt", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is sent for arguments a model wrote.
    fn sent(written: &str) -> String {
        let stored = serde_json::value::to_raw_value(written).unwrap();
        let sent = serde_json::to_string(&arguments(&stored)).unwrap();
        serde_json::from_str(&sent).unwrap()
    }

    proptest! {
        #[test]
        fn whatever_a_model_wrote_an_object_is_sent(written in ".{0,80}") {
            let object: Result<serde_json::Map<String, Value>, _> = serde_json::from_str(&sent(&written));
            prop_assert!(object.is_ok());
        }
    }

    #[test]
    fn an_object_is_sent_byte_for_byte_and_the_rest_is_kept_inside_one() {
        assert_eq!(sent("{ \"a\" : 1 }"), "{ \"a\" : 1 }");
        assert_eq!(sent(""), "{}");
        assert_eq!(sent("{\"a\": "), r#"{"unparsed":"{\"a\": "}"#);
        assert_eq!(sent("[1]"), r#"{"unparsed":"[1]"}"#);
    }
}
