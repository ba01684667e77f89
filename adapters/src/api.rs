//! The JSON of the console's HTTP interface, as server and client agree on it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;
use turnwright_types::{
    AgentSlug, BindingId, ConversationId, DeliveryId, EventKey, Invalid, TurnId,
};
use uuid::Uuid;

/// The path that lists agents.
pub const AGENTS: &str = "/v1/agents";
/// The path that takes messages.
pub const MESSAGES: &str = "/v1/messages";
/// The path that streams events.
pub const EVENTS: &str = "/v1/events";

/// The name of the server-sent event that carries a [`Message`]; its id is the message's index.
pub const EVENT_MESSAGE: &str = "message";
/// The name of the server-sent event that carries a `TurnProgress` in ProtoJSON.
pub const EVENT_PROGRESS: &str = "progress";
/// The name of the server-sent event that carries [`Lagged`].
pub const EVENT_LAGGED: &str = "lagged";

/// The longest message, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 10;
/// The largest request body, in bytes.
pub const MAX_BODY_BYTES: usize = 128 << 10;
/// The longest sender id and display name, in bytes.
pub const MAX_SENDER_BYTES: usize = 256;

/// A conversation of the console, named by its user: `A-Z`, `a-z`, `0-9`, `.`, `_`, `-`. It is the
/// channel id in signals and deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Conversation(String);

impl Conversation {
    /// The longest name, in bytes.
    pub const MAX: usize = 64;

    /// Validates a name.
    ///
    /// # Errors
    /// When it is empty, too long or holds a character that is not allowed.
    pub fn parse(raw: impl Into<String>) -> Result<Self, Invalid> {
        let raw = raw.into();
        let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if raw.is_empty() || raw.len() > Self::MAX || !raw.bytes().all(ok) {
            let why = "expected 1 to 64 characters of A-Z, a-z, 0-9, `.`, `_` and `-`";
            return Err(Invalid::new("conversation", why));
        }
        Ok(Self(raw))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self("main".to_owned())
    }
}

impl TryFrom<String> for Conversation {
    type Error = Invalid;
    fn try_from(raw: String) -> Result<Self, Invalid> {
        Self::parse(raw)
    }
}

impl From<Conversation> for String {
    fn from(name: Conversation) -> Self {
        name.0
    }
}

impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The answer to `GET /v1/agents`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agents {
    /// The agents that can be written to.
    pub agents: Vec<Agent>,
}

/// An agent that can be written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its slug.
    pub agent: AgentSlug,
    /// Its display name.
    pub name: String,
    /// Its binding at the console.
    pub binding: BindingId,
}

/// The body of `POST /v1/messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostMessage {
    /// The agent's slug.
    pub agent: String,
    /// The conversation; `main` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The message, 1 byte to [`MAX_TEXT_BYTES`].
    pub text: String,
    /// Who writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// Names the message: posting again under the same key changes nothing. Made when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_key: Option<String>,
}

impl PostMessage {
    /// A message with a new event key, so that sending it again is safe.
    #[must_use]
    pub fn new(agent: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            conversation: None,
            text: text.into(),
            sender: None,
            event_key: Some(Uuid::now_v7().to_string()),
        }
    }
}

/// Who wrote a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sender {
    /// A stable id, at most [`MAX_SENDER_BYTES`].
    pub id: String,
    /// A name for people, at most [`MAX_SENDER_BYTES`].
    #[serde(default)]
    pub display_name: String,
}

impl Default for Sender {
    fn default() -> Self {
        Self { id: "console".to_owned(), display_name: "Console".to_owned() }
    }
}

/// The answer to `POST /v1/messages`: the signal is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Names the message's event.
    pub event_key: EventKey,
    /// The message's id at the console.
    pub message_id: Uuid,
    /// Where it stands; later messages have a higher index.
    pub index: u64,
    /// The conversation.
    pub conversation: Conversation,
    /// The agent's binding.
    pub binding: BindingId,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its place in the store; grows, with gaps, within a conversation.
    pub index: u64,
    /// Its id at the console.
    pub message_id: Uuid,
    /// When it was stored.
    pub at: DateTime<Utc>,
    /// What it says.
    pub text: String,
    /// Who wrote it.
    #[serde(flatten)]
    pub by: By,
}

/// The author of a message, and what only such a message has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "author", rename_all = "snake_case")]
pub enum By {
    /// A user of the console.
    User(UserPart),
    /// The agent.
    Agent(AgentPart),
}

/// What only a user's message has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPart {
    /// Names its event.
    pub event_key: EventKey,
    /// Who wrote it.
    pub sender: Sender,
    /// Its order key in the signal.
    pub order_key: String,
}

/// What only an agent's message has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPart {
    /// The delivery it was posted for.
    pub delivery_id: DeliveryId,
    /// The id of the message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The event key of the message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_event_key: Option<String>,
    /// Why it was sent: `reply` or `notice`.
    pub origin: String,
    /// The turn it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// The conversation, as the control plane knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Its place in its reply, from 0.
    pub ordinal: i32,
    /// How many messages its reply has.
    pub chunks: i32,
}

/// The data of a `lagged` event: the client read too slowly. Progress was lost; messages were not,
/// those kept in the store follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lagged {
    /// How many events were passed over.
    pub missed: u64,
}

/// The body of every refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What is wrong.
    pub error: ErrorDetail,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// A stable word: `agent_not_found`, `invalid`, `conflict`, `exhausted`, `unavailable`,
    /// `timeout`, `internal`.
    pub code: String,
    /// What to do.
    pub message: String,
    /// Repeat the request with this event key: whether the message was accepted is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_key: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_conversation_name_is_accepted_exactly_when_its_pattern_matches(
            good in "[A-Za-z0-9._-]{1,64}",
            bad in "[A-Za-z0-9._-]{0,20}[^A-Za-z0-9._-][A-Za-z0-9._-]{0,20}",
            long in "[a-z]{65,80}",
        ) {
            let parsed = Conversation::parse(good.clone()).unwrap();
            prop_assert_eq!(parsed.as_str(), good.as_str());
            prop_assert!(Conversation::parse(bad).is_err());
            prop_assert!(Conversation::parse(long).is_err());
        }
    }

    #[test]
    fn a_message_is_flat_json_and_reads_back() {
        let message = Message {
            index: 7,
            message_id: Uuid::now_v7(),
            at: DateTime::UNIX_EPOCH,
            text: "hi".to_owned(),
            by: By::Agent(AgentPart {
                delivery_id: DeliveryId::new(),
                reply_to: Some("m".to_owned()),
                reply_event_key: None,
                origin: "reply".to_owned(),
                turn_id: Some(TurnId::new()),
                conversation_id: None,
                ordinal: 1,
                chunks: 2,
            }),
        };
        let json = serde_json::to_value(&message).unwrap();
        assert_eq!(json["author"], "agent");
        assert_eq!(json["ordinal"], 1);
        assert_eq!(serde_json::from_value::<Message>(json).unwrap(), message);
    }
}
