//! `nats://TOKEN@host:port` taken apart: the client library does not read credentials from a URL.

use crate::config::Env;
use std::fmt;

/// Where a nats-server listens, and the token it wants.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NatsUrl {
    /// `host:port`, or a URL without credentials.
    pub address: String,
    /// The token; empty when the server wants none.
    pub token: String,
}

impl NatsUrl {
    /// Takes a URL apart.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        if !matches!(scheme, "nats" | "tls") || rest.is_empty() {
            return None;
        }
        let (token, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        Some(Self { address: format!("{scheme}://{host}"), token: token.to_owned() })
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
}

impl fmt::Display for NatsUrl {
    /// Without the token.
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
    use super::NatsUrl;

    #[test]
    fn the_token_is_taken_and_never_shown() {
        let url = NatsUrl::parse("nats://s3cret@h:4222").unwrap();
        assert_eq!((url.address.as_str(), url.token.as_str()), ("nats://h:4222", "s3cret"));
        assert!(!format!("{url} {url:?}").contains("s3cret"));
        assert_eq!(NatsUrl::parse("nats://h:1").unwrap().token, "");
        assert_eq!(NatsUrl::parse("http://h:1"), None);
    }
}
