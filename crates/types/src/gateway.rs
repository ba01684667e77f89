//! The gateway's extension of the Responses API, as worker, gateway and command line agree on it.
//! Everything here is optional to ordinary clients, which never send or see it.

use crate::{AgentSlug, Fence, GatewayConversationId, ResponseId, Sha256, SignalId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body field that carries [`RequestExtension`], and the item field that carries
/// [`ItemExtension`].
pub const FIELD: &str = "turnwright";

/// Opens a turn: `POST`, agent token, body [`OpenTurn`], answer [`OpenedTurn`].
pub const OPEN_TURN: &str = "/turnwright/v1/turn/open";
/// Stores tool outputs at once: `POST`, agent token, body [`StoreOutputs`], answer [`Stored`].
pub const STORE_OUTPUTS: &str = "/turnwright/v1/turn/outputs";
/// What was sent for a turn: `GET`, operator token, answer [`TurnPrompt`].
pub const TURN_PROMPT: &str = "/turnwright/v1/conversations/{conversation}/turns/{turn_seq}/prompt";

/// The path of one turn's prompt.
#[must_use]
pub fn turn_prompt(conversation: GatewayConversationId, turn_seq: i64) -> String {
    TURN_PROMPT
        .replace("{conversation}", &conversation.to_string())
        .replace("{turn_seq}", &turn_seq.to_string())
}

/// `turnwright` in the body of `POST /v1/responses`: what makes a request fenced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestExtension {
    /// Which request of its turn this is, from 1; with the fence its idempotency key.
    pub request_no: i32,
    /// The item sequence number it builds on, 0 for an empty conversation; another head is
    /// answered `409 head_moved`.
    pub head: i64,
    /// The prompt manifest, stored with the response.
    pub manifest: Value,
    /// What the conversation has been told by now, stored with the response.
    pub baseline: Value,
    /// The base instructions (block one) inside `instructions`, kept for later turns.
    pub base_instructions: String,
}

/// `turnwright` in an input item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemExtension {
    /// The signal whose text the item carries; unique per conversation, a repeat is the stored item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// The kind of each content part, in order; classification never matches text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

/// Asks for the state of the token's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenTurn {
    /// True when another worker may have written before: raises the fence, ends what an older
    /// epoch or turn left generating, and closes the calls an older turn left open.
    pub takeover: bool,
}

/// The state of a turn in the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenedTurn {
    /// The highest item sequence number of the conversation, 0 when it is empty.
    pub head: i64,
    /// The baseline of the newest response, if there is one.
    pub baseline: Option<Value>,
    /// The base instructions of the conversation's first stored response.
    pub base_instructions: Option<String>,
    /// `instructions` of this turn's first stored request; later requests of the turn repeat them.
    pub instructions: Option<String>,
    /// This turn's requests so far, of all epochs.
    pub requests: i32,
    /// Responses of this turn so far that used an iteration.
    pub iterations: i32,
    /// The signals of this conversation whose text is stored, of those this turn stored.
    pub stored_signals: Vec<SignalId>,
    /// This turn's newest response.
    pub last: Option<LastResponse>,
}

/// The newest response of a turn, as far as it decides how the turn goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastResponse {
    /// Its id.
    pub id: ResponseId,
    /// Its request number.
    pub request_no: i32,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub status: String,
    /// Its text, joined; the final answer when there are no calls.
    pub text: String,
    /// Its function calls, in order.
    pub calls: Vec<StoredCall>,
}

/// A function call in the transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCall {
    /// The gateway's call id.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as the model wrote them.
    pub arguments: String,
    /// Its output, once stored.
    pub output: Option<String>,
}

/// Outputs to store as soon as their tools are done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreOutputs {
    /// In order; a repeat of a stored output is accepted, another output of the same call is not.
    pub outputs: Vec<CallOutput>,
}

/// The output of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallOutput {
    /// The gateway's call id.
    pub call_id: String,
    /// What the tool answered.
    pub output: String,
}

/// Where the conversation stands after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The highest item sequence number.
    pub head: i64,
}

/// Everything that was sent for one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnPrompt {
    /// The agent it was sent for.
    pub agent: Option<AgentSlug>,
    /// In order.
    pub requests: Vec<PromptRequest>,
}

/// One model request of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptRequest {
    /// The response it made.
    pub response_id: ResponseId,
    /// Its number in the turn.
    pub request_no: i32,
    /// The fence it was written under.
    pub fence: Fence,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub status: String,
    /// The model asked for.
    pub model: String,
    /// The exact `instructions`.
    pub instructions: String,
    /// Their hash.
    pub instructions_sha256: Sha256,
    /// The items this request added, in order, as stored.
    pub input: Vec<Value>,
    /// The items it produced, in order, as stored.
    pub output: Vec<Value>,
    /// The prompt manifest.
    pub manifest: Value,
    /// Token usage as the provider told it.
    pub usage: Option<Value>,
    /// SHA-256 of the body sent to the provider.
    pub upstream_sha256: Option<Sha256>,
    /// When it was stored, before the provider was called.
    pub created_at: DateTime<Utc>,
    /// When the first content arrived.
    pub first_content_at: Option<DateTime<Utc>>,
    /// When its end was stored.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it failed or is incomplete.
    pub error: Option<String>,
}
