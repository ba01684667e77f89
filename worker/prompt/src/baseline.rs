//! What a conversation has been told so far, per section, so that a later turn says only what
//! changed. The gateway stores it as JSON with the response that carried it.

use crate::LAYOUT;
use serde::{Deserialize, Serialize};

/// What the conversation was last told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The layout that wrote it.
    pub layout: u32,
    /// The environment context.
    pub environment: Section<EnvironmentValues>,
}

impl Baseline {
    /// For a conversation whose transcript may hold fragments nobody has a record of.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { layout: LAYOUT, environment: Section::Unknown }
    }
}

impl Default for Baseline {
    /// For a conversation that has been told nothing: a new one, or one after compaction.
    fn default() -> Self {
        Self { layout: LAYOUT, environment: Section::Absent }
    }
}

/// What was last sent of one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "sent", rename_all = "snake_case")]
pub enum Section<T> {
    /// Never sent: the whole section is due.
    Absent,
    /// Sent, but not known what: the whole section is due, and a word that it replaces the old.
    Unknown,
    /// Sent, with these values: only what differs is due.
    Known(T),
}

/// The values of the environment context as last sent, before escaping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentValues {
    /// The path tools start in.
    pub cwd: String,
    /// The shell; empty when there is none.
    pub shell: String,
    /// `YYYY-MM-DD` in `timezone`.
    pub current_date: String,
    /// IANA name.
    pub timezone: String,
    /// What of the network tools can reach.
    pub network: String,
    /// What of the file system tools can touch.
    pub filesystem: String,
}

#[cfg(test)]
mod tests {
    use super::{Baseline, EnvironmentValues, Section};

    #[test]
    fn the_stored_form_is_stable() {
        let values = EnvironmentValues {
            cwd: "/w".into(),
            shell: "sh".into(),
            current_date: "2026-09-01".into(),
            timezone: "UTC".into(),
            network: "none".into(),
            filesystem: "read-only workspace".into(),
        };
        let known = Baseline { layout: 1, environment: Section::Known(values) };
        let text = concat!(
            r#"{"layout":1,"environment":{"state":"known","sent":{"cwd":"/w","shell":"sh","#,
            r#""current_date":"2026-09-01","timezone":"UTC","network":"none","#,
            r#""filesystem":"read-only workspace"}}}"#
        );
        assert_eq!(serde_json::to_string(&known).unwrap(), text);
        assert_eq!(serde_json::from_str::<Baseline>(text).unwrap(), known);
        for (text, baseline) in [
            (r#"{"environment":{"state":"absent"},"layout":1}"#, Baseline::default()),
            (r#"{"environment":{"state":"unknown"},"layout":1}"#, Baseline::unknown()),
        ] {
            assert_eq!(serde_json::from_str::<Baseline>(text).unwrap(), baseline);
        }
    }
}
