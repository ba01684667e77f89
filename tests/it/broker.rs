//! The context broker: one read per revision, nothing stale, nothing of a turn.

use tonic::{Code, service::interceptor::InterceptedService, transport::Channel};
use turnwright_kit::auth::CallerMetadata;
use turnwright_proto::v1::{
    self, agent_conversation_context_broker_client::AgentConversationContextBrokerClient,
};
use turnwright_tests::{TestCluster, cluster::Options};

type Broker = AgentConversationContextBrokerClient<InterceptedService<Channel, CallerMetadata>>;

async fn broker(cluster: &TestCluster) -> Broker {
    let channel = Channel::from_shared(cluster.keys.control_url.clone()).unwrap().connect().await;
    let caller = CallerMetadata::new(cluster.keys.var("TURNWRIGHT_SERVICE_TOKEN")).unwrap();
    AgentConversationContextBrokerClient::with_interceptor(channel.unwrap(), caller)
}

async fn conversation(cluster: &TestCluster) -> (String, i64) {
    cluster.ask("main", "hi").await;
    cluster.settled().await;
    let id: String = cluster.value("select id::text from control.conversations").await;
    (id, cluster.value("select revision from control.revision_counter").await)
}

fn ask(id: &str, revision: i64) -> v1::GetConversationContextRequest {
    v1::GetConversationContextRequest {
        conversation_id: id.to_owned(),
        revision,
        generation: 1,
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_one_revision_read_the_view_once() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    cluster.say("main", "hi").await;
    cluster.until("it is admitted", "select count(*) from control.signals", 1).await;
    let id: String = cluster.value("select id::text from control.conversations").await;
    let revision: i64 = cluster.value("select revision from control.revision_counter").await;
    assert_eq!(cluster.control.broker.view_reads(), 0);
    let client = broker(&cluster).await;
    let calls = (0..1_000).map(|_| {
        let (mut client, request) = (client.clone(), ask(&id, revision));
        async move { client.get_conversation_context(request).await.unwrap().into_inner().etag }
    });
    let etags = futures::future::join_all(calls).await;
    assert!(etags.iter().all(|e| *e == etags[0]));
    assert_eq!(cluster.control.broker.view_reads(), 1);
    cluster.finish_with_violations().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_revision_gives_the_same_bytes_and_a_new_one_the_new_text() {
    let cluster = TestCluster::start(Options::default()).await;
    let (id, old) = conversation(&cluster).await;
    let mut client = broker(&cluster).await;
    let before = client.get_conversation_context(ask(&id, old)).await.unwrap().into_inner();
    let new = cluster.apply_with("ada/SOUL.md", "Quite another.\n").await.revision;
    let same = client.get_conversation_context(ask(&id, old)).await.unwrap().into_inner();
    assert_eq!(before, same);
    let after = client.get_conversation_context(ask(&id, new)).await.unwrap().into_inner();
    let soul = after.agent.unwrap().soul.unwrap();
    assert_eq!((soul.text.as_str(), soul.revision), ("Quite another.\n", new));
    assert_ne!(before.etag, after.etag);
    let unchanged =
        v1::GetConversationContextRequest { if_none_match: after.etag.clone(), ..ask(&id, new) };
    let unchanged = client.get_conversation_context(unchanged).await.unwrap().into_inner();
    assert!(unchanged.not_modified && unchanged.agent.is_none());
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_templates_origin_and_timezone_are_as_declared() {
    let cluster = TestCluster::start(Options::default()).await;
    let (id, revision) = conversation(&cluster).await;
    let mut client = broker(&cluster).await;
    let context = client.get_conversation_context(ask(&id, revision)).await.unwrap().into_inner();
    let agent = context.agent.unwrap();
    let names: Vec<_> = agent.skills.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["ledger"]);
    // DESIGN.md is not there: the template stands in, with its hash and no revision.
    let design = agent.design.unwrap();
    assert!(design.revision == 0 && !design.text.is_empty() && design.sha256.len() == 64);
    assert_eq!(agent.timezone, "UTC");
    let origin = context.origin.unwrap();
    assert_eq!((origin.adapter.as_str(), origin.label.as_str()), ("console", "Console"));
    assert_eq!(origin.kind(), v1::ChannelKind::Dm);
    let all = v1::GetConversationContextRequest {
        skill_scope: v1::SkillScope::All.into(),
        ..ask(&id, revision)
    };
    let all = client.get_conversation_context(all).await.unwrap().into_inner().agent.unwrap();
    assert_eq!(all.skills.iter().filter(|s| s.recall_only).count(), 1);
    let zone = cluster.apply_with("settings.yaml", "system.timezone: Europe/Oslo\n").await.revision;
    let oslo = client.get_conversation_context(ask(&id, zone)).await.unwrap().into_inner();
    assert_eq!(oslo.agent.unwrap().timezone, "Europe/Oslo");
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_named_and_nothing_is_answered_without_a_token() {
    let cluster = TestCluster::start(Options::default()).await;
    let (id, revision) = conversation(&cluster).await;
    let mut client = broker(&cluster).await;
    let stranger = uuid::Uuid::now_v7().to_string();
    let e = client.get_conversation_context(ask(&stranger, revision)).await.unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
    assert!(e.message().contains(&stranger));
    for (request, code) in [
        (ask("no uuid", revision), Code::InvalidArgument),
        (ask(&id, 0), Code::InvalidArgument),
        (ask(&id, revision + 1), Code::NotFound),
    ] {
        assert_eq!(client.get_conversation_context(request).await.unwrap_err().code(), code);
    }
    let skill = |name: &str, path: &str| v1::GetSkillRequest {
        conversation_id: id.clone(),
        revision,
        name: name.to_owned(),
        path: path.to_owned(),
    };
    let vault = client.get_skill(skill("vault", "")).await.unwrap().into_inner();
    assert!(vault.content.ends_with(b"Below.\n"));
    for (name, path) in [("none", ""), ("vault", "../agent.yaml"), ("vault", "none.md")] {
        assert_eq!(client.get_skill(skill(name, path)).await.unwrap_err().code(), Code::NotFound);
    }
    let channel = Channel::from_shared(cluster.keys.control_url.clone()).unwrap().connect().await;
    let channel = channel.unwrap();
    for token in ["", "wrong"] {
        let caller = CallerMetadata::new(token).unwrap();
        let mut bare =
            AgentConversationContextBrokerClient::with_interceptor(channel.clone(), caller);
        let e = bare.get_conversation_context(ask(&id, revision)).await.unwrap_err();
        assert_eq!(e.code(), Code::Unauthenticated);
    }
    cluster.finish().await;
}
