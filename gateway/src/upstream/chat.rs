//! OpenAI-compatible Chat Completions: a transcript becomes its messages, its stream becomes
//! deltas. Texts are passed on as they are stored, escape by escape.

mod message;
pub(crate) mod stream;

use crate::{
    models::Model,
    problem::Problem,
    request::{Format, Parameters, Tool, ToolChoice},
};
use http::StatusCode;
use message::Message;
use serde::Serialize;
use serde_json::{Value, json};
use turnwright_gateway_store::Item;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Function<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// The body of one upstream request: the whole path, stateless.
///
/// # Errors
/// When a stored item is not readable, or nothing would be said to the model.
pub(crate) fn body(
    model: &Model,
    instructions: Option<&str>,
    path: &[Item],
    parameters: &Parameters,
) -> Result<Vec<u8>, Problem> {
    let messages = message::of_path(instructions, path, model.images)?;
    if messages.is_empty() {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid_prompt",
            "there is nothing to send: the request has no instructions and no messages",
        ));
    }
    let has_tools = !parameters.tools.is_empty();
    let body = Body {
        model: &model.upstream_model,
        messages,
        tools: parameters.tools.iter().map(function).collect(),
        tool_choice: parameters.tool_choice.as_ref().filter(|_| has_tools).map(tool_choice),
        parallel_tool_calls: parameters.parallel_tool_calls.filter(|_| has_tools),
        max_tokens: match (parameters.max_output_tokens, model.max_output_tokens) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, _) => asked,
        },
        temperature: parameters.temperature,
        top_p: parameters.top_p,
        presence_penalty: parameters.presence_penalty,
        frequency_penalty: parameters.frequency_penalty,
        response_format: parameters.text.as_ref().and_then(|text| response_format(&text.format)),
        reasoning_effort: parameters.reasoning.as_ref().and_then(|r| r.effort.as_deref()),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    };
    serde_json::to_vec(&body).map_err(|e| {
        tracing::error!(error = %e, "a request for the provider cannot be written");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal error")
    })
}

fn function(tool: &Tool) -> Function<'_> {
    Function {
        r#type: "function",
        function: Declaration {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters: tool.parameters.as_ref(),
            strict: tool.strict,
        },
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Mode(mode) => json!(mode),
        ToolChoice::Function { name, .. } => {
            json!({ "type": "function", "function": { "name": name } })
        }
    }
}

fn response_format(format: &Format) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::JsonObject => Some(json!({ "type": "json_object" })),
        Format::JsonSchema { name, schema, description, strict } => {
            let mut inner = json!({ "name": name, "schema": schema });
            if let Some(description) = description {
                inner["description"] = json!(description);
            }
            if let Some(strict) = strict {
                inner["strict"] = json!(strict);
            }
            Some(json!({ "type": "json_schema", "json_schema": inner }))
        }
    }
}

#[cfg(test)]
mod tests;
