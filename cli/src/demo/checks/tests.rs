use super::*;
use crate::{chat::reply::Reply, story::Event};
use serde_json::{Value, json};
use turnwright_adapters::{api::AgentPart, client::Event as Told};
use turnwright_ledger_check::{Counts, Violation};
use turnwright_prompt::{
    AgentProfile, BaseText, Baseline, Context, Document, DocumentSource, Documents, Filesystem,
    Manifest, ModelProfile, Network, OriginChannel, Prompt, SignalText, Speaker, Tools, TurnFacts,
    Workspace, assemble,
};
use turnwright_types::{DeliveryId, Fence, ResponseId, SignalId, TurnId};
use uuid::Uuid;

/// A conversation as it should be: three messages, three turns.
struct World {
    lines: Vec<Line>,
    stored: Vec<Message>,
    turns: Vec<TurnView>,
    stories: Vec<Story>,
    prompts: Vec<TurnPrompt>,
    report: Report,
}

impl World {
    fn sound() -> Self {
        let mut world = Self {
            lines: Vec::new(),
            stored: Vec::new(),
            turns: Vec::new(),
            stories: Vec::new(),
            prompts: Vec::new(),
            report: report(),
        };
        for no in 1..=3 {
            world.add(no);
        }
        world
    }

    fn add(&mut self, no: i64) {
        let (turn, key, nonce) = (TurnId::new(), format!("key-{no}"), format!("nonce{no}"));
        let answer = answer(no, turn, &key);
        let mut reply = Reply::to(key);
        reply.observe(&Told::Message(answer.clone()));
        let text = format!("message {no} {nonce}");
        self.prompts.push(prompt(&text, no));
        self.lines.push(Line { text, nonce, reply: Some(reply) });
        self.stored.push(answer);
        self.turns.push(view(no, turn));
        self.stories.push(story(no));
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            lines: &self.lines,
            stored: &self.stored,
            turns: &self.turns,
            stories: &self.stories,
            prompts: &self.prompts,
            report: &self.report,
            scripted: true,
        }
    }

    /// The names of the checks that do not hold.
    fn broken(&self) -> Vec<&'static str> {
        check(&self.evidence()).into_iter().filter(|c| !c.held).map(|c| c.name).collect()
    }
}

fn report() -> Report {
    let checked = Counts {
        revisions: 1,
        conversations: 1,
        signals: 3,
        mailbox: 0,
        turns: 3,
        deliveries: 3,
        gateway_conversations: 1,
        responses: 4,
        items: 12,
    };
    Report { checked, rules: vec!["one-live-turn"], violations: Vec::new() }
}

fn answer(no: i64, turn: TurnId, key: &str) -> Message {
    Message {
        index: u64::try_from(no).unwrap() * 2,
        message_id: Uuid::now_v7(),
        at: DateTime::UNIX_EPOCH,
        text: format!("answer {no}"),
        by: By::Agent(AgentPart {
            delivery_id: DeliveryId::new(),
            reply_to: None,
            reply_event_key: Some(key.to_owned()),
            origin: "reply".to_owned(),
            turn_id: Some(turn),
            conversation_id: None,
            ordinal: 0,
            chunks: 1,
        }),
    }
}

fn view(no: i64, turn: TurnId) -> TurnView {
    TurnView {
        turn_id: turn.to_string(),
        agent: "maren".to_owned(),
        conversation_id: "c".to_owned(),
        conversation_key: "console-maren/demo".to_owned(),
        turn_seq: no,
        state: "completed".to_owned(),
        kind: "message".to_owned(),
        revision: 1,
        attempts: 0,
        crashes: 0,
        epoch: no,
        created_at: None,
        ended_at: None,
        reason: String::new(),
    }
}

/// Turn n runs from n·100 to n·100 + 90 ms; the third signal comes in the middle of the second.
fn story(no: i64) -> Story {
    let at = |ms: i64| DateTime::from_timestamp_millis(ms).unwrap();
    let admitted = if no == 3 { 250 } else { no * 100 };
    let steps = [("admitted", admitted), ("claimed", no * 100 + 5), ("ended", no * 100 + 90)];
    let event = |(step, ms): (&str, i64)| Event {
        at: at(ms),
        offset_ms: 0.0,
        by: "ledger",
        step: step.to_owned(),
        detail: String::new(),
    };
    Story {
        turn: None,
        revision_reason: String::new(),
        trace_id: String::new(),
        events: steps.into_iter().map(event).collect(),
        deliveries: Vec::new(),
    }
}

