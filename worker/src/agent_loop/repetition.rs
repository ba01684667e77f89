//! Notices a call that fails the same way again and again, round after round. Knows names and
//! arguments only.

use crate::gateway::FunctionCall;
use std::collections::HashMap;

const WARNING: &str = "\n\n[This very call failed before. Change the arguments or take another \
    way: if it fails once more, the turn ends.]";
/// The failure with which the model is warned.
const WARN_AT: u32 = 2;
/// The failure that ends the turn.
const END_AT: u32 = 3;

#[derive(Debug, Default)]
struct Failures {
    rounds: u32,
    /// The round counted last.
    last: String,
}

/// The failures of a turn's calls.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    failures: HashMap<(String, String), Failures>,
    exhausted: Option<String>,
}

impl Repetition {
    /// Notes how a call of a round ended; a round counts once, however often it makes or repeats
    /// the call. Answers a warning to append to its output, when one is due.
    pub(crate) fn observe(
        &mut self,
        round: &str,
        call: &FunctionCall,
        failed: bool,
    ) -> Option<&'static str> {
        let key = (call.name.clone(), call.arguments.clone());
        if !failed {
            self.failures.remove(&key);
            return None;
        }
        let seen = self.failures.entry(key).or_default();
        if seen.rounds > 0 && seen.last == round {
            return None;
        }
        seen.rounds += 1;
        round.clone_into(&mut seen.last);
        if seen.rounds >= END_AT {
            self.exhausted = Some(call.name.clone());
        }
        (seen.rounds == WARN_AT).then_some(WARNING)
    }

    /// The tool whose same call failed too often.
    pub(crate) fn exhausted(&self) -> Option<&str> {
        self.exhausted.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> FunctionCall {
        FunctionCall { call_id: "c".into(), name: "read_file".into(), arguments: arguments.into() }
    }

    #[test]
    fn the_second_failure_warns_and_the_third_ends() {
        let mut repeats = Repetition::default();
        assert_eq!(repeats.observe("1", &call("a"), true), None);
        assert!(repeats.observe("2", &call("a"), true).is_some());
        assert_eq!(repeats.exhausted(), None);
        assert_eq!(repeats.observe("3", &call("a"), true), None);
        assert_eq!(repeats.exhausted(), Some("read_file"));
    }

    #[test]
    fn a_round_counts_once_however_often_it_makes_the_call() {
        let mut repeats = Repetition::default();
        for _ in 0..5 {
            assert_eq!(repeats.observe("1", &call("a"), true), None);
        }
        assert_eq!(repeats.exhausted(), None);
        assert!(repeats.observe("2", &call("a"), true).is_some());
    }

    #[test]
    fn other_arguments_and_successes_do_not_count() {
        let mut repeats = Repetition::default();
        for (round, arguments) in [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c")] {
            repeats.observe(round, &call(arguments), true);
        }
        assert_eq!(repeats.observe("5", &call("a"), false), None);
        for round in ["6", "7"] {
            repeats.observe(round, &call("a"), true);
        }
        assert_eq!(repeats.exhausted(), None);
    }
}
