//! Free TCP ports on the loopback address. A port that was free may be taken a moment later, so
//! servers are tried again with another one.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

use crate::ServerError;

/// How many ports are tried when the caller named none.
const TRIES: u32 = 3;

/// The port that was asked for, if it is free, or else any free one.
pub(crate) fn choose(server: &'static str, wanted: Option<u16>) -> Result<u16, ServerError> {
    match wanted {
        Some(port) if is_taken(port) => Err(ServerError::PortTaken { server, port }),
        Some(port) => Ok(port),
        None => pick().map_err(|source| ServerError::NoPort { server, source }),
    }
}

/// How often a start is tried: another port helps only if the caller left the choice to us.
pub(crate) fn tries(wanted: Option<u16>) -> u32 {
    if wanted.is_some() { 1 } else { TRIES }
}

fn pick() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether somebody listens on `port` now.
pub(crate) fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::{choose, is_taken, pick};

    #[test]
    fn a_port_is_taken_while_somebody_listens() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_taken(port));
        assert!(choose("test", Some(port)).is_err());
        assert_ne!(pick().unwrap(), port);
        drop(listener);
        assert!(!is_taken(port));
    }
}
