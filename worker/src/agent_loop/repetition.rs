//! Notices a call that fails the same way again and again. Knows names and arguments only.

use crate::gateway::FunctionCall;
use std::collections::HashMap;

const WARNING: &str = "\n\n[This very call failed before. Change the arguments or take another \
    way: if it fails once more, the turn ends.]";
/// The failure with which the model is warned.
const WARN_AT: u32 = 2;
/// The failure that ends the turn.
const END_AT: u32 = 3;

/// The failures of a turn's calls.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    failures: HashMap<(String, String), u32>,
    exhausted: Option<String>,
}

impl Repetition {
    /// Notes how a call ended. Answers a warning to append to its output, when one is due.
    pub(crate) fn observe(&mut self, call: &FunctionCall, failed: bool) -> Option<&'static str> {
        let key = (call.name.clone(), call.arguments.clone());
        if !failed {
            self.failures.remove(&key);
            return None;
        }
        let count = self.failures.entry(key).or_default();
        *count += 1;
        if *count >= END_AT {
            self.exhausted = Some(call.name.clone());
        }
        (*count == WARN_AT).then_some(WARNING)
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
        assert_eq!(repeats.observe(&call("a"), true), None);
        assert!(repeats.observe(&call("a"), true).is_some());
        assert_eq!(repeats.exhausted(), None);
        assert_eq!(repeats.observe(&call("a"), true), None);
        assert_eq!(repeats.exhausted(), Some("read_file"));
    }

    #[test]
    fn other_arguments_and_successes_do_not_count() {
        let mut repeats = Repetition::default();
        for arguments in ["a", "b", "a", "c"] {
            repeats.observe(&call(arguments), true);
        }
        assert_eq!(repeats.observe(&call("a"), false), None);
        for _ in 0..2 {
            repeats.observe(&call("a"), true);
        }
        assert_eq!(repeats.exhausted(), None);
    }
}
