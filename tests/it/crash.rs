//! A worker dies, at each stage that matters; another finishes its turn with one reply.

use std::time::Duration;
use turnwright_tests::{
    TestCluster,
    cluster::{Options, Service},
    eventually,
};

const RULES: &str = r#"
rules:
  - when: {after_tool: false, last_user: {contains: "tool"}}
    reply:
      - tool_call: {name: list_files, arguments: {}}
  - when: {after_tool: true}
    reply:
      - gate: hold
      - text: "done after the tool"
  - when: {last_user: {contains: "long"}}
    reply:
      - text: "first words "
      - gate: hold
      - text: "last words"
  - reply:
      - text: "You said: {{last_user}}"
"#;

async fn one_reply(cluster: &TestCluster, key: &str, text: &str) {
    let reply = cluster.reply("main", key).await;
    assert_eq!(reply.text, text);
    cluster.settled().await;
    assert_eq!(cluster.replies("main").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_model_call_is_in_flight() {
    let cluster = TestCluster::start(Options::rules(RULES).without_worker()).await;
    let worker = cluster.spawn_worker();
    let key = cluster.say("main", "a long answer").await;
    cluster.held("hold").await;
    worker.kill().await;
    let successor = cluster.spawn_worker();
    cluster
        .until("the turn changes hands", "select max(crashes)::bigint from control.turns", 1)
        .await;
    // The call that the dead worker began goes on; the successor waits for it and asks nothing.
    cluster.gates.open("hold").unwrap();
    one_reply(&cluster, &key, "first words last words").await;
    assert_eq!(cluster.requests().len(), 1);
    successor.kill().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_a_tool_and_the_next_call() {
    let cluster = TestCluster::start(Options::rules(RULES).without_worker()).await;
    let worker = cluster.spawn_worker();
    let key = cluster.say("main", "use a tool").await;
    cluster.held("hold").await;
    worker.kill().await;
    let successor = cluster.spawn_worker();
    cluster.until("the turn changes hands", "select max(epoch) from control.turns", 2).await;
    cluster.gates.open("hold").unwrap();
    one_reply(&cluster, &key, "done after the tool").await;
    // The tool's output was stored by the first worker and is there once.
    let outputs: i64 = cluster
        .value("select count(*) from gateway.items where type = 'function_call_output'")
        .await;
    assert_eq!(outputs, 1);
    successor.kill().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_answer_is_stored_and_before_it_is_committed() {
    let mut cluster = TestCluster::start(Options::rules(RULES).without_worker()).await;
    let worker = cluster.spawn_worker();
    let key = cluster.say("main", "a long answer").await;
    cluster.held("hold").await;
    // With the ledger away, the answer can be stored and cannot be committed.
    cluster.stop(Service::ControlPlane).await;
    cluster.gates.open("hold").unwrap();
    cluster
        .until(
            "the answer is stored",
            "select count(*) from gateway.responses where status = 'completed'",
            1,
        )
        .await;
    worker.kill().await;
    cluster.restart(Service::ControlPlane).await;
    let successor = cluster.spawn_worker();
    one_reply(&cluster, &key, "first words last words").await;
    // It was committed, not asked for again.
    assert_eq!(cluster.requests().len(), 1);
    successor.kill().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_the_turn_ends_with_a_notice() {
    let cluster = TestCluster::start(Options::rules(RULES).without_worker()).await;
    let key = cluster.say("main", "a long answer").await;
    for crashes in 1..=3 {
        let worker = cluster.spawn_worker();
        cluster
            .until("it runs", "select count(*) from control.turns where state = 'running'", 1)
            .await;
        worker.kill().await;
        cluster
            .until("its loss is seen", "select max(crashes)::bigint from control.turns", crashes)
            .await;
    }
    let notice = cluster.reply("main", &key).await;
    assert!(!notice.text.is_empty());
    let reason: String = cluster.value("select end_reason from control.turns").await;
    assert_eq!(reason, "poison");
    cluster.gates.open("hold").unwrap();
    // The conversation goes on.
    let worker = cluster.spawn_worker();
    assert_eq!(cluster.ask("main", "hello").await.text, "You said: hello");
    worker.kill().await;
    cluster.settled().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_that_wakes_changes_nothing() {
    let cluster = TestCluster::start(Options::rules(RULES).without_worker()).await;
    let frozen = cluster.spawn_worker();
    let key = cluster.say("main", "use a tool").await;
    cluster.held("hold").await;
    frozen.freeze();
    let successor = cluster.spawn_worker();
    cluster.until("the turn changes hands", "select max(epoch) from control.turns", 2).await;
    cluster.gates.open("hold").unwrap();
    one_reply(&cluster, &key, "done after the tool").await;
    let before: i64 = cluster.value("select count(*) from gateway.items").await;
    frozen.thaw();
    // The woken worker learns of its loss at its next renewal or write; another turn goes by.
    assert_eq!(cluster.ask("main", "hello").await.text, "You said: hello");
    cluster.settled().await;
    let turns: i64 =
        cluster.value("select count(*) from control.turns where state = 'completed'").await;
    assert_eq!(turns, 2);
    let after: i64 = cluster.value("select count(*) from gateway.items where turn_seq = 1").await;
    assert_eq!(before, after);
    frozen.kill().await;
    successor.kill().await;
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_restarts_in_a_model_call_costs_nothing_but_time() {
    let mut cluster = TestCluster::start(Options::rules(RULES)).await;
    let key = cluster.say("main", "hello").await;
    cluster.reply("main", &key).await;
    cluster.stop(Service::Gateway).await;
    let second = cluster.say("main", "are you there").await;
    cluster.until("it is claimed", "select max(epoch) from control.turns", 2).await;
    cluster.restart(Service::Gateway).await;
    assert_eq!(cluster.reply("main", &second).await.text, "You said: are you there");
    cluster.settled().await;
    assert_eq!(cluster.replies("main").await.len(), 2);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_may_go_and_come_back_empty_but_for_signals() {
    let mut cluster = TestCluster::start(Options::rules(RULES)).await;
    cluster.ask("main", "one").await;
    // Turns and deliveries live in memory there: gone with the server, made again from rows.
    let js = async_nats::jetstream::new(crate::turn::nats(&cluster).await);
    for stream in ["TURNS", "DELIVERIES"] {
        js.delete_stream(stream).await.unwrap();
    }
    let key = cluster.say("main", "two").await;
    eventually("the turn is dispatched all the same", Duration::from_secs(30), || async {
        let all = cluster.replies("main").await;
        if all.iter().any(|r| r.answers == key) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    cluster.settled().await;
    cluster.stop(Service::Worker).await;
    cluster.finish().await;
}
