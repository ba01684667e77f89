//! PostgreSQL and NATS: those that the environment names, or private ones in the data folder, which
//! are started again when they die.

use crate::{
    Error,
    dev::{folder::Folder, ports::Ports, secrets::Secrets, tell::Tell},
};
use futures::future::{FutureExt as _, LocalBoxFuture};
use parking_lot::Mutex;
use std::{fmt, path::PathBuf, time::Duration};
use tokio::time::sleep;
use turnwright_kit::{backoff::Backoff, config::Env};
use turnwright_servers::{
    Binaries, Nats, NatsOptions, Postgres, PostgresOptions, Search, ServerError,
};

/// Names of the servers.
pub const POSTGRES: &str = "postgres";
/// See [`POSTGRES`].
pub const NATS: &str = "nats";

/// How often a server that died is started again in a row before everything is stopped.
const TRIES: u32 = 8;

/// The servers of an installation.
#[derive(Default)]
pub struct Servers {
    database_url: String,
    nats_url: String,
    binaries: Option<Binaries>,
    postgres: Option<Server<Postgres>>,
    nats: Option<Server<Nats>>,
}

/// A private server and how to start it again.
struct Server<S> {
    /// `None` while it is down.
    handle: Option<S>,
    port: u16,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URLs hold secrets.
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}

impl Servers {
    /// Starts what the environment does not name (`DATABASE_URL`, `NATS_URL`).
    ///
    /// # Errors
    /// When programs are missing, or a server does not start.
    pub async fn start(
        folder: &Folder,
        secrets: &Secrets,
        ports: &Mutex<Ports>,
        env: &Env,
    ) -> Result<Self, Error> {
        let given = |key: &str| env.get(key).map(str::to_owned);
        let (database, nats) = (given("DATABASE_URL"), given("NATS_URL"));
        let mut servers = Self::default();
        if database.is_none() || nats.is_none() {
            let found = Binaries::locate(&search(env));
            servers.binaries = Some(
                found
                    .map_err(|e| Error::setup("cannot run postgresql and nats here").because(e))?,
            );
        }
        let binaries = servers.binaries.as_ref();
        let start_postgres = async {
            let (None, Some(binaries)) = (&database, binaries) else { return Ok(None) };
            let port = ports.lock().remembered(POSTGRES);
            let started = postgres(binaries, folder, secrets, port).await;
            if matches!(started, Err(ServerError::PortTaken { .. })) {
                return postgres(binaries, folder, secrets, None).await.map(Some);
            }
            started.map(Some)
        };
        let start_nats = async {
            let (None, Some(binaries)) = (&nats, binaries) else { return Ok(None) };
            let port = ports.lock().remembered(NATS);
            let started = nats_server(binaries, folder, secrets, port).await;
            if matches!(started, Err(ServerError::PortTaken { .. })) {
                return nats_server(binaries, folder, secrets, None).await.map(Some);
            }
            started.map(Some)
        };
        let (postgres, nats_server) = tokio::join!(start_postgres, start_nats);
        let failed = |e: ServerError| Error::setup("cannot start a server").because(e);
        if let Some(handle) = postgres.map_err(failed)? {
            servers.database_url = handle.url();
            ports.lock().remember(POSTGRES, handle.port())?;
            servers.postgres = Some(Server { port: handle.port(), handle: Some(handle) });
        }
        if let Some(handle) = nats_server.map_err(failed)? {
            servers.nats_url = handle.url();
            ports.lock().remember(NATS, handle.port())?;
            servers.nats = Some(Server { port: handle.port(), handle: Some(handle) });
        }
        servers.database_url.extend(database);
        servers.nats_url.extend(nats);
        Ok(servers)
    }

    /// The owner's URL of the database.
    #[must_use]
    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// The NATS server, with its token.
    #[must_use]
    pub fn nats_url(&self) -> &str {
        &self.nats_url
    }

    /// Name and process id of the private servers that run.
    pub fn pids(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let postgres = self.postgres.as_ref().and_then(|s| s.handle.as_ref());
        let nats = self.nats.as_ref().and_then(|s| s.handle.as_ref());
        postgres.map(|p| (POSTGRES, p.pid())).into_iter().chain(nats.map(|n| (NATS, n.pid())))
    }

