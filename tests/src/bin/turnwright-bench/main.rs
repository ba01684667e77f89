//! `turnwright-bench SUITE`: measures a real, durable installation from outside, the floor first,
//! and prints a table and JSON. It judges nothing: a figure that misses its target is no failure.

mod adapter;
mod database;
mod figures;
mod floor;
mod installation;
mod provider;
mod report;
mod samples;
mod turns;

use anyhow::Context as _;
use clap::Parser as _;
use report::Report;
use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};
use turns::Effort;

/// What could not be measured has this exit code.
const COULD_NOT: u8 = 2;

/// Measures Turnwright and prints a table.
#[derive(Debug, clap::Parser)]
#[command(name = "turnwright-bench", after_help = "Exit codes: 0 measured, 2 could not.")]
struct Args {
    /// What to measure
    suite: Suite,
    /// File that the figures are written to, as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Measure other systems beside ours, where they are installed
    #[arg(long)]
    peers: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Suite {
    /// The way of a message, from its signal to its delivery
    Turns,
    /// The broker and the assembly of prompts
    Context,
    /// The gateway alone
    Gateway,
    /// The agent loop and its tools
    Loop,
}

/// One line for people on standard error, which may be closed.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "bench: {text}");
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(COULD_NOT),
        Err(e) => {
            say(&format!("{e:#}"));
            ExitCode::from(COULD_NOT)
        }
    }
}

/// Whether everything was measured.
async fn run(args: &Args) -> anyhow::Result<bool> {
    let absent = match args.suite {
        Suite::Turns => None,
        Suite::Context => Some(("context", figures::CONTEXT)),
        Suite::Gateway => Some(("gateway", figures::GATEWAY)),
        Suite::Loop => Some(("loop", figures::LOOP)),
    };
    if let Some((suite, names)) = absent {
        say(&format!("this build has no suite `{suite}`; not measured: {}", names.join(", ")));
        return Ok(false);
    }
    if args.peers {
        say("the suite `turns` starts no peer in this build; only Turnwright is measured");
    }
    // Known before a minute is spent on figures that could not be written down.
    if let Some(file) = &args.json {
        fs::write(file, "{}\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    // Ours is the only TLS provider of this process.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut report = Report::new("turns", figures::TURNS);
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let end = turns::measure(effort, &mut report).await;
    if let Some(file) = &args.json {
        let text = report.json().context("cannot write the figures as json")?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    // Nobody may be reading.
    let _ = io::stdout().lock().write_all(report.table().as_bytes());
    end?;
    let missing = report.missing();
    if !missing.is_empty() {
        say(&format!("not measured: {}", missing.join(", ")));
    }
    Ok(missing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
        for suite in ["turns", "context", "gateway", "loop"] {
            let args = ["turnwright-bench", suite, "--json", "f", "--quick", "--peers"];
            assert!(Args::try_parse_from(args).is_ok(), "{suite}");
        }
        assert_eq!(Args::try_parse_from(["turnwright-bench", "x"]).unwrap_err().exit_code(), 2);
    }
}
