//! Why a command did not do what it was asked, and the exit code that says so.

use std::{error::Error as StdError, process::ExitCode};
use turnwright_kit::Chain;

/// What lies below an error.
pub type Source = Box<dyn StdError + Send + Sync + 'static>;

/// A command that did not succeed. Exit codes are stable and stand in `docs/cli.md`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not begin: wrong arguments, nothing to connect to, a part that does not start.
    /// Exit code 2.
    #[error("{what}")]
    Setup {
        /// What is wrong and what to do.
        what: String,
        /// Why.
        #[source]
        source: Option<Source>,
    },
    /// It ran and the answer is no: a refused change, a failed turn, a thing that is not there.
    /// Exit code 1.
    #[error("{what}")]
    Failed {
        /// What is wrong and what to do.
        what: String,
        /// Why.
        #[source]
        source: Option<Source>,
    },
    /// It ran, and what it printed says that something does not hold. Exit code 1.
    #[error("not everything holds")]
    Unmet,
}

impl Error {
    /// The command could not begin.
    pub fn setup(what: impl Into<String>) -> Self {
        Self::Setup { what: what.into(), source: None }
    }

    /// The command ran and did not succeed.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: None }
    }

    /// Adds what lies below.
    #[must_use]
    pub fn because(self, below: impl Into<Source>) -> Self {
        let below = Some(below.into());
        match self {
            Self::Setup { what, .. } => Self::Setup { what, source: below },
            Self::Failed { what, .. } => Self::Failed { what, source: below },
            Self::Unmet => Self::Unmet,
        }
    }

    /// The stable exit code.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Failed { .. } | Self::Unmet => 1,
            Self::Setup { .. } => 2,
        }
    }

    /// Tells it on standard error, unless the output said it already.
    pub fn tell(&self) -> ExitCode {
        if !matches!(self, Self::Unmet) {
            use std::io::Write as _;
            // Without standard error there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "turnwright: {}", Chain(self));
        }
        ExitCode::from(self.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_tell_a_refusal_from_a_broken_set_up() {
        assert_eq!(Error::setup("x").exit_code(), 2);
        assert_eq!(Error::failed("x").exit_code(), 1);
        assert_eq!(Error::Unmet.exit_code(), 1);
    }

    #[test]
    fn what_lies_below_is_told_once_and_changes_no_code() {
        let e = Error::setup("cannot start").because("the disk is full");
        assert_eq!(Chain(&e).to_string(), "cannot start: the disk is full");
        assert_eq!(e.exit_code(), 2);
    }
}
