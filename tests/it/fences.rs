//! What a stale owner may do: nothing, in the ledger and in the gateway.

use tonic::{Code, service::interceptor::InterceptedService, transport::Channel};
use turnwright_kit::{agent_token::Signer, auth::CallerMetadata};
use turnwright_proto::v1::{
    self, claim_turn_response::Outcome, turn_ledger_client::TurnLedgerClient,
};
use turnwright_tests::{TestCluster, cluster::Options};
use turnwright_types::{AgentClaims, AgentSlug, Fence, gateway as api};
use uuid::Uuid;

type Ledger = TurnLedgerClient<InterceptedService<Channel, CallerMetadata>>;

async fn ledger(cluster: &TestCluster) -> Ledger {
    let channel = Channel::from_shared(cluster.keys.control_url.clone()).unwrap().connect().await;
    let caller = CallerMetadata::new(cluster.keys.var("TURNWRIGHT_SERVICE_TOKEN")).unwrap();
    TurnLedgerClient::with_interceptor(channel.unwrap(), caller)
}

async fn claim(ledger: &mut Ledger, turn: &str, dispatch_no: i64, worker: &str) -> Outcome {
    let request = v1::ClaimTurnRequest {
        turn_id: turn.to_owned(),
        dispatch_no,
        worker_incarnation: worker.to_owned(),
        pool: "default".into(),
    };
    ledger.claim_turn(request).await.unwrap().into_inner().outcome.unwrap()
}

fn claimed(outcome: Outcome) -> v1::Claimed {
    match outcome {
        Outcome::Claimed(c) => c,
        Outcome::NotClaimed(n) => panic!("not claimed: {n:?}"),
    }
}

async fn queued(cluster: &TestCluster) -> String {
    cluster.say("main", "hello").await;
    cluster.until("it is queued", "select count(*) from control.turns", 1).await;
    cluster.value("select id::text from control.turns").await
}

