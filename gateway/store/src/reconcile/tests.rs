use super::*;
use proptest::prelude::*;
use turnwright_types::SignalId;

fn message(signal: Option<SignalId>) -> NewItem {
    NewItem {
        id: new_item_id("message"),
        kind: "message".into(),
        role: Some("user".into()),
        call_id: None,
        kinds: Vec::new(),
        signal,
        body: "{}".into(),
    }
}

fn call(id: &str) -> NewItem {
    NewItem {
        kind: CALL.into(),
        role: None,
        call_id: Some(id.into()),
        body: format!(r#"{{"type":"function_call","call_id":"{id}"}}"#),
        ..message(None)
    }
}

fn output(id: &str, text: &str) -> NewItem {
    output_item(id, text, Vec::new())
}

fn stored(items: Vec<NewItem>) -> Vec<Item> {
    items.into_iter().zip(1..).map(|(item, seq)| item.placed(seq, None)).collect()
}

fn shape(items: &[NewItem]) -> Vec<(String, String)> {
    items.iter().map(|i| (i.kind.clone(), i.call_id.clone().unwrap_or_default())).collect()
}

#[test]
fn a_call_left_open_is_closed_before_the_new_input() {
    let path = stored(vec![call("a"), call("b"), output("a", "1")]);
    let new = reconcile(&path, vec![message(None)]).unwrap();
    let expected = [(OUTPUT, "b"), ("message", "")];
    assert_eq!(shape(&new), expected.map(|(k, c)| (k.to_owned(), c.to_owned())));
    assert_eq!(output_of(&new[0].body), Value::from(UNFINISHED_CALL));
}

#[test]
fn a_stored_output_is_not_stored_again_and_another_is_refused() {
    let path = stored(vec![call("a"), output("a", "1")]);
    assert!(reconcile(&path, vec![output("a", "1")]).unwrap().is_empty());
    let other = reconcile(&path, vec![output("a", "2")]).unwrap_err();
    assert!(matches!(other, Error::SecondOutput(id) if id == "a"));
    let twice = reconcile(&stored(vec![call("a")]), vec![output("a", "1"), output("a", "1")]);
    assert_eq!(twice.unwrap().len(), 1);
}

#[test]
fn outputs_need_their_call_and_calls_are_unique() {
    let orphan = reconcile(&[], vec![output("a", "1")]).unwrap_err();
    assert!(matches!(orphan, Error::OutputWithoutCall(id) if id == "a"));
    let late = reconcile(&[], vec![output("a", "1"), call("a")]).unwrap_err();
    assert!(matches!(late, Error::OutputWithoutCall(_)));
    let twice = reconcile(&stored(vec![call("a")]), vec![call("a")]).unwrap_err();
    assert!(matches!(twice, Error::CallRepeated(_)));
}

#[test]
fn a_stored_signal_stands_and_a_doubled_one_is_refused() {
    let signal = SignalId::new();
    let path = stored(vec![message(Some(signal))]);
    assert!(reconcile(&path, vec![message(Some(signal))]).unwrap().is_empty());
    let doubled = reconcile(&[], vec![message(Some(signal)), message(Some(signal))]);
    assert!(matches!(doubled.unwrap_err(), Error::SignalRepeated));
}

fn any_item() -> impl Strategy<Value = NewItem> {
    prop_oneof![
        Just(()).prop_map(|()| message(None)),
        "[a-d]".prop_map(|id| call(&id)),
        ("[a-d]", "[12]").prop_map(|(id, text)| output(&id, &text)),
    ]
}

proptest! {
    /// Whatever is accepted, request after request, leaves a path without open calls, on which
    /// every output follows its call and stands once.
    #[test]
    fn an_accepted_path_is_always_sendable(
        requests in proptest::collection::vec(proptest::collection::vec(any_item(), 0..6), 1..5)
    ) {
        let mut path: Vec<Item> = Vec::new();
        for input in requests {
            let Ok(new) = reconcile(&path, input) else { continue };
            let after = i64::try_from(path.len()).unwrap();
            path.extend(new.into_iter().zip(after + 1..).map(|(i, seq)| i.placed(seq, None)));
            let mut open: HashMap<String, bool> = HashMap::new();
            for item in &path {
                match (item.kind.as_str(), item.call_id.clone()) {
                    (CALL, Some(id)) => prop_assert!(open.insert(id, true).is_none()),
                    (OUTPUT, Some(id)) => prop_assert_eq!(open.insert(id, false), Some(true)),
                    _ => {}
                }
            }
            prop_assert!(open.values().all(|open| !open));
        }
    }
}
