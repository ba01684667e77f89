//! The suite `turns`: the way of a message through a whole installation, from the adapter's publish
//! call to the reply at the console. The parts measure; here is the order, and what becomes figures.

mod commits;
mod latency;
mod load;
mod takeover;

use crate::{
    adapter::Adapter,
    database::connect,
    figures::{
        COLD, COLD_LESS, COMMIT_FLOOR, COMMITS, DELIVERY, DELIVERY_LESS, FIRST_REPLY, Figure,
        IDLE_RSS, INSERT_RATE, PER_SECOND, TAKEOVER, WARM, WARM_LESS, WRITTEN_COMMITS,
    },
    floor::{self, Floor},
    installation::Installation,
    provider::Provider,
    report::Report,
    samples::Samples,
    say,
};
use anyhow::{Context as _, anyhow};
use std::time::Duration;
use turnwright_kit::{Supervisor, signals};

/// Conversations that are kept busy at once.
const CONVERSATIONS: usize = 64;
/// How long an installation rests before its memory is read.
const REST: Duration = Duration::from_secs(3);
/// How long our own tasks may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// How often and how long everything is done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Starts on an empty folder.
    starts: usize,
    /// Inserts one by one.
    inserts: usize,
    /// How long 16 connections insert.
    insert_window: Duration,
    /// Turns of each kind whose latency is taken.
    turns: usize,
    /// Turns whose commits are counted.
    counted_turns: usize,
    /// How long load goes on before it counts.
    ramp: Duration,
    /// How long load counts.
    window: Duration,
    /// Workers killed.
    kills: usize,
}

impl Effort {
    /// For figures to keep.
    pub const FULL: Self = Self {
        starts: 3,
        inserts: 200,
        insert_window: Duration::from_secs(2),
        turns: 100,
        counted_turns: 50,
        ramp: Duration::from_secs(2),
        window: Duration::from_secs(15),
        kills: 5,
    };
    /// For a look.
    pub const QUICK: Self = Self {
        starts: 1,
        inserts: 50,
        insert_window: Duration::from_secs(2),
        turns: 20,
        counted_turns: 50,
        ramp: Duration::from_secs(1),
        window: Duration::from_secs(4),
        kills: 2,
    };
}

/// Measures what can be measured into `report`. A figure that cannot is left out, and standard
/// error says why.
///
/// # Errors
/// When there is nothing to measure, or the installation does not stop in order.
pub async fn measure(effort: Effort, report: &mut Report) -> anyhow::Result<()> {
    let stop = signals::termination().context("cannot listen for signals")?;
    let sup = Supervisor::default();
    let provider = Provider::start(&sup).await?;
    let bench = Bench { effort, provider: &provider, sup: &sup };
    let end = tokio::select! {
        end = bench.run(report) => end,
        () = stop => Err(anyhow!("stopped before everything was measured")),
    };
    sup.run_until(async {}, GRACE).await;
    end
}

struct Bench<'a> {
    effort: Effort,
    provider: &'a Provider,
    sup: &'a Supervisor,
}