fn complete(turn: &str, fence: v1::Fence) -> v1::CompleteTurnRequest {
    v1::CompleteTurnRequest {
        turn_id: turn.to_owned(),
        fence: Some(fence),
        text: "an answer".into(),
        response_id: Uuid::now_v7().to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_repeated_by_its_own_and_refused_to_others() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    let turn = queued(&cluster).await;
    let mut ledger = ledger(&cluster).await;
    let (me, other) = (Uuid::now_v7().to_string(), Uuid::now_v7().to_string());
    let first = claimed(claim(&mut ledger, &turn, 1, &me).await);
    let repeat = claimed(claim(&mut ledger, &turn, 1, &me).await);
    assert_eq!((&first.fence, &first.batch), (&repeat.fence, &repeat.batch));
    let Outcome::NotClaimed(n) = claim(&mut ledger, &turn, 1, &other).await else { panic!() };
    assert_eq!(n.reason(), v1::NotClaimedReason::AlreadyClaimed);

    // A failure that passes queues it again; the old dispatch is nobody's any more.
    let fail = v1::FailTurnRequest {
        turn_id: turn.clone(),
        fence: first.fence,
        class: v1::FailureClass::Transient.into(),
        reason: "a_test".into(),
        detail: String::new(),
    };
    let ended = ledger.fail_turn(fail).await.unwrap().into_inner().ended.unwrap();
    assert_eq!(ended.state, "queued");
    let Outcome::NotClaimed(n) = claim(&mut ledger, &turn, 1, &other).await else { panic!() };
    assert_eq!(n.reason(), v1::NotClaimedReason::Superseded);
    let second = claimed(claim(&mut ledger, &turn, 2, &other).await);
    assert!(second.takeover && second.fence.unwrap().epoch > first.fence.unwrap().epoch);
    assert_eq!(second.batch, first.batch, "the batch was frozen at the first claim");

    // The old fence writes nothing; the new one does, and its repeat says so.
    let e = ledger.complete_turn(complete(&turn, first.fence.unwrap())).await.unwrap_err();
    assert_eq!(e.code(), Code::Aborted);
    let good = complete(&turn, second.fence.unwrap());
    let done = ledger.complete_turn(good.clone()).await.unwrap().into_inner().ended.unwrap();
    assert_eq!((done.state.as_str(), done.already), ("completed", false));
    let again = ledger.complete_turn(good).await.unwrap().into_inner().ended.unwrap();
    assert_eq!((again.state.as_str(), again.already), ("completed", true));
    let deliveries: i64 = cluster.value("select count(*) from control.deliveries").await;
    assert_eq!(deliveries, 1);
    let Outcome::NotClaimed(n) = claim(&mut ledger, &turn, 2, &me).await else { panic!() };
    assert_eq!(n.reason(), v1::NotClaimedReason::Finished);
    // This test answered without a transcript, which the checker would rightly name.
    cluster.finish_with_violations().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_turn_that_no_worker_could_run_ends_with_a_notice() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    let turn = queued(&cluster).await;
    cluster.apply_with("ada/SOUL.md", "Another revision.\n").await;
    let db = cluster.database.owner().await;
    db.batch_execute("delete from control.models").await.unwrap();
    let mut ledger = ledger(&cluster).await;
    let me = Uuid::now_v7().to_string();
    let Outcome::NotClaimed(n) = claim(&mut ledger, &turn, 1, &me).await else { panic!() };
    assert_eq!(n.reason(), v1::NotClaimedReason::Finished);
    cluster.settled().await;
    assert_eq!(cluster.replies("main").await.len(), 1, "the user is told");
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_renew_is_told_so_and_loses_its_turn() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    let turn = queued(&cluster).await;
    let mut ledger = ledger(&cluster).await;
    let me = Uuid::now_v7().to_string();
    let first = claimed(claim(&mut ledger, &turn, 1, &me).await);
    let renew = v1::RenewLeaseRequest {
        worker_incarnation: me.clone(),
        pool: "default".into(),
        turn_ids: vec![turn.clone()],
        draining: false,
    };
    let held = ledger.renew_lease(renew.clone()).await.unwrap().into_inner();
    assert!(!held.turns[0].lost);
    cluster.until("it is taken", "select max(dispatch_no) from control.turns", 2).await;
    let lost = ledger.renew_lease(renew).await.unwrap().into_inner();
    assert!(lost.turns[0].lost);
    let e = ledger.complete_turn(complete(&turn, first.fence.unwrap())).await.unwrap_err();
    assert_eq!(e.code(), Code::Aborted);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_refuses_a_lower_fence_a_moved_head_and_strangers() {
    let cluster = TestCluster::start(Options::default()).await;
    cluster.ask("main", "one").await;
    cluster.ask("main", "two").await;
    cluster.settled().await;
    let conversation: Uuid =
        cluster.value("select gateway_conversation from control.generations").await;
    let turn: Uuid =
        cluster.value("select id from control.turns order by turn_seq desc limit 1").await;
    let head: i64 = cluster.value("select max(seq) from gateway.items").await;
    let epoch: i64 = cluster.value("select epoch from control.conversations").await;
    let signer = Signer::from_seed(cluster.keys.var("TURNWRIGHT_AGENT_TOKEN_SEED")).unwrap();
    let token = |turn_seq, epoch| {
        let claims = AgentClaims {
            aud: AgentClaims::AUDIENCE.into(),
            sub: AgentSlug::parse("ada").unwrap(),
            conversation: conversation.into(),
            turn: turn.into(),
            fence: Fence { turn_seq, epoch },
            exp: 4_102_444_800,
        };
        signer.sign(&claims).unwrap()
    };
    let body = |head: i64, request_no: i32| {
        serde_json::json!({"model": "scripted", "input": [], "instructions": "x", "stream": false,
            "turnwright": {"request_no": request_no, "head": head, "manifest": {}, "baseline": {},
                           "base_instructions": "x"}})
    };
    let http = reqwest::Client::new();
    let post = |path: &str, token: String, body: serde_json::Value| {
        let request = http.post(format!("{}{path}", cluster.keys.gateway_url));
        let request = request.bearer_auth(token).json(&body);
        async move {
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let body: serde_json::Value = response.json().await.unwrap_or_default();
            (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
        }
    };
    let responses = "/v1/responses";
    let stale = post(responses, token(1, 1), body(head, 1)).await;
    assert_eq!(stale, (409, "fence_stale".into()));
    let outputs = serde_json::json!({"outputs": [{"call_id": "call_x", "output": "y"}]});
    let stale = post(api::STORE_OUTPUTS, token(1, 1), outputs).await;
    assert_eq!(stale, (409, "fence_stale".into()));
    let moved = post(responses, token(3, epoch + 1), body(head - 1, 1)).await;
    assert_eq!(moved, (409, "head_moved".into()));
    let unfenced = serde_json::json!({"model": "scripted", "input": "hi",
        "conversation": conversation.to_string()});
    let (status, _) = post(responses, cluster.keys.operator.clone(), unfenced).await;
    assert!((400..500).contains(&status), "{status}");
    for bad in ["", "wrong"] {
        let (status, _) = post(responses, bad.into(), body(head, 1)).await;
        assert_eq!(status, 401);
    }
    let unchanged: i64 = cluster.value("select max(seq) from gateway.items").await;
    assert_eq!(unchanged, head);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_client_chains_forks_and_is_told_of_unknown_ids_and_cuts() {
    let rules = r#"
rules:
  - when: {last_user: {contains: "cut"}}
    reply:
      - text: "some words that go on and on"
      - cut_after_bytes: 20
      - text: "never"
  - reply: [{text: "You said: {{last_user}}"}]
"#;
    let cluster = TestCluster::start(Options::rules(rules).without_worker()).await;
    let http = reqwest::Client::new();
    let url = format!("{}/v1/responses", cluster.keys.gateway_url);
    let post = |body: serde_json::Value| {
        let request = http.post(&url).bearer_auth(&cluster.keys.operator).json(&body);
        async move {
            let r = request.send().await.unwrap();
            (r.status().as_u16(), r.json::<serde_json::Value>().await.unwrap())
        }
    };
    let say = |text: &str, previous: Option<&str>| {
        post(
            serde_json::json!({"model": "scripted", "input": text, "previous_response_id": previous}),
        )
    };
    let (status, one) = say("one", None).await;
    assert_eq!((status, one["status"].as_str()), (200, Some("completed")), "{one}");
    let id = one["id"].as_str().unwrap().to_owned();
    let (_, two) = say("two", Some(&id)).await;
    assert_eq!(two["status"], "completed", "{two}");
    let (_, fork) = say("other", Some(&id)).await;
    assert_eq!(fork["status"], "completed", "{fork}");
    let texts: Vec<Vec<String>> = cluster.requests().iter().map(TestCluster::user_texts).collect();
    assert_eq!(texts[1], ["one", "two"]);
    assert_eq!(texts[2], ["one", "other"], "a fork shares the past and not the sibling");
    let (status, e) = say("x", Some(&format!("resp_{}", Uuid::now_v7().simple()))).await;
    assert_eq!(
        (status, e["error"]["code"].as_str()),
        (404, Some("previous_response_not_found")),
        "{e}"
    );
    let (_, cut) = say("cut here", None).await;
    assert_eq!(cut["status"], "incomplete", "{cut}");
    let (status, e) = post(serde_json::json!({"model": "none", "input": "x"})).await;
    assert!((400..500).contains(&status), "{e}");
    let (status, e) = post(serde_json::json!({"model": "scripted", "input": "x", "nope": 1})).await;
    assert_eq!((status, e["error"]["param"].as_str()), (400, Some("nope")), "{e}");
    // Nothing of `store: false` stays.
    let before: i64 = cluster.value("select count(*) from gateway.responses").await;
    let (status, unstored) =
        post(serde_json::json!({"model": "scripted", "input": "x", "store": false})).await;
    assert_eq!(status, 200);
    let after: i64 = cluster.value("select count(*) from gateway.responses").await;
    assert_eq!(before, after);
    let (status, _) = say("y", unstored["id"].as_str()).await;
    assert_eq!(status, 404);
    cluster.finish().await;
}
