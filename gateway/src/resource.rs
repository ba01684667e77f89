//! The response object: what a stream's first and last events carry and `GET` answers. Written
//! field by field so that what is shared between its copies is never copied.

use crate::{
    ids,
    problem::Problem,
    request::{Parameters, Text},
};
use chrono::{DateTime, Utc};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _},
};
use serde_json::{Value, json, value::RawValue};
use std::sync::Arc;
use turnwright_gateway_store::StoredResponse;
use turnwright_types::{GatewayConversationId, ResponseId};

/// What does not change while a response lives.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) id: ResponseId,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) model: String,
    pub(crate) previous: Option<ResponseId>,
    /// Where it is stored, if it is.
    pub(crate) conversation: Option<GatewayConversationId>,
    /// Not told for agents' requests: they are long, and `TURN_PROMPT` shows them.
    pub(crate) instructions: Option<String>,
    pub(crate) parameters: Parameters,
}

/// Where a response stands.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    InProgress,
    Completed,
    Incomplete { reason: String },
    Failed(Problem),
}

/// A response object.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) facts: Arc<Facts>,
    pub(crate) status: Status,
    pub(crate) output: Arc<[Box<RawValue>]>,
    pub(crate) usage: Option<Value>,
    pub(crate) ended_at: Option<DateTime<Utc>>,
    /// The head of an agent's conversation, in the gateway's extension.
    pub(crate) head: Option<i64>,
}

impl Resource {
    /// A response that has just begun.
    pub(crate) fn begun(facts: Arc<Facts>, head: Option<i64>) -> Self {
        let output: Arc<[Box<RawValue>]> = Arc::from(Vec::new());
        Self { facts, status: Status::InProgress, output, usage: None, ended_at: None, head }
    }

