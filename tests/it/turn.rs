//! One turn and the next, through every part.

use std::time::Duration;
use turnwright_adapters::api::Sender;
use turnwright_tests::{TestCluster, cluster::Options, eventually};

const TOOL_RULES: &str = r#"
rules:
  - when: {after_tool: false, last_user: {regex: "look up (?<skill>[a-z-]+)"}}
    reply:
      - tool_call: {name: skill_view, arguments: {name: "{{capture.skill}}"}}
  - when: {after_tool: true}
    reply:
      - text: "It says: {{tool_output}}"
  - when: {last_user: {contains: "wait"}}
    reply:
      - gate: hold
      - text: "Waited for {{last_user}}"
  - reply:
      - text: "You said: {{last_user}}"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_becomes_one_reply() {
    let cluster = TestCluster::start(Options::default()).await;
    let reply = cluster.ask("main", "hello there").await;
    assert_eq!(reply.text, "You said: hello there");
    cluster.settled().await;
    assert_eq!(cluster.replies("main").await.len(), 1);
    let state: String = cluster.value("select state from control.turns").await;
    assert_eq!(state, "completed");
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_and_its_output_answered_with_also_a_recall_only_skill() {
    let cluster = TestCluster::start(Options::rules(TOOL_RULES)).await;
    let reply = cluster.ask("main", "please look up ledger").await;
    assert!(reply.text.contains("Debit left."), "{reply:?}");
    let hidden = cluster.ask("main", "now look up vault").await;
    assert!(hidden.text.contains("Below."), "{hidden:?}");
    let missing = cluster.ask("main", "and look up nothing").await;
    assert!(!missing.text.is_empty());
    cluster.settled().await;
    // Each turn: a call, its output, an answer.
    let outputs: i64 = cluster
        .value("select count(*) from gateway.items where type = 'function_call_output'")
        .await;
    assert_eq!(outputs, 3);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_disabled_while_a_turn_runs_cannot_be_read_any_more() {
    let rules = r#"
rules:
  - when: {after_tool: false}
    reply:
      - gate: hold
      - tool_call: {name: skill_view, arguments: {name: ledger}}
  - reply:
      - text: "{{tool_output}}"
"#;
    let cluster = TestCluster::start(Options::rules(rules)).await;
    let key = cluster.say("main", "go").await;
    cluster.held("hold").await;
    let off = "---\nname: ledger\ndescription: d\ndefault_enabled: false\n---\nDebit left.\n";
    cluster.apply_with("ada/skills/ledger/SKILL.md", off).await;
    cluster.gates.open("hold").unwrap();
    let reply = cluster.reply("main", &key).await;
    assert!(!reply.text.contains("Debit left."), "{reply:?}");
    cluster.settled().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_arrive_while_a_turn_runs_become_the_next_turn() {
    let cluster = TestCluster::start(Options::rules(TOOL_RULES)).await;
    let first = cluster.say("main", "wait for me").await;
    cluster.held("hold").await;
    let second = cluster.say("main", "second").await;
    let third = cluster.say("main", "third").await;
    cluster
        .until(
            "both are in the mailbox",
            "select count(*) from control.mailbox where turn is null",
            2,
        )
        .await;
    cluster.gates.open("hold").unwrap();
    let one = cluster.reply("main", &first).await;
    assert_eq!(one.text, "Waited for wait for me");
    // A backlog becomes one turn; its reply refers to the newest message.
    let two = cluster.reply("main", &third).await;
    assert_ne!(one.turn, two.turn);
    cluster.settled().await;
    let replies = cluster.replies("main").await;
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert!(!replies.iter().any(|r| r.answers == second));
    let last = cluster.requests().pop().unwrap();
    let texts = TestCluster::user_texts(&last).join("\n");
    let at = |t: &str| texts.find(t).unwrap_or_else(|| panic!("{t} in {texts}"));
    assert!(at("wait for me") < at("second") && at("second") < at("third"));
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_races_the_end_of_a_turn_wakes_the_next_one() {
    let cluster = TestCluster::start(Options::default()).await;
    // Each message is sent the instant the reply before it shows, many times over.
    for n in 0..12 {
        let a = cluster.say("main", &format!("a{n}")).await;
        let b = cluster.say("main", &format!("b{n}")).await;
        eventually("both are consumed", Duration::from_secs(20), || async {
            let sql = format!(
                "select count(*) from control.signals where event_key in ('{a}', '{b}') \
                 and disposition = 'consumed'"
            );
            let n: i64 = cluster.value(&sql).await;
            if n == 2 { Ok(()) } else { Err(format!("{n} of 2")) }
        })
        .await;
    }
    cluster.settled().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_published_twice_is_one_signal_also_past_the_stream_s_memory() {
    let cluster = TestCluster::start(Options::default()).await;
    let key = cluster.say("main", "once").await;
    cluster.reply("main", &key).await;
    let event = serde_json::json!({
        "specversion": "1.0", "type": "turnwright.signal.v1", "source": "/adapters/console/console-ada",
        "id": key, "time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json",
        "data": {"channel": {"kind": "CHANNEL_KIND_DM", "id": "main"},
                 "sender": {"id": "console", "displayName": "Console"}, "addressed": "ADDRESSED_DM",
                 "text": "once", "messageId": "m", "orderKey": "9"}});
    let nats = nats(&cluster).await;
    let js = async_nats::jetstream::new(nats);
    // Without a message id the stream cannot know it; the database must.
    let body = serde_json::to_vec(&event).unwrap();
    let ack = js.publish("tw.v1.signal.console.console-ada", body.into()).await.unwrap();
    ack.await.unwrap();
    let fresh = cluster.ask("main", "after").await;
    assert_eq!(fresh.text, "You said: after");
    cluster.settled().await;
    let signals: i64 = cluster.value("select count(*) from control.signals").await;
    assert_eq!(signals, 2);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_bindings_of_one_room_get_the_same_message_each() {
    let cluster = TestCluster::start(Options::default()).await;
    let mut files = TestCluster::agent_files();
    files.push((
        "bob/agent.yaml".into(),
        "slug: bob\ndisplay_name: Bob\nbindings:\n  - {id: room-bob, adapter: test}\n".into(),
    ));
    files.retain(|(p, _)| p != "ada/agent.yaml");
    files.push((
        "ada/agent.yaml".into(),
        "slug: ada\ndisplay_name: Ada\nbindings:\n  - {id: room-ada, adapter: test}\n".into(),
    ));
    cluster.apply(&files).await.unwrap();
    let js = async_nats::jetstream::new(nats(&cluster).await);
    for binding in ["room-ada", "room-bob"] {
        let event = serde_json::json!({
            "specversion": "1.0", "type": "turnwright.signal.v1", "source": "/t", "id": "m-1",
            "time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json",
            "data": {"channel": {"kind": "CHANNEL_KIND_GROUP", "id": "room", "label": "Room"},
                     "sender": {"id": "u", "displayName": "U"}, "addressed": "ADDRESSED_MENTION",
                     "text": "hello both", "messageId": "m-1", "orderKey": "1"}});
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{binding}/m-1").as_str());
        let subject = format!("tw.v1.signal.test.{binding}");
        let body = serde_json::to_vec(&event).unwrap();
        let ack = js.publish_with_headers(subject, headers, body.into()).await.unwrap();
        assert!(!ack.await.unwrap().duplicate, "{binding}");
    }
    cluster
        .until("both turns end", "select count(*) from control.turns where state = 'completed'", 2)
        .await;
    let agents: i64 = cluster
        .value("select count(distinct agent) from control.conversations where key like 'room-%'")
        .await;
    assert_eq!(agents, 2);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_signals_keep_the_mirror_current() {
    let cluster = TestCluster::start(Options::default()).await;
    for name in ["Grace", "Grace Hopper"] {
        let sender = Sender { id: "g".into(), display_name: name.into() };
        let key = cluster.say_as("main", "hi", sender).await;
        cluster.reply("main", &key).await;
    }
    let name: String =
        cluster.value("select display_name from control.principals where external_id = 'g'").await;
    assert_eq!(name, "Grace Hopper");
    cluster.settled().await;
    cluster.finish().await;
}

/// A message in a room, published as any adapter would.
struct Room<'a> {
    js: &'a async_nats::jetstream::Context,
    binding: &'a str,
    channel: (&'a str, &'a str),
}

impl Room<'_> {
    async fn says(&self, id: &str, addressed: &str, text: &str) {
        let event = serde_json::json!({
            "specversion": "1.0", "type": "turnwright.signal.v1", "source": "/t", "id": id,
            "time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json",
            "data": {"channel": {"kind": "CHANNEL_KIND_GROUP", "id": self.channel.0,
                                 "threadId": self.channel.1},
                     "sender": {"id": "u", "displayName": "U"}, "addressed": addressed,
                     "text": text, "messageId": id, "orderKey": id}});
        let subject = format!("tw.v1.signal.test.{}", self.binding);
        let body = serde_json::to_vec(&event).unwrap();
        self.js.publish(subject, body.into()).await.unwrap().await.unwrap();
    }
}

fn with_binding(agent: &str, unaddressed: &str) -> (String, String) {
    let text = format!(
        "slug: {agent}\ndisplay_name: {agent}\nbindings:\n  - {{id: room, adapter: test, unaddressed: {unaddressed}}}\n"
    );
    (format!("{agent}/agent.yaml"), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn chatter_is_context_and_never_fills_a_mailbox() {
    let cluster = TestCluster::start(Options::default()).await;
    let (path, text) = with_binding("ada", "record_only");
    cluster.apply_with(&path, &text).await;
    let js = async_nats::jetstream::new(nats(&cluster).await);
    let room = Room { js: &js, binding: "room", channel: ("lobby", "") };
    for n in 0..60 {
        room.says(&format!("a{n:03}"), "ADDRESSED_NONE", &format!("chatter {n}")).await;
    }
    cluster.until("all are admitted", "select count(*) from control.signals", 60).await;
    let turns: i64 = cluster.value("select count(*) from control.turns").await;
    assert_eq!(turns, 0, "chatter wakes nobody");
    let kept: i64 = cluster.value("select count(*) from control.mailbox").await;
    assert_eq!(kept, 49);
    room.says("b", "ADDRESSED_MENTION", "what was that?").await;
    cluster
        .until("it is answered", "select count(*) from control.turns where state = 'completed'", 1)
        .await;
    let users = TestCluster::user_texts(&cluster.requests()[0]).join("\n");
    // The newest chatter is there, the oldest is not.
    assert!(users.contains("chatter 59") && users.contains("chatter 11"), "{users}");
    assert!(!users.contains("chatter 10\n") && !users.contains("chatter 9\n"), "{users}");
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_never_share_a_conversation_and_a_moved_binding_changes_the_agent() {
    let cluster = TestCluster::start(Options::default()).await;
    let (path, text) = with_binding("ada", "ignore");
    cluster.apply_with(&path, &text).await;
    let js = async_nats::jetstream::new(nats(&cluster).await);
    let thread = Room { js: &js, binding: "room", channel: ("repo/issues", "5") };
    let channel = Room { js: &js, binding: "room", channel: ("repo/issues/5", "") };
    thread.says("1", "ADDRESSED_MENTION", "in the thread").await;
    channel.says("2", "ADDRESSED_MENTION", "in the channel").await;
    cluster
        .until(
            "both are answered",
            "select count(*) from control.turns where state = 'completed'",
            2,
        )
        .await;
    let places: i64 = cluster.value("select count(*) from control.conversations").await;
    assert_eq!(places, 2);
    let mut files = TestCluster::agent_files();
    files.push(with_binding("bob", "ignore"));
    cluster.apply(&files).await.unwrap();
    thread.says("3", "ADDRESSED_MENTION", "and now").await;
    cluster
        .until("it is answered", "select count(*) from control.turns where state = 'completed'", 3)
        .await;
    let agent: String = cluster
        .value("select c.agent from control.turns t join control.conversations c on c.id = t.conversation order by t.created_at desc limit 1")
        .await;
    assert_eq!(agent, "bob");
    cluster.finish().await;
}

pub(crate) async fn nats(cluster: &TestCluster) -> async_nats::Client {
    async_nats::ConnectOptions::with_token(cluster.nats.token().to_owned())
        .connect(cluster.nats.address())
        .await
        .expect("connect to nats")
}