fn assembled(text: &str) -> Prompt {
    let document = |text: &str| Document {
        text: text.to_owned(),
        sha256: Sha256::of(text).to_string(),
        source: DocumentSource::Agent { revision: 1 },
    };
    let base = BaseText { text: "Be useful.".to_owned(), revision: 1 };
    let context = Context {
        agent: AgentProfile {
            slug: "maren".to_owned(),
            display_name: "Maren".to_owned(),
            title: String::new(),
        },
        documents: Documents {
            soul: document("calm"),
            mission: document("help"),
            design: document("plain"),
        },
        skills: Vec::new(),
        origin: OriginChannel {
            adapter: "console".to_owned(),
            kind: turnwright_prompt::ChannelKind::Dm,
            label: None,
        },
        timezone: "UTC".to_owned(),
        conversation_id: "c".to_owned(),
        conversation_key: "k".to_owned(),
        started_at: DateTime::UNIX_EPOCH,
        effective_revision: 1,
    };
    let facts = TurnFacts {
        turn_id: "t".to_owned(),
        turn_seq: 1,
        model: ModelProfile {
            name: "scripted".to_owned(),
            window_tokens: None,
            default_base_instructions: base,
        },
        base_override: None,
        stored_base: None,
        signals: vec![SignalText {
            signal_id: SignalId::new().to_string(),
            speaker: Speaker { display_name: "V".to_owned(), external_id: "v".to_owned() },
            addressed: turnwright_prompt::Addressed::Dm,
            occurred_at: DateTime::UNIX_EPOCH,
            text: text.to_owned(),
            reply_to: None,
        }],
        now: DateTime::UNIX_EPOCH,
    };
    let workspace = Workspace {
        path: "/w".to_owned(),
        shell: String::new(),
        network: Network::None,
        filesystem: Filesystem::ReadOnlyWorkspace,
    };
    let tools = Tools(vec!["skill_view".to_owned()]);
    assemble(&context, &facts, &Baseline::default(), &workspace, &tools).unwrap()
}

/// What the gateway stores of an assembled prompt, and of a second request after a tool.
fn prompt(text: &str, seq: i64) -> TurnPrompt {
    let prompt = assembled(text);
    let input = prompt.input.iter().map(|message| {
        let content: Vec<Value> = message
            .content
            .iter()
            .map(|part| json!({"type": "input_text", "text": part.text}))
            .collect();
        json!({"type": "message", "role": message.role.as_str(), "content": content})
    });
    let call = json!({
        "type": "function_call", "call_id": "c1", "name": "skill_view", "arguments": "{}"
    });
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "text"});
    let first = request(&prompt, 1, seq, input.collect(), vec![call]);
    let second = request(&prompt, 2, seq, vec![output], Vec::new());
    TurnPrompt { agent: None, requests: vec![first, second] }
}

fn request(
    prompt: &Prompt,
    no: i32,
    seq: i64,
    input: Vec<Value>,
    output: Vec<Value>,
) -> PromptRequest {
    PromptRequest {
        response_id: ResponseId::new(),
        request_no: no,
        fence: Fence { turn_seq: seq, epoch: seq },
        status: "completed".to_owned(),
        model: "scripted".to_owned(),
        instructions: prompt.instructions.clone(),
        instructions_sha256: Sha256::of(&prompt.instructions),
        input,
        output,
        manifest: serde_json::to_value::<&Manifest>(&prompt.manifest).unwrap(),
        usage: None,
        upstream_sha256: None,
        created_at: DateTime::UNIX_EPOCH,
        first_content_at: None,
        ended_at: None,
        error: None,
    }
}

#[test]
fn a_sound_conversation_passes_every_check() {
    assert_eq!(World::sound().broken(), [""; 0]);
}

#[test]
fn a_reply_that_came_twice_or_not_at_all_is_seen() {
    let name = "every message got one whole reply";
    let mut world = World::sound();
    let again = world.stored[1].clone();
    world.stored.push(again);
    assert!(world.broken().contains(&name));
    let mut world = World::sound();
    world.stored.remove(0);
    assert!(world.broken().contains(&name));
}

#[test]
fn replies_out_of_order_are_seen() {
    let mut world = World::sound();
    world.stored[0].index = 100;
    assert_eq!(world.broken(), ["replies came in the order of their messages"]);
}

#[test]
fn a_call_without_output_is_no_used_tool_and_only_scripted_models_must_use_one() {
    let mut world = World::sound();
    world.prompts[0].requests.pop();
    let name = "the first message was answered with a tool";
    assert_eq!(world.broken(), [name]);
    let mut evidence = world.evidence();
    evidence.scripted = false;
    let checks = check(&evidence);
    let tool = checks.iter().find(|c| c.name == name).unwrap();
    assert!(!tool.held && tool.passes());
}

#[test]
fn a_third_message_that_came_too_late_or_joined_the_second_is_seen() {
    let mut world = World::sound();
    world.stories[2].events[0].at = DateTime::from_timestamp_millis(295).unwrap();
    assert_eq!(world.broken(), ["the third message came while the second was answered"]);
    let mut world = World::sound();
    world.turns[2].turn_seq = 4;
    assert_eq!(world.broken(), ["the third message became a turn of its own"]);
}

#[test]
fn a_changed_byte_of_a_prompt_is_seen() {
    let mut world = World::sound();
    let request = &mut world.prompts[1].requests[0];
    request.input[0]["content"][0]["text"] = "something else".into();
    assert_eq!(world.broken(), ["every byte of every prompt has its source"]);
}

#[test]
fn a_message_in_instructions_or_in_two_items_is_seen() {
    let name = "each message is in one user item and in no instructions";
    let mut world = World::sound();
    let again = world.prompts[0].requests[0].input.last().unwrap().clone();
    world.prompts[1].requests[1].input.push(again);
    assert_eq!(world.broken(), [name]);
    let mut world = World::sound();
    world.lines[0].nonce = "useful".to_owned();
    assert!(world.broken().contains(&name));
}

#[test]
fn a_failed_turn_and_a_broken_promise_are_seen() {
    let mut world = World::sound();
    world.turns[1].state = "failed".to_owned();
    world.report.violations.push(Violation {
        rule: "one-live-turn",
        object: "c".to_owned(),
        detail: "two".to_owned(),
    });
    assert_eq!(world.broken(), ["every turn is completed", "the ledger holds"]);
}
