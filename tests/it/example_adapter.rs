//! The example adapter in Python is an adapter: signal in, delivery out, receipt.

use std::process::Stdio;
use turnwright_tests::{TestCluster, cluster::Options, programs::repository};

#[tokio::test(flavor = "multi_thread")]
async fn it_speaks_the_public_contract() {
    let cluster = TestCluster::start(Options::default()).await;
    cluster
        .apply_with(
            "ada/agent.yaml",
            "slug: ada\ndisplay_name: Ada\nbindings:\n  - {id: snake, adapter: python}\n",
        )
        .await;
    let root = repository();
    let python = root.join(".tools/venv/bin/python3");
    assert!(python.is_file(), "bin/setup makes {}", python.display());
    let out = tokio::process::Command::new(python)
        .arg(root.join("examples/adapters/python/adapter.py"))
        .args(["--nats", &cluster.nats.url(), "--binding", "snake", "--adapter", "python"])
        .args(["--channel", "den", "--sender", "Monty", "--text", "hello from python"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("You said: hello from python"), "{said}");
    cluster.settled().await;
    let sent: i64 = cluster
        .value("select count(*) from control.deliveries where state = 'sent' and binding = 'snake'")
        .await;
    assert_eq!(sent, 1);
    // A nonce-less provider: the attempt was begun before it was made.
    let begun: i64 =
        cluster.value("select count(*) from control.deliveries where begun_at is not null").await;
    assert_eq!(begun, 1);
    cluster.finish().await;
}
