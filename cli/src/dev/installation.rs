//! A running installation: starts its parts in order, starts again what dies, stops them in reverse
//! order.

use crate::{
    Connection, Error,
    apply::author,
    dev::{
        agents::{Agents, wants_scripted},
        folder::Folder,
        ports::Ports,
        probe::{NotReady, ended, until_ready},
        process::{Plan, Process, Tether},
        secrets::Secrets,
        servers::Servers,
        services::{ADAPTERS, CONTROL_PLANE, GATEWAY, SCRIPTED, Services, Urls, WORKER, base_url},
        tell::Tell,
    },
};
use futures::future::{FutureExt as _, LocalBoxFuture, select_all};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};
use turnwright_kit::{backoff::Backoff, config::Env};

/// What a service says when its configuration is wrong: starting it again would not help.
const MISCONFIGURED: i32 = 78;
/// How long a service may take to stop; it gives itself ten seconds.
const STOP_LIMIT: Duration = Duration::from_secs(13);
/// How long bringing a schema up to date may take.
const MIGRATION_LIMIT: Duration = Duration::from_secs(120);
/// A service that lived so long is started again at once.
const LIVED: Duration = Duration::from_secs(30);

/// Servers and services that run.
#[derive(Debug, Default)]
pub struct Installation {
    servers: Servers,
    /// In the order in which they were started.
    services: Vec<Running>,
}

/// A running service.
#[derive(Debug)]
struct Running {
    plan: Plan,
    port: u16,
    process: Process,
}

/// What starting needs to know.
pub struct Starter<'a, 'o> {
    /// The data folder.
    pub folder: &'a Folder,
    /// Its secrets.
    pub secrets: &'a Secrets,
    /// Its ports.
    pub ports: Mutex<Ports>,
    /// How services are started.
    pub services: Services<'a>,
    /// Ties them to us.
    pub tether: Tether,
    /// Our environment.
    pub env: &'a Env,
    /// Our voice.
    pub tell: &'a Tell<'o>,
}

impl Installation {
    /// Starts everything and applies the agents. When it is dropped half-way, what it had started
    /// is killed.
    ///
    /// # Errors
    /// When a part does not start, or the agents are refused.
    pub async fn start(
        &mut self,
        with: &Starter<'_, '_>,
        agents: Agents,
    ) -> Result<Connection, Error> {
        self.servers = Servers::start(with.folder, with.secrets, &with.ports, with.env).await?;
        for (name, pid) in self.servers.pids() {
            with.tell.started(name, pid, "");
        }
        let mut urls = Urls {
            database: self.servers.database_url().to_owned(),
            nats: self.servers.nats_url().to_owned(),
            ..Urls::default()
        };
        let scripted = async {
            match wants_scripted(with.folder)? {
                true => with.start(SCRIPTED, &urls).await.map(Some),
                false => Ok(None),
            }
        };
        let (scripted, (), ()) = tokio::try_join!(
            scripted,
            with.migrate(CONTROL_PLANE, &urls.database),
            with.migrate(GATEWAY, &urls.database),
        )?;
        if let Some(scripted) = scripted {
            urls.scripted = Some(format!("{}/v1", base_url(scripted.port)));
            self.services.push(scripted);
        }
        let (control_plane, gateway) =
            tokio::try_join!(with.start(CONTROL_PLANE, &urls), with.start(GATEWAY, &urls))?;
        urls.control_plane = base_url(control_plane.port);
        urls.gateway = base_url(gateway.port);
        self.services.extend([control_plane, gateway]);
        let mut connection = with.connection(&urls);
        self.bring_agents(with, agents, &connection).await?;
        let (worker, adapters) =
            tokio::try_join!(with.start(WORKER, &urls), with.start(ADAPTERS, &urls))?;
        connection.console = base_url(adapters.port);
        self.services.extend([worker, adapters]);
        connection.pids = self.pids();
        Ok(connection)
    }

    async fn bring_agents(
        &self,
        with: &Starter<'_, '_>,
        agents: Agents,
        connection: &Connection,
    ) -> Result<(), Error> {
        let applied = agents.apply(connection, with.env).await;
        let applied =
            applied.map_err(|e| Error::setup("the agents were not applied").because(e))?;
        let Some(applied) = applied else { return Ok(()) };
        if applied.changed {
            let (revision, changes) = (applied.revision, applied.changes.len());
            let author = author(with.env);
            with.tell.note(&format!(
                "agents applied by {author}: revision {revision}, {changes} changes"
            ));
        }
        for note in &applied.notes {
            with.tell.note(&format!("note: {note}"));
        }
        Ok(())
    }

