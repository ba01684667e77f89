//! The worker process: configuration, telemetry, start, stop. All else is in the library.

use anyhow::anyhow;
use std::{fmt::Display, io::Write as _, pin::pin, process::ExitCode, time::Duration};
use tokio::net::TcpListener;
use turnwright_kit::{Outcome, Supervisor, config::Env, signals, telemetry};
use turnwright_worker::{Config, serve};

/// How long a stop may take: turns get most of it to end.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let mut env = Env::process();
    let telemetry = telemetry::Config::from_env("turnwright-worker", &mut env);
    let config = Config::from_env(&mut env);
    match env.finish((telemetry, config)) {
        Err(problems) => {
            tell(problems);
            ExitCode::from(78)
        }
        Ok((telemetry, config)) => match observed(&telemetry, config).await {
            Ok(Outcome::Clean) => ExitCode::SUCCESS,
            Ok(Outcome::Failed | Outcome::DeadlinePassed { .. }) => ExitCode::FAILURE,
            Err(e) => {
                tell(format_args!("{e:#}"));
                ExitCode::FAILURE
            }
        },
    }
}

async fn observed(telemetry: &telemetry::Config, config: Config) -> anyhow::Result<Outcome> {
    let guard = telemetry::init(telemetry)?;
    let outcome = work(config).await;
    tokio::task::spawn_blocking(move || guard.shutdown()).await?;
    outcome
}

async fn work(config: Config) -> anyhow::Result<Outcome> {
    // Refused only when there is a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut stop = pin!(signals::termination()?);
    let at = config.listen;
    let listener = TcpListener::bind(at).await.map_err(|e| {
        anyhow!("cannot listen on {at}: {e}; choose another with TURNWRIGHT_WORKER_LISTEN")
    })?;
    let sup = Supervisor::default();
    tokio::select! {
        served = serve(config, listener, &sup) => served?,
        () = &mut stop => return Ok(Outcome::Clean),
    }
    Ok(sup.run_until(stop, GRACE).await)
}

fn tell(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
