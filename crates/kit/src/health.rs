//! `/healthz` (the process runs) and `/readyz` (it can do its work) for services whose only
//! listener is this one. Answers carry nothing but the words, so they need no token.

use axum::{Router, http::StatusCode, routing::get, serve::ListenerExt as _};
use std::{
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the service can do its work now. Starts as not ready.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether it can.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// Whether it can.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The two routes, to merge into a larger router or to serve alone.
pub fn router(ready: Readiness) -> Router {
    let readyz = move || async move {
        if ready.get() {
            (StatusCode::OK, "ready")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready")
        }
    };
    Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(readyz))
}

/// Serves a router until stopped; connections still open get two seconds to end.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let grace = stop.clone();
    let listener = listener.tap_io(|stream| {
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!(error = %e, "small writes may be delayed");
        }
    });
    let server = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    tokio::select! {
        end = server.into_future() => Ok(end?),
        () = async { grace.cancelled().await; tokio::time::sleep(Duration::from_secs(2)).await } => Ok(()),
    }
}
