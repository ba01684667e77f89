use std::{os::unix::fs::PermissionsExt, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{Nats, NatsOptions};
use crate::{ServerError, testing::binaries};

const SOON: Duration = Duration::from_secs(30);

/// Signs in with `token`, sends `lines` and reads until the server has said one of `wanted`.
async fn talk(nats: &Nats, token: &str, lines: &str, wanted: &[&str]) -> String {
    let mut stream = TcpStream::connect(nats.address()).await.unwrap();
    let connect = format!("CONNECT {{\"verbose\":false,\"auth_token\":\"{token}\"}}\r\n{lines}");
    stream.write_all(connect.as_bytes()).await.unwrap();
    let mut said = String::new();
    let mut buffer = [0; 4096];
    let conversation = async {
        while !wanted.iter().any(|word| said.contains(word)) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "the server hung up after: {said}");
            said.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    };
    timeout(SOON, conversation).await.unwrap();
    said
}

/// A request to JetStream's API that must be answered with a stream's configuration.
async fn jetstream(nats: &Nats, subject: &str, body: &str) {
    let length = body.len();
    let lines = format!("SUB answer 1\r\nPUB $JS.API.{subject} answer {length}\r\n{body}\r\n");
    let said = talk(nats, nats.token(), &lines, &["\"config\"", "\"error\""]).await;
    assert!(said.contains("\"config\""), "{said}");
}

#[tokio::test]
async fn streams_survive_a_stop_and_a_start() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let mut options = NatsOptions::throw_away(folder.path());
    options.sync_always = true;
    let one = Nats::start(&binaries, options.clone()).await.unwrap();
    jetstream(&one, "STREAM.CREATE.KEPT", r#"{"name":"KEPT","subjects":["kept.>"]}"#).await;
    assert!(one.stop().await.unwrap().success());

    let other = Nats::start(&binaries, options).await.unwrap();
    jetstream(&other, "STREAM.INFO.KEPT", "").await;
}

#[tokio::test]
async fn only_the_token_lets_in_and_the_file_that_holds_it_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let options = NatsOptions::throw_away(folder.path());
    let config = options.data_dir.join("nats.conf");
    let nats = Nats::start(&binaries(), options).await.unwrap();
    talk(&nats, nats.token(), "PING\r\n", &["PONG"]).await;
    talk(&nats, "wrong", "PING\r\n", &["-ERR 'Authorization Violation'"]).await;
    assert_eq!(config.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_killed_server_is_reported_and_an_orphan_is_ended() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let options = NatsOptions::throw_away(folder.path());
    let first = Nats::start(&binaries, options.clone()).await.unwrap();
    let pid = Pid::from_raw(i32::try_from(first.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert!(!timeout(SOON, first.exited()).await.unwrap().success());

    let same = NatsOptions { port: Some(first.port()), ..options };
    drop(first);
    let second = Nats::start(&binaries, same.clone()).await.unwrap();
    let third = Nats::start(&binaries, same.clone()).await;
    assert!(matches!(third, Err(ServerError::FolderInUse { .. })), "{third:?}");

    // As if our process had been killed and the server had not noticed.
    let Nats { child, _folder: owned, .. } = second;
    drop(owned);
    let fourth = Nats::start(&binaries, same).await.unwrap();
    timeout(SOON, child.exited()).await.unwrap();
    talk(&fourth, fourth.token(), "PING\r\n", &["PONG"]).await;
}

#[tokio::test]
async fn a_port_that_is_asked_for_and_taken_is_named() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let one =
        Nats::start(&binaries, NatsOptions::throw_away(&folder.path().join("one"))).await.unwrap();
    let mut options = NatsOptions::throw_away(&folder.path().join("two"));
    options.port = Some(one.port());
    let other = Nats::start(&binaries, options).await;
    assert!(
        matches!(other, Err(ServerError::PortTaken { port, .. }) if port == one.port()),
        "{other:?}"
    );
}

#[tokio::test]
async fn what_would_change_the_configuration_is_refused() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let mut options = NatsOptions::throw_away(folder.path());
    options.token = "a\"\n}".to_owned();
    let started = Nats::start(&binaries, options).await;
    assert!(matches!(started, Err(ServerError::Option { option: "token", .. })), "{started:?}");

    let options = NatsOptions::throw_away(&folder.path().join("a\"b"));
    let started = Nats::start(&binaries, options).await;
    assert!(matches!(started, Err(ServerError::Option { option: "data_dir", .. })), "{started:?}");
}
