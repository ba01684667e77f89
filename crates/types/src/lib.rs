//! Names and values that two services agree on: ids, validated names, the fence, states, NATS
//! subjects, the gateway's extension of the Responses API. No I/O, no async, no wire framework.

pub mod claims;
pub mod digest;
pub mod fence;
pub mod gateway;
pub mod ids;
pub mod names;
pub mod states;
pub mod subjects;

pub use claims::AgentClaims;
pub use digest::Sha256;
pub use fence::Fence;
pub use ids::{
    ConversationId, DeliveryId, GatewayConversationId, PrincipalId, ResponseId, SignalId, TurnId,
    WorkerIncarnation,
};
pub use names::{AdapterName, AgentSlug, BindingId, EventKey, Invalid, ModelName, Pool, SkillName};
pub use states::{
    Addressed, ChannelKind, DeliveryState, DispositionKind, FailureClass, TurnKind, TurnState,
};
