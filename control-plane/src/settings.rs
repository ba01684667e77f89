//! The declared settings: the only keys there are, each with type, bounds, scope, default and when
//! a change takes effect. Resolution is agent, then global, then default.

use crate::Error;
use serde_json::Value;
use std::collections::BTreeMap;
use turnwright_control_store::SettingRow;

/// Where a key may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For the installation only.
    Global,
    /// For the installation and for each agent.
    Agent,
}

/// What a value must be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number within bounds.
    Integer {
        /// Least.
        min: i64,
        /// Greatest.
        max: i64,
    },
    /// Text of at most so many bytes, not blank.
    Text {
        /// Greatest.
        max_bytes: usize,
    },
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// An IANA time zone.
    TimeZone,
}

/// A declared key.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub key: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Where it may be set.
    pub scope: Scope,
    /// What it must be.
    pub kind: Kind,
    /// What holds when nobody set it; `null` is a value of its own.
    pub default: fn() -> Value,
}

/// Every key, in order. All of them apply at the next turn.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "ai_agent.base_instructions",
        about: "core instructions in place of the model's",
        scope: Scope::Agent,
        kind: Kind::Text { max_bytes: 64 << 10 },
        default: || Value::Null,
    },
    Setting {
        key: "ai_agent.inactivity_timeout_ms",
        about: "a turn without any progress for so long fails",
        scope: Scope::Agent,
        kind: Kind::Integer { min: 1_000, max: 86_400_000 },
        default: || 1_800_000.into(),
    },
    Setting {
        key: "ai_agent.max_iterations",
        about: "model calls in one turn",
        scope: Scope::Agent,
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: || 90.into(),
    },
    Setting {
        key: "ai_agent.max_output_tokens",
        about: "tokens of one model call; unset leaves it to the provider",
        scope: Scope::Agent,
        kind: Kind::Integer { min: 1, max: 10_000_000 },
        default: || Value::Null,
    },
    Setting {
        key: "ai_agent.model",
        about: "the model an agent runs on",
        scope: Scope::Agent,
        kind: Kind::Text { max_bytes: 96 },
        default: || "scripted".into(),
    },
    Setting {
        key: "conversation.busy_policy",
        about: "what happens to messages while a turn runs",
        scope: Scope::Agent,
        kind: Kind::Choice(&["queue"]),
        default: || "queue".into(),
    },
    Setting {
        key: "conversation.debounce_ms",
        about: "how long a burst may gather before its turn starts",
        scope: Scope::Agent,
        kind: Kind::Integer { min: 0, max: 10_000 },
        default: || 0.into(),
    },
    Setting {
        key: "system.timezone",
        about: "the time zone agents speak in",
        scope: Scope::Global,
        kind: Kind::TimeZone,
        default: || "UTC".into(),
    },
];

/// A declared key by name.
#[must_use]
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.key == key)
}

impl Setting {
    /// Checks a value.
    ///
    /// # Errors
    /// What was expected and what was found.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let found = || {
            let text = value.to_string();
            text.chars().take(60).collect::<String>()
        };
        match self.kind {
            Kind::Integer { min, max } => match value.as_i64() {
                Some(n) if (min..=max).contains(&n) => Ok(()),
                _ => Err(format!("expected a whole number from {min} to {max}, found {}", found())),
            },
            Kind::Text { max_bytes } => match value.as_str() {
                Some(t) if !t.trim().is_empty() && t.len() <= max_bytes => Ok(()),
                _ => Err(format!("expected text of 1 to {max_bytes} bytes, found {}", found())),
            },
            Kind::Choice(words) => match value.as_str() {
                Some(t) if words.contains(&t) => Ok(()),
                _ => Err(format!("expected one of {}, found {}", words.join(", "), found())),
            },
            Kind::TimeZone => match value.as_str() {
                Some(t) if t.parse::<chrono_tz::Tz>().is_ok() => Ok(()),
                _ => Err(format!(
                    "expected an IANA time zone such as Europe/Oslo, found {}",
                    found()
                )),
            },
        }
    }
}

/// A resolved setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// `agent`, `global` or `default`.
    pub source: &'static str,
    /// The revision that wrote it; 0 for the default.
    pub revision: i64,
}

/// Resolves every declared key from the stored rows of an agent and the global scope.
///
/// # Errors
/// When a stored value is not what its declaration says: never the default instead.
pub fn resolve(rows: &[(SettingRow, i64)]) -> Result<BTreeMap<&'static str, Resolved>, Error> {
    let mut out = BTreeMap::new();
    for setting in SETTINGS {
        let of = |global: bool| {
            rows.iter().find(|(r, _)| r.key == setting.key && r.agent.is_empty() == global)
        };
        let own = if setting.scope == Scope::Agent { of(false) } else { None };
        let (source, row) = match (own, of(true)) {
            (Some(r), _) => ("agent", Some(r)),
            (None, Some(r)) => ("global", Some(r)),
            (None, None) => ("default", None),
        };
        let resolved = match row {
            None => Resolved { key: setting.key, value: (setting.default)(), source, revision: 0 },
            Some((r, revision)) => {
                setting.check(&r.value).map_err(|why| Error::StoredSetting {
                    key: r.key.clone(),
                    scope: if r.agent.is_empty() { "global".into() } else { r.agent.clone() },
                    why,
                })?;
                Resolved { key: setting.key, value: r.value.clone(), source, revision: *revision }
            }
        };
        out.insert(setting.key, resolved);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(agent: &str, key: &str, value: Value) -> (SettingRow, i64) {
        (SettingRow { agent: agent.into(), key: key.into(), value }, 7)
    }

    #[test]
    fn agent_outranks_global_outranks_default() {
        let rows = [
            row("", "ai_agent.max_iterations", json!(5)),
            row("a", "ai_agent.max_iterations", json!(6)),
            row("", "ai_agent.model", json!("m")),
            row("a", "system.timezone", json!("Europe/Oslo")),
        ];
        let got = resolve(&rows).unwrap();
        let at = |k| (got[k].value.clone(), got[k].source);
        assert_eq!(at("ai_agent.max_iterations"), (json!(6), "agent"));
        assert_eq!(at("ai_agent.model"), (json!("m"), "global"));
        assert_eq!(at("system.timezone"), (json!("UTC"), "default"));
    }

    #[test]
    fn a_bad_row_is_an_error_naming_the_key() {
        let rows = [row("a", "ai_agent.max_iterations", json!("many"))];
        let e = resolve(&rows).unwrap_err();
        assert!(matches!(e, Error::StoredSetting { key, .. } if key == "ai_agent.max_iterations"));
    }

    #[test]
    fn every_default_is_valid_or_null() {
        for s in SETTINGS {
            let d = (s.default)();
            assert!(d.is_null() || s.check(&d).is_ok(), "{}", s.key);
        }
    }
}
