//! What can go wrong in the control plane, as its callers see it.

use turnwright_control_store as store;
use turnwright_kit::{Class, Classify};
use turnwright_types::Invalid;

/// A failed request or start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field is not what it must be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The ledger refused, or is away.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A read that several callers shared failed.
    #[error(transparent)]
    Shared(#[from] std::sync::Arc<Error>),
    /// An applied folder has problems; all of them.
    #[error("nothing was applied; {} to mend:\n{}", count(problems.len()), problems.join("\n"))]
    Apply {
        /// `path:line: what`, one each.
        problems: Vec<String>,
    },
    /// The named thing does not exist.
    #[error("{what} `{name}` does not exist{hint}")]
    NotFound {
        /// Its kind.
        what: &'static str,
        /// Its name.
        name: String,
        /// What does exist, or empty.
        hint: String,
    },
    /// A stored setting is not what its declaration says.
    #[error(
        "setting `{key}` of `{scope}` is stored with a value that is not valid: {why}; apply a valid one"
    )]
    StoredSetting {
        /// The key.
        key: String,
        /// The agent, or `global`.
        scope: String,
        /// What is wrong.
        why: String,
    },
    /// NATS refused, or is away.
    #[error("nats: {what}")]
    Nats {
        /// Doing what.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A row can never be published: it is larger than a message may be.
    #[error("too large to be published as {what}")]
    Unpublishable {
        /// What it would be.
        what: &'static str,
    },
    /// A part needed at the start did not answer.
    #[error("{what} at {url} did not answer within {seconds} s; start it, or correct {var}")]
    Unreachable {
        /// The part.
        what: &'static str,
        /// Where, without credentials.
        url: String,
        /// How long was waited.
        seconds: u64,
        /// The variable that names it.
        var: &'static str,
        /// The last failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A signing key is malformed.
    #[error("TURNWRIGHT_AGENT_TOKEN_SEED is not usable")]
    Key(#[source] turnwright_kit::agent_token::TokenError),
    /// A listener could not be set up.
    #[error("grpc listener")]
    Listen(#[source] Box<dyn std::error::Error + Send + Sync>),
}

fn count(n: usize) -> String {
    if n == 1 { "one problem".to_owned() } else { format!("{n} problems") }
}

impl Error {
    /// Whether trying again gives the same answer until somebody changes what is stored.
    #[must_use]
    pub fn permanent(&self) -> bool {
        matches!(self.class(), Class::Invalid | Class::NotFound)
    }

    pub(crate) fn nats(
        what: &'static str,
    ) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        move |source| Self::Nats { what, source }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            // What is stored must be changed before it can work.
            Self::Invalid(_)
            | Self::Apply { .. }
            | Self::StoredSetting { .. }
            | Self::Unpublishable { .. } => Class::Invalid,
            Self::Store(e) => e.class(),
            Self::Shared(e) => e.class(),
            Self::NotFound { .. } => Class::NotFound,
            Self::Key(_) | Self::Listen(_) => Class::Internal,
            Self::Nats { .. } | Self::Unreachable { .. } => Class::Unavailable,
        }
    }

    fn public(&self) -> String {
        match self {
            Self::Shared(e) => e.public(),
            Self::Store(e) => e.public(),
            _ if self.class() == Class::Internal => "internal error".into(),
            _ => self.to_string(),
        }
    }
}
