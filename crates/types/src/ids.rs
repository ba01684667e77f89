//! Identifiers that the product makes itself: time-ordered UUIDs, one type per kind of thing.

use crate::names::Invalid;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, ordered by the time it was made (RFC 9562, version 7).
            #[must_use]
            #[expect(clippy::new_without_default, reason = "a default id would be a new one each time")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// Parses the canonical text form.
            ///
            /// # Errors
            /// When `raw` is not a UUID.
            pub fn parse(raw: &str) -> Result<Self, Invalid> {
                raw.parse().map(Self).map_err(|_| Invalid::new($field, "expected a UUID"))
            }

            /// The bare UUID, for a database parameter.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(raw: Uuid) -> Self {
                Self(raw)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// One agent in one channel (and thread): the lane of mailbox, fence and deliveries.
    ConversationId, "conversation_id");
id!(
    /// One generation of a conversation, as the gateway knows it.
    GatewayConversationId, "gateway_conversation_id");
id!(
    /// One run of the agent loop.
    TurnId, "turn_id");
id!(
    /// One admitted inbound event.
    SignalId, "signal_id");
id!(
    /// One outbound act; also the nonce given to providers that take one.
    DeliveryId, "delivery_id");
id!(
    /// A person, service or agent.
    PrincipalId, "principal_id");
id!(
    /// One response in the gateway.
    ResponseId, "response_id");
id!(
    /// One life of one worker process; a restart makes a new one.
    WorkerIncarnation, "worker_incarnation");
