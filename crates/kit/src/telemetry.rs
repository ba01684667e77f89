//! Logs to standard error and, with an endpoint set, spans over OTLP. One `init`, one guard.

use crate::config::Env;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use std::io::IsTerminal as _;
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _};

/// How a process tells what it does.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `service.name` of its spans.
    pub service: &'static str,
    /// `tracing` filter directives; ours are kept at `info` or finer so that spans exist.
    pub filter: String,
    /// JSON lines instead of text.
    pub json: bool,
    /// Where spans go (OTLP over gRPC), if anywhere.
    pub otlp_endpoint: Option<String>,
}

impl Config {
    /// Reads `TURNWRIGHT_LOG`, `TURNWRIGHT_LOG_FORMAT` and `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn from_env(service: &'static str, env: &mut Env) -> Self {
        let json = match env.get("TURNWRIGHT_LOG_FORMAT") {
            Some("json") => true,
            Some("text") | None => false,
            Some(other) => {
                let why = format!("expected `text` or `json`, found `{other}`");
                env.problem("TURNWRIGHT_LOG_FORMAT", why);
                false
            }
        };
        Self {
            service,
            filter: env.get("TURNWRIGHT_LOG").unwrap_or("info").to_owned(),
            json,
            otlp_endpoint: env.get("OTEL_EXPORTER_OTLP_ENDPOINT").map(str::to_owned),
        }
    }
}

/// Flushes what is still to be exported when the process ends.
#[derive(Debug, Default)]
pub struct Guard(Option<SdkTracerProvider>);

impl Guard {
    /// Sends what is buffered and stops the exporter. Call it once, after the drain; may block for
    /// the exporter's own timeout.
    pub fn shutdown(self) {
        if let Some(provider) = self.0
            && let Err(e) = provider.shutdown()
        {
            tracing::warn!(error = %e, "spans were not flushed");
        }
    }

    /// Sends what is buffered now.
    pub fn flush(&self) {
        if let Some(provider) = &self.0
            && let Err(e) = provider.force_flush()
        {
            tracing::warn!(error = %e, "spans were not flushed");
        }
    }
}

/// Installs the process's subscriber. Must run inside a tokio runtime when an endpoint is set.
///
/// # Errors
/// When the filter is malformed, the exporter cannot be built, or a subscriber is there already.
pub fn init(config: &Config) -> anyhow::Result<Guard> {
    // One filter at the registry: per-layer filters lose spans of the finer layer. Transport crates
    // are off, or exporting a span would make spans.
    let filter =
        EnvFilter::try_new(format!("{},h2=off,hyper=off,tonic=off,tower=off", config.filter))?;
    let provider =
        config.otlp_endpoint.as_deref().map(|e| provider(config.service, e)).transpose()?;
    let spans = provider
        .as_ref()
        .map(|p| tracing_opentelemetry::layer().with_tracer(p.tracer("turnwright")));
    let text = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = if config.json { text.json().boxed() } else { text.boxed() };
    // Without an exporter trace ids still flow: they stand in headers and in the ledger.
    let local = provider.is_none().then(|| {
        let p = SdkTracerProvider::builder().build();
        tracing_opentelemetry::layer().with_tracer(p.tracer("turnwright"))
    });
    let subscriber =
        tracing_subscriber::registry().with(filter).with(spans).with(local).with(lines);
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(Guard(provider))
}

fn provider(service: &'static str, endpoint: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter =
        opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name(service).build())
        .build())
}