impl Bench<'_> {
    async fn run(&self, report: &mut Report) -> anyhow::Result<()> {
        let mut first_replies = Samples::default();
        let (mut installation, adapter) = loop {
            say("starting an installation on an empty folder");
            let (installation, adapter) = self.start(&mut first_replies).await?;
            if first_replies.count() >= self.effort.starts {
                break (installation, adapter);
            }
            drop(adapter);
            installation.stop().await?;
        };
        if let Some(ms) = first_replies.percentile(50) {
            report.put(FIRST_REPLY, ms / 1000.0, first_replies.count());
        }
        let measured = self.on(&mut installation, &adapter, report).await;
        drop(adapter);
        let stopped = installation.stop().await;
        measured.and(stopped)
    }

    /// A new installation that has given its first reply.
    async fn start(&self, samples: &mut Samples) -> anyhow::Result<(Installation, Adapter)> {
        let installation = Installation::start(self.provider).await?;
        let adapter = Adapter::connect(&installation.connection()?).await?;
        let mut conversation = adapter.open("first").await?;
        let replied = conversation.ask().await.context("the first turn")?;
        samples.add(replied - installation.began());
        drop(conversation);
        Ok((installation, adapter))
    }

    async fn on(
        &self,
        installation: &mut Installation,
        adapter: &Adapter,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let Effort { turns, counted_turns, ramp, window, kills, .. } = self.effort;
        tokio::time::sleep(REST).await;
        if let Some(mb) = kept(&[IDLE_RSS], installation.rss_mb()) {
            report.put(IDLE_RSS, mb, 1);
            let what = "control plane, gateway, worker, adapters and dev, after one reply and 3 s";
            report.note(IDLE_RSS, what);
        }

        say("measuring the floor");
        let database = installation.connection()?.database;
        let Effort { inserts, insert_window, .. } = self.effort;
        let floor = floor::measure(&database, self.sup, inserts, insert_window).await?;
        report.put(COMMIT_FLOOR, floor.commit_ms(), floor.commits.count());
        report.put(INSERT_RATE, floor.rate, floor.inserts);

        say("measuring the latency of turns");
        let latencies = latency::measure(adapter, self.provider, turns).await;
        let figures = [COLD, COLD_LESS, WARM, WARM_LESS, DELIVERY, DELIVERY_LESS];
        if let Some(latency::Latencies { cold, warm, delivery }) = kept(&figures, latencies) {
            less_commits(report, COLD, COLD_LESS, &cold, (4.0, &floor));
            less_commits(report, WARM, WARM_LESS, &warm, (4.0, &floor));
            less_commits(report, DELIVERY, DELIVERY_LESS, &delivery, (7.0, &floor));
            report.note(COLD, "the floor is 4 commits; for signal_to_delivery_p50 it is 7");
            report.note(DELIVERY, "of the cold and the warm turns together");
        }
        installation.must_run()?;

        say("counting commits");
        let client = connect(&database, self.sup).await?;
        let counted = commits::measure(adapter, &client, counted_turns).await;
        if let Some(per_turn) = kept(&[COMMITS, WRITTEN_COMMITS], counted) {
            report.put(COMMITS, per_turn.all, counted_turns);
            report.put(WRITTEN_COMMITS, per_turn.written, counted_turns);
            report.note(COMMITS, commits::HOW);
            report.note(WRITTEN_COMMITS, commits::HOW_WRITTEN);
        }
        installation.must_run()?;

        say("measuring turns per second");
        let load = load::measure(adapter, CONVERSATIONS, ramp, window).await;
        if let Some(completed) = kept(&[PER_SECOND], load) {
            let per_second = completed as f64 / window.as_secs_f64();
            report.put_over(PER_SECOND, per_second, floor.rate, completed);
            report.note(PER_SECOND, "64 conversations at once; the floor is insert_rate_c16");
        }
        installation.must_run()?;

        say("killing workers");
        let takeovers = takeover::measure(installation, adapter, self.provider, kills).await;
        if let Some(samples) = kept(&[TAKEOVER], takeovers)
            && let Some(ms) = samples.percentile(99)
        {
            report.put(TAKEOVER, ms / 1000.0, samples.count());
            let what = "from kill -9 during a model call to the reply; the longest of all samples";
            report.note(TAKEOVER, what);
        }
        installation.must_run()
    }
}

/// Puts a median, and the same less what so many commits cost.
fn less_commits(
    report: &mut Report,
    figure: Figure,
    less: Figure,
    samples: &Samples,
    (commits, floor): (f64, &Floor),
) {
    if let Some(p50) = samples.percentile(50) {
        let cost = commits * floor.commit_ms();
        report.put_over(figure, p50, cost, samples.count());
        report.put(less, p50 - cost, samples.count());
    }
}

/// What was measured; where it was not, says which figures are left out and why.
fn kept<T>(figures: &[Figure], measured: anyhow::Result<T>) -> Option<T> {
    measured
        .inspect_err(|e| {
            let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
            say(&format!("left out {}: {e:#}", names.join(", ")));
        })
        .ok()
}
