//! Runs turns: takes them from the queue, holds their lease, assembles the prompt, loops between
//! model and tools, and commits one outcome. It keeps nothing that another worker would miss: the
//! transcript is the gateway's, the ledger is the control plane's.

mod agent_loop;
mod claim;
mod commit;
mod config;
mod consumer;
mod context;
mod control;
mod convert;
mod envelope;
mod gateway;
mod lease;
mod progress;
mod resume;
mod running;
mod start;
mod tools;
mod turn;

pub use config::Config;

use lease::Keeper;
use running::Running;
use std::{error::Error as StdError, io, path::PathBuf, sync::Arc};
use tokio::{net::TcpListener, sync::Semaphore};
use tools::{Registry, workspace::Workspaces};
use turn::Worker;
use turnwright_kit::{
    OnExit, Supervisor,
    health::{self, Readiness},
};
use turnwright_types::WorkerIncarnation;

/// An error of any kind, as the source of another.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another part was not reached in time.
    #[error("cannot reach the {part} at {url}; start it, or correct {variable}")]
    Unreachable {
        /// Which part.
        part: &'static str,
        /// Its address, without credentials.
        url: String,
        /// The variable that holds the address.
        variable: &'static str,
        /// What the last try said.
        #[source]
        source: BoxError,
    },
    /// An address or token that no client can use.
    #[error("{variable} cannot be used")]
    Unusable {
        /// The variable that holds it.
        variable: &'static str,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The folder of workspaces cannot be used, or its files cannot be confined.
    #[error(
        "workspaces cannot be kept in {}; set {} to a folder this process may write, on Linux 5.6 \
         or later",
        .path.display(), config::WORKSPACES
    )]
    Workspaces {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Starts a worker on `sup` and returns once it takes turns.
///
/// # Errors
/// When a part it needs was not reached within the start timeout, or the configuration names
/// something that cannot be used.
pub async fn serve(config: Config, listener: TcpListener, sup: &Supervisor) -> Result<(), Error> {
    let ready = Readiness::default();
    let router = health::router(ready.clone());
    sup.spawn("health", OnExit::StopProcess, move |stop| health::serve(listener, router, stop));

    let workspaces = Workspaces::prepare(&config.workspaces)
        .map_err(|source| Error::Workspaces { path: config.workspaces.clone(), source })?;
    let incarnation = WorkerIncarnation::new();
    let reached = start::reach(&config, incarnation).await?;
    let running = Running::default();
    let slots = Arc::new(Semaphore::new(usize::from(config.slots)));
    let (keeper, lease) = Keeper::new(
        reached.control.clone(),
        running.clone(),
        incarnation,
        config.pool.clone(),
        reached.renewal,
    );
    let all = slots.clone();
    sup.spawn("lease", OnExit::StopProcess, move |stop| {
        keeper.run(all, u32::from(config.slots), stop)
    });
    let tasks = sup.scoped().clone();
    let worker = Arc::new(Worker {
        tools: Registry::new(reached.control.clone(), tasks.clone()),
        control: reached.control,
        gateway: reached.gateway,
        nats: reached.nats,
        workspaces,
        running,
        lease,
        incarnation,
        pool: config.pool,
        tasks,
    });
    let is_ready = ready.clone();
    sup.spawn("consumer", OnExit::StopProcess, move |stop| async move {
        let end = consumer::run(worker, reached.consumer, slots, stop).await;
        is_ready.set(false);
        end
    });
    ready.set(true);
    tracing::info!(worker.id = %incarnation, slots = config.slots, "worker takes turns");
    Ok(())
}
