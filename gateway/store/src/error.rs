//! What can go wrong in the store, by the names of its constraints, and which of it is tried again
//! here.

use std::time::Duration;
use turnwright_kit::{Class, Classify, backoff::Backoff};
use turnwright_types::{GatewayConversationId, ResponseId};

/// The result of every use case.
pub type Result<T> = std::result::Result<T, Error>;

/// A thing that was named and does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No response of that id, or not for this caller.
    #[error("response `resp_{0}` does not exist")]
    Response(ResponseId),
    /// No conversation of that id.
    #[error("conversation `{0}` does not exist")]
    Conversation(GatewayConversationId),
    /// The conversation has no request of that turn.
    #[error("turn {1} of conversation `{0}` has sent nothing")]
    Turn(GatewayConversationId, i64),
}

/// Why a use case did nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A higher fence was seen in the conversation.
    #[error("the conversation has a higher fence: this turn was taken over or is over")]
    FenceStale,
    /// The request builds on another head than the conversation has.
    #[error("the head of the conversation is {head}; open the turn again and build on that")]
    HeadMoved {
        /// The head it has.
        head: i64,
    },
    /// Another response of the conversation is being generated.
    #[error("a response of this conversation is being generated; wait for it")]
    AlreadyGenerating,
    /// The response to continue from is being generated.
    #[error("the previous response is being generated; wait for it")]
    PreviousInProgress,
    /// An output names a call that is not before it.
    #[error("output of call `{0}` has no call before it")]
    OutputWithoutCall(String),
    /// Another output of the call is stored.
    #[error("call `{0}` has another output already")]
    SecondOutput(String),
    /// A call id is used twice on one path.
    #[error("call id `{0}` is used twice; call ids are unique in a conversation")]
    CallRepeated(String),
    /// A signal stands twice in one request.
    #[error("a signal is carried by two items of this request")]
    SignalRepeated,
    /// An unfenced writer in an agent's conversation.
    #[error("the conversation belongs to an agent and takes writes of its turns only")]
    Fenced,
    /// An agent token for a conversation that is not this agent's.
    #[error("the conversation is not one of this agent's")]
    NotTheAgents,
    /// The response ended before its own generation did.
    #[error("the response has ended as {status} already")]
    Ended {
        /// How.
        status: String,
    },
    /// Text that PostgreSQL cannot keep.
    #[error("text must not hold the character U+0000")]
    Unstorable,
    /// The named thing does not exist.
    #[error(transparent)]
    NotFound(#[from] Missing),
    /// Transactions got in each other's way more often than the retries here allow.
    #[error("the conversation is busy; try again")]
    Contention(#[source] sqlx::Error),
    /// The database is away.
    #[error("the database is not available; try again")]
    Unavailable(#[source] sqlx::Error),
    /// A statement took too long.
    #[error("the database did not answer in time; try again")]
    Timeout(#[source] sqlx::Error),
    /// A stored value that this build cannot read.
    #[error("a stored {0} is not readable")]
    Corrupt(&'static str),
    /// A migration failed.
    #[error("migration of schema gateway failed")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Anything else: a defect here.
    #[error("database error")]
    Database(#[source] sqlx::Error),
}

impl Error {
    /// The stable word for API clients.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::FenceStale => "fence_stale",
            Self::HeadMoved { .. } => "head_moved",
            Self::AlreadyGenerating => "already_generating",
            Self::PreviousInProgress => "previous_response_in_progress",
            Self::OutputWithoutCall(_) => "output_without_call",
            Self::SecondOutput(_) => "second_output",
            Self::CallRepeated(_) => "call_repeated",
            Self::SignalRepeated => "signal_repeated",
            Self::Fenced => "conversation_fenced",
            Self::NotTheAgents => "conversation_not_the_agents",
            Self::Ended { .. } => "response_ended",
            Self::Unstorable => "unstorable_text",
            Self::NotFound(Missing::Response(_)) => "response_not_found",
            Self::NotFound(Missing::Conversation(_)) => "conversation_not_found",
            Self::NotFound(Missing::Turn(..)) => "turn_not_found",
            Self::Contention(_) => "conversation_busy",
            Self::Unavailable(_) => "unavailable",
            Self::Timeout(_) => "timeout",
            Self::Corrupt(_) | Self::Migrate(_) | Self::Database(_) => "internal_error",
        }
    }

    fn of_constraint(name: &str) -> Option<Self> {
        Some(match name {
            "items_fence" | "responses_below_fence" | "gateway_conversations_only_forward" => {
                Self::FenceStale
            }
            "responses_one_generating" | "responses_one_generating_on_branch" => {
                Self::AlreadyGenerating
            }
            // The use cases look before they write and name the call; these are what is left.
            "items_output_has_call" => Self::OutputWithoutCall(String::new()),
            "items_call_once" => Self::SecondOutput(String::new()),
            "items_signal_once" => Self::SignalRepeated,
            "responses_end_once" => Self::Ended { status: "ended".to_owned() },
            _ => return None,
        })
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::FenceStale
            | Self::HeadMoved { .. }
            | Self::AlreadyGenerating
            | Self::PreviousInProgress
            | Self::SecondOutput(_)
            | Self::SignalRepeated
            | Self::Ended { .. } => Class::Conflict,
            Self::OutputWithoutCall(_) | Self::CallRepeated(_) | Self::Unstorable => Class::Invalid,
            Self::Fenced | Self::NotTheAgents => Class::Forbidden,
            Self::NotFound(_) => Class::NotFound,
            Self::Contention(_) | Self::Unavailable(_) => Class::Unavailable,
            Self::Timeout(_) => Class::Timeout,
            Self::Corrupt(_) | Self::Migrate(_) | Self::Database(_) => Class::Internal,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if let Some(known) = error
            .as_database_error()
            .and_then(|database| database.constraint())
            .and_then(Self::of_constraint)
        {
            return known;
        }
        let wrap = kind(&error);
        wrap(error)
    }
}

/// Which variant an error without a known constraint becomes.
fn kind(error: &sqlx::Error) -> fn(sqlx::Error) -> Error {
    match error {
        sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => Error::Unavailable,
        sqlx::Error::Database(database) => match database.code().as_deref() {
            // serialization failure, deadlock, lock not available
            Some("40001" | "40P01" | "55P03") => Error::Contention,
            Some("57014") => Error::Timeout,
            // a NUL in text, or escaped in JSON
            Some("22021" | "22P05") => |_| Error::Unstorable,
            // connection limit, idle transaction ended, shutdown and crash, connection trouble
            Some("53300" | "25P03") => Error::Unavailable,
            Some(code) if code.starts_with("57P0") || code.starts_with("08") => Error::Unavailable,
            _ => Error::Database,
        },
        _ => Error::Database,
    }
}

/// The budget of a use case's own retries: three, and only of transactions that PostgreSQL has
/// rolled back for getting in another's way.
pub(crate) struct Tries(Backoff);

impl Tries {
    pub(crate) const fn new() -> Self {
        Self(Backoff::new(Duration::from_millis(20), Duration::from_millis(200), 3))
    }

    /// Waits and says yes if the failed transaction is worth another try.
    pub(crate) async fn again<T>(&mut self, outcome: &Result<T>) -> bool {
        if !matches!(outcome, Err(Error::Contention(_))) {
            return false;
        }
        let Some(delay) = self.0.next() else { return false };
        tokio::time::sleep(delay).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_connections_is_unavailable_and_a_missing_row_a_defect() {
        assert_eq!(Error::from(sqlx::Error::PoolTimedOut).class(), Class::Unavailable);
        assert_eq!(Error::from(sqlx::Error::RowNotFound).class(), Class::Internal);
    }

    #[test]
    fn constraints_are_the_vocabulary() {
        let code = |name| Error::of_constraint(name).map(|e| e.code());
        assert_eq!(code("items_fence"), Some("fence_stale"));
        assert_eq!(code("responses_one_generating_on_branch"), Some("already_generating"));
        assert_eq!(code("items_call_once"), Some("second_output"));
        assert_eq!(code("some_other"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_contention_is_tried_again_and_not_for_ever() {
        let mut tries = Tries::new();
        assert!(!tries.again(&Err::<(), _>(Error::FenceStale)).await);
        let busy = || Err::<(), _>(Error::Contention(sqlx::Error::PoolTimedOut));
        for _ in 0..3 {
            assert!(tries.again(&busy()).await);
        }
        assert!(!tries.again(&busy()).await);
    }
}
