//! How many commits the way of a turn costs: the database's own counters over a run of turns, less
//! what an idle installation adds to them in the same time.

use crate::adapter::Adapter;
use anyhow::Context as _;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_postgres::Client;

/// How commits are counted, for people.
pub const HOW: &str = "of all services, as pg_stat_database counts them, transactions that only \
                       read included; less those of an idle installation in the same time";
/// How the written ones are counted, for people.
pub const HOW_WRITTEN: &str =
    "the same for transactions that wrote or locked rows, by their transaction ids";

/// A session that does nothing hands its counts in after ten seconds.
const SETTLE: Duration = Duration::from_secs(11);
/// How long the idle installation is watched.
const IDLE: Duration = Duration::from_secs(12);

/// Commits of one turn.
#[derive(Debug, PartialEq)]
pub struct PerTurn {
    /// All of them.
    pub all: f64,
    /// Those of transactions that wrote or locked rows.
    pub written: f64,
}

/// The database's counters at an instant.
#[derive(Debug)]
struct Counters {
    at: Instant,
    commits: i64,
    transaction_id: i64,
}

/// Counts the commits of so many turns, one after the other in one conversation.
///
/// # Errors
/// When a turn is not answered, or the counters cannot be read.
pub async fn measure(adapter: &Adapter, client: &Client, turns: usize) -> anyhow::Result<PerTurn> {
    let mut conversation = adapter.open("commits").await?;
    conversation.ask().await?;
    sleep(SETTLE).await;
    let start = read(client).await?;
    sleep(IDLE).await;
    let idle = read(client).await?;
    for _ in 0..turns {
        conversation.ask().await?;
    }
    sleep(SETTLE).await;
    let end = read(client).await?;
    Ok(per_turn(&start, &idle, &end, turns))
}

async fn read(client: &Client) -> anyhow::Result<Counters> {
    let sql = "select xact_commit, pg_snapshot_xmax(pg_current_snapshot())::text::bigint
               from pg_stat_database where datname = current_database()";
    let row = client.query_one(sql, &[]).await.context("cannot read the counters")?;
    Ok(Counters { at: Instant::now(), commits: row.get(0), transaction_id: row.get(1) })
}

/// Nothing happened from `start` to `idle`, the turns from there to `end`.
fn per_turn(start: &Counters, idle: &Counters, end: &Counters, turns: usize) -> PerTurn {
    let rested = (idle.at - start.at).as_secs_f64();
    let worked = (end.at - idle.at).as_secs_f64();
    let of = |counter: fn(&Counters) -> i64| {
        let at_rest = (counter(idle) - counter(start)) as f64 / rested;
        let at_work = (counter(end) - counter(idle)) as f64;
        (at_work - at_rest * worked) / turns as f64
    };
    PerTurn { all: of(|c| c.commits), written: of(|c| c.transaction_id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_without_turns_is_not_counted() {
        let began = Instant::now();
        let at = |seconds, commits, transaction_id| Counters {
            at: began + Duration::from_secs(seconds),
            commits,
            transaction_id,
        };
        // 4 and 1 a second at rest, for 20 s with 10 turns of 9 and 7.
        let counted = per_turn(&at(0, 100, 50), &at(10, 140, 60), &at(30, 310, 150), 10);
        assert_eq!(counted, PerTurn { all: 9.0, written: 7.0 });
    }
}
