//! The gateway's configuration.

use crate::{models::Models, upstream::Patience};
use secrecy::SecretString;
use std::{net::SocketAddr, time::Duration};
use turnwright_kit::{agent_token::Verifier, config::Env};
use turnwright_types::AgentClaims;

/// Everything a gateway is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where HTTP listens.
    pub listen: SocketAddr,
    /// A login that is a member of `turnwright_gateway`.
    pub database_url: SecretString,
    /// The most connections to the database.
    pub database_connections: u32,
    /// The models that can be asked for.
    pub models: Models,
    /// What operators and ordinary clients present.
    pub operator_token: SecretString,
    /// Checks agent tokens: the control plane's public key, 32 bytes in base64url.
    pub agent_token_public_key: String,
    /// How long to wait for PostgreSQL at the start.
    pub start_timeout: Duration,
    /// How long providers may take.
    pub patience: Patience,
    /// Limits of the listener and of the shutdown.
    pub limits: Limits,
}

/// What bounds a gateway.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests and generations at a time; further ones are answered 503.
    pub in_flight: usize,
    /// Client connections at a time.
    pub connections: usize,
    /// How long a generation may go on once the process is to stop; less than the process's grace.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: 1024, connections: 4096, drain: Duration::from_secs(7) }
    }
}

impl Config {
    /// Reads the environment and the models file; problems are noted in `env`.
    pub fn from_env(env: &mut Env) -> Self {
        let models = env.required("TURNWRIGHT_GATEWAY_MODELS", "the path of a models.yaml");
        let models = if models.is_empty() { Models::default() } else { Models::load(&models, env) };
        let key = "TURNWRIGHT_AGENT_TOKEN_PUBLIC_KEY";
        let agent_token_public_key =
            env.required(key, "the public key of the control plane's agent tokens");
        if !agent_token_public_key.is_empty()
            && let Err(e) = Verifier::new(&agent_token_public_key, AgentClaims::AUDIENCE)
        {
            env.problem(key, e);
        }
        let (patience, limits) = (Patience::default(), Limits::default());
        Self {
            listen: env.listen("TURNWRIGHT_GATEWAY_LISTEN", ([127, 0, 0, 1], 7002).into()),
            database_url: env
                .required(
                    "TURNWRIGHT_GATEWAY_DATABASE_URL",
                    "postgres://user:password@host:port/database",
                )
                .into(),
            database_connections: env.parsed(
                "TURNWRIGHT_GATEWAY_DATABASE_CONNECTIONS",
                16,
                "a number of connections",
            ),
            models,
            operator_token: env
                .required("TURNWRIGHT_OPERATOR_TOKEN", "a random token of at least 32 characters")
                .into(),
            agent_token_public_key,
            start_timeout: env.millis("TURNWRIGHT_START_TIMEOUT_MS", Duration::from_secs(30)),
            patience: Patience {
                connect: env.millis("TURNWRIGHT_GATEWAY_CONNECT_TIMEOUT_MS", patience.connect),
                first_byte: env
                    .millis("TURNWRIGHT_GATEWAY_FIRST_BYTE_TIMEOUT_MS", patience.first_byte),
                idle: env.millis("TURNWRIGHT_GATEWAY_IDLE_TIMEOUT_MS", patience.idle),
            },
            limits: Limits {
                in_flight: env.parsed("TURNWRIGHT_GATEWAY_IN_FLIGHT", limits.in_flight, "a number"),
                connections: env.parsed(
                    "TURNWRIGHT_GATEWAY_CONNECTIONS",
                    limits.connections,
                    "a number",
                ),
                drain: env.millis("TURNWRIGHT_GATEWAY_DRAIN_MS", limits.drain),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_kit::config::ConfigError;

    #[test]
    fn every_missing_variable_is_named() {
        let mut env = Env::of([]);
        let config = Config::from_env(&mut env);
        let ConfigError(problems) = env.finish(config).unwrap_err();
        let named: Vec<_> = problems.iter().filter_map(|p| p.split(':').next()).collect();
        assert_eq!(
            named,
            [
                "TURNWRIGHT_GATEWAY_MODELS",
                "TURNWRIGHT_AGENT_TOKEN_PUBLIC_KEY",
                "TURNWRIGHT_GATEWAY_DATABASE_URL",
                "TURNWRIGHT_OPERATOR_TOKEN",
            ]
        );
    }
}
