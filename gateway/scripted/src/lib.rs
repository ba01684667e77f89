//! The scripted model provider: rules in, OpenAI Chat Completions out. It must not know any other part of the product.
#![doc = include_str!("../README.md")]

mod answer;
mod config;
mod gates;
mod history;
mod http;
mod plan;
mod play;
mod record;
mod refusal;
mod request;
mod rules;
mod usage;

pub use config::{Args, Config, Token};
pub use gates::{GateState, Gates, UnknownGate};
pub use http::router;
pub use rules::{Rules, RulesError};

use axum::serve::ListenerExt as _;
use std::{io, path::PathBuf, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long open requests may take to end once the server was told to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Why the provider cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No token, or an empty one; `variable` is where it was looked for.
    #[error("no token: set {variable} to the bearer token that clients must send")]
    NoToken {
        /// The environment variable.
        variable: String,
    },
    /// The rule file cannot be read.
    #[error("cannot read rule file {}", .path.display())]
    ReadRules {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The rule file can be read but not used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The requests file cannot be opened for appending.
    #[error("cannot open requests file {}", .path.display())]
    OpenRequests {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The port file cannot be written.
    #[error("cannot write port file {}", .path.display())]
    WritePort {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The listener failed.
    #[error("cannot serve")]
    Serve(#[source] io::Error),
    /// Requests were still open when the time to stop was over.
    #[error("requests were still open {} s after the stop", STOP_GRACE.as_secs())]
    Overdue,
}

/// Answers on `listener` until `stop` is cancelled; open requests then end within seconds.
///
/// # Errors
/// [`Error::OpenRequests`] before anything is answered, [`Error::Serve`] if the listener fails,
/// [`Error::Overdue`] if requests outlive the stop.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), Error> {
    let app = router(&config, stop.clone())?;
    let listener = listener.tap_io(|stream| {
        // A client may measure the first byte; it must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
    });
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(stop.clone().cancelled_owned())
        .into_future();
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        end = served => end.map_err(Error::Serve),
        () = overdue => Err(Error::Overdue),
    }
}
