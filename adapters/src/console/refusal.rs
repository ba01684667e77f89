//! Why a request to the console is refused, and the one place where that becomes an HTTP answer.

use super::journal::JournalError;
use crate::{
    api::{ErrorBody, ErrorDetail},
    bindings::{BindingsError, FindError},
    transport::{CallError, PublishError},
};
use axum::{
    Json,
    extract::rejection::{JsonRejection, QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use turnwright_kit::{Class, Classify, class};
use turnwright_types::{AgentSlug, EventKey, Invalid};

/// A refused request.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A value is not usable.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The request is not readable.
    #[error("{why}")]
    Unreadable {
        /// The status that fits.
        status: StatusCode,
        /// What is wrong with it.
        why: String,
    },
    /// No such agent.
    #[error("no agent `{agent}`; {}", known_agents(.known))]
    AgentNotFound {
        /// What was asked for.
        agent: AgentSlug,
        /// What there is.
        known: Vec<AgentSlug>,
    },
    /// The agents cannot be listed.
    #[error("the list of agents is not available; is the control plane running?")]
    Agents(#[source] BindingsError),
    /// An event key stands for another message already.
    #[error("event key `{0}` was used for another message; leave it out or choose a new one")]
    EventKeyUsed(EventKey),
    /// The agent is behind with this console's messages.
    #[error("the agent has too many messages that are not read yet; send it again later")]
    Full,
    /// The message's event could not be encoded.
    #[error("cannot encode the signal")]
    Encode(#[source] serde_json::Error),
    /// Nobody can say whether the signal was stored.
    #[error("whether the message was accepted is not known; send it again with event key `{key}`")]
    Unacknowledged {
        /// The message's event key.
        key: EventKey,
        /// What went wrong.
        #[source]
        source: PublishError,
    },
    /// The signal is stored, the message is not.
    #[error("the message is not stored; send it again with event key `{key}`")]
    Unstored {
        /// The message's event key.
        key: EventKey,
        /// What went wrong.
        #[source]
        source: JournalError,
    },
    /// Too many event streams are open.
    #[error("too many event streams are open; close one")]
    Streams,
}

impl Refusal {
    /// For a message whose signal could not be published.
    pub fn unpublished(key: EventKey, source: PublishError) -> Self {
        match source {
            PublishError::Full => Self::Full,
            PublishError::Disconnected | PublishError::Unacknowledged(_) => {
                Self::Unacknowledged { key, source }
            }
        }
    }

    /// For an agent whose binding was not found.
    pub fn unfound(agent: AgentSlug, why: FindError) -> Self {
        match why {
            FindError::Unknown { known } => Self::AgentNotFound { agent, known },
            FindError::List(e) => Self::Agents(e),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Unreadable { status, .. } => *status,
            Self::Invalid(_)
            | Self::AgentNotFound { .. }
            | Self::Agents(_)
            | Self::EventKeyUsed(_)
            | Self::Full
            | Self::Encode(_)
            | Self::Unacknowledged { .. }
            | Self::Unstored { .. }
            | Self::Streams => self.class().http(),
        }
    }

    fn code(&self) -> &'static str {
        if let Self::AgentNotFound { .. } = self {
            return "agent_not_found";
        }
        self.class().as_str()
    }

    fn event_key(&self) -> Option<String> {
        match self {
            Self::Unacknowledged { key, .. } | Self::Unstored { key, .. } => Some(key.to_string()),
            Self::Invalid(_)
            | Self::Unreadable { .. }
            | Self::AgentNotFound { .. }
            | Self::Agents(_)
            | Self::EventKeyUsed(_)
            | Self::Full
            | Self::Encode(_)
            | Self::Streams => None,
        }
    }
}

impl Classify for Refusal {
    fn class(&self) -> Class {
        match self {
            Self::Invalid(_) | Self::Unreadable { .. } => Class::Invalid,
            Self::AgentNotFound { .. } => Class::NotFound,
            Self::EventKeyUsed(_) => Class::Conflict,
            Self::Full | Self::Streams => Class::Exhausted,
            Self::Agents(BindingsError::Refused { .. })
            | Self::Agents(BindingsError::Call(CallError::Unanswered { .. }))
            | Self::Unacknowledged { .. }
            | Self::Unstored { .. } => Class::Unavailable,
            Self::Agents(BindingsError::Call(e)) => e.class(),
            Self::Encode(_) => Class::Internal,
        }
    }
}

impl From<JsonRejection> for Refusal {
    fn from(e: JsonRejection) -> Self {
        Self::Unreadable { status: e.status(), why: e.body_text() }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(e: QueryRejection) -> Self {
        Self::Unreadable { status: e.status(), why: e.body_text() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        class::log(&self);
        let error = ErrorDetail {
            code: self.code().to_owned(),
            message: self.public(),
            event_key: self.event_key(),
        };
        (self.status(), Json(ErrorBody { error })).into_response()
    }
}

fn known_agents(known: &[AgentSlug]) -> String {
    if known.is_empty() {
        return "there is none yet; apply one with `turnwright apply`".to_owned();
    }
    let names: Vec<_> = known.iter().map(|slug| format!("`{slug}`")).collect();
    format!("there is {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_status_and_an_uncertain_one_names_the_event_key() {
        let key = || EventKey::parse("k").unwrap();
        let maren = AgentSlug::parse("maren").unwrap();
        let unknown = FindError::Unknown { known: vec![maren] };
        let not_found = Refusal::unfound(AgentSlug::parse("mare").unwrap(), unknown);
        assert_eq!((not_found.status().as_u16(), not_found.code()), (404, "agent_not_found"));
        assert!(not_found.public().contains("`maren`"));

        let full = Refusal::unpublished(key(), PublishError::Full);
        assert_eq!((full.status().as_u16(), full.event_key()), (429, None));
        let away = Refusal::unpublished(key(), PublishError::Disconnected);
        assert_eq!((away.status().as_u16(), away.event_key()), (503, Some("k".to_owned())));
        assert_eq!(Refusal::EventKeyUsed(key()).status().as_u16(), 409);
    }
}
