//! Where a turn goes on, from what the gateway has stored of it. A pure decision: the same
//! transcript gives the same next step on any worker.

use turnwright_types::{
    ResponseId,
    gateway::{OpenedTurn, StoredCall},
};

/// The next step of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Nothing was asked yet: the first request.
    First,
    /// The last response did not complete: ask again from where it was asked.
    Again,
    /// A response is being generated: wait for its end.
    Attach(ResponseId),
    /// The last response called tools: run those without output, then go on.
    Outputs(Vec<StoredCall>),
    /// The final answer is stored: commit it, do not ask for it again.
    Complete {
        /// The answer.
        text: String,
        /// Where it is stored.
        response: ResponseId,
    },
}

/// Decides the next step.
pub(crate) fn decide(opened: &OpenedTurn) -> NextStep {
    let Some(last) = &opened.last else { return NextStep::First };
    match last.status.as_str() {
        "in_progress" | "queued" => NextStep::Attach(last.id),
        "completed" if !last.calls.is_empty() => NextStep::Outputs(last.calls.clone()),
        // An empty answer is none; it failed its attempt and is asked for again.
        "completed" if !last.text.trim().is_empty() => {
            NextStep::Complete { text: last.text.clone(), response: last.id }
        }
        _ => NextStep::Again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_types::gateway::LastResponse;

    fn opened(last: Option<(&str, &str, Vec<StoredCall>)>) -> (OpenedTurn, ResponseId) {
        let id = ResponseId::new();
        let last = last.map(|(status, text, calls)| LastResponse {
            id,
            request_no: 1,
            status: status.into(),
            text: text.into(),
            calls,
        });
        let opened = OpenedTurn {
            head: 3,
            baseline: None,
            base_instructions: None,
            instructions: None,
            requests: i32::from(last.is_some()),
            iterations: 0,
            stored_signals: vec![],
            last,
        };
        (opened, id)
    }

    fn call(id: &str, output: Option<&str>) -> StoredCall {
        StoredCall {
            call_id: id.into(),
            name: "list_files".into(),
            arguments: "{}".into(),
            output: output.map(Into::into),
        }
    }

    #[test]
    fn none_is_the_first_request() {
        assert_eq!(decide(&opened(None).0), NextStep::First);
    }

    #[test]
    fn complete_without_calls_is_committed_from_the_stored_text() {
        let (opened, response) = opened(Some(("completed", "42", vec![])));
        assert_eq!(decide(&opened), NextStep::Complete { text: "42".into(), response });
    }

    #[test]
    fn complete_with_calls_goes_on_with_their_outputs_in_order() {
        let calls = vec![call("b", Some("done")), call("a", None)];
        let (opened, _) = opened(Some(("completed", "let me look", calls.clone())));
        assert_eq!(decide(&opened), NextStep::Outputs(calls));
    }

    #[test]
    fn generating_is_attached_to() {
        let (opened, id) = opened(Some(("in_progress", "", vec![])));
        assert_eq!(decide(&opened), NextStep::Attach(id));
    }

    #[test]
    fn incomplete_failed_and_empty_are_asked_again() {
        for (status, text) in [("incomplete", "half"), ("failed", ""), ("completed", " \n")] {
            assert_eq!(decide(&opened(Some((status, text, vec![]))).0), NextStep::Again);
        }
        let (opened, _) = opened(Some(("incomplete", "", vec![call("a", None)])));
        assert_eq!(decide(&opened), NextStep::Again);
    }
}
