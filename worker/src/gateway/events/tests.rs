use super::*;
use futures::FutureExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::convert::Infallible;

const ID: &str = "0199f0a1-0000-7000-8000-000000000001";

fn whole() -> Vec<Value> {
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read_file",
                      "arguments": "{\"path\":\"ä\"}"});
    let message = json!({"type": "message", "role": "assistant", "content": [
        {"type": "output_text", "text": "Grü", "annotations": []},
        {"type": "output_text", "text": "ße", "annotations": []}]});
    let output = [json!({"type": "reasoning"}), message, call.clone()];
    vec![
        json!({"type": "response.created",
               "response": {"id": format!("resp_{ID}"), "error": null}}),
        json!({"type": "response.output_text.delta", "delta": "Grü\n"}),
        json!({"type": "response.something_new", "delta": 1}),
        json!({"type": "response.output_item.done", "item": {"type": "reasoning"}}),
        json!({"type": "response.output_item.done", "item": call}),
        json!({"type": "response.completed", "response": {"id": format!("resp_{ID}"),
               "output": output, "usage": {"input_tokens": 5, "output_tokens": 2}}}),
    ]
}

fn body(events: &[Value]) -> Vec<u8> {
    let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n: alive\n\n", event["type"]);
    events.iter().map(frame).collect::<String>().into_bytes()
}

fn read(chunks: Vec<Vec<u8>>) -> Vec<Result<Event, String>> {
    let chunks = stream::iter(chunks.into_iter().map(Ok::<_, Infallible>));
    let told = events(chunks).map(|event| event.map_err(|e| e.to_string()));
    told.collect::<Vec<_>>().now_or_never().unwrap()
}

fn call() -> FunctionCall {
    FunctionCall {
        call_id: "c1".into(),
        name: "read_file".into(),
        arguments: "{\"path\":\"ä\"}".into(),
    }
}

#[test]
fn a_whole_stream_is_read() {
    let id = ResponseId::parse(ID).ok();
    let got: Vec<Event> =
        read(vec![body(&whole())]).into_iter().take(4).map(Result::unwrap).collect();
    let usage = Some(Usage { input_tokens: 5, output_tokens: 2 });
    let (outcome, text) = (Outcome::Completed, "Grüße".to_owned());
    assert_eq!(
        got,
        [
            Event::Begun(id),
            Event::Text("Grü\n".into()),
            Event::Call(call()),
            Event::Ended(Ended { id, outcome, text, calls: vec![call()], usage }),
        ]
    );
}

#[test]
fn a_body_without_a_terminal_event_ends_in_a_cut() {
    let got = read(vec![body(&whole()[..2])]);
    assert_eq!(got.len(), 3);
    assert_eq!(got[2], Err(Error::Cut.to_string()));
}

#[test]
fn every_end_tells_its_reason() {
    let outcome = |event: Value| match parse(&event.to_string()) {
        Ok(Some(Event::Ended(ended))) => ended.outcome,
        other => panic!("{other:?}"),
    };
    let cut = json!({"type": "response.incomplete",
                     "response": {"incomplete_details": {"reason": "max_output_tokens"}}});
    assert_eq!(outcome(cut), Outcome::Incomplete("max_output_tokens".into()));
    let failed = |code: &str, after: Option<u64>| Outcome::Failed {
        code: code.into(),
        after: after.map(Duration::from_millis),
    };
    let limited = json!({"type": "response.failed", "response": {
        "error": {"code": "rate_limit_exceeded", "message": "m", "retry_after_ms": 1500}}});
    assert_eq!(outcome(limited), failed("rate_limit_exceeded", Some(1500)));
    let silent = json!({"type": "response.failed", "response": {"error": null}});
    assert_eq!(outcome(silent), failed("", None));
    for error in [
        json!({"type": "error", "code": "server_error", "message": "m", "param": null}),
        json!({"type": "error", "error": {"type": "server_error", "message": "m"}}),
    ] {
        assert_eq!(outcome(error), failed("server_error", None));
    }
}

#[test]
fn what_is_no_event_is_an_error() {
    assert!(matches!(parse("{"), Err(Error::Malformed(_))));
    assert!(matches!(parse("{\"type\":\"response.completed\"}"), Err(Error::Malformed(_))));
    assert!(matches!(parse("[DONE]"), Ok(None)));
}

proptest! {
    #[test]
    fn where_the_bytes_are_cut_changes_nothing(cuts in prop::collection::vec(0..900_usize, 0..9)) {
        let bytes = body(&whole());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|w| bytes[w[0]..w[1]].to_vec()).collect();
        prop_assert_eq!(read(chunks), read(vec![bytes]));
    }
}
