//! The control plane: durable truth for configuration, conversations and turns; dispatch to
//! workers and adapters; the context broker; the admin API. Everything it knows is in PostgreSQL:
//! any number of replicas may run, and each may be killed at any instant.

pub mod admission;
pub mod apply;
pub mod broker;
pub mod config;
pub mod dispatch;
pub mod error;
mod grpc;
mod readiness;
pub mod reaper;
pub mod rpc;
pub mod settings;
pub mod snapshot;
pub mod streams;

pub use config::Config;
pub use error::Error;

use crate::{
    broker::Broker,
    dispatch::{Dispatch, Reconnected},
    snapshot::Snapshots,
};
use std::sync::Arc;
use tokio::net::TcpListener;
use turnwright_control_store::{ContextStore, Store};
use turnwright_kit::{OnExit, Supervisor, agent_token::Signer};

/// What a running control plane lets its process or test look at.
#[derive(Clone, Debug)]
pub struct Handle {
    /// The broker, for its counters.
    pub broker: Arc<Broker>,
    /// The ledger.
    pub store: Store,
}

/// Connects to PostgreSQL and NATS, starts every task on `sup`, and returns once it serves.
///
/// # Errors
/// When PostgreSQL or NATS cannot be reached within the start timeout, or a key is malformed.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    sup: &Supervisor,
) -> Result<Handle, Error> {
    let store = readiness::store(&config).await?;
    let context = ContextStore::new(&config.database_url, 8)?;
    let reconnected = Reconnected::default();
    let nats = readiness::nats(&config, &reconnected).await?;
    let js = async_nats::jetstream::new(nats.clone());
    streams::ensure(&js, &config.streams).await?;
    let signer = Signer::from_seed(&config.agent_token_seed).map_err(Error::Key)?;
    let snapshots = Arc::new(Snapshots::new(store.clone()));
    let dispatch = Dispatch::new(
        store.clone(),
        js.clone(),
        snapshots.clone(),
        config.streams.clone(),
        reconnected,
    );
    let broker = Arc::new(Broker::new(context));

    let admission = admission::Admission::new(store.clone(), dispatch.clone());
    sup.spawn("admission", OnExit::StopProcess, {
        let js = js.clone();
        |stop| admission.run(js, stop)
    });
    sup.spawn("dispatch", OnExit::StopProcess, |stop| dispatch.clone().run(stop));
    let health = reaper::Health::default();
    sup.spawn("reaper", OnExit::StopProcess, {
        let reaper =
            reaper::Reaper::new(store.clone(), dispatch.clone(), config.lease, health.clone());
        |stop| reaper.run(stop)
    });
    sup.spawn("adapter-rpc", OnExit::StopProcess, {
        let rpc = rpc::AdapterRpc::new(nats, js, store.clone(), dispatch.clone());
        |stop| rpc.run(stop)
    });
    let services = grpc::Services {
        store: store.clone(),
        broker: broker.clone(),
        snapshots,
        dispatch,
        signer,
        health,
        lease: config.lease,
    };
    grpc::serve(services, &config, listener, sup).await?;
    Ok(Handle { broker, store })
}
