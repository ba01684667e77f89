//! `turnwright-gateway`: serves, or with `migrate` brings schema `gateway` up to date.

use std::{process::ExitCode, time::Duration};
use turnwright_gateway::{Config, migrate, serve};
use turnwright_kit::{
    Outcome, Supervisor,
    config::{ConfigError, Env},
    listen, signals, telemetry,
};

/// The exit code for a configuration that is not usable (`EX_CONFIG` of sysexits.h).
const NOT_CONFIGURED: u8 = 78;

#[tokio::main]
async fn main() -> ExitCode {
    let error = match run().await {
        Ok(code) => return code,
        Err(error) => error,
    };
    #[expect(clippy::print_stderr, reason = "the last word of a process that cannot go on")]
    {
        eprintln!("turnwright-gateway: {error:#}");
    }
    if error.is::<ConfigError>() { ExitCode::from(NOT_CONFIGURED) } else { ExitCode::FAILURE }
}

async fn run() -> anyhow::Result<ExitCode> {
    let mut env = Env::process();
    if std::env::args().nth(1).as_deref() == Some("migrate") {
        let url = env.required("TURNWRIGHT_OWNER_DATABASE_URL", "the URL of the schema's owner");
        migrate(&env.finish(url)?).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let telemetry = telemetry::Config::from_env("turnwright-gateway", &mut env);
    let config = Config::from_env(&mut env);
    let config = env.finish(config)?;
    let guard = telemetry::init(&telemetry)?;
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("another TLS provider is installed already"))?;
    let stop = signals::termination()?;
    let listener = listen::bind(config.listen, "TURNWRIGHT_GATEWAY_LISTEN").await?;
    tracing::info!(listen = %listener.local_addr()?, "gateway starting");
    let sup = Supervisor::default();
    serve(config, listener, &sup).await?;
    let end = sup.run_until(stop, Duration::from_secs(10)).await;
    tokio::task::spawn_blocking(|| guard.shutdown()).await?;
    Ok(if end == Outcome::Clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
