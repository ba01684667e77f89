//! A whole installation for one test: a database, a nats-server, the scripted upstream and every
//! service, started through the same `serve` that their programs call.

mod parts;
mod read;
mod talk;

pub use parts::{DEMO_RULES, Keys, Service, WorkerProcess};
pub use talk::Reply;

use crate::{TestDatabase, database::binaries};
use parts::{env, start};
use std::path::{Path, PathBuf};
use turnwright_kit::{Outcome, Supervisor};
use turnwright_servers::{Nats, NatsOptions};

/// What a test wants of its installation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules of the scripted upstream, in YAML.
    pub rules: String,
    /// Whether a worker runs in this process; a test that kills workers starts programs instead.
    pub worker: bool,
    /// Extra variables of every service.
    pub vars: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rules: DEMO_RULES.to_owned(), worker: true, vars: Vec::new() }
    }
}

impl Options {
    /// With these rules.
    #[must_use]
    pub fn rules(rules: &str) -> Self {
        Self { rules: rules.to_owned(), ..Self::default() }
    }

    /// Without a worker in this process.
    #[must_use]
    pub fn without_worker(mut self) -> Self {
        self.worker = false;
        self
    }
}

/// An installation.
pub struct TestCluster {
    /// Its database.
    pub database: TestDatabase,
    /// Its nats-server.
    pub nats: Nats,
    /// The gates of the scripted upstream's rules.
    pub gates: turnwright_scripted::Gates,
    /// The console.
    pub console: turnwright_adapters::client::Client,
    /// The control plane's insides.
    pub control: turnwright_control_plane::Handle,
    /// Its secrets and addresses.
    pub keys: Keys,
    services: Vec<(Service, Supervisor)>,
    folder: tempfile::TempDir,
    options: Options,
}

impl TestCluster {
    /// Starts an installation with one agent, `ada`, on the scripted model.
    ///
    /// # Panics
    /// When a part does not start.
    pub async fn start(options: Options) -> Self {
        // The second test of a process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().expect("temporary folder");
        let (database, nats) = tokio::join!(TestDatabase::new(), async {
            let options = NatsOptions::throw_away(&folder.path().join("nats"));
            Nats::start(&binaries(), options).await.unwrap_or_else(|e| panic!("{e}"))
        });
        let mut keys = Keys::new(folder.path(), &database, &nats, &options.vars);
        let mut services = Vec::new();

        let (sup, gates) = start::scripted(&mut keys, &options.rules).await;
        services.push((Service::Scripted, sup));
        let (sup, control) = start::control_plane(&mut keys).await;
        services.push((Service::ControlPlane, sup));
        let client = talk::admin(&keys).await;
        talk::apply(client, &parts::test_agent(), None).await.expect("apply the test agent");
        services.push((Service::Gateway, start::gateway(&mut keys).await));
        services.push((Service::Adapters, start::adapters(&mut keys).await));
        if options.worker {
            services.push((Service::Worker, start::worker(&mut keys).await));
        }
        let console =
            turnwright_adapters::client::Client::new(&keys.console_url, keys.operator.clone())
                .expect("console client");
        Self { database, nats, gates, console, control, keys, services, folder, options }
    }

    /// The folder of this installation's files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Every request the scripted upstream got, one JSON a line.
    #[must_use]
    pub fn requests_file(&self) -> PathBuf {
        self.folder.path().join("requests.jsonl")
    }

    /// Starts a worker program, to be killed.
    #[must_use]
    pub fn spawn_worker(&self) -> WorkerProcess {
        WorkerProcess::spawn(env(&self.keys, &self.options.vars))
    }

    /// Stops one service and asserts that it stops cleanly.
    ///
    /// # Panics
    /// When it is not there or does not stop.
    pub async fn stop(&mut self, service: Service) {
        let at = self.services.iter().position(|(s, _)| *s == service).expect("service runs");
        let (_, sup) = self.services.remove(at);
        stop(service, sup).await;
    }

    /// Starts a service that was stopped, at its old address.
    pub async fn restart(&mut self, service: Service) {
        let sup = match service {
            Service::ControlPlane => {
                let (sup, control) = start::control_plane(&mut self.keys).await;
                self.control = control;
                sup
            }
            Service::Gateway => start::gateway(&mut self.keys).await,
            Service::Adapters => start::adapters(&mut self.keys).await,
            Service::Worker => start::worker(&mut self.keys).await,
            Service::Scripted => panic!("the scripted upstream is not restarted"),
        };
        self.services.push((service, sup));
    }

    /// Every test ends with this: the ledger holds, and every task stops.
    ///
    /// # Panics
    /// When the ledger check finds a violation or a task outlives its stop.
    pub async fn finish(self) {
        let violations = self.violations().await;
        assert!(violations.is_empty(), "the ledger does not hold: {violations:#?}");
        self.finish_with_violations().await;
    }

    /// As [`TestCluster::finish`], for tests that seed defects.
    ///
    /// # Panics
    /// When a task outlives its stop.
    pub async fn finish_with_violations(mut self) {
        // Those that need others go first.
        while let Some((service, sup)) = self.services.pop() {
            stop(service, sup).await;
        }
        self.nats.stop().await.unwrap_or_else(|e| panic!("{e}"));
        self.control.store.close().await;
        self.database.drop().await;
    }
}

async fn stop(service: Service, sup: Supervisor) {
    let end = sup.run_until(async {}, std::time::Duration::from_secs(15)).await;
    assert_eq!(end, Outcome::Clean, "{service:?} stops");
}
