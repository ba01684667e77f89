//! What starts a turn: the envelope of the queue and the answer of a claim, read once at the edge.
//! Behind it nothing checks again.

use crate::convert;
use chrono::{DateTime, Utc};
use std::time::Duration;
use turnwright_prompt::{BaseText, ModelProfile, SignalText};
use turnwright_proto::{
    convert::{enumeration, fence, time},
    v1,
};
use turnwright_types::{AgentSlug, ConversationId, Fence, Invalid, SignalId, TurnId, TurnKind};

/// The envelope of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) turn: TurnId,
    pub(crate) dispatch_no: i64,
    pub(crate) agent: AgentSlug,
    pub(crate) conversation: ConversationId,
    pub(crate) generation: i32,
    pub(crate) revision: i64,
    pub(crate) kind: TurnKind,
    pub(crate) config: LoopConfig,
    pub(crate) traceparent: Option<String>,
}

/// The agent loop's configuration, as it stood at the turn's revision.
#[derive(Clone, Debug)]
pub(crate) struct LoopConfig {
    pub(crate) max_iterations: u32,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) inactivity: Duration,
    pub(crate) model: ModelProfile,
    pub(crate) base_override: Option<BaseText>,
}

/// A claimed turn: the right to run it and what it answers.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) start: Start,
    pub(crate) fence: Fence,
    pub(crate) takeover: bool,
    /// The ledger's clock at the claim.
    pub(crate) now: DateTime<Utc>,
    /// Frozen, in order.
    pub(crate) batch: Vec<BatchSignal>,
}

/// A signal of the batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchSignal {
    pub(crate) id: SignalId,
    pub(crate) event_key: String,
    pub(crate) asked: bool,
    pub(crate) said: SignalText,
}

/// A message of the queue that is no envelope.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvelopeError {
    /// It is not the JSON form of the message.
    #[error("not a turn start")]
    Json(#[source] serde_json::Error),
    /// A field cannot be what it says.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl Start {
    /// Reads a message of the queue.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, EnvelopeError> {
        let wire: v1::TurnStart = serde_json::from_slice(payload).map_err(EnvelopeError::Json)?;
        Ok(Self::try_from(wire)?)
    }
}

impl TryFrom<v1::TurnStart> for Start {
    type Error = Invalid;

    fn try_from(wire: v1::TurnStart) -> Result<Self, Invalid> {
        let context =
            wire.request_context.ok_or_else(|| Invalid::new("request_context", "must be set"))?;
        let config = context.ai_agent.ok_or_else(|| Invalid::new("ai_agent", "must be set"))?;
        if wire.dispatch_no < 1 {
            return Err(Invalid::new("dispatch_no", "starts at 1"));
        }
        Ok(Self {
            turn: TurnId::parse(&wire.turn_id)?,
            dispatch_no: wire.dispatch_no,
            agent: AgentSlug::parse(wire.agent)?,
            conversation: ConversationId::parse(&wire.conversation_id)?,
            generation: wire.generation,
            revision: wire.revision,
            kind: enumeration::<v1::TurnKind, _>("kind", context.kind)?,
            config: loop_config(config)?,
            traceparent: Some(wire.traceparent).filter(|t| !t.is_empty()),
        })
    }
}

fn loop_config(wire: v1::AiAgentConfig) -> Result<LoopConfig, Invalid> {
    let positive = |field, n: i32| match u32::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Invalid::new(field, "must be at least 1")),
    };
    let inactivity = match u64::try_from(wire.inactivity_timeout_ms) {
        Ok(ms) if ms > 0 => Duration::from_millis(ms),
        _ => return Err(Invalid::new("inactivity_timeout_ms", "must be at least 1")),
    };
    let model = wire.model.ok_or_else(|| Invalid::new("model", "must be set"))?;
    let written = wire.base_instructions_revision;
    let revision = convert::revision("base_instructions_revision", written)?;
    Ok(LoopConfig {
        max_iterations: positive("max_iterations", wire.max_iterations)?,
        max_output_tokens: wire
            .max_output_tokens
            .map(|n| positive("max_output_tokens", n))
            .transpose()?,
        inactivity,
        model: convert::model(model)?,
        base_override: wire.base_instructions.map(|text| BaseText { text, revision }),
    })
}

impl TryFrom<v1::Claimed> for Claim {
    type Error = Invalid;

    fn try_from(wire: v1::Claimed) -> Result<Self, Invalid> {
        let start = wire.start.ok_or_else(|| Invalid::new("start", "must be set"))?;
        let batch = wire.batch.into_iter().map(convert::signal).collect::<Result<_, _>>()?;
        Ok(Self {
            start: start.try_into()?,
            fence: fence(wire.fence)?,
            takeover: wire.takeover,
            now: time("now", wire.now)?,
            batch,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The envelope of a turn, as it travels.
    pub(crate) fn envelope() -> Value {
        json!({
            "turnId": TurnId::new(),
            "dispatchNo": "1",
            "agent": "ada",
            "conversationId": ConversationId::new(),
            "revision": "7",
            "requestContext": {
                "kind": "TURN_KIND_MESSAGE",
                "aiAgent": {
                    "maxIterations": 90,
                    "inactivityTimeoutMs": "1800000",
                    "model": {"name": "m", "defaultBaseInstructions": "Be brief.", "revision": "3"}
                }
            }
        })
    }

    fn parse(envelope: &Value) -> Result<Start, EnvelopeError> {
        Start::parse(envelope.to_string().as_bytes())
    }

    #[test]
    fn a_whole_envelope_is_read() {
        let start = parse(&envelope()).unwrap();
        assert_eq!((start.dispatch_no, start.revision, start.kind), (1, 7, TurnKind::Message));
        assert_eq!(start.config.model.default_base_instructions.revision, 3);
        assert_eq!(start.config.inactivity, Duration::from_secs(1800));
        assert_eq!((start.traceparent, start.config.max_output_tokens), (None, None));
    }

    #[test]
    fn an_impossible_field_is_named() {
        let bad = [
            ("/turnId", json!("x"), "turn_id"),
            ("/dispatchNo", json!(0), "dispatch_no"),
            ("/requestContext/kind", json!("TURN_KIND_UNSPECIFIED"), "kind"),
            ("/requestContext/aiAgent/maxIterations", json!(0), "max_iterations"),
            ("/requestContext/aiAgent/inactivityTimeoutMs", json!(0), "inactivity_timeout_ms"),
        ];
        for (at, value, field) in bad {
            let mut envelope = envelope();
            *envelope.pointer_mut(at).unwrap() = value;
            let Err(EnvelopeError::Invalid(e)) = parse(&envelope) else { panic!("{at} is taken") };
            assert_eq!(e.field, field);
        }
        assert!(matches!(Start::parse(b"[]"), Err(EnvelopeError::Json(_))));
    }
}
