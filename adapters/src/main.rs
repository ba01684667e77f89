//! The adapters process: configuration, telemetry, listener, stop. It must hold no logic of its own.

use std::{io::Write as _, process::ExitCode, time::Duration};
use turnwright_adapters::{Config, SERVICE};
use turnwright_kit::{Chain, Outcome, Supervisor, config::Env, listen, signals, telemetry};

const MISCONFIGURED: u8 = 78;
const GRACE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let mut env = Env::process();
    let telemetry = telemetry::Config::from_env(SERVICE, &mut env);
    let config = Config::from_env(&mut env);
    let (telemetry, config) = match env.finish((telemetry, config)) {
        Ok(all) => all,
        Err(e) => return fail(MISCONFIGURED, &e),
    };
    let guard = match telemetry::init(&telemetry) {
        Ok(guard) => guard,
        Err(e) => return fail(MISCONFIGURED, &format_args!("telemetry: {e:#}")),
    };
    let code = run(config).await;
    if let Err(e) = tokio::task::spawn_blocking(move || guard.shutdown()).await {
        tracing::warn!(error = %e, "spans were not flushed");
    }
    code
}

async fn run(config: Config) -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let listener = match listen::bind(config.listen, "TURNWRIGHT_CONSOLE_LISTEN").await {
        Ok(listener) => listener,
        Err(e) => return fail(1, &e),
    };
    let stopped = match signals::termination() {
        Ok(stopped) => stopped,
        Err(e) => return fail(1, &format_args!("cannot listen for SIGTERM: {e}")),
    };
    let sup = Supervisor::default();
    if let Err(e) = turnwright_adapters::serve(config, listener, &sup).await {
        return fail(1, &Chain(&e));
    }
    match sup.run_until(stopped, GRACE).await {
        Outcome::Clean => ExitCode::SUCCESS,
        end @ (Outcome::Failed | Outcome::DeadlinePassed { .. }) => {
            tracing::error!(?end, "stopped in disorder");
            ExitCode::FAILURE
        }
    }
}

fn fail(code: u8, why: &dyn std::fmt::Display) -> ExitCode {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "turnwright-adapters: {why}");
    ExitCode::from(code)
}
