use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn run(deltas: Vec<Delta>, outcome: Outcome) -> (Vec<Event>, Ending) {
    let mut told = Vec::new();
    let mut assembler = Assembler::default();
    for delta in deltas {
        assembler.push(delta, &mut |event| told.push(event));
    }
    let ending = assembler.end(outcome, &mut |event| told.push(event));
    (told, ending)
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn call(index: usize, name: &str, arguments: &str) -> Delta {
    Delta::Call { index, name: name.into(), arguments: arguments.into() }
}

fn body(item: &OutputItem) -> Value {
    serde_json::from_str(item.raw.get()).unwrap()
}

const END: Delta = Delta::Stop(Stop::End);

#[test]
fn a_text_is_told_in_full() {
    let (told, ending) = run(vec![text("Hel"), text("lo"), END], Outcome::Over);
    let expected = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    assert_eq!(names(&told), expected);
    assert_eq!(ending.verdict, Verdict::Completed);
    assert_eq!(body(&ending.output[0])["content"][0]["text"], "Hello");
    assert!(ending.held.is_empty());
}

#[test]
fn calls_are_done_only_after_the_end_is_stored() {
    let deltas = vec![
        text("I look."),
        call(0, "f", ""),
        call(0, "", "{\"a\""),
        call(0, "", ":1}"),
        call(1, "g", "{}"),
        END,
    ];
    let (told, ending) = run(deltas, Outcome::Over);
    let done = |events: &[Event]| {
        names(events).iter().filter(|n| **n == "response.output_item.done").count()
    };
    assert_eq!(done(&told), 1, "the text");
    assert_eq!(done(&ending.held), 2, "the calls");
    assert_eq!(body(&ending.output[1])["arguments"], "{\"a\":1}");
    assert_eq!(body(&ending.output[2])["name"], "g");
    let ids: Vec<_> = ending.output.iter().map(|i| i.to_store().call_id).collect();
    assert!(ids[0].is_none() && ids[1].is_some() && ids[1] != ids[2]);
}

#[test]
fn a_cut_is_never_complete_and_its_calls_are_never_done() {
    for (outcome, stop, reason) in [
        (Outcome::Cut(UPSTREAM_CUT), None, UPSTREAM_CUT),
        (Outcome::Over, None, UPSTREAM_CUT),
        (Outcome::Over, Some(Stop::GaveUp), UPSTREAM_CUT),
        (Outcome::Over, Some(Stop::OutputLimit), "max_output_tokens"),
        (Outcome::Over, Some(Stop::Filter), "content_filter"),
    ] {
        let mut deltas = vec![call(0, "f", "{}"), call(1, "g", "{\"half")];
        deltas.extend(stop.map(Delta::Stop));
        let (told, ending) = run(deltas, outcome);
        assert_eq!(ending.verdict, Verdict::Incomplete(reason));
        assert!(!names(&told).contains(&"response.output_item.done") && ending.held.is_empty());
        // The first is whole, the second was cut in its arguments.
        assert_eq!(ending.output.len(), 1);
        assert_eq!(body(&ending.output[0])["status"], "incomplete");
    }
}

#[test]
fn partial_text_is_kept_and_marked() {
    let (told, ending) = run(vec![text("par")], Outcome::Cut(UPSTREAM_CUT));
    assert_eq!(body(&ending.output[0])["status"], "incomplete");
    assert_eq!(body(&ending.output[0])["content"][0]["text"], "par");
    assert_eq!(names(&told).last(), Some(&"response.output_item.done"));
}

fn any_delta() -> impl Strategy<Value = Delta> {
    prop_oneof![
        4 => "[a-c]{0,3}".prop_map(Delta::Text),
        4 => (0_usize..3, "f{0,1}", "[x{}]{0,3}")
            .prop_map(|(index, name, arguments)| Delta::Call { index, name, arguments }),
        1 => Just(Delta::Usage(Usage::default())),
        1 => prop_oneof![Just(Stop::End), Just(Stop::OutputLimit), Just(Stop::GaveUp)]
            .prop_map(Delta::Stop),
    ]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let problem = Problem::new(http::StatusCode::BAD_GATEWAY, "server_error", "boom");
    prop_oneof![Just(Outcome::Over), Just(Outcome::Cut("x")), Just(Outcome::Failed(problem))]
}

/// The pieces told for each item, joined.
fn told_pieces(events: &[Event]) -> BTreeMap<usize, String> {
    let mut pieces: BTreeMap<usize, String> = BTreeMap::new();
    for event in events {
        let (at, piece) = match event {
            Event::TextDelta { output_index, delta, .. } => (output_index, delta),
            Event::ArgumentsDelta { output_index, piece, .. } => (output_index, piece),
            _ => continue,
        };
        pieces.entry(*at).or_default().push_str(piece);
    }
    pieces
}

proptest! {
    #[test]
    fn whatever_is_said_the_events_are_sound(
        deltas in proptest::collection::vec(any_delta(), 0..16),
        outcome in any_outcome(),
    ) {
        let (mut events, ending) = run(deltas, outcome);
        let live = events.len();
        events.extend(ending.held);
        prop_assert!(events.iter().all(|event| !event.is_terminal()));
        let mut added = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            match event {
                Event::ItemAdded { output_index, .. } => {
                    prop_assert!(added.insert(*output_index, false).is_none(), "added twice");
                }
                Event::ItemDone { output_index, item } => {
                    prop_assert_eq!(added.insert(*output_index, true), Some(false), "done once");
                    let is_call = item.get().contains("\"function_call\"");
                    prop_assert!(!is_call || place >= live, "a call told before it is stored");
                    let completed = ending.verdict == Verdict::Completed;
                    prop_assert!(!is_call || completed, "a call of a cut told as done");
                }
                Event::TextDelta { output_index, .. }
                | Event::TextDone { output_index, .. }
                | Event::Part { output_index, .. }
                | Event::ArgumentsDelta { output_index, .. }
                | Event::ArgumentsDone { output_index, .. } => {
                    prop_assert_eq!(added.get(output_index), Some(&false), "outside its item");
                }
                Event::Response { .. } | Event::Error { .. } => {}
            }
        }
        if ending.verdict == Verdict::Completed {
            prop_assert!(added.values().all(|done| *done), "an item left open");
            prop_assert_eq!(added.len(), ending.output.len());
            let stored: Vec<String> = ending.output.iter().map(|item| {
                let body = body(item);
                let text = body["arguments"].as_str().or_else(|| body["content"][0]["text"].as_str());
                text.unwrap_or_default().to_owned()
            }).collect();
            let told = told_pieces(&events);
            let told: Vec<String> =
                added.keys().map(|at| told.get(at).cloned().unwrap_or_default()).collect();
            prop_assert_eq!(told, stored, "told is not what is stored");
        }
    }
}
