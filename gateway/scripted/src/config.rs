//! Command line and environment, turned into what the server needs. It must not start anything.
use crate::{Error, Gates, Rules};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A model provider that answers from a rule file, for demos and tests.
#[derive(Debug, clap::Parser)]
#[command(name = "turnwright-scripted", version)]
pub struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, env = "TURNWRIGHT_SCRIPTED_LISTEN", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Rule file (YAML); without it the shipped demo rules answer
    #[arg(long, env = "TURNWRIGHT_SCRIPTED_RULES")]
    pub rules: Option<PathBuf>,
    /// File that every raw request body is appended to
    #[arg(long, env = "TURNWRIGHT_SCRIPTED_REQUESTS")]
    pub requests: PathBuf,
    /// Name of the environment variable that holds the bearer token of clients
    #[arg(long, default_value = "TURNWRIGHT_SCRIPTED_TOKEN")]
    pub token_env: String,
    /// File that the port is written to once the listener is open
    #[arg(long)]
    pub port_file: Option<PathBuf>,
}

impl Args {
    /// Reads the rule file and the token.
    ///
    /// # Errors
    /// [`Error::NoToken`], [`Error::ReadRules`] or [`Error::Rules`].
    pub fn config(&self) -> Result<Config, Error> {
        let token = std::env::var_os(&self.token_env)
            .and_then(|token| Token::parse(token.to_str()?))
            .ok_or_else(|| Error::NoToken { variable: self.token_env.clone() })?;
        let rules = match &self.rules {
            Some(path) => read_rules(path)?,
            None => Rules::demo()?,
        };
        Ok(Config::new(rules, &self.requests, token))
    }

    /// Writes the port to the port file, if one was asked for; readers never see half of it.
    ///
    /// # Errors
    /// [`Error::WritePort`].
    pub fn write_port(&self, port: u16) -> Result<(), Error> {
        let Some(path) = &self.port_file else { return Ok(()) };
        let mut part = path.clone().into_os_string();
        part.push(".part");
        std::fs::write(&part, format!("{port}\n"))
            .and_then(|()| std::fs::rename(&part, path))
            .map_err(|source| Error::WritePort { path: path.clone(), source })
    }
}

fn read_rules(path: &Path) -> Result<Rules, Error> {
    let yaml = std::fs::read_to_string(path)
        .map_err(|source| Error::ReadRules { path: path.to_owned(), source })?;
    Ok(Rules::parse(&yaml)?)
}

/// What a server answers from, where it records, and whom it lets in.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) rules: Arc<Rules>,
    pub(crate) requests: PathBuf,
    pub(crate) token: Token,
    pub(crate) gates: Gates,
}

impl Config {
    /// `requests` is the file that request bodies are appended to; it is made if absent.
    pub fn new(rules: Rules, requests: impl Into<PathBuf>, token: Token) -> Self {
        let gates = Gates::named(rules.gate_names());
        Self { rules: Arc::new(rules), requests: requests.into(), token, gates }
    }

    /// The gates of the rules, to open and watch them from the same process.
    pub fn gates(&self) -> Gates {
        self.gates.clone()
    }
}

/// The bearer token that clients must send; only its digest is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    sha256: String,
}

impl Token {
    /// `None` if `text` is empty or blank.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self { sha256: sha256(text) })
    }

    /// Whether `sent` is this token. Digests are compared, so the time taken tells nothing of the token.
    pub(crate) fn admits(&self, sent: &str) -> bool {
        sha256(sent) == self.sha256
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, token_env: &str) -> Args {
        Args {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            rules: None,
            requests: dir.join("requests.jsonl"),
            token_env: token_env.to_owned(),
            port_file: Some(dir.join("port")),
        }
    }

    #[test]
    fn there_is_no_configuration_without_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let missing = "TURNWRIGHT_SCRIPTED_TEST_NEVER_SET";
        let end = args(dir.path(), missing).config();
        assert!(matches!(end, Err(Error::NoToken { variable }) if variable == missing));
        assert_eq!(Token::parse(" \n"), None);
        assert!(args(dir.path(), "PATH").config().is_ok());
    }

    #[test]
    fn the_port_file_holds_the_port() {
        let dir = tempfile::tempdir().unwrap();
        args(dir.path(), "PATH").write_port(4711).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("port")).unwrap(), "4711\n");
    }

    #[test]
    fn a_token_is_never_shown_and_admits_only_itself() {
        let token = Token::parse("secret\n").unwrap();
        assert!(token.admits("secret"));
        assert!(!token.admits("secre"));
        assert!(!format!("{token:?}").contains(&token.sha256));
    }
}
