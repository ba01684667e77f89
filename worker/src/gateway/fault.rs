//! What a failure of the gateway or of a provider behind it means for the turn: one map from error
//! codes to what is done next, the same for answers and for events.

use super::Error;
use std::time::Duration;
use turnwright_types::FailureClass;

/// What is done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The transcript has grown: open the turn again and build on that.
    HeadMoved,
    /// The turn is another's: stop and write nothing.
    FenceStale,
    /// The conversation does not fit the model's window.
    ContextOverflow,
    /// The gateway itself cannot be reached or cannot work: try again.
    Away,
    /// The provider failed in a way that may pass: try again.
    Passing,
    /// An operator must change something first.
    Operator,
    /// Trying again gives the same answer.
    Permanent,
}

/// A failure, classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// The error code as told; never a message, which may quote a conversation.
    pub(crate) code: String,
    /// How long the other side asks to wait.
    pub(crate) after: Option<Duration>,
}

impl Fault {
    /// A failure that was told by a code alone, as in an event. Codes nobody knows are tried again:
    /// the budget of retries bounds the mistake.
    pub(crate) fn of_code(code: &str) -> Self {
        Self { kind: known(code).unwrap_or(Kind::Passing), code: code.to_owned(), after: None }
    }

    /// Class and reason under which the turn fails when nothing more is tried.
    pub(crate) const fn failure(&self) -> (FailureClass, &'static str) {
        match self.kind {
            Kind::HeadMoved => (FailureClass::Transient, "head_moved"),
            Kind::FenceStale => (FailureClass::Transient, "fence_stale"),
            Kind::ContextOverflow => (FailureClass::Permanent, "context_overflow"),
            Kind::Away => (FailureClass::Infrastructure, "gateway_unavailable"),
            Kind::Passing => (FailureClass::Transient, "upstream_error"),
            Kind::Operator => (FailureClass::Operator, "model_not_usable"),
            Kind::Permanent => (FailureClass::Permanent, "request_refused"),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let away = |code: &str| Self { kind: Kind::Away, code: code.to_owned(), after: None };
        match error {
            Error::Refused { status, code, after } => {
                let kind = known(&code).unwrap_or_else(|| of_status(status));
                let code = if code.is_empty() { format!("http_{status}") } else { code };
                Self { kind, code, after }
            }
            Error::Unreachable(_) => away("unreachable"),
            Error::Late => away("no_answer_in_time"),
            Error::Cut => away("stream_cut"),
            Error::Malformed(_) => away("malformed_answer"),
        }
    }
}

fn known(code: &str) -> Option<Kind> {
    Some(match code {
        "head_moved" => Kind::HeadMoved,
        "fence_stale" => Kind::FenceStale,
        "compaction_required" | "context_length_exceeded" => Kind::ContextOverflow,
        // Another write came first: the turn, opened again, tells what is stored.
        "already_generating" | "second_output" | "response_ended" => Kind::Away,
        "conversation_busy" | "unavailable" | "overloaded" | "internal_error" => Kind::Away,
        "rate_limit_exceeded"
        | "server_error"
        | "upstream_cut"
        | "upstream_timeout"
        | "timeout"
        | "overloaded_error"
        | "server_is_overloaded"
        | "slow_down" => Kind::Passing,
        "insufficient_quota"
        | "budget_exceeded"
        | "invalid_api_key"
        | "authentication_error"
        | "provider_auth"
        | "model_not_found" => Kind::Operator,
        "invalid_request_error"
        | "invalid_prompt"
        | "content_filter"
        | "content_policy_violation"
        | "conversation_fenced"
        | "conversation_not_the_agents" => Kind::Permanent,
        _ => return None,
    })
}

const fn of_status(status: u16) -> Kind {
    match status {
        401 | 403 => Kind::Operator,
        502..=504 => Kind::Away,
        408 | 429 | 500..=599 => Kind::Passing,
        _ => Kind::Permanent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Kind {
        Fault::from(Error::Refused { status, code: code.to_owned(), after: None }).kind
    }

    #[test]
    fn the_code_decides_and_the_status_stands_in() {
        assert_eq!(refused(409, "head_moved"), Kind::HeadMoved);
        assert_eq!(refused(409, "fence_stale"), Kind::FenceStale);
        assert_eq!(refused(400, "compaction_required"), Kind::ContextOverflow);
        assert_eq!(refused(429, "insufficient_quota"), Kind::Operator);
        assert_eq!(refused(429, "new_code"), Kind::Passing);
        assert_eq!(refused(503, ""), Kind::Away);
        assert_eq!(refused(400, "new_code"), Kind::Permanent);
        assert_eq!(refused(401, ""), Kind::Operator);
    }

    #[test]
    fn only_what_may_pass_is_handed_back_to_be_tried_again() {
        let class = |code| Fault::of_code(code).failure().0;
        assert_eq!(class("upstream_cut"), FailureClass::Transient);
        assert_eq!(class("never_heard_of"), FailureClass::Transient);
        assert_eq!(class("context_length_exceeded"), FailureClass::Permanent);
        assert_eq!(class("invalid_api_key"), FailureClass::Operator);
        assert_eq!(Fault::from(Error::Cut).failure().0, FailureClass::Infrastructure);
    }
}
