//! The gRPC edge: every handler parses, calls one use case and renders. Health and reflection
//! stand beside the services; everything but health wants a token.

mod admin;
mod broker;
mod ledger;

use crate::{
    Config, Error, broker::Broker, dispatch::Dispatch, reaper::Health, snapshot::Snapshots,
};
use secrecy::ExposeSecret as _;
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use turnwright_control_store::Store;
use turnwright_kit::{
    OnExit, Supervisor,
    agent_token::Signer,
    auth::{RequireToken, Role, Tokens},
    trace,
};
use turnwright_proto::{
    DESCRIPTOR, MAX_MESSAGE_BYTES,
    v1::{
        admin_server::AdminServer,
        agent_conversation_context_broker_server::AgentConversationContextBrokerServer,
        turn_ledger_server::TurnLedgerServer,
    },
};

/// What the handlers share.
pub(crate) struct Services {
    pub store: Store,
    pub broker: Arc<Broker>,
    pub snapshots: Arc<Snapshots>,
    pub dispatch: Dispatch,
    pub signer: Signer,
    pub health: Health,
    pub lease: Duration,
}

/// Health is asked by probes, which hold no token.
const OPEN: &[&str] = &["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];

pub(crate) async fn serve(
    s: Services,
    config: &Config,
    listener: TcpListener,
    sup: &Supervisor,
) -> Result<(), Error> {
    let boxed = |e: Box<dyn std::error::Error + Send + Sync>| Error::Listen(e);
    let tokens = Tokens::new([
        (config.operator_token.expose_secret(), Role::Operator),
        (config.service_token.expose_secret(), Role::Service),
    ]);
    let broker = AgentConversationContextBrokerServer::new(broker::BrokerApi::new(s.broker));
    let ledger = TurnLedgerServer::new(ledger::LedgerApi::new(
        s.store.clone(),
        s.dispatch,
        s.snapshots,
        s.signer,
        s.health,
        s.lease,
    ));
    let admin = AdminServer::new(admin::AdminApi::new(s.store))
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<TurnLedgerServer<ledger::LedgerApi>>().await;
    reporter.set_serving::<AgentConversationContextBrokerServer<broker::BrokerApi>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .build_v1()
        .map_err(|e| boxed(Box::new(e)))?;
    let router = tonic::transport::Server::builder()
        .concurrency_limit_per_connection(256)
        .timeout(Duration::from_secs(30))
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .trace_fn(|request| {
            let span = tracing::info_span!(
                "rpc",
                otel.kind = "server",
                rpc.method = request.uri().path(),
                otel.name = request.uri().path()
            );
            let parent = request.headers().get(trace::HEADER).and_then(|v| v.to_str().ok());
            trace::adopt(&span, parent);
            span
        })
        .layer(RequireToken { tokens, open_paths: OPEN })
        .add_service(broker)
        .add_service(ledger)
        .add_service(admin)
        .add_service(health)
        .add_service(reflection);
    sup.spawn("grpc", OnExit::StopProcess, |stop| async move {
        // Small frames must not wait for the acknowledgement of the one before (RFC 896).
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let grace = stop.clone();
        let server = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
        // Idle keep-alive connections do not end by themselves.
        tokio::select! {
            end = server => Ok(end?),
            () = async { grace.cancelled().await; tokio::time::sleep(Duration::from_secs(2)).await } => Ok(()),
        }
    });
    Ok(())
}
