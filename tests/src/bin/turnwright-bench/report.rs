//! What was measured, as a table for people and as JSON for programs. It invents nothing: a figure
//! that was not put in is in neither.

use crate::figures::{Figure, Target};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// What was measured of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
struct Measured {
    value: f64,
    unit: &'static str,
    /// The same work without Turnwright, in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    samples: usize,
}

/// The outcome of a suite.
#[derive(Debug)]
pub struct Report {
    suite: &'static str,
    figures: &'static [Figure],
    measured: Vec<(&'static str, Measured)>,
    notes: Vec<String>,
}

impl Report {
    /// Of a suite that is to measure these figures; nothing is measured yet.
    pub fn new(suite: &'static str, figures: &'static [Figure]) -> Self {
        Self { suite, figures, measured: Vec::new(), notes: Vec::new() }
    }

    /// Adds what was measured.
    pub fn put(&mut self, figure: Figure, value: f64, samples: usize) {
        let Figure { name, unit, .. } = figure;
        let value = rounded(value);
        self.measured.push((name, Measured { value, unit, floor: None, ratio: None, samples }));
    }

    /// Adds what was measured beside what the same costs without us.
    pub fn put_over(&mut self, figure: Figure, value: f64, floor: f64, samples: usize) {
        let Figure { name, unit, .. } = figure;
        let ratio = (floor > 0.0).then(|| rounded(value / floor));
        let (value, floor) = (rounded(value), Some(rounded(floor)));
        self.measured.push((name, Measured { value, unit, floor, ratio, samples }));
    }

    /// Adds a remark on how a figure was measured.
    pub fn note(&mut self, figure: Figure, text: &str) {
        self.notes.push(format!("{}: {text}", figure.name));
    }

    /// The figures that are not measured.
    pub fn missing(&self) -> Vec<&'static str> {
        let names = self.figures.iter().map(|f| f.name);
        names.filter(|name| self.of(name).is_none()).collect()
    }

    /// One object, keyed by the names of the figures.
    ///
    /// # Errors
    /// When a value is no JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        let entry = |(name, measured): &(&'static str, Measured)| {
            serde_json::to_value(measured).map(|value| ((*name).to_owned(), value))
        };
        let object: Map<String, Value> =
            self.measured.iter().map(entry).collect::<Result<_, _>>()?;
        serde_json::to_string_pretty(&object).map(|text| format!("{text}\n"))
    }

    /// A line per figure, and the remarks.
    pub fn table(&self) -> String {
        let head = ["figure", "value", "unit", "floor", "ratio", "target", "samples"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.figures.iter().map(|figure| self.row(figure)));
        let mut widths = [0; 7];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = format!("suite {}\n\n", self.suite);
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                // Names and units stand left, numbers right.
                let _ = match column {
                    0 | 2 => write!(line, "{cell:<width$}  "),
                    _ => write!(line, "{cell:>width$}  "),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    fn row(&self, figure: &Figure) -> [String; 7] {
        let none = || "-".to_owned();
        let target = match figure.target {
            Some(Target::AtMost(limit)) => format!("<= {limit}"),
            Some(Target::AtLeast(limit)) => format!(">= {limit}"),
            None => String::new(),
        };
        let (name, unit) = (figure.name.to_owned(), figure.unit.to_owned());
        let Some(Measured { value, floor, ratio, samples, .. }) = self.of(figure.name) else {
            return [name, none(), unit, String::new(), String::new(), target, none()];
        };
        let [floor, ratio] = [floor, ratio].map(|it| it.map(shown).unwrap_or_default());
        [name, shown(value), unit, floor, ratio, target, samples.to_string()]
    }

    fn of(&self, name: &str) -> Option<Measured> {
        self.measured.iter().find(|(n, _)| *n == name).map(|(_, measured)| *measured)
    }
}

/// To four digits behind the point: a tenth of a microsecond in milliseconds.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{COLD, COMMIT_FLOOR, FIRST_REPLY};

    fn report() -> Report {
        let mut report = Report::new("turns", &[COMMIT_FLOOR, COLD, FIRST_REPLY]);
        report.put(COMMIT_FLOOR, 0.250_04, 200);
        report.put_over(COLD, 3.0, 1.0, 100);
        report
    }

    #[test]
    fn json_holds_what_was_measured_and_nothing_else() {
        let json: Value = serde_json::from_str(&report().json().unwrap()).unwrap();
        let expected = serde_json::json!({
            "commit_floor_ms": { "value": 0.25, "unit": "ms", "samples": 200 },
            "signal_to_first_byte_cold_p50":
                { "value": 3.0, "unit": "ms", "floor": 1.0, "ratio": 3.0, "samples": 100 },
        });
        assert_eq!(json, expected);
        assert_eq!(report().missing(), [FIRST_REPLY.name]);
    }

    #[test]
    fn every_figure_has_a_line_also_when_it_was_not_measured() {
        let table = report().table();
        let line = |name: &str| {
            let line = table.lines().find(|l| l.starts_with(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line(COLD.name), [COLD.name, "3.00", "ms", "1.00", "3.00", "100"]);
        assert_eq!(line(FIRST_REPLY.name), [FIRST_REPLY.name, "-", "s", "<=", "5", "-"]);
    }
}
