//! The conversation's zone: clock and label come from one value, so neither can name another zone
//! than the other.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

/// A zone of the IANA database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zone(Tz);

impl Zone {
    /// The zone of that name; UTC when there is none.
    pub(crate) fn named(name: &str) -> Self {
        Self(name.trim().parse().unwrap_or(Tz::UTC))
    }

    /// Its IANA name.
    pub(crate) fn label(self) -> &'static str {
        self.0.name()
    }

    /// The date at `at`, as `YYYY-MM-DD`.
    pub(crate) fn date(self, at: DateTime<Utc>) -> String {
        at.with_timezone(&self.0).format("%Y-%m-%d").to_string()
    }

    /// Date and time to the minute at `at`, without the label.
    pub(crate) fn minute(self, at: DateTime<Utc>) -> String {
        at.with_timezone(&self.0).format("%Y-%m-%d %H:%M").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Zone;
    use chrono::{DateTime, Utc};

    #[test]
    fn an_unknown_zone_degrades_clock_and_label_together() {
        let at: DateTime<Utc> = "2026-09-01T22:05:59Z".parse().unwrap();
        let berlin = Zone::named(" Europe/Berlin ");
        assert_eq!(
            (berlin.label(), berlin.minute(at).as_str()),
            ("Europe/Berlin", "2026-09-02 00:05")
        );
        assert_eq!(berlin.date(at), "2026-09-02");
        for wrong in ["", "Mars/Olympus", "europe/berlin;", "+02:00"] {
            let zone = Zone::named(wrong);
            assert_eq!((zone.label(), zone.minute(at).as_str()), ("UTC", "2026-09-01 22:05"));
        }
    }
}
