//! The place of a message: one conversation of the console with one agent.

use crate::api::Conversation;
use serde::{Deserialize, Serialize};
use turnwright_types::BindingId;

/// A conversation with the agent behind a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    /// The agent's binding.
    pub binding: BindingId,
    /// The conversation, which is the channel id.
    pub conversation: Conversation,
}
