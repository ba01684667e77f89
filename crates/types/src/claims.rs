//! What an agent token says. The control plane signs it with the claim of a turn, the gateway
//! checks it on every write.

use crate::{AgentSlug, Fence, GatewayConversationId, TurnId};
use serde::{Deserialize, Serialize};

/// Claims of the short-lived token (EdDSA JWT, RFC 8037) that lets one worker write one
/// conversation during one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentClaims {
    /// Always [`AgentClaims::AUDIENCE`].
    pub aud: String,
    /// The agent whose turn it is.
    pub sub: AgentSlug,
    /// The only conversation it may touch.
    pub conversation: GatewayConversationId,
    /// The turn it was handed out with.
    pub turn: TurnId,
    /// The right to write.
    pub fence: Fence,
    /// Expiry, in seconds since 1970.
    pub exp: i64,
}

impl AgentClaims {
    /// The audience of every agent token.
    pub const AUDIENCE: &'static str = "turnwright-gateway";
}
