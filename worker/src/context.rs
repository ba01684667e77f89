//! The agent's context, as the broker answers it at a turn's revision. Fetched beside the claim in
//! the hope that it is needed, and again when the claim tells another revision.

use crate::{
    commit::Failure,
    control::{CallError, ControlPlane},
    convert,
    envelope::Start,
};
use std::time::Duration;
use tokio::time::sleep;
use tracing::{Instrument as _, info_span};
use turnwright_kit::{Chain, Class, Classify as _, backoff::Backoff};
use turnwright_prompt::Context;
use turnwright_proto::v1::{GetConversationContextRequest, SkillScope};
use turnwright_types::{FailureClass, Invalid};

/// Why there is no context.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContextError {
    /// The broker did not answer it.
    #[error("the context was not answered")]
    Call(#[from] CallError),
    /// It answered something that cannot be used.
    #[error("the context cannot be used")]
    Invalid(#[from] Invalid),
}

/// Asks once.
pub(crate) async fn fetch(control: &ControlPlane, start: &Start) -> Result<Context, ContextError> {
    let request = GetConversationContextRequest {
        conversation_id: start.conversation.to_string(),
        revision: start.revision,
        generation: start.generation,
        if_none_match: String::new(),
        skill_scope: SkillScope::Catalog.into(),
    };
    let answer = control.context(request).instrument(info_span!("context")).await?;
    Ok(convert::context(answer)?)
}

/// Asks until there is an answer or the tries are used up.
pub(crate) async fn insist(control: &ControlPlane, start: &Start) -> Result<Context, Failure> {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 6);
    loop {
        let error = match fetch(control, start).await {
            Ok(context) => return Ok(context),
            Err(error) => error,
        };
        match backoff.next() {
            Some(wait) if matches!(&error, ContextError::Call(e) if e.passes()) => {
                sleep(wait).await;
            }
            Some(_) | None => return Err(failure(&error)),
        }
    }
}

fn failure(error: &ContextError) -> Failure {
    let (class, reason) = match error {
        ContextError::Invalid(_) => (FailureClass::Transient, "context_unusable"),
        ContextError::Call(e) => match e.class() {
            Class::NotFound => (FailureClass::Permanent, "conversation_unknown"),
            Class::Invalid | Class::Conflict => (FailureClass::Transient, "context_refused"),
            Class::Unauthenticated
            | Class::Forbidden
            | Class::Exhausted
            | Class::Timeout
            | Class::Unavailable
            | Class::Internal => (FailureClass::Infrastructure, "context_unavailable"),
        },
    };
    Failure::new(class, reason, &Chain(error))
}
