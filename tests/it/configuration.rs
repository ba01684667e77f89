//! One revision for all configuration.

use tonic::Code;
use turnwright_proto::v1;
use turnwright_tests::{TestCluster, cluster::Options};

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_apply_writes_nothing_and_a_changed_one_links_the_chain() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    let again = cluster.apply(&TestCluster::agent_files()).await.unwrap();
    assert!(!again.changed && again.changes.is_empty());
    assert_eq!(again.revision, 1);
    let changed = cluster.apply_with("ada/MISSION.md", "Other.\n").await;
    assert_eq!(
        (changed.revision, changed.changes.as_slice()),
        (2, ["agent/ada/document/mission updated".to_owned()].as_slice())
    );
    // A removed file closes its row, and only that.
    let mut files = TestCluster::agent_files();
    files.retain(|(p, _)| !p.starts_with("ada/skills/vault"));
    files.iter_mut().filter(|(p, _)| p == "ada/MISSION.md").for_each(|f| f.1 = "Other.\n".into());
    let removed = cluster.apply(&files).await.unwrap();
    assert_eq!(removed.changes, ["agent/ada/skill/vault deleted"]);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_based_on_an_older_revision_of_the_same_object_is_refused() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    cluster.apply_with("ada/SOUL.md", "Theirs.\n").await;
    let mut admin = cluster.admin().await;
    let files = |soul: &str, mission: &str| {
        TestCluster::agent_files()
            .into_iter()
            .map(|(path, text)| {
                let text = match path.as_str() {
                    "ada/SOUL.md" => soul.to_owned(),
                    "ada/MISSION.md" => mission.to_owned(),
                    _ => text,
                };
                v1::SourceFile { path, content: text.into_bytes(), unreadable: String::new() }
            })
            .collect::<Vec<_>>()
    };
    let request = |soul: &str, mission: &str| v1::ApplyRequest {
        files: files(soul, mission),
        base_revision: Some(1),
        ..Default::default()
    };
    let e = admin.apply(request("Mine.\n", "Keeps the books.\n")).await.unwrap_err();
    assert_eq!(e.code(), Code::Aborted);
    assert!(e.message().contains("agent/ada/document/soul"));
    // Another object is another matter.
    let fine = admin.apply(request("Theirs.\n", "Mine.\n")).await.unwrap().into_inner();
    assert_eq!(fine.changes, ["agent/ada/document/mission updated"]);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_lose_no_update_and_leave_no_gap() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    let applies = (0..8).map(|n| {
        let slug = format!("agent-{n}");
        let files =
            vec![(format!("{slug}/agent.yaml"), format!("slug: {slug}\ndisplay_name: {slug}\n"))];
        let cluster = &cluster;
        async move { cluster.apply(&files).await.unwrap().revision }
    });
    let mut revisions = futures::future::join_all(applies).await;
    revisions.sort_unstable();
    assert_eq!(revisions, (2..10).collect::<Vec<i64>>());
    let agents: i64 = cluster.value("select count(*) from control.agents").await;
    assert_eq!(agents, 9);
    cluster.finish().await;
}
