//! What reaches the model, and what must not.

use turnwright_adapters::api::Sender;
use turnwright_tests::{TestCluster, cluster::Options};
use uuid::Uuid;

fn nonce() -> String {
    format!("nonce{}", Uuid::now_v7().simple())
}

const HOLD: &str = r#"
rules:
  - when: {last_user: {contains: "hold"}, after_tool: false}
    reply:
      - gate: hold
      - tool_call: {name: list_files, arguments: {}}
  - reply:
      - text: "You said: {{last_user}}"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_in_soul_is_in_the_next_turn_and_not_in_the_running_one() {
    let cluster = TestCluster::start(Options::rules(HOLD)).await;
    let secret = nonce();
    let running = cluster.say("main", "hold on").await;
    cluster.held("hold").await;
    let applied = cluster.apply_with("ada/SOUL.md", &format!("Calm. {secret}\n")).await;
    assert!(applied.changed);
    cluster.gates.open("hold").unwrap();
    cluster.reply("main", &running).await;
    // Two requests of the running turn: the call, and the answer after its output.
    let before = cluster.requests();
    assert_eq!(before.len(), 2);
    for request in &before {
        assert!(!TestCluster::instructions(request).contains(&secret));
    }
    cluster.ask("main", "and now").await;
    let after = cluster.requests().pop().unwrap();
    assert!(TestCluster::instructions(&after).contains(&secret));
    cluster.settled().await;
    let used: i64 =
        cluster.value("select revision from control.turns order by created_at desc limit 1").await;
    assert_eq!(used, applied.revision);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_and_sender_are_in_one_user_message_and_in_no_instructions() {
    let cluster = TestCluster::start(Options::default()).await;
    let (word, name) = (nonce(), nonce());
    let sender = Sender { id: "s".into(), display_name: name.clone() };
    let key = cluster.say_as("main", &format!("the word is {word}"), sender).await;
    cluster.reply("main", &key).await;
    cluster.ask("main", "again").await;
    let requests = cluster.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        let instructions = TestCluster::instructions(request);
        assert!(!instructions.contains(&word));
        let users = TestCluster::user_texts(request);
        assert_eq!(users.iter().filter(|t| t.contains(&word)).count(), 1, "{users:?}");
    }
    // The first conversation's peer is its origin: the label of a direct message, in the channel
    // block. A later speaker's name is nowhere but in the message.
    let stranger = nonce();
    let sender = Sender { id: "other".into(), display_name: stranger.clone() };
    let key = cluster.say_as("main", "me too", sender).await;
    cluster.reply("main", &key).await;
    let last = cluster.requests().pop().unwrap();
    assert!(!TestCluster::instructions(&last).contains(&stranger));
    let users = TestCluster::user_texts(&last);
    assert_eq!(users.iter().filter(|t| t.contains(&stranger)).count(), 1, "{users:?}");
    cluster.settled().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_already_sent_is_rewritten() {
    let cluster = TestCluster::start(Options::default()).await;
    for n in 0..4 {
        cluster.ask("main", &format!("message {n}")).await;
    }
    let requests = cluster.requests();
    for pair in requests.windows(2) {
        let (a, b) =
            (pair[0]["messages"].as_array().unwrap(), pair[1]["messages"].as_array().unwrap());
        assert_eq!(a[..], b[..a.len()], "a request is a prefix of the next");
    }
    cluster.settled().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_lists_what_it_should_and_the_manifest_verifies() {
    let cluster = TestCluster::start(Options::default()).await;
    cluster.ask("main", "hi").await;
    let instructions = TestCluster::instructions(&cluster.requests()[0]);
    assert!(instructions.contains("ledger") && !instructions.contains("vault"));
    let manifest: serde_json::Value = cluster.value("select manifest from gateway.responses").await;
    let manifest: turnwright_prompt::Manifest = serde_json::from_value(manifest).unwrap();
    // The stored bytes are the sent bytes, and every one of them has a source.
    let stored: String = cluster
        .value(
            "select b.content from gateway.responses r join gateway.blobs b on b.sha256 = r.instructions",
        )
        .await;
    assert_eq!(stored, instructions);
    let mut end = 0;
    for part in &manifest.instructions {
        assert!(stored[end..part.start].trim().is_empty(), "a gap is a blank line");
        end = part.end;
    }
    assert_eq!(end, stored.len());
    cluster.settled().await;
    cluster.finish().await;
}

/// The whole request, as it leaves; what differs from run to run is named.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_is_the_golden_one() {
    let cluster = TestCluster::start(Options::default()).await;
    cluster.ask("main", "hello").await;
    let request = &cluster.requests()[0];
    let mut text = serde_json::to_string_pretty(request).unwrap();
    let started: String = cluster
        .value("select to_char(started_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') from control.generations")
        .await;
    let sent: String = cluster
        .value("select to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') from control.signals")
        .await;
    let conversation: String = cluster.value("select id::text from control.conversations").await;
    for (from, to) in [
        (cluster.folder().display().to_string(), "FOLDER"),
        (conversation, "CONVERSATION"),
        (started, "STARTED"),
        (sent.clone(), "SENT"),
        (sent[..10].to_owned(), "TODAY"),
    ] {
        text = text.replace(&from, to);
    }
    let path = turnwright_tests::programs::repository().join("tests/golden/first_request.json");
    if turnwright_kit::config::Env::process().get("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{text}\n")).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden.trim_end() == text, "the request changed; UPDATE_GOLDEN=1 shows how:\n{text}");
    cluster.settled().await;
    cluster.finish().await;
}