    /// Watches over the private servers; each future ends only when its server cannot be had
    /// again.
    pub fn keepers<'a>(
        &'a mut self,
        folder: &'a Folder,
        secrets: &'a Secrets,
        tell: &'a Tell<'_>,
    ) -> Vec<LocalBoxFuture<'a, Error>> {
        let Self { binaries: Some(binaries), postgres, nats, .. } = self else {
            return Vec::new();
        };
        let binaries = &*binaries;
        let mut keepers = Vec::new();
        if let Some(server) = postgres {
            keepers.push(keep_postgres(server, binaries, folder, secrets, tell).boxed_local());
        }
        if let Some(server) = nats {
            keepers.push(keep_nats(server, binaries, folder, secrets, tell).boxed_local());
        }
        keepers
    }

    /// Stops the private servers, NATS first.
    pub async fn stop(&mut self) {
        let stuck = |error: ServerError| tracing::error!(%error, "a server did not stop");
        if let Some(nats) = self.nats.take().and_then(|s| s.handle)
            && let Err(e) = nats.stop().await
        {
            stuck(e);
        }
        if let Some(postgres) = self.postgres.take().and_then(|s| s.handle)
            && let Err(e) = postgres.stop().await
        {
            stuck(e);
        }
    }
}

async fn postgres(
    binaries: &Binaries,
    folder: &Folder,
    secrets: &Secrets,
    port: Option<u16>,
) -> Result<Postgres, ServerError> {
    let password = secrets.postgres_password.clone();
    let mut options = PostgresOptions::kept(folder.join(POSTGRES), password, folder.log(POSTGRES));
    options.port = port;
    Postgres::start(binaries, options).await
}

async fn nats_server(
    binaries: &Binaries,
    folder: &Folder,
    secrets: &Secrets,
    port: Option<u16>,
) -> Result<Nats, ServerError> {
    let token = secrets.nats_token.clone();
    let mut options = NatsOptions::kept(folder.join(NATS), token, folder.log(NATS));
    options.port = port;
    Nats::start(binaries, options).await
}

/// Services know a server by its port, so it comes back on the same one or not at all.
async fn keep_postgres(
    server: &mut Server<Postgres>,
    binaries: &Binaries,
    folder: &Folder,
    secrets: &Secrets,
    tell: &Tell<'_>,
) -> Error {
    loop {
        if let Some(handle) = &server.handle {
            let status = handle.exited().await;
            tell.ended(POSTGRES, &status.to_string());
        }
        server.handle = None;
        let mut tries = tries();
        let handle = loop {
            match postgres(binaries, folder, secrets, Some(server.port)).await {
                Ok(handle) => break handle,
                Err(e) => match tries.next() {
                    Some(delay) => sleep(delay).await,
                    None => return lost(POSTGRES, e),
                },
            }
        };
        tell.restarted(POSTGRES, handle.pid());
        server.handle = Some(handle);
    }
}

/// As [`keep_postgres`].
async fn keep_nats(
    server: &mut Server<Nats>,
    binaries: &Binaries,
    folder: &Folder,
    secrets: &Secrets,
    tell: &Tell<'_>,
) -> Error {
    loop {
        if let Some(handle) = &server.handle {
            let status = handle.exited().await;
            tell.ended(NATS, &status.to_string());
        }
        server.handle = None;
        let mut tries = tries();
        let handle = loop {
            match nats_server(binaries, folder, secrets, Some(server.port)).await {
                Ok(handle) => break handle,
                Err(e) => match tries.next() {
                    Some(delay) => sleep(delay).await,
                    None => return lost(NATS, e),
                },
            }
        };
        tell.restarted(NATS, handle.pid());
        server.handle = Some(handle);
    }
}

fn tries() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(5), TRIES)
}

fn lost(name: &str, e: ServerError) -> Error {
    Error::failed(format!("{name} ended and does not start again")).because(e)
}

/// Where to look for the servers' programs.
fn search(env: &Env) -> Search {
    let set = |key: &str| env.get(key).map(PathBuf::from);
    Search {
        path: env.get("PATH").map(Into::into),
        tools_dir: set("TURNWRIGHT_TOOLS_DIR").or_else(tools_beside),
        pg_bin_override: set("TURNWRIGHT_PG_BIN"),
        nats_override: set("TURNWRIGHT_NATS_SERVER"),
    }
}

/// The folder that `bin/setup` fills, if this program was built below it.
fn tools_beside() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    own.ancestors().map(|dir| dir.join(".tools/venv")).find(|dir| dir.is_dir())
}
