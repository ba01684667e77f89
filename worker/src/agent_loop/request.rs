//! The first request of a turn in this process: the assembled prompt as the items of a request. It
//! asks nobody; what it renders is decided by the prompt crate.

use crate::{commit::Failure, convert, envelope::Claim};
use serde_json::{Value, json};
use turnwright_kit::Chain;
use turnwright_prompt::{
    AssembleError, Baseline, BlockKind, Context, InputMessage, Prompt, Tools, TurnFacts, Workspace,
    assemble,
};
use turnwright_types::{
    FailureClass, SignalId,
    gateway::{FIELD, ItemExtension, OpenedTurn},
};

const SYNTHESIS: &str = "This turn has used all its model calls, and no tool can be called any \
    more. Answer now from what you have: say what was found or done, what is still open, and what \
    the next step would be.";

/// What a prompt is assembled from, beside the state of its transcript.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) context: &'a Context,
    pub(crate) workspace: &'a Workspace,
    pub(crate) tools: &'a Tools,
}

/// The prompt of a turn.
pub(crate) struct Prepared<'a> {
    sources: Sources<'a>,
    /// Of requests that append outputs only: no signal is left to tell.
    facts: TurnFacts,
    told: Baseline,
    /// The same for every request of the turn.
    pub(crate) instructions: String,
    /// The base instructions inside them.
    pub(crate) base_instructions: String,
    /// What the first request appends.
    pub(crate) messages: Vec<Value>,
    /// The manifest of the first request.
    pub(crate) manifest: Value,
    /// What the conversation has been told once `messages` are stored.
    pub(crate) baseline: Value,
}

impl<'a> Prepared<'a> {
    /// Assembles the prompt. Instructions that this turn sent before are taken as they were sent.
    pub(crate) fn assemble(
        claim: &Claim,
        opened: &OpenedTurn,
        sources: Sources<'a>,
    ) -> Result<Self, Failure> {
        let facts = convert::facts(claim, opened);
        let first = render(sources, &facts, &baseline(opened))?;
        let instructions = opened.instructions.clone();
        Ok(Self {
            sources,
            facts: TurnFacts { signals: Vec::new(), ..facts },
            base_instructions: first.block(BlockKind::Core).unwrap_or_default().to_owned(),
            messages: first.input.iter().map(message).collect(),
            manifest: manifest(&first, instructions.as_deref())?,
            baseline: json_of(&first.baseline)?,
            told: first.baseline,
            instructions: instructions.unwrap_or(first.instructions),
        })
    }

    /// The manifest of a request after the first, which appends outputs only.
    pub(crate) fn later_manifest(&self) -> Result<Value, Failure> {
        let later = render(self.sources, &self.facts, &self.told)?;
        manifest(&later, Some(&self.instructions))
    }
}

fn render(of: Sources<'_>, facts: &TurnFacts, told: &Baseline) -> Result<Prompt, Failure> {
    assemble(of.context, facts, told, of.workspace, of.tools).map_err(unusable)
}

/// What the conversation was told before.
fn baseline(opened: &OpenedTurn) -> Baseline {
    match &opened.baseline {
        Some(stored) => serde_json::from_value(stored.clone()).unwrap_or_else(|e| {
            tracing::warn!(error = %e, "stored baseline is not readable; context is sent again");
            Baseline::unknown()
        }),
        None if opened.head == 0 => Baseline::default(),
        None => Baseline::unknown(),
    }
}

/// The manifest of a prompt; `null` where the turn keeps instructions of another rendering, which
/// the manifest of its first request describes.
fn manifest(prompt: &Prompt, sent: Option<&str>) -> Result<Value, Failure> {
    match sent {
        Some(sent) if sent != prompt.instructions => Ok(Value::Null),
        Some(_) | None => json_of(&prompt.manifest),
    }
}

fn json_of(value: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value)
        .map_err(|e| Failure::new(FailureClass::Permanent, "prompt_not_encodable", &e))
}

#[expect(clippy::needless_pass_by_value, reason = "used as map_err(unusable)")]
fn unusable(error: AssembleError) -> Failure {
    let (class, reason) = match &error {
        AssembleError::SkillsOverBudget { .. } => (FailureClass::Operator, "skills_over_budget"),
        // A worker of the other version takes the next attempt.
        AssembleError::UnsupportedLayout { .. } => (FailureClass::Transient, "layout_unsupported"),
        AssembleError::Seal(_) => (FailureClass::Permanent, "prompt_not_encodable"),
    };
    Failure::new(class, reason, &Chain(&error))
}

fn message(message: &InputMessage) -> Value {
    let signal_id = message.signal_id.as_deref().and_then(|id| SignalId::parse(id).ok());
    let kinds = message.content.iter().map(|part| part.kind.clone().into_owned()).collect();
    let texts = message.content.iter().map(|part| part.text.as_str());
    item(message.role.as_str(), texts, &ItemExtension { signal_id, kinds })
}

/// Asks for an answer from what there is, when no iteration is left.
pub(crate) fn synthesis() -> Value {
    let kinds = vec!["iteration_limit".to_owned()];
    item("developer", [SYNTHESIS], &ItemExtension { signal_id: None, kinds })
}

fn item<'a>(
    role: &str,
    texts: impl IntoIterator<Item = &'a str>,
    extension: &ItemExtension,
) -> Value {
    let texts = texts.into_iter().map(|text| json!({"type": "input_text", "text": text}));
    let content: Vec<Value> = texts.collect();
    json!({"type": "message", "role": role, "content": content, FIELD: extension})
}

/// A tool's output, as the next request lists it.
pub(crate) fn output((call_id, output): (&str, &str)) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": output})
}

#[cfg(test)]
mod tests;