    fn pids(&self) -> BTreeMap<String, u32> {
        let services = self.services.iter().map(|s| (s.plan.name, s.process.pid()));
        let all = self.servers.pids().chain(services);
        all.map(|(name, pid)| (name.to_owned(), pid)).collect()
    }

    /// Starts again whatever dies; ends only when a server cannot be had again.
    pub async fn keep(&mut self, with: &Starter<'_, '_>) -> Error {
        let Self { servers, services } = self;
        let mut keepers: Vec<LocalBoxFuture<'_, Error>> =
            servers.keepers(with.folder, with.secrets, with.tell);
        for service in services {
            keepers.push(keep(service, with).boxed_local());
        }
        if keepers.is_empty() {
            return std::future::pending().await;
        }
        select_all(keepers).await.0
    }

    /// Stops everything, last started first.
    pub async fn stop(&mut self) {
        while let Some(mut service) = self.services.pop() {
            if service.process.end(STOP_LIMIT).await.is_none() {
                let (name, pid) = (service.plan.name, service.process.pid());
                tracing::error!(service = name, pid, "a service outlived SIGKILL; end it by hand");
            }
        }
        self.servers.stop().await;
    }
}

impl Starter<'_, '_> {
    /// Starts a service and waits until it is ready. A port that somebody takes in the meantime is
    /// exchanged for another.
    async fn start(&self, name: &'static str, urls: &Urls) -> Result<Running, Error> {
        let mut tries = Backoff::new(Duration::from_millis(100), Duration::from_secs(2), 6);
        loop {
            let port = self.ports.lock().choose(name)?;
            let plan = self.services.plan(name, port, urls)?;
            let probe = self.services.probe(name, port)?;
            let mut process = Process::start(&plan, &self.tether)?;
            match until_ready(&mut process, &plan, &probe).await {
                Ok(()) => {
                    self.tell.started(name, process.pid(), &format!("127.0.0.1:{port}"));
                    return Ok(Running { plan, port, process });
                }
                Err(NotReady::Error(e)) => return Err(e),
                Err(NotReady::Ended(status)) if status.code() == Some(MISCONFIGURED) => {
                    return Err(ended(&plan, status));
                }
                Err(NotReady::Ended(status)) => match tries.next() {
                    Some(delay) => sleep(delay).await,
                    None => return Err(ended(&plan, status)),
                },
            }
        }
    }

    /// Brings a schema up to date.
    async fn migrate(&self, name: &'static str, database: &str) -> Result<(), Error> {
        let plan = self.services.migration(name, database);
        let mut process = Process::start(&plan, &self.tether)?;
        let failed = |why: String| {
            let (log, tail) = (plan.log.display(), crate::dev::folder::tail(&plan.log));
            Error::setup(format!("migrations of {name} {why}; the end of {log}:\n{tail}"))
        };
        match timeout(MIGRATION_LIMIT, process.exited()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(failed(format!("failed ({status})"))),
            Ok(Err(e)) => Err(failed("cannot be waited for".to_owned()).because(e)),
            Err(_) => Err(failed(format!("took over {} s", MIGRATION_LIMIT.as_secs()))),
        }
    }

    fn connection(&self, urls: &Urls) -> Connection {
        Connection {
            control_plane: urls.control_plane.clone(),
            gateway: urls.gateway.clone(),
            console: String::new(),
            nats: urls.nats.clone(),
            database: urls.database.clone(),
            token: self.secrets.operator_token.clone(),
            data: self.folder.path().to_owned(),
            pids: BTreeMap::new(),
        }
    }
}

/// Starts a service again whenever it ends, on its port: the others know it by that.
async fn keep(service: &mut Running, with: &Starter<'_, '_>) -> Error {
    let delays = || Backoff::endless(Duration::from_millis(100), Duration::from_secs(10));
    let mut pause = delays();
    loop {
        let since = Instant::now();
        let status = match service.process.exited().await {
            Ok(status) => status.to_string(),
            Err(e) => format!("its end is not known: {e}"),
        };
        with.tell.ended(service.plan.name, &status);
        if since.elapsed() > LIVED {
            pause = delays();
        }
        loop {
            sleep(pause.next().unwrap_or(LIVED)).await;
            match Process::start(&service.plan, &with.tether) {
                Ok(process) => {
                    service.process = process;
                    break;
                }
                Err(e) => {
                    tracing::warn!(error = %turnwright_kit::Chain(&e), "cannot start a service");
                }
            }
        }
        with.tell.restarted(service.plan.name, service.process.pid());
    }
}
