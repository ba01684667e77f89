//! The request parameters that shape generation, stored with the response and told in it.

use super::value;
use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

/// Everything a client may set beside input, instructions and continuation. `None` is the
/// provider's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Parameters {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<Tool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    /// Always `function`: other tools are refused before this is parsed.
    pub(crate) r#type: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) parameters: Option<Value>,
    #[serde(default)]
    pub(crate) strict: Option<bool>,
}

/// Whether and what to call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ToolChoice {
    Mode(Mode),
    Function { r#type: FunctionWord, name: String },
}

/// A choice that names no function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    None,
    Auto,
    Required,
}

/// The word `function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FunctionWord {
    Function,
}

/// How text is to look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    #[serde(default)]
    pub(crate) format: Format,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verbosity: Option<String>,
}

/// The form of the text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Format {
    #[default]
    Text,
    JsonObject,
    JsonSchema {
        name: String,
        schema: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

/// How hard to think.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reasoning {
    #[serde(default)]
    pub(crate) effort: Option<String>,
    #[serde(default)]
    pub(crate) summary: Option<String>,
}

impl Parameters {
    /// Reads one parameter; an unknown one is an error that names it.
    pub(super) fn read(&mut self, name: &str, raw: &RawValue) -> Result<(), Problem> {
        match name {
            "tools" => self.tools = tools(raw)?,
            "tool_choice" => self.tool_choice = tool_choice(raw)?,
            "parallel_tool_calls" => self.parallel_tool_calls = value(name, raw)?,
            "max_output_tokens" => self.max_output_tokens = value(name, raw)?,
            "temperature" => self.temperature = value(name, raw)?,
            "top_p" => self.top_p = value(name, raw)?,
            "presence_penalty" => self.presence_penalty = value(name, raw)?,
            "frequency_penalty" => self.frequency_penalty = value(name, raw)?,
            "text" => self.text = value(name, raw)?,
            "reasoning" => self.reasoning = value(name, raw)?,
            "metadata" => self.metadata = value(name, raw)?.unwrap_or_default(),
            "truncation" => match value::<String>(name, raw)?.as_deref() {
                None | Some("disabled") => {}
                Some(_) => {
                    let message = "only `disabled` is offered: nothing is cut silently";
                    return Err(Problem::not_offered(name, message));
                }
            },
            "max_tool_calls" | "prompt" | "moderation" | "context_management"
                if raw.get() == "null" => {}
            "max_tool_calls" | "prompt" | "moderation" | "context_management" => {
                return Err(Problem::not_offered(name, format!("`{name}` is not offered")));
            }
            "top_logprobs" if matches!(raw.get(), "null" | "0") => {}
            "top_logprobs" => {
                return Err(Problem::not_offered(name, "log probabilities are not offered"));
            }
            _ => return Err(Problem::unknown_parameter(name)),
        }
        Ok(())
    }

    /// Checks ranges.
    pub(super) fn checked(self) -> Result<Self, Problem> {
        within("temperature", self.temperature, 0.0, 2.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        if self.max_output_tokens == Some(0) {
            return Err(Problem::invalid("max_output_tokens", "must be at least 1"));
        }
        let short = |(k, v): (&String, &String)| k.len() <= 64 && v.len() <= 512;
        if self.metadata.len() > 16 || !self.metadata.iter().all(short) {
            let message = "at most 16 pairs, keys up to 64 bytes, values up to 512";
            return Err(Problem::invalid("metadata", message));
        }
        Ok(self)
    }
}

fn within(name: &str, value: Option<f64>, least: f64, most: f64) -> Result<(), Problem> {
    match value {
        Some(v) if !(least..=most).contains(&v) => {
            Err(Problem::invalid(name, format!("must be between {least} and {most}")))
        }
        _ => Ok(()),
    }
}

fn tools(raw: &RawValue) -> Result<Vec<Tool>, Problem> {
    let listed: Vec<Value> = value("tools", raw)?.unwrap_or_default();
    let parse = |(at, tool): (usize, Value)| {
        let param = format!("tools[{at}]");
        match tool.get("type").and_then(Value::as_str) {
            Some("function") => serde_json::from_value::<Tool>(tool)
                .map_err(|e| Problem::invalid(&param, format!("`{param}`: {e}"))),
            Some(other) => {
                let message = format!("tools of type `{other}` are not offered, only `function`");
                Err(Problem::not_offered(param, message))
            }
            None => Err(Problem::invalid(param, "a tool needs a `type`")),
        }
    };
    listed.into_iter().enumerate().map(parse).collect()
}

fn tool_choice(raw: &RawValue) -> Result<Option<ToolChoice>, Problem> {
    serde_json::from_str(raw.get()).map_err(|_| {
        let message =
            "expected `none`, `auto`, `required` or {\"type\": \"function\", \"name\": …}";
        Problem::invalid("tool_choice", message)
    })
}
