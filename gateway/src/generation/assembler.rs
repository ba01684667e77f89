//! Turns what a provider says into the events of a response. Pure: no clock, no I/O. Whatever a
//! provider says and however it ends, the events are in order, each item is added once and done at
//! most once, and exactly one event ends the stream: the one that [`Ending`] holds back until the
//! end is stored.

use super::output::{CallDraft, Draft, ItemStatus, MessageDraft, OutputItem};
use crate::{
    event::Event,
    problem::Problem,
    upstream::{Delta, Stop, Usage},
};
use serde_json::{Value, json};

/// How an upstream answer ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// In order; whether that completes the response depends on what was said.
    Over,
    /// Before its end, for a reason.
    Cut(&'static str),
    Failed(Problem),
}

/// What the response came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Completed,
    Incomplete(&'static str),
    Failed(Problem),
}

/// The reason of a response whose provider stopped in the middle.
pub(super) const UPSTREAM_CUT: &str = "upstream_cut";

/// A response that is over and not stored yet.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) verdict: Verdict,
    pub(super) output: Vec<OutputItem>,
    pub(super) usage: Option<Usage>,
    /// Told after the end is stored, before the event that ends the stream.
    pub(super) held: Vec<Event>,
}

/// A response while it is said.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    items: Vec<Draft>,
    usage: Option<Usage>,
    stop: Option<Stop>,
}

impl Assembler {
    /// Whether anything was said that a client could see.
    pub(super) const fn has_content(&self) -> bool {
        !self.items.is_empty()
    }

    /// Takes a delta and hands on the events that may be told at once.
    pub(super) fn push(&mut self, delta: Delta, tell: &mut impl FnMut(Event)) {
        match delta {
            Delta::Text(text) => self.text(text, tell),
            Delta::Call { index, name, arguments } => self.call(index, &name, arguments, tell),
            Delta::Usage(usage) => self.usage = Some(usage),
            Delta::Stop(stop) => self.stop = Some(stop),
        }
    }

    fn text(&mut self, text: String, tell: &mut impl FnMut(Event)) {
        let is_open = matches!(self.items.last(), Some(Draft::Message(m)) if !m.is_done);
        if !is_open {
            self.call_is_whole();
            let message = MessageDraft::new();
            let output_index = self.items.len();
            let item = message.to_raw(ItemStatus::InProgress);
            tell(Event::ItemAdded { output_index, item });
            tell(part(&message, output_index, true, ""));
            self.items.push(Draft::Message(message));
        }
        let output_index = self.items.len() - 1;
        if let Some(Draft::Message(message)) = self.items.last_mut() {
            message.text.push_str(&text);
            let item_id = message.id.clone();
            let delta = text;
            let logprobs = [];
            tell(Event::TextDelta { item_id, output_index, content_index: 0, delta, logprobs });
        }
    }

    fn call(&mut self, index: usize, name: &str, arguments: String, tell: &mut impl FnMut(Event)) {
        let known = self
            .items
            .iter()
            .rposition(|item| matches!(item, Draft::Call(call) if call.index == index));
        let at = known.unwrap_or_else(|| {
            self.close_message(ItemStatus::Completed, tell);
            self.call_is_whole();
            self.items.push(Draft::Call(CallDraft::new(index)));
            self.items.len() - 1
        });
        let Some(Draft::Call(call)) = self.items.get_mut(at) else { return };
        let was_named = !call.name.is_empty();
        // Some providers repeat the name in every piece.
        if !was_named {
            call.name.push_str(name);
        }
        call.arguments.push_str(&arguments);
        let is_named = !call.name.is_empty();
        // Told once its name is known: clients look at it.
        if is_named && !was_named {
            let item = call.to_raw(ItemStatus::InProgress);
            tell(Event::ItemAdded { output_index: at, item });
        }
        let piece = if was_named { arguments } else { call.arguments.clone() };
        if is_named && !piece.is_empty() {
            let item_id = call.id.clone();
            tell(Event::ArgumentsDelta { item_id, output_index: at, piece });
        }
    }

    /// Another item begins: nothing more comes of a call before it.
    fn call_is_whole(&mut self) {
        if let Some(Draft::Call(call)) = self.items.last_mut() {
            call.is_whole = true;
        }
    }

    fn close_message(&mut self, status: ItemStatus, tell: &mut impl FnMut(Event)) {
        let output_index = self.items.len().saturating_sub(1);
        let Some(Draft::Message(message)) = self.items.last_mut() else { return };
        if std::mem::replace(&mut message.is_done, true) {
            return;
        }
        let (item_id, text) = (message.id.clone(), message.text.clone());
        tell(Event::TextDone { item_id, output_index, content_index: 0, text, logprobs: [] });
        tell(part(message, output_index, false, &message.text));
        tell(Event::ItemDone { output_index, item: message.to_raw(status) });
    }

    /// Ends the response: tells what may be told before the end is stored, and returns the rest.
    pub(super) fn end(mut self, outcome: Outcome, tell: &mut impl FnMut(Event)) -> Ending {
        let verdict = self.verdict(outcome);
        let completed = verdict == Verdict::Completed;
        let status = if completed { ItemStatus::Completed } else { ItemStatus::Incomplete };
        self.close_message(status, tell);
        let last = self.items.len().saturating_sub(1);
        let mut output = Vec::with_capacity(self.items.len());
        let mut held = Vec::new();
        for (output_index, draft) in self.items.iter().enumerate() {
            match draft {
                // Done before: only the last message can have been cut.
                Draft::Message(_) if output_index < last => {
                    output.push(OutputItem::of(draft, ItemStatus::Completed));
                }
                Draft::Message(_) => output.push(OutputItem::of(draft, status)),
                // A call that nobody named, or that was cut in the middle, never was.
                Draft::Call(call) if call.name.is_empty() || (!completed && !call.is_whole) => {}
                Draft::Call(call) => {
                    let item = OutputItem::of(draft, status);
                    if completed {
                        held.push(Event::ArgumentsDone {
                            item_id: call.id.clone(),
                            output_index,
                            name: call.name.clone(),
                            arguments: call.arguments.clone(),
                        });
                        held.push(Event::ItemDone { output_index, item: item.raw.clone() });
                    }
                    output.push(item);
                }
            }
        }
        Ending { verdict, output, usage: self.usage, held }
    }

    fn verdict(&self, outcome: Outcome) -> Verdict {
        match (outcome, self.stop) {
            (Outcome::Failed(problem), _) => Verdict::Failed(problem),
            (Outcome::Cut(reason), _) => Verdict::Incomplete(reason),
            (Outcome::Over, Some(Stop::End)) => Verdict::Completed,
            (Outcome::Over, Some(Stop::OutputLimit)) => Verdict::Incomplete("max_output_tokens"),
            (Outcome::Over, Some(Stop::Filter)) => Verdict::Incomplete("content_filter"),
            (Outcome::Over, Some(Stop::GaveUp) | None) => Verdict::Incomplete(UPSTREAM_CUT),
        }
    }
}

fn part(message: &MessageDraft, output_index: usize, added: bool, text: &str) -> Event {
    let part: Value =
        json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
    Event::Part { added, item_id: message.id.clone(), output_index, content_index: 0, part }
}

#[cfg(test)]
mod tests;
