//! What can go wrong between the control plane and its schema.

use turnwright_kit::{Class, Classify};

/// A failed use case. Nothing of it was written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL is away, too slow or ended the session; the same call may succeed.
    #[error("postgresql is not available")]
    Unavailable(#[source] sqlx::Error),
    /// The pool of the context view has no session to give.
    #[error("postgresql is not available")]
    Context(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another transaction was in the way; the same call may succeed.
    #[error("the row is busy")]
    Busy(#[source] sqlx::Error),
    /// The schema refused it: a defect here, named by the constraint.
    #[error("the database refused the write: {constraint}")]
    Refused {
        /// The constraint's name.
        constraint: String,
        /// What PostgreSQL said.
        #[source]
        source: sqlx::Error,
    },
    /// The named thing does not exist.
    #[error("{what} `{name}` does not exist")]
    NotFound {
        /// Its kind.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The caller's fence is not the newest.
    #[error("the fence of turn `{turn}` is stale: another worker owns it")]
    Fenced {
        /// The turn.
        turn: String,
    },
    /// An object changed since the revision the write was based on.
    #[error("changed since revision {base}: {}; apply again on the current revision", objects.join(", "))]
    Conflict {
        /// The revision the caller named.
        base: i64,
        /// The objects.
        objects: Vec<String>,
    },
    /// A row holds what this build cannot read.
    #[error("stored {what} is not readable: {why}")]
    Corrupt {
        /// Which column or object.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// Anything else PostgreSQL said.
    #[error("database error")]
    Database(#[source] sqlx::Error),
    /// A migration failed.
    #[error("migration of schema control failed")]
    Migrate(#[source] sqlx::migrate::MigrateError),
}

impl From<sqlx::Error> for Error {
    fn from(e: sqlx::Error) -> Self {
        match &e {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(e),
            sqlx::Error::Database(d) => match d.code().as_deref().unwrap_or("") {
                // serialization_failure, deadlock_detected, lock_not_available
                "40001" | "40P01" | "55P03" => Self::Busy(e),
                // connection exceptions, insufficient resources, shutdown, query_canceled
                // and refused logins, which a rotated password mends; system errors
                c if ["08", "28", "53", "57", "58"].iter().any(|class| c.starts_with(class)) => {
                    Self::Unavailable(e)
                }
                // idle_in_transaction_session_timeout
                "25P03" => Self::Unavailable(e),
                c if c.starts_with("23") => match d.constraint().map(str::to_owned) {
                    Some(constraint) => Self::Refused { constraint, source: e },
                    None => Self::Database(e),
                },
                _ => Self::Database(e),
            },
            _ => Self::Database(e),
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Unavailable(_) | Self::Context(_) | Self::Busy(_) => Class::Unavailable,
            Self::NotFound { .. } => Class::NotFound,
            Self::Fenced { .. } | Self::Conflict { .. } => Class::Conflict,
            Self::Refused { .. } | Self::Corrupt { .. } | Self::Database(_) | Self::Migrate(_) => {
                Class::Internal
            }
        }
    }
}

impl Error {
    /// The constraint that refused the write, if one did.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Self::Refused { constraint, .. } => Some(constraint),
            _ => None,
        }
    }

    pub(crate) fn corrupt(what: &'static str, why: impl std::fmt::Display) -> Self {
        Self::Corrupt { what, why: why.to_string() }
    }
}

/// Runs a use case again while another transaction is in the way, at most twice more.
macro_rules! retrying {
    ($attempt:expr) => {{
        let mut left = 2_u8;
        loop {
            match $attempt.await {
                Err($crate::Error::Busy(_)) if left > 0 => left -= 1,
                Err(e) if left > 0 && e.constraint().is_some_and($crate::error::is_race) => {
                    left -= 1
                }
                end => break end,
            }
        }
    }};
}
pub(crate) use retrying;

/// Unique constraints that two concurrent first signals of one place can meet; the loser finds
/// the winner's row on its second try.
pub(crate) fn is_race(constraint: &str) -> bool {
    matches!(
        constraint,
        "channels_external"
            | "principals_external"
            | "conversations_key"
            | "conversations_channel"
            | "signal_keys_pkey"
    )
}
