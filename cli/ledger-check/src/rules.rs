//! The rules, in the order in which a report lists their findings.

mod configuration;
mod deliveries;
mod signals;
mod transcripts;
mod turns;

use crate::rule::Rule;

/// Every rule.
pub(crate) fn all() -> impl Iterator<Item = Rule> {
    [signals::RULES, turns::RULES, deliveries::RULES, configuration::RULES, transcripts::RULES]
        .into_iter()
        .flatten()
        .copied()
}
