//! One turn is one trace, across NATS, gRPC and HTTP, and leaves by OTLP.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use turnwright_kit::telemetry;
use turnwright_tests::{TestCluster, cluster::Options, eventually};

/// Span names by trace id.
type Traces = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

#[derive(Clone, Default)]
struct Sink(Traces);

#[tonic::async_trait]
impl TraceService for Sink {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.into_inner().resource_spans.into_iter();
        for span in spans.flat_map(|r| r.scope_spans).flat_map(|s| s.spans) {
            self.0.lock().entry(hex::encode(&span.trace_id)).or_default().insert(span.name);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_of_a_turn_is_in_one_trace() {
    let sink = Sink::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(sink.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
    let server = tokio::spawn(server);
    let guard = telemetry::init(&telemetry::Config {
        service: "turnwright-test",
        filter: "info".into(),
        json: false,
        otlp_endpoint: Some(endpoint),
    })
    .unwrap();
    let cluster = TestCluster::start(Options::default()).await;
    cluster.ask("main", "hello").await;
    cluster.settled().await;
    let traceparent: String = cluster.value("select traceparent from control.turns").await;
    let trace = turnwright_kit::trace::trace_id(&traceparent).unwrap();
    let guard = Arc::new(guard);
    let spans = eventually("every part has told its span", Duration::from_secs(20), || async {
        let guard = guard.clone();
        tokio::task::spawn_blocking(move || guard.flush()).await.unwrap();
        let spans = sink.0.lock().get(&trace).cloned().unwrap_or_default();
        let has = |part: &str| spans.iter().any(|s| s.contains(part));
        // adapter, admission, ledger over gRPC, worker, model call in worker and gateway, delivery
        let wanted = [
            "POST",
            "admit",
            "ClaimTurn",
            "turn",
            "chat",
            "/v1/responses",
            "CompleteTurn",
            "deliver",
        ];
        let missing: Vec<_> = wanted.iter().filter(|p| !has(p)).collect();
        if missing.is_empty() { Ok(spans) } else { Err(format!("without {missing:?}: {spans:?}")) }
    })
    .await;
    assert!(spans.len() >= 8);
    cluster.finish().await;
    server.abort();
}
