//! Conversions between wire and domain types that more than one service needs, and nothing else.

use crate::v1;
use chrono::{DateTime, Utc};
use turnwright_types::{Addressed, ChannelKind, FailureClass, Fence, Invalid, TurnKind};

/// A wire timestamp as an instant.
///
/// # Errors
/// When it is absent or out of range.
pub fn time(
    field: &'static str,
    at: Option<pbjson_types::Timestamp>,
) -> Result<DateTime<Utc>, Invalid> {
    let at = at.ok_or_else(|| Invalid::new(field, "must be set"))?;
    let nanos = u32::try_from(at.nanos).map_err(|_| Invalid::new(field, "out of range"))?;
    DateTime::from_timestamp(at.seconds, nanos).ok_or_else(|| Invalid::new(field, "out of range"))
}

/// An instant as a wire timestamp.
#[must_use]
pub fn timestamp(at: DateTime<Utc>) -> pbjson_types::Timestamp {
    pbjson_types::Timestamp {
        seconds: at.timestamp(),
        nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or(0),
    }
}

impl From<Fence> for v1::Fence {
    fn from(f: Fence) -> Self {
        Self { turn_seq: f.turn_seq, epoch: f.epoch }
    }
}

/// A fence that must be there and can be right.
///
/// # Errors
/// When it is absent or not positive.
pub fn fence(wire: Option<v1::Fence>) -> Result<Fence, Invalid> {
    match wire {
        Some(v1::Fence { turn_seq, epoch }) if turn_seq > 0 && epoch > 0 => {
            Ok(Fence { turn_seq, epoch })
        }
        Some(_) => Err(Invalid::new("fence", "turn_seq and epoch start at 1")),
        None => Err(Invalid::new("fence", "must be set")),
    }
}

macro_rules! enums {
    ($wire:ident <=> $domain:ident, $field:literal { $($w:ident = $d:ident),+ $(,)? }) => {
        impl From<$domain> for v1::$wire {
            fn from(d: $domain) -> Self {
                match d { $($domain::$d => Self::$w),+ }
            }
        }

        impl TryFrom<v1::$wire> for $domain {
            type Error = Invalid;
            fn try_from(w: v1::$wire) -> Result<Self, Invalid> {
                match w {
                    $(v1::$wire::$w => Ok(Self::$d),)+
                    v1::$wire::Unspecified => Err(Invalid::new($field, "must be set")),
                }
            }
        }
    };
}

enums!(ChannelKind <=> ChannelKind, "channel.kind" {
    Dm = Dm, Group = Group, Thread = Thread, Webhook = Webhook,
});
enums!(Addressed <=> Addressed, "addressed" {
    Dm = Dm, Mention = Mention, Reply = Reply, None = None,
});
enums!(TurnKind <=> TurnKind, "kind" {
    Message = Message, Wakeup = Wakeup, Cron = Cron, Command = Command,
    ApprovalResume = ApprovalResume, Subagent = Subagent,
});
enums!(FailureClass <=> FailureClass, "class" {
    Infrastructure = Infrastructure, Transient = Transient, Permanent = Permanent,
    Operator = Operator,
});

/// Reads an enum field of a message, unknown numbers included.
///
/// # Errors
/// When the number is unknown or unspecified.
pub fn enumeration<W, D>(field: &'static str, raw: i32) -> Result<D, Invalid>
where
    W: TryFrom<i32>,
    D: TryFrom<W, Error = Invalid>,
{
    let wire = W::try_from(raw).map_err(|_| Invalid::new(field, format!("unknown value {raw}")))?;
    D::try_from(wire).map_err(|e| Invalid::new(field, e.why))
}
