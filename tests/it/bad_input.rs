//! Bad input gets a clear error that says what to do, and nothing is lost.

use std::process::Stdio;
use tonic::Code;
use turnwright_adapters::api::PostMessage;
use turnwright_kit::{Class, Classify as _};
use turnwright_proto::v1;
use turnwright_tests::{
    TestCluster,
    cluster::{Options, Service},
    programs::program,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_folder_changes_nothing_and_names_every_file() {
    let cluster = TestCluster::start(Options::default().without_worker()).await;
    let mut admin = cluster.admin().await;
    let file = |path: &str, text: &str| v1::SourceFile {
        path: path.into(),
        content: text.as_bytes().to_vec(),
        unreadable: String::new(),
    };
    let files = vec![
        file(
            "ada/agent.yaml",
            "slug: ada\ndisplay_name: A\nsettings: {ai_agent.max_iterations: 0, x: 1}\n",
        ),
        file("ada/skills/bad/SKILL.md", "nothing"),
        v1::SourceFile {
            path: "ada/SOUL.md".into(),
            content: vec![],
            unreadable: "permission denied".into(),
        },
        file("eve/agent.yaml", "slug: eve\ndisplay_name: E\nsettings: {ai_agent.model: none}\n"),
    ];
    let e = admin.apply(v1::ApplyRequest { files, ..Default::default() }).await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    for place in ["ada/agent.yaml", "ada/skills/bad/SKILL.md:1", "ada/SOUL.md", "eve/agent.yaml"] {
        assert!(e.message().contains(place), "{place} in {}", e.message());
    }
    let revision: i64 = cluster.value("select revision from control.revision_counter").await;
    assert_eq!(revision, 1);
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_agent_is_named_with_those_there_are() {
    let cluster = TestCluster::start(Options::default()).await;
    let e = cluster.console.send(&PostMessage::new("nobody", "hi")).await.unwrap_err();
    assert_eq!(e.class(), Class::NotFound);
    assert!(e.to_string().contains("ada"), "{e}");
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_signal_is_quarantined_with_its_reason_and_stalls_nothing() {
    let cluster = TestCluster::start(Options::default()).await;
    let js = async_nats::jetstream::new(crate::turn::nats(&cluster).await);
    let huge = vec![b'x'; 300 << 10];
    let bodies: [(&str, Vec<u8>); 4] = [
        ("tw.v1.signal.console.console-ada", b"no json".to_vec()),
        ("tw.v1.signal.console.console-ada", b"{\"specversion\":\"1.0\"}".to_vec()),
        ("tw.v1.signal.console.nowhere", good("nowhere")),
        ("tw.v1.signal.console.console-ada", huge),
    ];
    for (subject, body) in bodies {
        js.publish(subject, body.into()).await.unwrap().await.unwrap();
    }
    assert_eq!(cluster.ask("main", "still there?").await.text, "You said: still there?");
    cluster.until("all are put aside", "select count(*) from control.signal_quarantine", 4).await;
    let request = v1::ListQuarantineRequest { page_size: 10 };
    let listed = cluster.admin().await.list_quarantine(request).await.unwrap().into_inner();
    assert!(listed.signals.iter().all(|s| !s.reason.is_empty()));
    assert!(listed.signals.iter().any(|s| s.reason.contains("nowhere")));
    cluster.settled().await;
    cluster.finish().await;
}

fn good(id: &str) -> Vec<u8> {
    serde_json::to_vec(&serde_json::json!({
        "specversion": "1.0", "type": "turnwright.signal.v1", "source": "/t", "id": id,
        "time": "2026-01-01T00:00:00Z",
        "data": {"channel": {"kind": "CHANNEL_KIND_DM", "id": "c"}, "sender": {"id": "u"},
                 "addressed": "ADDRESSED_DM", "text": "t", "messageId": id, "orderKey": "1"}}))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_while_the_control_plane_is_away_is_answered_later() {
    let mut cluster = TestCluster::start(Options::default()).await;
    cluster.ask("main", "one").await;
    cluster.settled().await;
    cluster.stop(Service::ControlPlane).await;
    let key = cluster.say("main", "two").await;
    cluster.restart(Service::ControlPlane).await;
    assert_eq!(cluster.reply("main", &key).await.text, "You said: two");
    cluster.settled().await;
    cluster.finish().await;
}

/// Runs a program to its end; its exit code and what it said.
async fn run(name: &str, vars: &[(&str, &str)]) -> (i32, String) {
    let out = tokio::process::Command::new(program(name))
        .env_clear()
        .env("TURNWRIGHT_START_TIMEOUT_MS", "300")
        .envs(vars.iter().copied())
        .stdin(Stdio::null())
        .output();
    let out = tokio::time::timeout(std::time::Duration::from_secs(20), out).await;
    let out = out.expect("it ends by itself").expect("it starts");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_its_variables_names_all_of_them() {
    for (name, vars) in [
        (
            "turnwright-control-plane",
            &[
                "TURNWRIGHT_CONTROL_DATABASE_URL",
                "TURNWRIGHT_NATS_URL",
                "TURNWRIGHT_OPERATOR_TOKEN",
                "TURNWRIGHT_SERVICE_TOKEN",
                "TURNWRIGHT_AGENT_TOKEN_SEED",
            ][..],
        ),
        ("turnwright-gateway", &["TURNWRIGHT_GATEWAY_DATABASE_URL", "TURNWRIGHT_OPERATOR_TOKEN"]),
        ("turnwright-worker", &["TURNWRIGHT_CONTROL_URL", "TURNWRIGHT_SERVICE_TOKEN"]),
        ("turnwright-adapters", &["TURNWRIGHT_CONSOLE_TOKEN", "TURNWRIGHT_CONSOLE_JOURNAL"]),
    ] {
        let (code, said) = run(name, &[]).await;
        assert_ne!(code, 0, "{name}");
        for var in vars {
            assert!(said.contains(var), "{name}: {var} in {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_and_absent_servers_are_named_without_secrets() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let seed = turnwright_kit::agent_token::new_seed();
    let vars = [
        ("TURNWRIGHT_CONTROL_DATABASE_URL", "postgres://me:hunter2@127.0.0.1:1/none"),
        ("TURNWRIGHT_NATS_URL", "nats://hunter3@127.0.0.1:1"),
        ("TURNWRIGHT_OPERATOR_TOKEN", "hunter4"),
        ("TURNWRIGHT_SERVICE_TOKEN", "hunter5"),
        ("TURNWRIGHT_AGENT_TOKEN_SEED", &seed),
        ("TURNWRIGHT_CONTROL_LISTEN", address.as_str()),
    ];
    let (code, said) = run("turnwright-control-plane", &vars).await;
    assert_ne!(code, 0);
    assert!(said.contains(&address) && said.contains("TURNWRIGHT_CONTROL_LISTEN"), "{said}");
    let mut free = vars;
    free[5].1 = "127.0.0.1:0";
    let (code, said) = run("turnwright-control-plane", &free).await;
    assert_ne!(code, 0);
    assert!(
        said.contains("127.0.0.1:1") && said.contains("TURNWRIGHT_CONTROL_DATABASE_URL"),
        "{said}"
    );
    assert!(!said.contains("hunter"), "{said}");
}
