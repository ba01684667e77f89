//! What the process reads from its environment, checked as a whole.

use secrecy::SecretString;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use turnwright_kit::{NatsUrl, config::Env};

/// How the console adapter runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// The NATS server.
    pub nats_url: NatsUrl,
    /// The bearer token that clients must send.
    pub token: SecretString,
    /// The file that holds the messages.
    pub journal: PathBuf,
    /// How long start-up waits for NATS.
    pub start_timeout: Duration,
}

impl Config {
    /// Reads `TURNWRIGHT_CONSOLE_LISTEN`, `TURNWRIGHT_CONSOLE_TOKEN`, `TURNWRIGHT_CONSOLE_JOURNAL`,
    /// `TURNWRIGHT_NATS_URL` and `TURNWRIGHT_START_TIMEOUT_MS`; notes problems in `env`.
    #[must_use]
    pub fn from_env(env: &mut Env) -> Self {
        let nats_url = NatsUrl::from_env(env, "TURNWRIGHT_NATS_URL");
        let token = env.required("TURNWRIGHT_CONSOLE_TOKEN", "the bearer token clients must send");
        let journal =
            env.required("TURNWRIGHT_CONSOLE_JOURNAL", "the file that holds the messages");
        Self {
            listen: env
                .listen("TURNWRIGHT_CONSOLE_LISTEN", SocketAddr::from((Ipv4Addr::LOCALHOST, 7004))),
            nats_url,
            token: token.into(),
            journal: PathBuf::from(journal),
            start_timeout: env.millis("TURNWRIGHT_START_TIMEOUT_MS", Duration::from_secs(30)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_environment_names_everything_it_lacks() {
        let mut env = Env::of([]);
        let _ = Config::from_env(&mut env);
        assert_eq!(env.finish(()).unwrap_err().0.len(), 3);
    }
}
