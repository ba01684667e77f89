//! The body of `POST /v1/responses`, parsed once into what the rest works with. What it does not
//! know it refuses by name; input items are checked as far as they are understood and kept whole.

mod input;
mod parameters;

pub(crate) use parameters::{Format, Parameters, Text, Tool, ToolChoice};

use crate::{ids, json_object::Fields, problem::Problem};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};
use turnwright_gateway_store::NewItem;
use turnwright_types::{
    GatewayConversationId, ResponseId,
    gateway::{FIELD, RequestExtension},
};

/// What a request continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continues {
    Nothing,
    Response(ResponseId),
    Conversation(GatewayConversationId),
}

/// A parsed request.
#[derive(Debug)]
pub(crate) struct CreateResponse {
    pub(crate) model: String,
    pub(crate) input: Vec<NewItem>,
    pub(crate) instructions: Option<String>,
    pub(crate) stream: bool,
    pub(crate) store: bool,
    pub(crate) continues: Continues,
    pub(crate) parameters: Parameters,
    pub(crate) extension: Option<RequestExtension>,
}

/// What was read so far.
#[derive(Default)]
struct Draft {
    model: Option<String>,
    input: Option<Vec<NewItem>>,
    instructions: Option<String>,
    stream: Option<bool>,
    store: Option<bool>,
    previous: Option<String>,
    conversation: Option<GatewayConversationId>,
    parameters: Parameters,
    extension: Option<RequestExtension>,
}

impl CreateResponse {
    /// Parses a body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let malformed = |why: String| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "invalid_json",
                format!("the body is not usable: {why}"),
            )
        };
        let text = std::str::from_utf8(body).map_err(|e| malformed(e.to_string()))?;
        let fields = Fields::parse(text).map_err(|e| malformed(e.to_string()))?;
        let mut draft = Draft::default();
        for (name, raw) in fields.iter() {
            draft.read(name, raw)?;
        }
        draft.finish()
    }
}

impl Draft {
    fn read(&mut self, name: &str, raw: &RawValue) -> Result<(), Problem> {
        match name {
            "model" => self.model = value(name, raw)?,
            "input" => self.input = input::parse(raw)?,
            "instructions" => self.instructions = value(name, raw)?,
            "stream" => self.stream = value(name, raw)?,
            "store" => self.store = value(name, raw)?,
            "previous_response_id" => self.previous = value(name, raw)?,
            "conversation" => self.conversation = conversation(raw)?,
            FIELD => self.extension = value(name, raw)?,
            "background" => {
                if value::<bool>(name, raw)? == Some(true) {
                    return Err(Problem::not_offered(name, "background responses are not offered"));
                }
            }
            // Nothing here depends on these; they are taken so that ordinary clients work.
            "include"
            | "user"
            | "prompt_cache_key"
            | "prompt_cache_retention"
            | "safety_identifier"
            | "service_tier"
            | "client_metadata"
            | "stream_options" => {}
            _ => return self.parameters.read(name, raw),
        }
        Ok(())
    }

    fn finish(self) -> Result<CreateResponse, Problem> {
        let missing = |param: &str| {
            let message = format!("missing required parameter: `{param}`");
            Problem::new(StatusCode::BAD_REQUEST, "missing_required_parameter", message).at(param)
        };
        let continues = match (self.previous, self.conversation) {
            (Some(_), Some(_)) => {
                let message = "give either `previous_response_id` or `conversation`, not both";
                return Err(Problem::invalid("conversation", message));
            }
            (Some(raw), None) => Continues::Response(
                ids::parse_response(&raw).ok_or_else(|| previous_not_found(&raw))?,
            ),
            (None, Some(id)) => Continues::Conversation(id),
            (None, None) => Continues::Nothing,
        };
        let input = self.input.unwrap_or_default();
        if input.is_empty() && continues == Continues::Nothing && self.extension.is_none() {
            return Err(missing("input"));
        }
        if self.extension.is_none()
            && let Some(at) = input.iter().position(|item| item.signal.is_some())
        {
            return Err(Problem::unknown_parameter(format!("input[{at}].{FIELD}.signal_id")));
        }
        Ok(CreateResponse {
            model: self.model.filter(|m| !m.is_empty()).ok_or_else(|| missing("model"))?,
            input,
            instructions: self.instructions,
            stream: self.stream.unwrap_or(false),
            store: self.store.unwrap_or(true),
            continues,
            parameters: self.parameters.checked()?,
            extension: self.extension,
        })
    }
}

/// The answer to a previous response that does not exist: never silence.
pub(crate) fn previous_not_found(raw: &str) -> Problem {
    let message = format!("previous response `{raw}` does not exist");
    Problem::new(StatusCode::NOT_FOUND, "previous_response_not_found", message)
        .at("previous_response_id")
}

/// A parameter's value; `null` is as none at all.
fn value<T: DeserializeOwned>(name: &str, raw: &RawValue) -> Result<Option<T>, Problem> {
    serde_json::from_str(raw.get()).map_err(|e| Problem::invalid(name, format!("`{name}`: {e}")))
}

/// A conversation by its id, or by an object that holds it.
fn conversation(raw: &RawValue) -> Result<Option<GatewayConversationId>, Problem> {
    match value::<Value>("conversation", raw)? {
        None => Ok(None),
        Some(Value::String(id)) => ids::parse_conversation(&id).map(Some),
        Some(Value::Object(object)) => match object.get("id").and_then(Value::as_str) {
            Some(id) => ids::parse_conversation(id).map(Some),
            None => Err(Problem::invalid("conversation.id", "expected a conversation id")),
        },
        Some(_) => Err(Problem::invalid("conversation", "expected an id or an object with one")),
    }
}

#[cfg(test)]
mod tests;
