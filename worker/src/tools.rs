//! The tools of a turn: what each declares, their one order, and how a call becomes an output. A
//! call that cannot be run becomes an error output; no call ends a turn.

mod list_files;
mod output;
mod read_file;
pub(crate) mod round;
mod skill_view;
pub(crate) mod workspace;

use crate::{control::ControlPlane, gateway::FunctionCall};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span, field::Empty, info_span};
use turnwright_prompt::Tools;
use turnwright_types::ConversationId;
use workspace::Workspace;

/// The most a tool of this crate answers, in bytes.
const OUTPUT_CAP: usize = 32 << 10;

/// What running a tool twice does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "`side effect` is the term of the field")]
pub(crate) enum Effect {
    /// Nothing: it may run beside others and again.
    ReadOnly,
    /// The same as running it once: it runs alone, and again after a crash.
    #[cfg_attr(not(test), expect(dead_code, reason = "no tool on offer has an effect"))]
    Idempotent,
    /// Something each time: it runs alone, and never again after a crash.
    SideEffect,
}

/// What a tool says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// JSON Schema of the arguments.
    pub(crate) parameters: Value,
    pub(crate) effect: Effect,
    pub(crate) timeout: Duration,
    /// In bytes.
    pub(crate) output_cap: usize,
}

/// A tool.
pub(crate) trait Tool: Send + Sync {
    /// What it is.
    fn declaration(&self) -> &Declaration;

    /// Runs it with arguments as the model wrote them.
    fn run<'a>(
        &'a self,
        arguments: &'a str,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// Why a tool has no answer; the model reads it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The arguments are no JSON or do not fit.
    #[error("the arguments do not fit the tool: {0}")]
    Arguments(serde_json::Error),
    /// It cannot be done.
    #[error("{0}")]
    Refused(String),
    /// It cannot be done now.
    #[error("{0}; it may work later")]
    Unavailable(String),
}

/// Reads arguments; none at all count as an empty object.
fn arguments<T: DeserializeOwned>(raw: &str) -> Result<T, ToolError> {
    let raw = if raw.trim().is_empty() { "{}" } else { raw };
    serde_json::from_str(raw).map_err(ToolError::Arguments)
}

/// What the tools of one turn may touch.
pub(crate) struct Scope {
    pub(crate) conversation: ConversationId,
    pub(crate) revision: i64,
    pub(crate) workspace: Arc<Workspace>,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) failed: bool,
}

impl Output {
    pub(crate) fn error(why: impl std::fmt::Display) -> Self {
        let text = from_outside(format!("error: {why}"));
        Self { text: output::cap(text, OUTPUT_CAP, |_| "shortened".into()), failed: true }
    }
}

/// What a tool brings is text from outside: it cannot forge a marker of the prompt, nor hold U+0000,
/// which a database does not keep.
fn from_outside(text: String) -> String {
    let text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    match turnwright_prompt::neutralise(&text) {
        Cow::Owned(harmless) => harmless,
        Cow::Borrowed(_) => text,
    }
}

/// The tools on offer, in the order in which every request lists them.
pub(crate) struct Registry {
    tools: Vec<Box<dyn Tool>>,
    wire: Vec<Value>,
}

impl Registry {
    /// The tools of this worker.
    pub(crate) fn new(control: ControlPlane, tasks: TaskTracker) -> Self {
        Self::of(vec![
            Box::new(skill_view::SkillView::new(control)),
            Box::new(list_files::ListFiles::new(tasks.clone())),
            Box::new(read_file::ReadFile::new(tasks)),
        ])
    }

    fn of(mut tools: Vec<Box<dyn Tool>>) -> Self {
        tools.sort_by_key(|tool| tool.declaration().name);
        let wire = tools.iter().map(|tool| {
            let d = tool.declaration();
            json!({
                "type": "function",
                "name": d.name,
                "description": d.description,
                "parameters": d.parameters,
                "strict": false,
            })
        });
        Self { wire: wire.collect(), tools }
    }

    /// As a request lists them.
    pub(crate) fn wire(&self) -> &[Value] {
        &self.wire
    }

    /// As the prompt names them.
    pub(crate) fn names(&self) -> Tools {
        Tools(self.tools.iter().map(|tool| tool.declaration().name.to_owned()).collect())
    }

    /// The effect of a tool; one that does not exist has none.
    pub(crate) fn effect(&self, name: &str) -> Effect {
        self.find(name).map_or(Effect::ReadOnly, |tool| tool.declaration().effect)
    }

    fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.tools.iter().find(|tool| tool.declaration().name == name).map(|tool| &**tool)
    }

    /// Runs a call.
    pub(crate) async fn run(&self, call: &FunctionCall, scope: &Scope) -> Output {
        let Some(tool) = self.find(&call.name) else {
            let names = self.names().0.join(", ");
            return Output::error(format!("there is no tool `{}`; there are: {names}", call.name));
        };
        let d = tool.declaration();
        let name = format!("execute_tool {}", d.name);
        let span = info_span!(
            "execute_tool",
            otel.name = name.as_str(),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = d.name,
            gen_ai.tool.call.id = call.call_id.as_str(),
            otel.status_code = Empty,
        );
        async {
            let output = match timeout(d.timeout, tool.run(&call.arguments, scope)).await {
                Ok(Ok(text)) => {
                    let text = from_outside(text);
                    let text = output::cap(text, d.output_cap, |_| "ask for less at a time".into());
                    Output { text, failed: false }
                }
                Ok(Err(e)) => Output::error(e),
                Err(_) => Output::error(format!("not finished within {} s", d.timeout.as_secs())),
            };
            if output.failed {
                Span::current().record("otel.status_code", "ERROR");
            }
            output
        }
        .instrument(span)
        .await
    }
}

#[cfg(test)]
mod tests;
