//! Starts a gateway: waits for PostgreSQL, takes the lease, opens the surface.

use crate::{
    app::App, caller::Keys, config::Config, generation::registry::Registry, lease,
    listener::Bounded, routes, upstream::Upstream,
};
use chrono::Utc;
use secrecy::ExposeSecret as _;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;
use turnwright_gateway_store::{self as store, Pool};
use turnwright_kit::{
    OnExit, Supervisor,
    agent_token::{TokenError, Verifier},
    auth::{Role, Tokens},
    backoff::Backoff,
    config::without_credentials,
    health::Readiness,
};
use turnwright_types::AgentClaims;
use uuid::Uuid;

/// How long open connections may take to end once the process is to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL did not answer, or schema `gateway` is not in place.
    #[error(
        "postgresql at {url} did not answer within {seconds} s; start it, migrate it, or correct \
         TURNWRIGHT_GATEWAY_DATABASE_URL"
    )]
    Database {
        /// Where, without credentials.
        url: String,
        /// How long was waited.
        seconds: u64,
        /// The last failure.
        #[source]
        source: store::Error,
    },
    /// The public key of agent tokens is malformed.
    #[error("TURNWRIGHT_AGENT_TOKEN_PUBLIC_KEY is not usable")]
    Key(#[source] TokenError),
    /// The HTTP client cannot be set up.
    #[error("the client for model providers cannot be set up")]
    Client(#[source] reqwest::Error),
}

/// Connects to PostgreSQL, starts every task on `sup`, and returns once it serves on `listener`.
/// The process must have installed its rustls provider.
///
/// # Errors
/// When PostgreSQL cannot be reached within the start timeout, or the configuration is not usable.
pub async fn serve(config: Config, listener: TcpListener, sup: &Supervisor) -> Result<(), Error> {
    let agents =
        Verifier::new(&config.agent_token_public_key, AgentClaims::AUDIENCE).map_err(Error::Key)?;
    let upstream = Upstream::new(config.patience).map_err(Error::Client)?;
    let replica = Uuid::now_v7();
    let pool = database(&config, replica).await?;
    let app = Arc::new(App {
        pool,
        models: config.models,
        upstream,
        keys: Keys {
            tokens: Tokens::new([(config.operator_token.expose_secret(), Role::Operator)]),
            agents,
        },
        registry: Registry::new(),
        replica,
        tasks: sup.scoped().clone(),
        stop: sup.token(),
        drain: config.limits.drain,
        slots: Arc::new(Semaphore::new(config.limits.in_flight)),
        started_at: Utc::now(),
    });
    let ready = Readiness::default();
    ready.set(true);
    let router = routes::router(app.clone(), ready.clone());
    sup.spawn("lease", OnExit::StopProcess, |stop| lease::run(app, ready, stop));
    let bounded = Bounded::new(listener, config.limits.connections);
    sup.spawn("http", OnExit::StopProcess, |stop| http(bounded, router, stop));
    Ok(())
}

async fn http(
    listener: Bounded,
    router: axum::Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let grace = stop.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    tokio::select! {
        end = server.into_future() => Ok(end?),
        () = async { grace.cancelled().await; tokio::time::sleep(GRACE).await } => Ok(()),
    }
}

/// PostgreSQL with schema `gateway` in place and the lease of this replica in it.
async fn database(config: &Config, replica: Uuid) -> Result<Pool, Error> {
    let deadline = Instant::now() + config.start_timeout;
    let mut backoff = Backoff::endless(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        let source = match connect(config, replica).await {
            Ok(pool) => return Ok(pool),
            Err(error) => error,
        };
        let pause = backoff.next().unwrap_or_default();
        if Instant::now() + pause >= deadline {
            let url = without_credentials(config.database_url.expose_secret());
            return Err(Error::Database { url, seconds: config.start_timeout.as_secs(), source });
        }
        tokio::time::sleep(pause).await;
    }
}

async fn connect(config: &Config, replica: Uuid) -> store::Result<Pool> {
    let url = config.database_url.expose_secret();
    let pool = store::connect(url, config.database_connections).await?;
    store::renew(&pool, replica).await?;
    Ok(pool)
}
