//! The floor that durable figures are judged against: what one commit costs on this disk, and how
//! many of them fit into a second. It works in a schema of its own and removes it.

use crate::{database::connect, samples::Samples};
use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::Client;
use turnwright_kit::Supervisor;

/// How much one insert writes, in bytes.
const BYTES: usize = 1024;
/// Inserts at once, for the rate.
const CONNECTIONS: usize = 16;
/// How much longer than planned everything may take.
const SLACK: Duration = Duration::from_secs(120);

/// What durable writes cost here, without us.
#[derive(Debug)]
pub struct Floor {
    /// One insert at a time, each a commit.
    pub commits: Samples,
    /// How many inserts were made on 16 connections.
    pub inserts: usize,
    /// How many of them a second.
    pub rate: f64,
}

impl Floor {
    /// The median of a commit, in milliseconds.
    pub fn commit_ms(&self) -> f64 {
        self.commits.percentile(50).unwrap_or_default()
    }
}

/// Makes `inserts` inserts one by one, then as many as fit into `window`.
///
/// # Errors
/// When the database is not durable, or refuses.
pub async fn measure(
    url: &str,
    sup: &Supervisor,
    inserts: usize,
    window: Duration,
) -> anyhow::Result<Floor> {
    let client = connect(url, sup).await?;
    must_be_durable(&client).await?;
    // Another run may share the database.
    let schema = format!("bench_{}", hex::encode(rand::random::<[u8; 4]>()));
    let table = format!(
        "create schema {schema};
         create table {schema}.rows (
             id bigint generated always as identity primary key, body bytea not null)"
    );
    client.batch_execute(&table).await.context("cannot make the table to insert into")?;
    let insert = format!("insert into {schema}.rows (body) values ($1)");
    let both = async {
        let commits = one_by_one(&client, &insert, inserts).await?;
        let (inserts, rate) = at_once(url, sup, &insert, window).await?;
        anyhow::Ok(Floor { commits, inserts, rate })
    };
    let measured = timeout(window + SLACK, both).await;
    let drop = client.batch_execute(&format!("drop schema {schema} cascade")).await;
    let measured = measured.context("the inserts took too long")??;
    drop.context("cannot remove the table that was inserted into")?;
    Ok(measured)
}

async fn must_be_durable(client: &Client) -> anyhow::Result<()> {
    let sql = "select current_setting('fsync'), current_setting('synchronous_commit')";
    let row = client.query_one(sql, &[]).await.context("cannot read the database's settings")?;
    let (fsync, commit): (String, String) = (row.get(0), row.get(1));
    ensure!(
        fsync == "on" && commit != "off",
        "the database is not durable (fsync {fsync}, synchronous_commit {commit}): its figures \
         would say nothing"
    );
    Ok(())
}

async fn one_by_one(client: &Client, insert: &str, inserts: usize) -> anyhow::Result<Samples> {
    let statement = client.prepare(insert).await?;
    let body = body();
    let mut samples = Samples::default();
    for _ in 0..inserts {
        let began = Instant::now();
        client.execute(&statement, &[&body]).await?;
        samples.add(began.elapsed());
    }
    Ok(samples)
}

/// How many, and how many a second.
async fn at_once(
    url: &str,
    sup: &Supervisor,
    insert: &str,
    window: Duration,
) -> anyhow::Result<(usize, f64)> {
    let clients = try_join_all((0..CONNECTIONS).map(|_| connect(url, sup))).await?;
    let statements = try_join_all(clients.iter().map(|client| client.prepare(insert))).await?;
    let body = body();
    let began = Instant::now();
    let inserting = clients.iter().zip(&statements).map(|(client, statement)| {
        let body = &body;
        async move {
            let mut count = 0_usize;
            while began.elapsed() < window {
                client.execute(statement, &[body]).await?;
                count += 1;
            }
            anyhow::Ok(count)
        }
    });
    let count: usize = try_join_all(inserting).await?.into_iter().sum();
    Ok((count, count as f64 / began.elapsed().as_secs_f64()))
}

/// Nothing that compresses.
fn body() -> Vec<u8> {
    rand::random::<[u8; BYTES]>().to_vec()
}
