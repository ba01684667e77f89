//! The secrets of one data folder: made once, kept in a file that only its owner can read, told to
//! nobody but the services.

use crate::{Error, connection::write_private, dev::folder::Folder};
use serde::{Deserialize, Serialize};
use std::{fmt, fs, io};
use turnwright_kit::{agent_token, auth::new_token};
use turnwright_servers::random_secret;

/// Everything that signs in or signs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// What operators present, and in this mode also users of the console.
    pub operator_token: String,
    /// What services present to the control plane.
    pub service_token: String,
    /// What clients of NATS present.
    pub nats_token: String,
    /// The password of the database's owner.
    pub postgres_password: String,
    /// Signs agent tokens: 32 bytes in base64url.
    pub agent_token_seed: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// The folder's secrets; new ones in a new folder.
    ///
    /// # Errors
    /// When the file cannot be read or written. It is never replaced: the database knows the old
    /// password.
    pub fn of(folder: &Folder) -> Result<Self, Error> {
        let path = folder.join("secrets.json");
        let shown = path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| {
                Error::setup(format!("{shown} is damaged; restore it or use another data folder"))
                    .because(e)
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let made = Self::make();
                let text = serde_json::to_string_pretty(&made)
                    .map_err(|e| Error::setup(format!("cannot write {shown}")).because(e))?;
                write_private(&path, &text)?;
                Ok(made)
            }
            Err(e) => Err(Error::setup(format!("cannot read {shown}")).because(e)),
        }
    }

    fn make() -> Self {
        Self {
            operator_token: new_token(),
            service_token: new_token(),
            nats_token: random_secret(),
            postgres_password: random_secret(),
            agent_token_seed: agent_token::new_seed(),
        }
    }

    /// The key that checks agent tokens.
    ///
    /// # Errors
    /// When the seed is damaged.
    pub fn agent_token_public_key(&self) -> Result<String, Error> {
        agent_token::public_key(&self.agent_token_seed)
            .map_err(|e| Error::setup("the agent token seed in secrets.json is damaged").because(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_are_made_once_and_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        let made = Secrets::of(&folder).unwrap();
        assert_eq!(Secrets::of(&folder).unwrap(), made);
        assert!(made.agent_token_public_key().is_ok());
        let path = folder.join("secrets.json");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "{}").unwrap();
        assert_eq!(Secrets::of(&folder).unwrap_err().exit_code(), 2);
    }
}
