//! The console adapter: a small durable message store that is its own provider, its HTTP interface,
//! and the two ways between it and NATS: signals in, deliveries out.

mod deliveries;
mod events;
mod http;
mod hub;
mod incoming;
mod journal;
mod lane;
mod order;
mod progress;
mod recent;
mod refusal;
mod routes;
mod signals;

pub use journal::JournalError;

use crate::{Config, Error, bindings::Bindings, transport::Nats};
use secrecy::ExposeSecret as _;
use std::sync::Arc;
use tokio::net::TcpListener;
use turnwright_kit::{
    OnExit, Supervisor,
    auth::{Role, Tokens},
    health::{self, Readiness},
};
use turnwright_types::{AdapterName, subjects};

/// The adapter kind, a token of every subject the console uses.
const ADAPTER: &str = "console";

/// Starts the console on `listener`; returns once it answers requests.
///
/// # Errors
/// When the journal cannot be used, or NATS is not there within the start timeout.
pub async fn serve(config: Config, listener: TcpListener, sup: &Supervisor) -> Result<(), Error> {
    let adapter = AdapterName::parse(ADAPTER)?;
    let hub = Arc::new(hub::Hub::default());
    let (journal, writer) = journal::open(config.journal, hub.clone()).await?;
    let routes = Arc::new(routes::Routes::default());
    journal.each(|lane, message| routes.learn_from(lane, message));

    let nats = Nats::connect(&config.nats_url, crate::SERVICE, config.start_timeout).await?;
    // Subscribed before the first signal is published on the same connection, so that no turn is
    // ahead of it.
    let progress = nats.client().subscribe(subjects::TURN_PROGRESS_ALL).await?;
    let bindings = Arc::new(Bindings::new(nats.clone(), adapter.clone()));
    let ready = Readiness::default();

    sup.spawn("journal", OnExit::StopProcess, |stop| writer.run(stop));
    sup.spawn("progress", OnExit::StopProcess, |stop| {
        progress::run(progress, routes.clone(), hub.clone(), stop)
    });
    let deliveries = deliveries::Deliveries {
        nats: nats.clone(),
        adapter: adapter.clone(),
        bindings: bindings.clone(),
        journal: journal.clone(),
        routes: routes.clone(),
        ready: ready.clone(),
    };
    deliveries.start(sup);

    let order = order::OrderKeys::after(journal.last_order_key().as_deref());
    let signals =
        signals::Signals { nats, adapter, bindings: bindings.clone(), journal, routes, order };
    let tokens = Tokens::new([(config.token.expose_secret(), Role::Operator)]);
    let console = http::Console::new(signals, bindings, hub, sup.token());
    let router = http::router(console, tokens, ready);
    sup.spawn("http", OnExit::StopProcess, |stop| health::serve(listener, router, stop));
    Ok(())
}
