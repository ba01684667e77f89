//! What a turn appends to the conversation: the fragments that are due, then one user message per
//! signal in the given order. Nothing that was sent before is written again.

use crate::LAYOUT;
use crate::baseline::{Baseline, EnvironmentValues, Section};
use crate::context::{SignalText, TurnFacts, Workspace};
use crate::environment::EnvironmentContext;
use crate::fragment::{ContentPart, ContextFragment, InputMessage, KIND_USER_TEXT, Messages, Role};
use crate::manifest::InputPart;
use crate::trust::neutralise;
use crate::turn_context::TurnContext;
use crate::zone::Zone;
use std::borrow::Cow;

/// The messages of a turn, their sources, and what the conversation knows after them.
pub(crate) struct Input {
    pub(crate) messages: Vec<InputMessage>,
    pub(crate) parts: Vec<InputPart>,
    pub(crate) baseline: Baseline,
}

/// Writes the input of a turn.
pub(crate) fn write(
    facts: &TurnFacts,
    baseline: &Baseline,
    workspace: &Workspace,
    zone: Zone,
) -> Input {
    let mut written = Messages::default();
    let now = EnvironmentValues::observe(workspace, zone, facts.now);
    if let Some(environment) = EnvironmentContext::due(&now, &baseline.environment) {
        written.push_fragments(&[&environment]);
    }
    for signal in &facts.signals {
        push_signal(&mut written, signal, zone);
    }
    Input {
        messages: written.messages,
        parts: written.parts,
        baseline: Baseline { layout: LAYOUT, environment: Section::Known(now) },
    }
}

fn push_signal(written: &mut Messages, signal: &SignalText, zone: Zone) {
    let context = TurnContext { signal, zone };
    let mut content = vec![(context.part(), context.object())];
    // Providers refuse empty parts; the facts still tell that there was a message.
    if !signal.text.trim().is_empty() {
        let text = neutralise(&signal.text).into_owned();
        let part = ContentPart { kind: Cow::Borrowed(KIND_USER_TEXT), text };
        content.push((part, context.object()));
    }
    written.push(Role::User, content, Some(signal.signal_id.clone()));
}
