//! The closed sets of states and kinds that rows, messages and programs share, with their one
//! spelling.

use crate::names::Invalid;
use serde::{Deserialize, Serialize};

macro_rules! closed {
    ($(#[$doc:meta])* $name:ident, $field:literal { $($(#[$vdoc:meta])* $var:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $var),+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$var),+];

            /// The one spelling, as in the schema.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$var => $text),+ }
            }

            /// Reads the one spelling.
            ///
            /// # Errors
            /// When it is none of the set.
            pub fn parse(raw: &str) -> Result<Self, Invalid> {
                match raw {
                    $($text => Ok(Self::$var),)+
                    _ => Err(Invalid::new($field, concat!("expected one of", $(" `", $text, "`"),+))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

closed!(
    /// Where a turn stands.
    TurnState, "turn_state" {
        /// Waits for a worker; owned by the ledger.
        Queued = "queued",
        /// A worker's lease owns it.
        Running = "running",
        /// Holds no slot; an approval, a question, a child or an operator is awaited.
        Waiting = "waiting",
        /// A stop takes hold.
        Cancelling = "cancelling",
        /// Ended with an answer.
        Completed = "completed",
        /// Ended without an answer, on purpose.
        Silent = "silent",
        /// Ended without an answer, for a recorded reason.
        Failed = "failed",
        /// Ended by a stop.
        Cancelled = "cancelled",
});

impl TurnState {
    /// Whether no further transition is possible.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Silent | Self::Failed | Self::Cancelled)
    }
}

closed!(
    /// What started a turn.
    TurnKind, "turn_kind" {
        /// A person's message.
        Message = "message",
        /// A wake-up the agent asked for.
        Wakeup = "wakeup",
        /// A schedule.
        Cron = "cron",
        /// A command such as `/retry`.
        Command = "command",
        /// A decided approval.
        ApprovalResume = "approval_resume",
        /// Another turn's task.
        Subagent = "subagent",
});

closed!(
    /// How a signal ended.
    DispositionKind, "disposition" {
        /// Taken into a turn that ended.
        Consumed = "consumed",
        /// Kept as context; it never starts a turn.
        Recorded = "recorded",
        /// Refused, with a reason.
        Rejected = "rejected",
        /// Too old to act on.
        Expired = "expired",
});

closed!(
    /// Where an outbound act stands.
    DeliveryState, "delivery_state" {
        /// Planned; not yet begun.
        Planned = "planned",
        /// Its one attempt was begun; no receipt yet.
        Begun = "begun",
        /// The provider accepted it.
        Sent = "sent",
        /// The provider refused it.
        Failed = "failed",
        /// Too old to send.
        Expired = "expired",
        /// Begun, and nobody can say whether it arrived.
        Unknown = "unknown",
        /// Not sent because an earlier chunk of its reply failed.
        Skipped = "skipped",
});

closed!(
    /// A place at the provider.
    ChannelKind, "channel_kind" {
        /// One person and the agent.
        Dm = "dm",
        /// A room.
        Group = "group",
        /// A thread of a room.
        Thread = "thread",
        /// A machine that posts events.
        Webhook = "webhook",
});

closed!(
    /// How a signal addressed the agent.
    Addressed, "addressed" {
        /// In a direct message.
        Dm = "dm",
        /// By name.
        Mention = "mention",
        /// By a reply to one of its messages.
        Reply = "reply",
        /// Not at all.
        None = "none",
});

closed!(
    /// Whose fault a failed turn is; decides whether it is tried again.
    FailureClass, "failure_class" {
        /// A part of the installation or the provider was away; tried again, not counted.
        Infrastructure = "infrastructure",
        /// The provider answered with an error that may pass; tried again, counted.
        Transient = "transient",
        /// Trying again gives the same answer.
        Permanent = "permanent",
        /// An operator must change something first.
        Operator = "operator",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_back() {
        for s in TurnState::ALL {
            assert_eq!(TurnState::parse(s.as_str()), Ok(*s));
        }
        for s in DeliveryState::ALL {
            assert_eq!(DeliveryState::parse(s.as_str()), Ok(*s));
        }
        assert!(TurnState::parse("done").is_err());
    }
}
