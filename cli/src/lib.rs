//! The operator's command, and the one-machine mode. It reaches an installation through the same
//! interfaces as everybody else; only the ledger check reads the database.

pub mod agent;
pub mod apply;
pub mod args;
pub mod bundled;
pub mod chat;
pub mod connection;
pub mod control;
pub mod demo;
pub mod dev;
pub mod error;
pub mod gateway;
pub mod ledger;
pub mod out;
pub mod prompt;
pub mod story;
pub mod table;
pub mod turn;

pub use args::Cli;
pub use connection::Connection;
pub use error::Error;
pub use out::{Format, Out};

use args::{AgentCommand, Command, LedgerCommand, PromptCommand, TurnCommand};
use clap::Parser as _;
use std::{ffi::OsString, process::ExitCode};
use turnwright_kit::config::Env;

/// Runs the command that `args` ask for and tells on standard error why it did not succeed.
pub async fn main(args: impl IntoIterator<Item = OsString>, env: &Env) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help that nobody reads is no failure.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    // Every client of this command, HTTP and database, uses this one provider.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let mut out = Out::stdout(cli.global.output);
    match run(&cli, env, &mut out).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => e.tell(),
    }
}

/// Runs a command and prints into `out`.
///
/// # Errors
/// When it does not succeed; [`Error::exit_code`] says how the process should end.
pub async fn run(cli: &Cli, env: &Env, out: &mut Out) -> Result<(), Error> {
    let global = &cli.global;
    let connection = || Connection::locate(global, env);
    match &cli.command {
        Command::Dev(args) => dev::run(args, global, env, out).await,
        Command::Demo(args) => demo::run(args, global, env, out).await,
        Command::Apply(args) => apply::run(args, &connection()?, env, out).await,
        Command::Chat(args) => chat::run(args, &connection()?, out).await,
        Command::Agent(AgentCommand::List) => agent::list(&connection()?, out).await,
        Command::Agent(AgentCommand::Show { slug }) => agent::show(&connection()?, slug, out).await,
        Command::Turn(TurnCommand::List { agent, limit }) => {
            turn::list(&connection()?, agent.as_deref(), *limit, out).await
        }
        Command::Turn(TurnCommand::Show { turn }) => turn::show(&connection()?, turn, out).await,
        Command::Prompt(PromptCommand::Show(args)) => prompt::show(args, &connection()?, out).await,
        Command::Ledger(LedgerCommand::Check) => ledger::check(&connection()?, out).await,
    }
}
