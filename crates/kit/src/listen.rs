//! Binding a listener, with an error that says which address and what to change.

use std::{io, net::SocketAddr};
use tokio::net::TcpListener;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; free it, or choose another with {variable}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The variable that chose it.
    pub variable: &'static str,
    /// Why.
    pub source: io::Error,
}

/// Listens on `address`, which `variable` chose.
///
/// # Errors
/// When the address is taken or not this machine's.
pub async fn bind(address: SocketAddr, variable: &'static str) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, variable, source })
}
