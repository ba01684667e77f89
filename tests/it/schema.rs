//! The database refuses what providers and users would suffer from later: each invariant is
//! broken on purpose, with plain SQL as the schema's owner.

use turnwright_tests::{TestCluster, cluster::Options};

/// Runs a statement that must be refused; the constraint that did it.
async fn refused(db: &tokio_postgres::Client, sql: &str) -> String {
    let e = db.batch_execute(sql).await.expect_err(sql);
    let e = e.as_db_error().unwrap_or_else(|| panic!("{sql}: {e:?}"));
    e.constraint().unwrap_or_else(|| panic!("{sql}: {e:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_corruption_is_refused_by_a_named_constraint() {
    let cluster = TestCluster::start(Options::rules(
        "rules:\n  - when: {after_tool: false}\n    reply: [{tool_call: {name: list_files, arguments: {}}}]\n  - reply: [{text: done}]\n",
    ))
    .await;
    cluster.ask("main", "go").await;
    cluster.settled().await;
    let db = cluster.database.owner().await;
    let second_output = "insert into gateway.items (branch, seq, conversation, id, type, call_id, turn_seq, epoch, body)
        select branch, 1000, conversation, 'x', 'function_call_output', call_id, 9, 9, '{}'
          from gateway.items where type = 'function_call_output'";
    let orphan = "insert into gateway.items (branch, seq, conversation, id, type, call_id, turn_seq, epoch, body)
        select branch, 1000, conversation, 'x', 'function_call_output', 'call_none', 9, 9, '{}'
          from gateway.items limit 1";
    let below =
        "insert into gateway.items (branch, seq, conversation, id, type, turn_seq, epoch, body)
        select branch, 1000, conversation, 'x', 'message', 0, 1, '{}' from gateway.items limit 1";
    let unfenced = "insert into gateway.items (branch, seq, conversation, id, type, body)
        select branch, 1000, conversation, 'x', 'message', '{}' from gateway.items limit 1";
    let same_signal = "insert into gateway.items (branch, seq, conversation, id, type, signal, turn_seq, epoch, body)
        select branch, 1000, conversation, 'x', 'message', signal, 9, 9, '{}'
          from gateway.items where signal is not null";
    let second_live =
        "insert into control.turns (id, conversation, generation, turn_seq, kind, pool)
        select gen_random_uuid(), conversation, 1, n, 'message', 'default'
          from control.turns, generate_series(8, 9) n";
    for (sql, constraint) in [
        (second_output, "items_call_once"),
        (orphan, "items_output_has_call"),
        (below, "items_fence"),
        (unfenced, "items_fence"),
        (same_signal, "items_signal_once"),
        ("update gateway.items set body = '{}'", "items_are_appended"),
        ("update gateway.responses set status = 'failed'", "responses_end_once"),
        ("update gateway.conversations set epoch = 0", "gateway_conversations_only_forward"),
        (second_live, "turns_one_live"),
        ("update control.turns set state = 'queued', ended_at = null", "turns_end_once"),
        ("update control.conversations set epoch = 0", "conversations_only_forward"),
        ("update control.conversations set turn_seq = 0", "conversations_only_forward"),
        (
            "update control.deliveries set state = 'planned', settled_at = null",
            "deliveries_settle_once",
        ),
        (
            "insert into control.deliveries select (jsonb_populate_record(d, '{\"lane_seq\": 99}'
            || jsonb_build_object('id', gen_random_uuid()))).* from control.deliveries d",
            "deliveries_origin_once",
        ),
        (
            "update control.signals set disposition = 'recorded', disposition_turn = null",
            "signals_one_disposition",
        ),
        ("update control.signals set disposition_turn = null", "signals_disposition_is_whole"),
        ("insert into control.blobs values ('\\x00', 'a')", "blobs_are_named_by_content"),
    ] {
        assert_eq!(refused(&db, sql).await, constraint, "{sql}");
    }
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_sees_its_own_schema_only() {
    let database = turnwright_tests::TestDatabase::new().await;
    for (role, sql) in [
        ("turnwright_control", "select 1 from gateway.items"),
        ("turnwright_gateway", "select 1 from control.turns"),
        ("turnwright_gateway", "delete from gateway.items"),
        ("turnwright_gateway", "update gateway.items set body = ''"),
        ("turnwright_control", "delete from control.signal_keys"),
        ("turnwright_auditor", "delete from control.turns"),
        ("turnwright_auditor", "update gateway.responses set status = 'failed'"),
    ] {
        let db = turnwright_tests::database::connect(&database.role_url(role)).await;
        let e = db.batch_execute(sql).await.expect_err(sql);
        let code = e.as_db_error().map(|d| d.code().code().to_owned());
        assert_eq!(code.as_deref(), Some("42501"), "{role}: {sql}");
    }
    database.drop().await;
}
