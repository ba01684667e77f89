//! The command line: what can be asked. It must do nothing.

use crate::out::Format;
use std::path::PathBuf;

/// Runs AI agents that live in chat channels.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "turnwright", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 refused, failed or not everything holds; \
                          2 wrong use, or nothing to connect to.";

/// What every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Global {
    /// How results are printed
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
    /// Data folder of an installation on this machine [env: TURNWRIGHT_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Connection file of an installation [env: TURNWRIGHT_CONNECTION]
    #[arg(long, global = true, value_name = "FILE")]
    pub connection: Option<PathBuf>,
}

/// The commands.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Run everything on this machine, in one data folder, until stopped
    Dev(DevArgs),
    /// Start an installation, hold a short conversation and check what came of it
    Demo(DemoArgs),
    /// Apply a folder of agents as one revision
    Apply(ApplyArgs),
    /// Talk to an agent
    Chat(ChatArgs),
    /// Look at agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Look at turns
    #[command(subcommand)]
    Turn(TurnCommand),
    /// Look at prompts
    #[command(subcommand)]
    Prompt(PromptCommand),
    /// Check the ledger
    #[command(subcommand)]
    Ledger(LedgerCommand),
}

/// Arguments of `dev`; the data folder is [`Global::data`].
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DevArgs {
    /// File that the connection is also written to once everything is ready
    #[arg(long, value_name = "FILE")]
    pub ready: Option<PathBuf>,
    /// Which agents and which model
    #[command(flatten)]
    pub agents: AgentsFrom,
    /// Do not make this the installation that other commands use by themselves
    #[arg(long, hide = true)]
    pub unrecorded: bool,
}

/// Where agents and their model come from.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AgentsFrom {
    /// Folder of agents to apply [default: the example agents, in a new data folder]
    #[arg(long, value_name = "DIR")]
    pub agents: Option<PathBuf>,
    /// Base URL of an OpenAI-compatible provider that answers for all agents, up to and with /v1
    #[arg(long, value_name = "URL", requires = "model")]
    pub provider_url: Option<String>,
    /// The model to ask that provider for
    #[arg(long, value_name = "NAME", requires = "provider_url")]
    pub model: Option<String>,
    /// Environment variable that holds the provider's key
    #[arg(long, value_name = "VAR", requires = "provider_url")]
    pub key_env: Option<String>,
}

/// Arguments of `demo`; the data folder is [`Global::data`].
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DemoArgs {
    /// Which agents and which model
    #[command(flatten)]
    pub agents: AgentsFrom,
    /// File that the outcome is written to as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of `apply`.
#[derive(Clone, Debug, clap::Args)]
pub struct ApplyArgs {
    /// Folder with one folder per agent, models.yaml and settings.yaml
    #[arg(short = 'f', long = "folder", value_name = "DIR")]
    pub folder: PathBuf,
    /// Refuse if something it changes was changed after this revision
    #[arg(long, value_name = "REVISION")]
    pub base: Option<i64>,
    /// Why, for the history
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub reason: String,
    /// Who, for the history [default: the user's name]
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
}

/// Arguments of `chat`.
#[derive(Clone, Debug, clap::Args)]
pub struct ChatArgs {
    /// The agent's slug
    #[arg(long, value_name = "SLUG")]
    pub agent: String,
    /// Which conversation with it
    #[arg(long, default_value = "main", value_name = "KEY")]
    pub conversation: String,
    /// The name to speak under
    #[arg(long, value_name = "NAME")]
    pub sender: Option<String>,
    /// How many seconds to wait for the whole reply
    #[arg(long, default_value_t = 600, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// The message; without one it is read from standard input, line by line on a terminal
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
}

/// The commands of `agent`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum AgentCommand {
    /// List agents
    List,
    /// Show an agent
    Show {
        /// Its slug
        slug: String,
    },
}

/// The commands of `turn`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum TurnCommand {
    /// List turns, newest first
    List {
        /// Only this agent's
        #[arg(long, value_name = "SLUG")]
        agent: Option<String>,
        /// How many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i32).range(1..=500))]
        limit: i32,
    },
    /// Tell the story of a turn, with times
    Show {
        /// A turn id, `latest`, or CONVERSATION_KEY#NUMBER
        turn: String,
    },
}

/// The commands of `prompt`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum PromptCommand {
    /// Show what a turn sent to the model, with the source of each part in the margin
    Show(PromptArgs),
}

/// Arguments of `prompt show`.
#[derive(Clone, Debug, clap::Args)]
pub struct PromptArgs {
    /// A turn id, `latest`, or CONVERSATION_KEY#NUMBER
    pub turn: String,
    /// Print the exact bytes of the instructions and nothing else
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub raw: bool,
    /// Print everything that was sent, as JSON
    #[arg(long)]
    pub json: bool,
    /// Show every request of the turn, not only the first
    #[arg(long)]
    pub all: bool,
    /// Width of the margin, in columns
    #[arg(long, default_value_t = 34, value_name = "COLUMNS",
          value_parser = clap::value_parser!(u16).range(1..=120))]
    pub width: u16,
}

/// The commands of `ledger`.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum LedgerCommand {
    /// Verify every promise from the database; exit code 1 names what is broken
    Check,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_may_stand_behind_the_command() {
        let cli = Cli::try_parse_from(["turnwright", "turn", "list", "-o", "json", "--data", "d"]);
        let global = cli.unwrap().global;
        assert_eq!((global.output, global.data), (Format::Json, Some("d".into())));
    }

    #[test]
    fn wrong_use_has_exit_code_two() {
        for wrong in [
            vec!["turnwright", "nonsense"],
            vec!["turnwright", "chat"],
            vec!["turnwright", "dev", "--provider-url", "http://x"],
            vec!["turnwright", "prompt", "show", "latest", "--raw", "--json"],
        ] {
            assert_eq!(Cli::try_parse_from(&wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
    }
}
