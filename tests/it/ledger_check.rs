//! The checker catches what the promises forbid: each defect is seeded, and named.

use turnwright_tests::{TestCluster, cluster::Options};

/// Writes past the schema's own refusals: triggers and constraints of the session are off.
async fn seed(cluster: &TestCluster, sql: &str) -> Vec<String> {
    let db = cluster.database.owner().await;
    db.batch_execute("set session_replication_role = replica").await.unwrap();
    db.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let mut rules: Vec<String> =
        cluster.violations().await.iter().map(|v| v.rule.to_string()).collect();
    rules.sort();
    rules.dedup();
    rules
}

async fn run() -> TestCluster {
    let cluster = TestCluster::start(Options::default()).await;
    cluster.ask("main", "one").await;
    cluster.ask("main", "two").await;
    cluster.settled().await;
    assert!(cluster.violations().await.is_empty());
    cluster
}

macro_rules! defect {
    ($name:ident, $rule:literal, $sql:expr) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let cluster = run().await;
            let rules = seed(&cluster, $sql).await;
            assert!(rules.iter().any(|r| r == $rule), "{} in {rules:?}", $rule);
            cluster.finish_with_violations().await;
        }
    };
}

defect!(
    a_signal_without_a_disposition,
    "signal-has-one-place",
    "update control.signals set disposition = null, disposition_turn = null, disposed_at = null where order_key = (select max(order_key) from control.signals)"
);
defect!(
    a_lost_wake_up,
    "waking-signal-has-a-turn",
    "insert into control.mailbox (signal, conversation, seq, wakes, order_key, bytes) select id, conversation, 77, true, order_key, 1 from control.signals limit 1; update control.signals set disposition = null, disposition_turn = null, disposed_at = null where id in (select signal from control.mailbox)"
);
defect!(
    a_reply_that_was_never_planned,
    "completed-turn-replied",
    "delete from control.deliveries where turn = (select id from control.turns limit 1)"
);
defect!(
    a_reply_planned_twice,
    "completed-turn-replied",
    "insert into control.deliveries select (jsonb_populate_record(d, jsonb_build_object('lane_seq', 99, 'id', gen_random_uuid(), 'origin_key', 'again/' || d.id))).* from control.deliveries d limit 1"
);
defect!(
    a_gap_in_the_turns,
    "turn-seq-is-gapless",
    "update control.turns set turn_seq = 9 where turn_seq = 2"
);
defect!(
    a_transcript_without_the_message,
    "asked-signal-is-stored-once",
    "delete from gateway.items where signal is not null and seq = (select min(seq) from gateway.items where signal is not null)"
);
defect!(
    a_message_stored_twice,
    "asked-signal-is-stored-once",
    "alter table gateway.items drop constraint items_signal_once; insert into gateway.items (branch, seq, conversation, id, type, role, signal, turn_seq, epoch, body) select branch, 900, conversation, 'dup', type, role, signal, turn_seq, epoch, body from gateway.items where signal is not null limit 1"
);
defect!(
    a_call_without_an_output,
    "call-has-one-output",
    "insert into gateway.items (branch, seq, conversation, id, type, call_id, response, turn_seq, epoch, body) select branch, 901, conversation, 'call', 'function_call', 'call_1', response, turn_seq, epoch, '{}' from gateway.items where response is not null limit 1; update gateway.branches set head = 901"
);
defect!(
    an_output_without_a_call,
    "output-has-its-call",
    "insert into gateway.items (branch, seq, conversation, id, type, call_id, turn_seq, epoch, body) select branch, 902, conversation, 'out', 'function_call_output', 'call_2', turn_seq, epoch, '{}' from gateway.items limit 1"
);
defect!(
    a_broken_chain_of_revisions,
    "revision-chain-holds",
    "update control.revisions set author = 'somebody', changes = '[]' where revision = 1"
);
defect!(
    a_fence_that_went_back,
    "epoch-only-grows",
    "update control.turns set epoch = 1 where turn_seq = 2; update control.turns set epoch = 2 where turn_seq = 1"
);
defect!(
    a_completed_turn_whose_response_is_not,
    "answer-is-stored",
    "update gateway.responses set status = 'incomplete' where id = (select response from control.turns where turn_seq = 2)"
);
defect!(
    two_live_turns,
    "one-live-turn",
    "alter table control.turns disable trigger all; drop index control.turns_one_live; update control.turns set state = 'queued', ended_at = null, not_before = now() + interval '1 hour'"
);

#[tokio::test(flavor = "multi_thread")]
async fn dedupe_in_memory_only() {
    let cluster = run().await;
    let sql =
        "delete from control.signal_keys where signal = (select id from control.signals limit 1)";
    assert_eq!(seed(&cluster, sql).await, ["signal-has-key"]);
    cluster.finish_with_violations().await;
}
