//! `nats://TOKEN@host:port` taken apart: the client library does not read credentials from a URL.

use crate::config::Env;
use std::fmt;

/// Where a nats-server listens, and what it wants to be shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NatsUrl {
    /// The URL without credentials.
    pub address: String,
    user: String,
    password: Option<String>,
}

/// What a client shows to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// Nothing.
    None,
    /// A token.
    Token(&'a str),
    /// A user and a password.
    User(&'a str, &'a str),
}

impl NatsUrl {
    /// Takes a URL apart.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (shown, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        if !matches!(scheme, "nats" | "tls") || host.is_empty() {
            return None;
        }
        let (user, password) = match shown.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (shown, None),
        };
        Some(Self { address: format!("{scheme}://{host}"), user: user.to_owned(), password })
    }

    /// Reads a required variable.
    pub fn from_env(env: &mut Env, key: &str) -> Self {
        let raw = env.required(key, "nats://TOKEN@host:port");
        match Self::parse(&raw) {
            Some(url) => url,
            None if raw.is_empty() => Self::default(),
            None => {
                env.problem(key, "expected nats://TOKEN@host:port");
                Self::default()
            }
        }
    }

    /// What to show to the server.
    #[must_use]
    pub fn credentials(&self) -> Credentials<'_> {
        match (self.user.as_str(), &self.password) {
            (user, Some(password)) => Credentials::User(user, password),
            ("", None) => Credentials::None,
            (token, None) => Credentials::Token(token),
        }
    }
}

impl fmt::Display for NatsUrl {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl fmt::Debug for NatsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NatsUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, NatsUrl};

    #[test]
    fn credentials_are_taken_and_never_shown() {
        let url = NatsUrl::parse("nats://s3cret@h:4222").unwrap();
        assert_eq!(url.address, "nats://h:4222");
        assert_eq!(url.credentials(), Credentials::Token("s3cret"));
        assert!(!format!("{url} {url:?}").contains("s3cret"));
        let url = NatsUrl::parse("tls://u:p@h:4222").unwrap();
        assert_eq!(url.credentials(), Credentials::User("u", "p"));
        assert_eq!(NatsUrl::parse("nats://h:1").unwrap().credentials(), Credentials::None);
        assert_eq!(NatsUrl::parse("http://h:1"), None);
        assert_eq!(NatsUrl::parse("nats://t@"), None);
    }
}
