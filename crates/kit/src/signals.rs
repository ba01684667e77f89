//! The operating system's wish that the process end.

use std::io;
use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first SIGTERM or SIGINT after this call.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn termination() -> io::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
    })
}
