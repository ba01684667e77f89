use super::*;
use crate::envelope::tests::envelope;
use turnwright_proto::v1;
use turnwright_types::{ConversationId, Sha256};

fn claim() -> Claim {
    let signal = |text: &str| {
        json!({
            "signalId": SignalId::new(), "eventKey": "e", "speakerId": "u1", "speakerName": "Bo",
            "addressed": "ADDRESSED_DM", "occurredAt": "2026-12-01T08:00:00Z", "text": text,
            "asked": true
        })
    };
    let claimed: v1::Claimed = serde_json::from_value(json!({
        "start": envelope(),
        "fence": {"turnSeq": "1", "epoch": "1"},
        "batch": [signal("first"), signal("second")],
        "now": "2026-12-01T08:00:01Z"
    }))
    .unwrap();
    claimed.try_into().unwrap()
}

fn context() -> Context {
    let document =
        |text: &str| json!({"text": text, "sha256": Sha256::of(text).to_string(), "revision": "2"});
    let answer: v1::GetConversationContextResponse = serde_json::from_value(json!({
        "etag": "e",
        "agent": {
            "slug": "ada", "displayName": "Ada", "title": "", "soul": document("Kind."),
            "mission": document("Help."), "design": document(""), "timezone": "UTC",
            "effectiveRevision": "7",
            "skills": [{"name": "hidden", "recallOnly": true}, {"name": "shown"}]
        },
        "origin": {
            "conversationId": ConversationId::new(), "conversationKey": "k", "generation": 1,
            "startedAt": "2026-12-01T08:00:00Z", "adapter": "console", "kind": "CHANNEL_KIND_DM"
        }
    }))
    .unwrap();
    let context = convert::context(answer).unwrap();
    assert_eq!(context.skills.len(), 1);
    context
}

fn opened() -> OpenedTurn {
    OpenedTurn {
        head: 0,
        baseline: None,
        base_instructions: None,
        instructions: None,
        requests: 0,
        iterations: 0,
        stored_signals: vec![],
        last: None,
    }
}

/// Assembles and looks at the result.
fn prepare<T>(claim: &Claim, opened: &OpenedTurn, look: impl FnOnce(Prepared<'_>) -> T) -> T {
    let (context, workspace, tools) = (context(), convert::workspace("/w"), Tools::default());
    let sources = Sources { context: &context, workspace: &workspace, tools: &tools };
    look(Prepared::assemble(claim, opened, sources).unwrap())
}

fn signals(messages: &[Value]) -> Vec<SignalId> {
    let ids = messages.iter().filter_map(|m| m[FIELD]["signal_id"].as_str());
    ids.map(|id| SignalId::parse(id).unwrap()).collect()
}

#[test]
fn each_signal_is_one_message_that_carries_its_id_and_kinds() {
    let claim = claim();
    prepare(&claim, &opened(), |prepared| {
        let batch: Vec<_> = claim.batch.iter().map(|signal| signal.id).collect();
        assert_eq!(signals(&prepared.messages), batch);
        for message in &prepared.messages {
            let extension: ItemExtension = serde_json::from_value(message[FIELD].clone()).unwrap();
            assert_eq!(extension.kinds.len(), message["content"].as_array().unwrap().len());
        }
        assert!(prepared.instructions.contains("Be brief."));
        assert_eq!(prepared.base_instructions, "Be brief.");
    });
}

#[test]
fn what_is_stored_is_not_said_again() {
    let claim = claim();
    let told = prepare(&claim, &opened(), |prepared| prepared.baseline);
    let resumed = OpenedTurn {
        head: 4,
        baseline: Some(told),
        stored_signals: vec![claim.batch[0].id],
        ..opened()
    };
    prepare(&claim, &resumed, |prepared| {
        assert_eq!(signals(&prepared.messages), [claim.batch[1].id]);
        assert_eq!(prepared.messages.len(), 1);
    });
}

#[test]
fn instructions_of_a_resumed_turn_are_those_it_sent() {
    let sent = "What was sent before.".to_owned();
    let base = "An older base.".to_owned();
    let resumed =
        OpenedTurn { instructions: Some(sent.clone()), base_instructions: Some(base), ..opened() };
    prepare(&claim(), &resumed, |prepared| {
        assert_eq!(prepared.instructions, sent);
        assert_eq!(prepared.base_instructions, "An older base.");
        // No manifest claims to describe bytes it was not made for.
        assert_eq!(prepared.manifest, Value::Null);
        assert_eq!(prepared.later_manifest().unwrap(), Value::Null);
    });
}

#[test]
fn a_later_manifest_describes_the_same_instructions_and_no_input() {
    prepare(&claim(), &opened(), |prepared| {
        let manifest = |value: Value| -> turnwright_prompt::Manifest {
            serde_json::from_value(value).unwrap()
        };
        let first = manifest(prepared.manifest.clone());
        let later = manifest(prepared.later_manifest().unwrap());
        assert_eq!(later.verify(&prepared.instructions, &[]), Ok(()));
        assert_eq!(later.instructions, first.instructions);
        assert!(!first.input.is_empty());
    });
}

#[test]
fn a_baseline_nobody_can_read_sends_all_context_again() {
    let known = prepare(&claim(), &opened(), |prepared| prepared.baseline);
    let messages = |baseline| {
        let opened = OpenedTurn { head: 4, baseline, ..opened() };
        prepare(&claim(), &opened, |prepared| prepared.messages.len())
    };
    assert_eq!(messages(Some(known)), 2);
    assert_eq!(messages(Some(json!({"layout": "x"}))), 3);
    assert_eq!(messages(None), 3);
}
