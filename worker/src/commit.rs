//! The end of a turn: one fenced call to the ledger, repeated until it is answered, the turn is
//! another's, or the process must go.

use crate::control::{CallError, ControlPlane};
use std::{fmt::Display, time::Duration};
use tokio::time::sleep;
use turnwright_kit::{Chain, Class, Classify as _, backoff::Backoff};
use turnwright_proto::v1;
use turnwright_types::{FailureClass, Fence, ResponseId, TurnId};

/// The longest answer the ledger takes, in bytes.
const ANSWER_MAX: usize = 256 << 10;

/// How a turn ends here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With an answer.
    Complete {
        /// The answer.
        text: String,
        /// The stored response it came from.
        response: ResponseId,
    },
    /// Without an answer, or handed back to be tried again.
    Fail(Failure),
    /// It is another worker's: nothing more is written.
    Lost,
}

/// Why a turn has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// A stable word.
    pub(crate) reason: &'static str,
    /// For operators; no secret and nothing of a message.
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, reason: &'static str, detail: &dyn Display) -> Self {
        Self { class, reason, detail: detail.to_string() }
    }
}

impl From<Failure> for Ending {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

/// A turn and the right to end it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    pub(crate) turn: TurnId,
    pub(crate) fence: Fence,
}

/// Commits an ending and answers the state the turn is in then; `None` when the turn is another's
/// or `give_up` resolved first. Repeats are harmless: the ledger answers the stored end.
pub(crate) async fn commit(
    control: &ControlPlane,
    ours: Ours,
    ending: Ending,
    give_up: impl Future<Output = ()>,
) -> Option<String> {
    let ending = bounded(ending);
    tokio::select! {
        biased;
        state = settle(control, ours, ending) => state,
        () = give_up => {
            tracing::warn!("turn was not ended here; whoever owns it next goes on with it");
            None
        }
    }
}

/// An answer the ledger would refuse is a failure that says so.
fn bounded(ending: Ending) -> Ending {
    match ending {
        Ending::Complete { text, .. } if text.len() > ANSWER_MAX => {
            let detail = format!("{} bytes; at most {ANSWER_MAX} are taken", text.len());
            Failure::new(FailureClass::Permanent, "answer_too_long", &detail).into()
        }
        Ending::Complete { .. } | Ending::Fail(_) | Ending::Lost => ending,
    }
}

async fn settle(control: &ControlPlane, ours: Ours, mut ending: Ending) -> Option<String> {
    let mut backoff = Backoff::endless(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        let error = match tell(control, ours, &ending).await? {
            Ok(ended) => {
                tracing::info!(state = %ended.state, already = ended.already, "turn ended");
                return Some(ended.state);
            }
            Err(error) => error,
        };
        match (error.class(), &ending) {
            (Class::Conflict | Class::NotFound, _) => {
                tracing::warn!(error = %Chain(&error), "turn is another's; nothing is written");
                return None;
            }
            (Class::Invalid, Ending::Complete { .. }) => {
                tracing::error!(error = %Chain(&error), "ledger refused the answer");
                ending = Failure::new(FailureClass::Permanent, "answer_refused", &error).into();
                continue;
            }
            (Class::Invalid, Ending::Fail(_) | Ending::Lost) => {
                tracing::error!(error = %Chain(&error), "ledger refused to end the turn");
                return None;
            }
            (
                Class::Unauthenticated
                | Class::Forbidden
                | Class::Exhausted
                | Class::Timeout
                | Class::Unavailable
                | Class::Internal,
                _,
            ) => tracing::warn!(error = %Chain(&error), "turn was not ended; it is tried on"),
        }
        // As long as the turn is ours, ending it is all that is left to do.
        sleep(backoff.next()?).await;
    }
}

/// `None` when there is nothing to tell.
async fn tell(
    control: &ControlPlane,
    Ours { turn, fence }: Ours,
    ending: &Ending,
) -> Option<Result<v1::Ended, CallError>> {
    let (turn_id, fence) = (turn.to_string(), Some(fence.into()));
    match ending {
        Ending::Complete { text, response } => {
            let (text, response_id) = (text.clone(), response.to_string());
            let request = v1::CompleteTurnRequest { turn_id, fence, text, response_id };
            Some(control.complete(request).await)
        }
        Ending::Fail(failure) => {
            let request = v1::FailTurnRequest {
                turn_id,
                fence,
                class: v1::FailureClass::from(failure.class).into(),
                reason: failure.reason.to_owned(),
                detail: failure.detail.clone(),
            };
            Some(control.fail(request).await)
        }
        Ending::Lost => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_too_long_for_the_ledger_fails_and_says_so() {
        let response = ResponseId::new();
        let fits = Ending::Complete { text: "a".repeat(ANSWER_MAX), response };
        assert_eq!(bounded(fits.clone()), fits);
        let long = Ending::Complete { text: "a".repeat(ANSWER_MAX + 1), response };
        let Ending::Fail(failure) = bounded(long) else { panic!("it is taken") };
        assert_eq!((failure.class, failure.reason), (FailureClass::Permanent, "answer_too_long"));
    }
}
