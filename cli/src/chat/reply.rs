//! The reply to one message, put together from what the console tells: drafts that may be lost or
//! replaced, and the delivered messages that decide. Pure; it prints nothing.

use std::collections::BTreeMap;
use turnwright_adapters::{
    api::{AgentPart, By, Message},
    client::Event,
};
use turnwright_proto::v1::{TurnProgress, turn_progress::Event as Step};

/// What an event means to whoever waits for the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Nothing.
    Nothing,
    /// A turn has taken up the message.
    Started,
    /// The draft goes on.
    Text {
        /// How it goes on.
        text: String,
        /// The draft so far is void: another worker begins anew.
        again: bool,
    },
    /// A tool is called; what was said before it is not the reply.
    Tool(String),
    /// The reply is there, whole.
    Complete,
    /// There will be no reply, and a notice says so.
    Notice,
}

/// A reply that is awaited.
#[derive(Clone, Debug)]
pub struct Reply {
    event_key: String,
    turn_id: Option<String>,
    turn_seq: Option<i64>,
    epoch: i64,
    draft: String,
    void: bool,
    chunks: BTreeMap<i32, Message>,
    notice: Option<Message>,
}

impl Reply {
    /// Awaits the reply to the message that this event key names.
    #[must_use]
    pub const fn to(event_key: String) -> Self {
        Self {
            event_key,
            turn_id: None,
            turn_seq: None,
            epoch: 0,
            draft: String::new(),
            void: false,
            chunks: BTreeMap::new(),
            notice: None,
        }
    }

    /// The key of the message that is answered.
    #[must_use]
    pub fn event_key(&self) -> &str {
        &self.event_key
    }

    /// The turn that took up the message, once it is known.
    #[must_use]
    pub fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_deref()
    }

    /// That turn's place in its conversation, once its start was seen.
    #[must_use]
    pub const fn turn_seq(&self) -> Option<i64> {
        self.turn_seq
    }

    /// The draft so far.
    #[must_use]
    pub fn draft(&self) -> &str {
        &self.draft
    }

    /// The delivered messages, in order; a notice last.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.chunks.values().chain(&self.notice)
    }

    /// The delivered text.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.messages().map(|m| m.text.as_str()).collect();
        texts.join("\n\n")
    }

    /// Whether nothing more will come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.notice.is_some() || self.is_whole()
    }

    fn is_whole(&self) -> bool {
        let planned = self.chunks.values().next().map(|m| match &m.by {
            By::Agent(agent) => agent.chunks,
            By::User(_) => 0,
        });
        planned.is_some_and(|n| usize::try_from(n).is_ok_and(|n| self.chunks.len() >= n))
    }

    /// Takes an event of the conversation.
    pub fn observe(&mut self, event: &Event) -> Update {
        match event {
            Event::Message(message) => match &message.by {
                By::Agent(agent) => self.delivered(message, agent),
                By::User(_) => Update::Nothing,
            },
            Event::Progress(progress) if !self.is_over() => self.progressed(progress),
            Event::Progress(_) | Event::Lagged(_) => Update::Nothing,
        }
    }

    fn delivered(&mut self, message: &Message, agent: &AgentPart) -> Update {
        let turn = agent.turn_id.map(|id| id.to_string());
        let mine = agent.reply_event_key.as_deref() == Some(self.event_key.as_str())
            || (turn.is_some() && turn == self.turn_id);
        if !mine || self.is_over() {
            return Update::Nothing;
        }
        if self.turn_id.is_none() {
            self.turn_id = turn;
        }
        if agent.origin == "notice" {
            self.notice = Some(message.clone());
            return Update::Notice;
        }
        self.chunks.insert(agent.ordinal, message.clone());
        if self.is_whole() { Update::Complete } else { Update::Nothing }
    }

    fn progressed(&mut self, progress: &TurnProgress) -> Update {
        let Some(step) = &progress.event else { return Update::Nothing };
        if let Step::Started(started) = step
            && started.event_keys.contains(&self.event_key)
            && progress.epoch > self.epoch
        {
            let known = self.turn_id.is_some();
            self.turn_id = Some(progress.turn_id.clone());
            self.turn_seq = Some(started.turn_seq);
            self.begin(progress.epoch);
            return if known { Update::Nothing } else { Update::Started };
        }
        if self.turn_id.as_ref() != Some(&progress.turn_id) || progress.epoch < self.epoch {
            return Update::Nothing;
        }
        if progress.epoch > self.epoch {
            self.begin(progress.epoch);
        }
        match step {
            Step::TextDelta(delta) => {
                let again = std::mem::take(&mut self.void);
                self.draft.push_str(&delta.text);
                Update::Text { text: delta.text.clone(), again }
            }
            Step::ToolStarted(tool) => {
                self.draft.clear();
                Update::Tool(tool.tool.clone())
            }
            Step::Started(_) | Step::ToolFinished(_) | Step::Ended(_) => Update::Nothing,
        }
    }

    /// Another worker runs the turn from here on: what the one before showed is void.
    fn begin(&mut self, epoch: i64) {
        self.epoch = epoch;
        self.void = !self.draft.is_empty();
        self.draft.clear();
    }
}

/// What is left to print so that a reader who has seen `draft` has read `text`.
#[must_use]
pub fn closing(draft: &str, text: &str) -> String {
    if draft.is_empty() {
        return format!("{text}\n");
    }
    if draft.split_whitespace().eq(text.split_whitespace()) {
        return "\n".to_owned();
    }
    match text.strip_prefix(draft) {
        Some(rest) => format!("{rest}\n"),
        None => format!("\n{text}\n"),
    }
}

#[cfg(test)]
mod tests;
