//! What a worker process is told by its environment. Knows no defaults of the agent loop: those
//! come with each turn.

use secrecy::SecretString;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use turnwright_kit::{NatsUrl, config::Env};
use turnwright_types::Pool;

/// The variable that names the control plane.
pub(crate) const CONTROL_URL: &str = "TURNWRIGHT_CONTROL_URL";
/// The variable that names the gateway.
pub(crate) const GATEWAY_URL: &str = "TURNWRIGHT_GATEWAY_URL";
/// The variable that names the NATS server.
pub(crate) const NATS_URL: &str = "TURNWRIGHT_NATS_URL";
/// The variable that names the folder of workspaces.
pub(crate) const WORKSPACES: &str = "TURNWRIGHT_WORKER_WORKSPACES";

const POOL: &str = "TURNWRIGHT_WORKER_POOL";
const SLOTS: &str = "TURNWRIGHT_WORKER_SLOTS";

/// The configuration of a worker process.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where health is served.
    pub listen: SocketAddr,
    /// The control plane's gRPC address, `http://host:port`.
    pub control_url: String,
    /// The gateway's address, `http://host:port`.
    pub gateway_url: String,
    /// The NATS server.
    pub nats: NatsUrl,
    /// Authenticates this service at the control plane.
    pub service_token: SecretString,
    /// The pool whose turns it runs.
    pub pool: Pool,
    /// How many turns it runs at a time, at least 1.
    pub slots: u16,
    /// The folder that holds one folder per conversation.
    pub workspaces: PathBuf,
    /// How long it waits for the parts it needs before it gives up starting.
    pub start_timeout: Duration,
}

impl Config {
    /// Reads the variables; problems are noted in `env`.
    #[must_use]
    pub fn from_env(env: &mut Env) -> Self {
        let slots = env.parsed(SLOTS, 16_u16, "a number of turns, 1 to 1024");
        // A renewal lists every turn, and the ledger takes so many.
        if !(1..=1024).contains(&slots) {
            env.problem(SLOTS, "must be 1 to 1024");
        }
        let nats = NatsUrl::from_env(env, NATS_URL);
        let service_token = env.required("TURNWRIGHT_SERVICE_TOKEN", "the token of services");
        let workspaces = env.required(WORKSPACES, "a folder this process may write");
        Self {
            listen: env
                .listen("TURNWRIGHT_WORKER_LISTEN", SocketAddr::from((Ipv4Addr::LOCALHOST, 7003))),
            control_url: url(env, CONTROL_URL),
            gateway_url: url(env, GATEWAY_URL),
            nats,
            service_token: service_token.into(),
            pool: pool(env),
            slots,
            workspaces: workspaces.into(),
            start_timeout: env.millis("TURNWRIGHT_START_TIMEOUT_MS", Duration::from_secs(30)),
        }
    }
}

fn url(env: &mut Env, key: &str) -> String {
    let raw = env.required(key, "http://host:port");
    let usable = reqwest::Url::parse(&raw).is_ok_and(|u| matches!(u.scheme(), "http" | "https"));
    if !raw.is_empty() && !usable {
        env.problem(key, "expected http://host:port");
    }
    raw.trim_end_matches('/').to_owned()
}

#[expect(clippy::expect_used, reason = "the default is a well-formed name")]
fn pool(env: &mut Env) -> Pool {
    match env.get(POOL).map(Pool::parse) {
        Some(Ok(pool)) => return pool,
        Some(Err(why)) => env.problem(POOL, why),
        None => {}
    }
    Pool::parse("default").expect("`default` is a pool name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        Env::of(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    const WHOLE: [(&str, &str); 5] = [
        (CONTROL_URL, "http://127.0.0.1:7001/"),
        (GATEWAY_URL, "http://127.0.0.1:7002"),
        (NATS_URL, "nats://t@127.0.0.1:4222"),
        ("TURNWRIGHT_SERVICE_TOKEN", "t"),
        (WORKSPACES, "/var/lib/workspaces"),
    ];

    #[test]
    fn what_must_be_set_is_enough() {
        let mut env = env(&WHOLE);
        let config = Config::from_env(&mut env);
        let config = env.finish(config).unwrap();
        assert_eq!((config.pool.as_str(), config.slots), ("default", 16));
        assert_eq!(config.control_url, "http://127.0.0.1:7001");
        assert!(!format!("{config:?}").contains("t@"));
    }

    #[test]
    fn every_problem_is_told() {
        let mut all = WHOLE.to_vec();
        all[0].1 = "127.0.0.1:7001";
        all.extend([(POOL, "a.b"), (SLOTS, "0")]);
        let mut env = env(&all);
        let config = Config::from_env(&mut env);
        assert_eq!(env.finish(config).unwrap_err().0.len(), 3);
    }
}
