use std::{
    net::{Ipv4Addr, TcpListener},
    os::unix::process::ExitStatusExt,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::timeout;
use tokio_postgres::{NoTls, error::SqlState};

use super::{Postgres, PostgresOptions};
use crate::{ServerError, testing::binaries};

const SOON: Duration = Duration::from_secs(30);

/// Runs one statement on a connection of its own; the first column of the first row, as text.
async fn ask(url: &str, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let work = async move { client.query_opt(sql, &[]).await };
    let (row, closed) = tokio::join!(work, connection);
    closed?;
    Ok(row?.map(|row| row.get(0)))
}

fn pid_of(postgres: &Postgres) -> Pid {
    Pid::from_raw(i32::try_from(postgres.pid()).unwrap()).unwrap()
}

#[tokio::test]
async fn data_and_password_survive_a_stop_and_a_start() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let options = PostgresOptions::throw_away(folder.path());
    let one = Postgres::start(&binaries, options.clone()).await.unwrap();
    assert_eq!(ask(&one.url(), "create table kept as select 'x' as word").await.unwrap(), None);
    assert!(one.stop().await.unwrap().success());

    let other = Postgres::start(&binaries, options.clone()).await.unwrap();
    let word = ask(&other.url(), "select word from kept").await.unwrap();
    assert_eq!(word.as_deref(), Some("x"));

    let wrong = other.url().replace(&options.password, "wrong");
    let refused = ask(&wrong, "select 'in'").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INVALID_PASSWORD));
    assert!(!folder.path().join("postgres.password").exists());
}

#[tokio::test]
async fn settings_override_what_is_fast_but_not_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PostgresOptions::throw_away(folder.path());
    options.max_connections = 33;
    options.settings = vec![
        ("fsync".to_owned(), "on".to_owned()),
        ("listen_addresses".to_owned(), "*".to_owned()),
    ];
    let postgres = Postgres::start(&binaries(), options).await.unwrap();
    let sql = "select concat_ws(' ', current_setting('fsync'), \
               current_setting('synchronous_commit'), current_setting('max_connections'), \
               current_setting('listen_addresses'), current_setting('unix_socket_directories'), \
               current_setting('server_encoding'), current_setting('lc_messages'))";
    let seen = ask(&postgres.url(), sql).await.unwrap();
    assert_eq!(seen.as_deref(), Some("on off 33 127.0.0.1  UTF8 C"));
}

#[tokio::test]
async fn a_killed_server_is_reported_and_can_be_started_again_at_once() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let options = PostgresOptions::throw_away(folder.path());
    let postgres = Postgres::start(&binaries, options.clone()).await.unwrap();
    kill_process(pid_of(&postgres), Signal::KILL).unwrap();
    let status = timeout(SOON, postgres.exited()).await.unwrap();
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));

    let same = PostgresOptions { port: Some(postgres.port()), ..options };
    drop(postgres);
    let again = Postgres::start(&binaries, same).await.unwrap();
    assert_eq!(ask(&again.url(), "select 'up'").await.unwrap().as_deref(), Some("up"));
}

#[tokio::test]
async fn dropping_the_handle_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let options = PostgresOptions::throw_away(folder.path());
    let postgres = Postgres::start(&binaries(), options).await.unwrap();
    let pid = pid_of(&postgres);
    test_kill_process(pid).unwrap();
    drop(postgres);
    assert!(test_kill_process(pid).is_err());
}

#[tokio::test]
async fn a_folder_has_one_server_and_an_orphan_in_it_is_ended() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let options = PostgresOptions::throw_away(folder.path());
    let first = Postgres::start(&binaries, options.clone()).await.unwrap();
    let second = Postgres::start(&binaries, options.clone()).await;
    assert!(matches!(second, Err(ServerError::FolderInUse { .. })), "{second:?}");

    // As if our process had been killed and the server had not noticed.
    let Postgres { child, _folder: owned, .. } = first;
    drop(owned);
    let third = Postgres::start(&binaries, options).await.unwrap();
    let status = timeout(SOON, child.exited()).await.unwrap();
    assert!(status.success(), "the orphan was not shut down cleanly: {status}");
    assert_eq!(ask(&third.url(), "select 'up'").await.unwrap().as_deref(), Some("up"));
}

#[tokio::test]
async fn a_port_that_is_asked_for_and_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let number = taken.local_addr().unwrap().port();
    let mut options = PostgresOptions::throw_away(folder.path());
    options.port = Some(number);
    let started = Postgres::start(&binaries(), options).await;
    assert!(
        matches!(started, Err(ServerError::PortTaken { port, .. }) if port == number),
        "{started:?}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_come_up_is_explained_by_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PostgresOptions::throw_away(folder.path());
    options.settings = vec![("no_such_setting".to_owned(), "1".to_owned())];
    let error = Postgres::start(&binaries(), options).await.unwrap_err();
    let ServerError::Ended { log, .. } = error else { panic!("{error:?}") };
    assert!(log.contains("no_such_setting"), "{log}");
}

#[tokio::test]
async fn a_folder_with_other_things_in_it_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let options = PostgresOptions::throw_away(folder.path());
    std::fs::create_dir(&options.data_dir).unwrap();
    let precious = options.data_dir.join("precious");
    std::fs::write(&precious, "x").unwrap();
    let started = Postgres::start(&binaries(), options).await;
    assert!(matches!(started, Err(ServerError::ForeignFolder { .. })), "{started:?}");
    assert!(precious.exists());
}

#[tokio::test]
async fn a_cluster_of_another_version_and_another_password_are_told_apart() {
    let (binaries, folder) = (binaries(), tempfile::tempdir().unwrap());
    let options = PostgresOptions::throw_away(folder.path());
    Postgres::start(&binaries, options.clone()).await.unwrap().stop().await.unwrap();

    let other = PostgresOptions { password: "other".to_owned(), ..options.clone() };
    let started = Postgres::start(&binaries, other).await;
    assert!(matches!(started, Err(ServerError::Database { .. })), "{started:?}");

    std::fs::write(options.data_dir.join("PG_VERSION"), "9.6\n").unwrap();
    let started = Postgres::start(&binaries, options).await;
    assert!(
        matches!(&started, Err(ServerError::OtherVersion { made_by, .. }) if made_by == "9.6"),
        "{started:?}"
    );
}
