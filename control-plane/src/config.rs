//! The control plane's configuration.

use secrecy::SecretString;
use std::{net::SocketAddr, time::Duration};
use turnwright_kit::{NatsUrl, config::Env};

/// Everything a control plane is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where gRPC listens.
    pub listen: SocketAddr,
    /// A login that is a member of `turnwright_control`.
    pub database_url: String,
    /// The nats-server.
    pub nats: NatsUrl,
    /// What operators present.
    pub operator_token: SecretString,
    /// What services present.
    pub service_token: SecretString,
    /// Signs agent tokens: 32 bytes in base64url.
    pub agent_token_seed: String,
    /// How long to wait for PostgreSQL and NATS at the start.
    pub start_timeout: Duration,
    /// How long a worker may be silent before its turns go to another.
    pub lease: Duration,
    /// Limits of the streams.
    pub streams: StreamLimits,
}

/// How JetStream keeps the three streams.
#[derive(Clone, Debug)]
pub struct StreamLimits {
    /// Copies of each; 3 in production.
    pub replicas: usize,
    /// Signals of one binding that may wait for admission.
    pub signals_per_binding: i64,
}

impl Config {
    /// Reads the environment; problems are noted in `env`.
    pub fn from_env(env: &mut Env) -> Self {
        let secret = |env: &mut Env, key| {
            SecretString::from(env.required(key, "a random token of at least 32 characters"))
        };
        Self {
            listen: env.listen("TURNWRIGHT_CONTROL_LISTEN", ([127, 0, 0, 1], 7001).into()),
            database_url: env.required(
                "TURNWRIGHT_CONTROL_DATABASE_URL",
                "postgres://user:password@host:port/database",
            ),
            nats: NatsUrl::from_env(env, "TURNWRIGHT_NATS_URL"),
            operator_token: secret(env, "TURNWRIGHT_OPERATOR_TOKEN"),
            service_token: secret(env, "TURNWRIGHT_SERVICE_TOKEN"),
            agent_token_seed: env
                .required("TURNWRIGHT_AGENT_TOKEN_SEED", "32 random bytes in base64url"),
            start_timeout: env.millis("TURNWRIGHT_START_TIMEOUT_MS", Duration::from_secs(30)),
            lease: env.millis("TURNWRIGHT_LEASE_MS", Duration::from_secs(3)),
            streams: StreamLimits {
                replicas: env.parsed("TURNWRIGHT_STREAM_REPLICAS", 1, "1, 3 or 5"),
                signals_per_binding: env.parsed(
                    "TURNWRIGHT_SIGNALS_PER_BINDING",
                    10_000,
                    "a number",
                ),
            },
        }
    }
}
