//! `turnwright-control-plane`: serves, or with `migrate` brings schema `control` up to date.

use std::process::ExitCode;
use std::time::Duration;
use turnwright_control_plane::{Config, serve};
use turnwright_kit::{Outcome, Supervisor, config::Env, signals, telemetry};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(e) => {
            tracing::error!(error = format!("{e:#}"), "control plane failed");
            #[expect(clippy::print_stderr, reason = "the last word of a process that cannot go on")]
            {
                eprintln!("turnwright-control-plane: {e:#}");
            }
            // EX_CONFIG of sysexits: starting it again changes nothing.
            let misconfigured = e.is::<turnwright_kit::config::ConfigError>();
            if misconfigured { ExitCode::from(78) } else { ExitCode::FAILURE }
        }
    }
}

async fn run() -> anyhow::Result<ExitCode> {
    let mut env = Env::process();
    if std::env::args().nth(1).as_deref() == Some("migrate") {
        let url = env.required("TURNWRIGHT_OWNER_DATABASE_URL", "the URL of the schema's owner");
        let url = env.finish(url)?;
        turnwright_control_store::migrate(&url).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let telemetry = telemetry::Config::from_env("turnwright-control-plane", &mut env);
    let config = Config::from_env(&mut env);
    let config = env.finish(config)?;
    let guard = telemetry::init(&telemetry)?;
    let stop = signals::termination()?;
    let listener = turnwright_kit::listen::bind(config.listen, "TURNWRIGHT_CONTROL_LISTEN").await?;
    tracing::info!(listen = %listener.local_addr()?, "control plane starting");
    let sup = Supervisor::default();
    serve(config, listener, &sup).await?;
    let end = sup.run_until(stop, Duration::from_secs(10)).await;
    tokio::task::spawn_blocking(|| guard.shutdown()).await?;
    Ok(if end == Outcome::Clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
