//! What a prompt is made of: the agent's context as the broker answers it, the facts of one turn,
//! and the place where the turn runs. Plain values; nothing here renders.

use chrono::{DateTime, Utc};

/// The agent's context at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Who answers.
    pub agent: AgentProfile,
    /// What it was told about itself.
    pub documents: Documents,
    /// The skills of the catalogue, in any order; recall-only ones are not among them.
    pub skills: Vec<Skill>,
    /// Where the conversation was opened.
    pub origin: OriginChannel,
    /// IANA name; an unknown one degrades clock and label together to UTC.
    pub timezone: String,
    /// Names the conversation in the manifest.
    pub conversation_id: String,
    /// The conversation's key at its channel; not part of any text.
    pub conversation_key: String,
    /// When this generation of the conversation began.
    pub started_at: DateTime<Utc>,
    /// The greatest revision that changed anything the agent resolves.
    pub effective_revision: u64,
}

/// A configured colleague.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProfile {
    /// Its name in configuration.
    pub slug: String,
    /// Its name in chat; the slug stands in for a blank one.
    pub display_name: String,
    /// Its role; a blank one is left out.
    pub title: String,
}

/// The three documents of an agent. A blank one is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// How it speaks and judges.
    pub soul: Document,
    /// What it is responsible for.
    pub mission: Document,
    /// Its visual system.
    pub design: Document,
}

/// One document, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Markdown.
    pub text: String,
    /// SHA-256 of `text` in hexadecimal. Where `text` enters the prompt unchanged it is taken as
    /// given; one that cannot be read is computed anew.
    pub sha256: String,
    /// Who wrote it.
    pub source: DocumentSource,
}

/// Where a document comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentSource {
    /// Written for the agent.
    Agent {
        /// The revision that wrote it.
        revision: u64,
    },
    /// The template that stands in for a missing document.
    Template,
}

/// One skill of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name it is read by.
    pub name: String,
    /// Groups the catalogue; a blank one counts as `general`.
    pub category: String,
    /// One sentence; shown up to [`crate::DESCRIPTION_MAX`] bytes.
    pub description: String,
    /// Words it is found by; not shown.
    pub tags: Vec<String>,
    /// The revision that wrote it.
    pub revision: u64,
}

/// The channel a conversation was opened in; frozen per generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginChannel {
    /// The adapter's name.
    pub adapter: String,
    /// What kind of place it is.
    pub kind: ChannelKind,
    /// A group's name, or the peer of a direct message.
    pub label: Option<String>,
}

/// A kind of place at a chat provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// One person and the agent.
    Dm,
    /// A room.
    Group,
    /// A thread of a room.
    Thread,
    /// A machine that posts events.
    Webhook,
}

impl ChannelKind {
    /// The word shown to the model.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Group => "group",
            Self::Thread => "thread",
            Self::Webhook => "webhook",
        }
    }
}

/// What belongs to one turn. Of all this only the model's window and the base texts may touch
/// `instructions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFacts {
    /// The turn; not part of any text.
    pub turn_id: String,
    /// Its place in the conversation, from 1; not part of any text.
    pub turn_seq: i64,
    /// The model that will answer.
    pub model: ModelProfile,
    /// The agent's own core instructions; an empty text means none at all.
    pub base_override: Option<BaseText>,
    /// The core instructions that the conversation's first stored response used.
    pub stored_base: Option<StoredBase>,
    /// The batch, in the order in which it is to be read.
    pub signals: Vec<SignalText>,
    /// The instant the turn's date is taken from.
    pub now: DateTime<Utc>,
}

/// What assembly needs to know of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProfile {
    /// Its name in configuration.
    pub name: String,
    /// Its context window in tokens, when known.
    pub window_tokens: Option<u32>,
    /// What it is told when nothing else decides.
    pub default_base_instructions: BaseText,
}

/// Core instructions with the revision that wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseText {
    /// The text.
    pub text: String,
    /// The revision that wrote it.
    pub revision: u64,
}

/// Core instructions as they were sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBase {
    /// The text.
    pub text: String,
    /// SHA-256 of `text` in hexadecimal; used as [`Document::sha256`] is.
    pub sha256: String,
}

/// One signal of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalText {
    /// Its id; the user message carries it.
    pub signal_id: String,
    /// Who sent it.
    pub speaker: Speaker,
    /// How it addressed the agent.
    pub addressed: Addressed,
    /// When it was sent, by the provider's clock.
    pub occurred_at: DateTime<Utc>,
    /// What was said; a blank text becomes no content part.
    pub text: String,
    /// The message it answers.
    pub reply_to: Option<String>,
}

/// The sender of a signal, as the provider names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// The name people see.
    pub display_name: String,
    /// The provider's id.
    pub external_id: String,
}

/// How a signal addressed the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressed {
    /// In a direct message.
    Dm,
    /// By name.
    Mention,
    /// By a reply to one of its messages.
    Reply,
    /// Not at all.
    None,
}

impl Addressed {
    /// The word shown to the model.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Mention => "mention",
            Self::Reply => "reply",
            Self::None => "none",
        }
    }
}

/// Where a turn's tools run, and what is enforced there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The absolute path tools start in.
    pub path: String,
    /// The shell commands run in; empty when no tool runs one.
    pub shell: String,
    /// What of the network tools can reach.
    pub network: Network,
    /// What of the file system tools can touch.
    pub filesystem: Filesystem,
}

/// What of the network tools can reach; names only what is enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// No tool on offer can reach it.
    None,
    /// These hosts and no others, in any order.
    Hosts(Vec<String>),
}

/// What of the file system tools can touch; names only what is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// Files of the workspace can be read; nothing can be written.
    ReadOnlyWorkspace,
    /// Files of the workspace can be read and written; nothing outside it can be written.
    WritableWorkspace,
}

/// The names of the tools on offer, in the order in which the request lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools(pub Vec<String>);