    /// A stored response.
    ///
    /// # Errors
    /// When a stored value is not readable.
    pub(crate) fn stored(row: StoredResponse) -> Result<Self, Problem> {
        let unreadable = |e: serde_json::Error| {
            tracing::error!(response.id = %row.id, error = %e, "a stored response is not readable");
            Problem::new(http::StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal error")
        };
        let parameters = serde_json::from_value(row.parameters).map_err(unreadable)?;
        let output: Result<Vec<_>, _> = row.output.into_iter().map(RawValue::from_string).collect();
        let output = output.map_err(unreadable)?;
        let error = row.error.unwrap_or_default();
        let reason = || error.get("code").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let status = match row.status.as_str() {
            "completed" => Status::Completed,
            "incomplete" => Status::Incomplete { reason: reason() },
            "failed" => Status::Failed(Problem::from_row(&error)),
            _ => Status::InProgress,
        };
        Ok(Self {
            facts: Arc::new(Facts {
                id: row.id,
                created_at: row.created_at,
                model: row.model,
                previous: row.previous,
                conversation: Some(row.conversation),
                instructions: row.instructions.filter(|_| !row.fenced),
                parameters,
            }),
            status,
            output: output.into(),
            usage: row.usage,
            ended_at: row.ended_at,
            head: row.fenced.then_some(row.head),
        })
    }

    pub(crate) const fn is_over(&self) -> bool {
        !matches!(self.status, Status::InProgress)
    }
}

impl Status {
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete { .. } => "incomplete",
            Self::Failed(_) => "failed",
        }
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = &*self.facts;
        let asked = &facts.parameters;
        let (incomplete, error) = match &self.status {
            Status::Incomplete { reason } => (json!({ "reason": reason }), Value::Null),
            Status::Failed(problem) => (Value::Null, Value::Object(problem.object())),
            Status::InProgress | Status::Completed => (Value::Null, Value::Null),
        };
        let completed = matches!(self.status, Status::Completed);
        let completed_at = self.ended_at.filter(|_| completed).map(|at| at.timestamp());
        let tool_choice = match &asked.tool_choice {
            Some(choice) => serde_json::to_value(choice).map_err(S::Error::custom)?,
            None => "auto".into(),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &ids::response(facts.id))?;
        map.serialize_entry("object", "response")?;
        map.serialize_entry("created_at", &facts.created_at.timestamp())?;
        map.serialize_entry("status", self.status.word())?;
        map.serialize_entry("completed_at", &completed_at)?;
        map.serialize_entry("background", &false)?;
        map.serialize_entry("error", &error)?;
        map.serialize_entry("incomplete_details", &incomplete)?;
        map.serialize_entry("instructions", &facts.instructions)?;
        map.serialize_entry("max_output_tokens", &asked.max_output_tokens)?;
        map.serialize_entry("max_tool_calls", &None::<u32>)?;
        map.serialize_entry("model", &facts.model)?;
        map.serialize_entry("output", &self.output[..])?;
        map.serialize_entry("parallel_tool_calls", &asked.parallel_tool_calls.unwrap_or(true))?;
        map.serialize_entry("previous_response_id", &facts.previous.map(ids::response))?;
        map.serialize_entry("prompt_cache_key", &None::<String>)?;
        map.serialize_entry("reasoning", &asked.reasoning.clone().unwrap_or_default())?;
        map.serialize_entry("safety_identifier", &None::<String>)?;
        map.serialize_entry("service_tier", "default")?;
        map.serialize_entry("store", &facts.conversation.is_some())?;
        map.serialize_entry("temperature", &asked.temperature.unwrap_or(1.0))?;
        match &asked.text {
            Some(text) => map.serialize_entry("text", text)?,
            None => map.serialize_entry("text", &Text::default())?,
        }
        map.serialize_entry("tool_choice", &tool_choice)?;
        map.serialize_entry("tools", &asked.tools)?;
        map.serialize_entry("top_logprobs", &0)?;
        map.serialize_entry("top_p", &asked.top_p.unwrap_or(1.0))?;
        map.serialize_entry("presence_penalty", &asked.presence_penalty.unwrap_or(0.0))?;
        map.serialize_entry("frequency_penalty", &asked.frequency_penalty.unwrap_or(0.0))?;
        map.serialize_entry("truncation", "disabled")?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("user", &None::<String>)?;
        map.serialize_entry("metadata", &asked.metadata)?;
        let conversation = facts.conversation.map(|id| json!({ "id": ids::conversation(id) }));
        map.serialize_entry("conversation", &conversation)?;
        if let Some(head) = self.head {
            map.serialize_entry(turnwright_types::gateway::FIELD, &json!({ "head": head }))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(status: Status) -> Value {
        let facts = Facts {
            id: ResponseId::new(),
            created_at: DateTime::UNIX_EPOCH,
            model: "m".into(),
            previous: None,
            conversation: None,
            instructions: Some("i".into()),
            parameters: Parameters::default(),
        };
        let mut resource = Resource::begun(Arc::new(facts), None);
        resource.status = status;
        resource.ended_at = Some(DateTime::UNIX_EPOCH);
        serde_json::from_str(&serde_json::to_string(&resource).unwrap()).unwrap()
    }

    #[test]
    fn every_field_that_the_specification_requires_is_there() {
        let told = resource(Status::Completed);
        for field in [
            "id",
            "object",
            "created_at",
            "completed_at",
            "status",
            "incomplete_details",
            "model",
            "previous_response_id",
            "instructions",
            "output",
            "error",
            "tools",
            "tool_choice",
            "truncation",
            "parallel_tool_calls",
            "text",
            "top_p",
            "presence_penalty",
            "frequency_penalty",
            "top_logprobs",
            "temperature",
            "reasoning",
            "usage",
            "max_output_tokens",
            "max_tool_calls",
            "store",
            "background",
            "service_tier",
            "metadata",
            "safety_identifier",
            "prompt_cache_key",
        ] {
            assert!(told.get(field).is_some(), "{field}");
        }
        assert_eq!(told["text"], json!({"format": {"type": "text"}}));
        assert_eq!(told["store"], false);
    }

    #[test]
    fn only_a_completed_response_was_completed_at_a_time() {
        assert_eq!(resource(Status::Completed)["completed_at"], 0);
        let cut = resource(Status::Incomplete { reason: "upstream_cut".into() });
        assert_eq!(cut["completed_at"], Value::Null);
        assert_eq!(cut["incomplete_details"]["reason"], "upstream_cut");
        let problem = Problem::new(http::StatusCode::BAD_GATEWAY, "server_error", "boom");
        assert_eq!(resource(Status::Failed(problem))["error"]["code"], "server_error");
    }
}
