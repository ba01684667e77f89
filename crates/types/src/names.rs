//! Names that people choose. The only constructor validates; behind it nothing checks again.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value from outside that cannot be what its field asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: {why}")]
pub struct Invalid {
    /// The field as the caller spelt it.
    pub field: &'static str,
    /// What was expected.
    pub why: String,
}

impl Invalid {
    /// Says that `field` is wrong and why.
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

fn label(field: &'static str, raw: String, max: usize) -> Result<String, Invalid> {
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if raw.is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if raw.len() > max {
        return Err(Invalid::new(field, format!("longer than {max} bytes")));
    }
    if !raw.bytes().all(ok) || raw.starts_with('-') {
        return Err(Invalid::new(field, "only a-z, 0-9 and `-`, not starting with `-`"));
    }
    Ok(raw)
}

fn text(field: &'static str, raw: String, max: usize) -> Result<String, Invalid> {
    if raw.is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if raw.len() > max {
        return Err(Invalid::new(field, format!("longer than {max} bytes")));
    }
    if raw.chars().any(char::is_control) {
        return Err(Invalid::new(field, "must not hold control characters"));
    }
    Ok(raw)
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:literal, $rule:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The longest accepted name, in bytes.
            pub const MAX: usize = $max;

            /// Validates a name.
            ///
            /// # Errors
            /// When it is empty, too long or holds a character that is not allowed.
            pub fn parse(raw: impl Into<String>) -> Result<Self, Invalid> {
                $rule($field, raw.into(), Self::MAX).map(Self)
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(raw: String) -> Result<Self, Invalid> {
                Self::parse(raw)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// An agent's stable name: `a-z`, `0-9`, `-`.
    AgentSlug, "agent", 48, label);
name!(
    /// A channel account's stable name; a token of NATS subjects.
    BindingId, "binding", 63, label);
name!(
    /// A kind of adapter; a token of NATS subjects.
    AdapterName, "adapter", 32, label);
name!(
    /// A worker pool; a token of NATS subjects.
    Pool, "pool", 32, label);
name!(
    /// A skill's name, equal to its folder's.
    SkillName, "skill", 64, label);
name!(
    /// A model reference as agents name it.
    ModelName, "model", 96, text);
name!(
    /// Names one event of a binding (message, kind, edit version), not the message.
    EventKey, "event_key", 512, text);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_accepted_binding_is_one_subject_token(raw in ".{0,80}") {
            if let Ok(id) = BindingId::parse(raw.clone()) {
                prop_assert_eq!(id.as_str(), raw.as_str());
                prop_assert!(!raw.is_empty() && raw.len() <= BindingId::MAX);
                prop_assert!(!raw.contains(['.', '*', '>', ' ', '/']));
            }
        }

        #[test]
        fn every_well_formed_slug_is_accepted(raw in "[a-z0-9][a-z0-9-]{0,47}") {
            prop_assert!(AgentSlug::parse(raw).is_ok());
        }
    }

    #[test]
    fn an_error_names_its_field() {
        assert_eq!(EventKey::parse("a\nb").unwrap_err().field, "event_key");
        assert_eq!(AgentSlug::parse("").unwrap_err().field, "agent");
    }
}
