//! `turnwright-test-servers COMMAND…`: starts one PostgreSQL cluster, runs the command with its
//! URL in the environment, and stops the cluster. With `DATABASE_URL` set it starts nothing.

use anyhow::Context as _;
use std::process::ExitCode;
use turnwright_kit::config::Env;
use turnwright_servers::{Postgres, PostgresOptions};
use turnwright_tests::database::{CLUSTER_URL, binaries};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let program = args.next().context("usage: turnwright-test-servers COMMAND…")?;
    let mut command = tokio::process::Command::new(program);
    command.args(args).kill_on_drop(true);
    let given = Env::process().get("DATABASE_URL").map(str::to_owned);
    let folder = tempfile::tempdir()?;
    let own = match given {
        Some(url) => {
            command.env(CLUSTER_URL, url);
            None
        }
        None => {
            let server =
                Postgres::start(&binaries(), PostgresOptions::throw_away(folder.path())).await?;
            command.env(CLUSTER_URL, server.url());
            Some(server)
        }
    };
    let stop = turnwright_kit::signals::termination()?;
    let mut child = command.spawn().context("start the command")?;
    let status = tokio::select! {
        status = child.wait() => status?,
        () = stop => { child.start_kill()?; child.wait().await? }
    };
    if let Some(server) = own {
        server.stop().await?;
    }
    let code = status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
