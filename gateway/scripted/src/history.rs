//! The rules that providers hold a history to. It must not repair anything: what is wrong is refused by name.
use crate::request::Message;
use std::collections::BTreeMap;

/// What is wrong with a history, and at which message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HistoryError {
    pub(crate) at: Option<usize>,
    pub(crate) flaw: Flaw,
}

/// The ways a history can be wrong.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    #[error("there are no messages: send at least one")]
    Empty,
    #[error("the messages cannot be read: {0}")]
    Shape(String),
    #[error("role `{0}` is not one of system, developer, user, assistant, tool")]
    Role(String),
    #[error("content must be a string or a list of parts")]
    Content,
    #[error("an assistant message needs content or tool_calls, and tool_calls must not be empty")]
    Silent,
    #[error("two calls of one message have the id `{0}`")]
    CallTwice(String),
    #[error("a tool message needs the tool_call_id of a call in the assistant message before it")]
    NoCallId,
    #[error("tool_call_id `{0}` answers no call of the assistant message before it")]
    Orphan(String),
    #[error("the call `{0}` is answered twice")]
    OutputTwice(String),
    #[error("the calls {} must be answered before the next message", .0.join(", "))]
    Unanswered(Vec<String>),
}

impl HistoryError {
    /// The request parameter at fault.
    pub(crate) fn param(&self) -> String {
        self.at.map_or_else(|| "messages".to_owned(), |at| format!("messages[{at}]"))
    }
}

/// The calls of the newest assistant message.
#[derive(Default)]
struct Calls<'m> {
    at: usize,
    /// Whether each is answered.
    answered: BTreeMap<&'m str, bool>,
}

/// Checks a whole history.
pub(crate) fn check(messages: &[Message<'_>]) -> Result<(), HistoryError> {
    if messages.is_empty() {
        return Err(HistoryError { at: None, flaw: Flaw::Empty });
    }
    let mut calls = Calls::default();
    for (at, message) in messages.iter().enumerate() {
        let fault = |flaw| HistoryError { at: Some(at), flaw };
        match &*message.role {
            "tool" => {
                calls.answer(message).map_err(fault)?;
                content(message).map_err(fault)?;
            }
            "system" | "developer" | "user" => {
                calls.close()?;
                content(message).map_err(fault)?;
            }
            "assistant" => {
                calls.close()?;
                calls = Calls::of(at, message).map_err(fault)?;
            }
            role => return Err(fault(Flaw::Role(role.to_owned()))),
        }
    }
    calls.close()
}

fn content(message: &Message<'_>) -> Result<(), Flaw> {
    let first = message.content.and_then(|content| content.get().bytes().next());
    if matches!(first, Some(b'"' | b'[')) { Ok(()) } else { Err(Flaw::Content) }
}

impl<'m> Calls<'m> {
    fn of(at: usize, message: &'m Message<'_>) -> Result<Self, Flaw> {
        let calls = message.tool_calls.as_deref();
        if calls.is_some_and(<[_]>::is_empty) || (calls.is_none() && message.content.is_none()) {
            return Err(Flaw::Silent);
        }
        if message.content.is_some() {
            content(message)?;
        }
        let mut answered = BTreeMap::new();
        for call in calls.unwrap_or_default() {
            if answered.insert(&*call.id, false).is_some() {
                return Err(Flaw::CallTwice(call.id.to_string()));
            }
        }
        Ok(Self { at, answered })
    }

    fn answer(&mut self, message: &Message<'_>) -> Result<(), Flaw> {
        let id = message.tool_call_id.as_deref().ok_or(Flaw::NoCallId)?;
        match self.answered.get_mut(id) {
            None => Err(Flaw::Orphan(id.to_owned())),
            Some(true) => Err(Flaw::OutputTwice(id.to_owned())),
            Some(answered) => {
                *answered = true;
                Ok(())
            }
        }
    }

    /// Nothing but outputs may follow while a call is open.
    fn close(&self) -> Result<(), HistoryError> {
        let open: Vec<String> = self
            .answered
            .iter()
            .filter(|(_, answered)| !**answered)
            .map(|(id, _)| (*id).to_owned())
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        Err(HistoryError { at: Some(self.at), flaw: Flaw::Unanswered(open) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn calls(ids: &[&str]) -> Value {
        let function = json!({"name": "f", "arguments": "{}"});
        let call = |id: &&str| json!({"id": id, "type": "function", "function": function});
        json!({"role": "assistant", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
    }

    fn output(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "done"})
    }

    fn user() -> Value {
        json!({"role": "user", "content": "hello"})
    }

    fn checked(messages: &[Value]) -> Result<(), HistoryError> {
        let text = serde_json::to_string(messages).unwrap();
        let messages: Vec<Message<'_>> = serde_json::from_str(&text).unwrap();
        check(&messages)
    }

    fn flaw(messages: &[Value], at: usize) -> Flaw {
        let error = checked(messages).unwrap_err();
        assert_eq!(error.at, Some(at), "{error:?}");
        error.flaw
    }

    #[test]
    fn a_history_whose_calls_are_answered_in_any_order_passes() {
        let history =
            [user(), calls(&["a", "b"]), output("b"), output("a"), calls(&["a"]), output("a")];
        assert_eq!(checked(&history), Ok(()));
        assert_eq!(checked(&[json!({"role": "assistant", "content": ""}), user()]), Ok(()));
    }

    #[test]
    fn an_empty_history_and_unknown_roles_are_refused() {
        assert_eq!(checked(&[]), Err(HistoryError { at: None, flaw: Flaw::Empty }));
        let stranger = json!({"role": "robot", "content": "x"});
        assert_eq!(flaw(&[user(), stranger], 1), Flaw::Role("robot".into()));
    }

    #[test]
    fn outputs_without_their_call_and_second_outputs_are_refused() {
        assert_eq!(flaw(&[user(), output("a")], 1), Flaw::Orphan("a".into()));
        assert_eq!(
            flaw(&[user(), calls(&["a"]), output("a"), output("a")], 3),
            Flaw::OutputTwice("a".into())
        );
        let late = [user(), calls(&["a"]), output("a"), calls(&["b"]), output("b"), output("a")];
        assert_eq!(flaw(&late, 5), Flaw::Orphan("a".into()));
        assert_eq!(
            flaw(&[user(), calls(&["a"]), json!({"role": "tool", "content": "x"})], 2),
            Flaw::NoCallId
        );
    }

    #[test]
    fn calls_left_open_are_refused_wherever_the_history_goes_on() {
        let open = Flaw::Unanswered(vec!["b".into()]);
        for next in [None, Some(user()), Some(json!({"role": "assistant", "content": "x"}))] {
            let mut history = vec![user(), calls(&["a", "b"]), output("a")];
            history.extend(next);
            assert_eq!(flaw(&history, 1), open);
        }
    }

    #[test]
    fn messages_that_say_nothing_are_refused() {
        assert_eq!(flaw(&[json!({"role": "assistant"})], 0), Flaw::Silent);
        assert_eq!(flaw(&[user(), calls(&[])], 1), Flaw::Silent);
        assert_eq!(flaw(&[user(), calls(&["a", "a"])], 1), Flaw::CallTwice("a".into()));
        assert_eq!(flaw(&[json!({"role": "user", "content": null})], 0), Flaw::Content);
        assert_eq!(flaw(&[json!({"role": "user", "content": 5})], 0), Flaw::Content);
    }
}
