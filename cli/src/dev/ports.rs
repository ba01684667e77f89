//! The ports of one data folder: chosen free at the first start, kept for the next ones, chosen
//! anew where somebody else listens by then.

use crate::{Error, connection::write_private, dev::folder::Folder};
use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
};

/// Ports by service.
#[derive(Debug)]
pub struct Ports {
    path: PathBuf,
    known: BTreeMap<String, u16>,
}

impl Ports {
    /// Those that the folder remembers. A file that is not readable is as none: ports are no truth.
    #[must_use]
    pub fn of(folder: &Folder) -> Self {
        let path = folder.join("ports.json");
        let known = fs::read_to_string(&path).ok();
        let known = known.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { path, known }
    }

    /// A port for a service that nobody listens on: its last one if that is free. It may be taken
    /// before the service listens; then this chooses another.
    ///
    /// # Errors
    /// When no port is free, or the choice cannot be kept.
    pub fn choose(&mut self, service: &str) -> Result<u16, Error> {
        if let Some(port) = self.remembered(service) {
            return Ok(port);
        }
        let port = free(0).ok_or_else(|| Error::setup("no port is free on 127.0.0.1"))?;
        self.remember(service, port)?;
        Ok(port)
    }

    /// The last port of a service, if it is free.
    #[must_use]
    pub fn remembered(&self, service: &str) -> Option<u16> {
        self.known.get(service).copied().and_then(free)
    }

    /// Keeps the port of a service for the next start.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn remember(&mut self, service: &str, port: u16) -> Result<(), Error> {
        if self.known.insert(service.to_owned(), port) == Some(port) {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&self.known)
            .map_err(|e| Error::setup("cannot write the ports as json").because(e))?;
        write_private(&self.path, &text)
    }
}

/// The port, or any for 0, if one can listen on it now.
fn free(port: u16) -> Option<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(listener.local_addr().ok()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_kept_until_somebody_else_listens_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        let first = Ports::of(&folder).choose("worker").unwrap();
        assert_eq!(Ports::of(&folder).choose("worker").unwrap(), first);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        let other = Ports::of(&folder).choose("worker").unwrap();
        assert_ne!(other, first);
        assert_eq!(Ports::of(&folder).remembered("worker"), Some(other));
    }

    #[test]
    fn a_damaged_file_is_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        fs::write(folder.join("ports.json"), "{").unwrap();
        assert!(Ports::of(&folder).choose("worker").is_ok());
    }
}
