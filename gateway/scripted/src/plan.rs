//! A rule's reply, filled in for one request. It must not wait: that is the play's part.
use crate::rules::{FinishReason, Reply, Step, Values};
use sha2::{Digest, Sha256};
use std::{collections::VecDeque, time::Duration};

/// Hex digits of a digest that an id keeps.
const ID_DIGITS: usize = 24;

/// The digest of a request body; ids are made from it, so that the same request gets the same ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seed(String);

impl Seed {
    pub(crate) fn of(body: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(body)))
    }

    pub(crate) fn completion_id(&self) -> String {
        format!("chatcmpl-{}", &self.0[..ID_DIGITS])
    }

    /// The id of the reply's call number `index`.
    pub(crate) fn call_id(&self, index: usize) -> String {
        let digest = hex::encode(Sha256::digest(format!("{}/{index}", self.0).as_bytes()));
        format!("call_{}", &digest[..ID_DIGITS])
    }
}

/// What to do, in order, and how the message ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) acts: VecDeque<Act>,
    pub(crate) finish: FinishReason,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Delay(Duration),
    Gate(String),
    /// Says `text` word by word from byte `at` on, with a wait before each word.
    Words {
        text: String,
        at: usize,
        per_word: Duration,
    },
    Call {
        index: usize,
        id: String,
        name: String,
    },
    /// Sends the arguments of a call in pieces from byte `at` on.
    Arguments {
        index: usize,
        text: String,
        at: usize,
    },
    CutAfter(usize),
}

impl Plan {
    pub(crate) fn of(reply: &Reply, values: Values<'_>, seed: &Seed) -> Self {
        let mut acts = VecDeque::new();
        let mut calls = 0;
        for step in &reply.steps {
            match step {
                Step::Delay(delay) => acts.push_back(Act::Delay(*delay)),
                Step::Gate(name) => acts.push_back(Act::Gate(name.clone())),
                Step::Text { text, per_word } => {
                    let text = text.render(values);
                    acts.push_back(Act::Words { text, at: 0, per_word: *per_word });
                }
                Step::ToolCall { name, arguments } => {
                    let (index, text) = (calls, arguments.render(values));
                    calls += 1;
                    let id = seed.call_id(index);
                    acts.push_back(Act::Call { index, id, name: name.clone() });
                    acts.push_back(Act::Arguments { index, text, at: 0 });
                }
                Step::CutAfter(bytes) => acts.push_back(Act::CutAfter(*bytes)),
            }
        }
        let usual = if calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
        Self { acts, finish: reply.finish.unwrap_or(usual) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rules, request::View};

    fn plan(steps: &str, seed: &Seed) -> Plan {
        let rules = Rules::parse(&format!("rules: [{{reply: {steps}}}]")).unwrap();
        let view = View::default();
        let (rule, captures) = rules.choose(&view);
        Plan::of(&rule.reply, Values { view: &view, captures: &captures }, seed)
    }

    #[test]
    fn the_finish_reason_follows_the_calls_unless_it_is_set() {
        let seed = Seed::of(b"x");
        let call = "{tool_call: {name: f}}";
        assert_eq!(plan("[{text: a}]", &seed).finish, FinishReason::Stop);
        assert_eq!(plan(&format!("[{call}]"), &seed).finish, FinishReason::ToolCalls);
        let cut_off = format!("[{call}, {{finish: length}}]");
        assert_eq!(plan(&cut_off, &seed).finish, FinishReason::Length);
    }

    #[test]
    fn ids_depend_on_the_request_and_the_place_only() {
        let two = "[{tool_call: {name: f}}, {tool_call: {name: f}}]";
        let ids = |body: &[u8]| {
            let acts = plan(two, &Seed::of(body)).acts;
            let id = |act| if let Act::Call { id, .. } = act { Some(id) } else { None };
            acts.into_iter().filter_map(id).collect::<Vec<_>>()
        };
        assert_eq!(ids(b"x"), ids(b"x"));
        assert_ne!(ids(b"x"), ids(b"y"));
        assert_ne!(ids(b"x")[0], ids(b"x")[1]);
    }
}
