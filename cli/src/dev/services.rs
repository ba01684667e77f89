//! The services of one machine: which program each is, what it is told, and how it says that it is
//! ready. It starts nothing.

use crate::{
    Error,
    dev::{agents::SCRIPTED_URL, folder::Folder, probe::Probe, process::Plan, secrets::Secrets},
};
use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};
use turnwright_kit::auth::CallerMetadata;

/// The names of the services, in the order in which they are started.
pub const SCRIPTED: &str = "scripted";
/// See [`SCRIPTED`].
pub const CONTROL_PLANE: &str = "control-plane";
/// See [`SCRIPTED`].
pub const GATEWAY: &str = "gateway";
/// See [`SCRIPTED`].
pub const WORKER: &str = "worker";
/// See [`SCRIPTED`].
pub const ADAPTERS: &str = "adapters";

/// What every service may see of our environment: where programs and certificates are, and how to
/// log and trace. Secrets of the user are not among it.
const SHARED: &[&str] =
    &["PATH", "HOME", "TMPDIR", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "RUST_BACKTRACE"];
/// Variables with these prefixes are ours or the telemetry's.
const SHARED_PREFIXES: &[&str] = &["TURNWRIGHT_", "OTEL_"];

/// Where the parts that services talk to are reached, as far as they are known yet.
#[derive(Clone, Default)]
pub struct Urls {
    /// The owner's URL of the database.
    pub database: String,
    /// The NATS server, with its token.
    pub nats: String,
    /// The scripted provider, up to and with `/v1`.
    pub scripted: Option<String>,
    /// The control plane.
    pub control_plane: String,
    /// The gateway.
    pub gateway: String,
}

/// Knows how each service is started.
pub struct Services<'a> {
    /// The data folder.
    pub folder: &'a Folder,
    /// Its secrets.
    pub secrets: &'a Secrets,
    /// Our environment.
    pub env: BTreeMap<String, String>,
    /// The folder of the programs.
    pub programs: PathBuf,
    /// Shared by the probes.
    pub client: reqwest::Client,
}

impl<'a> Services<'a> {
    /// For the programs beside this one.
    ///
    /// # Errors
    /// When this program's own path is not known, or no HTTP client can be made.
    pub fn new(
        folder: &'a Folder,
        secrets: &'a Secrets,
        env: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let own = std::env::current_exe()
            .map_err(|e| Error::setup("cannot find the folder of this program").because(e))?;
        let programs = own.parent().map(PathBuf::from).unwrap_or_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .map_err(|e| Error::setup("cannot make an http client").because(e))?;
        Ok(Self { folder, secrets, env, programs, client })
    }

    /// What to run for a service on a port.
    ///
    /// # Errors
    /// When the signing seed is damaged.
    pub fn plan(&self, name: &'static str, port: u16, urls: &Urls) -> Result<Plan, Error> {
        let listen = format!("127.0.0.1:{port}");
        let secrets = self.secrets;
        let mut set: Vec<(&str, String)> = Vec::new();
        let mut arguments: Vec<OsString> = Vec::new();
        match name {
            SCRIPTED => {
                let rules = self.folder.join("scripted-rules.yaml");
                let rules = self.env.get("TURNWRIGHT_SCRIPTED_RULES").map_or(rules, PathBuf::from);
                let requests = self.folder.join("scripted-requests.jsonl");
                arguments.extend([OsString::from("--listen"), listen.into()]);
                arguments.extend([OsString::from("--rules"), rules.into_os_string()]);
                arguments.extend([OsString::from("--requests"), requests.into_os_string()]);
                set.push(("TURNWRIGHT_SCRIPTED_TOKEN", secrets.operator_token.clone()));
            }
            CONTROL_PLANE => {
                let database = with_role(&urls.database, "turnwright_control");
                set.push(("TURNWRIGHT_CONTROL_LISTEN", listen));
                set.push(("TURNWRIGHT_CONTROL_DATABASE_URL", database));
                set.push(("TURNWRIGHT_NATS_URL", urls.nats.clone()));
                set.push(("TURNWRIGHT_OPERATOR_TOKEN", secrets.operator_token.clone()));
                set.push(("TURNWRIGHT_SERVICE_TOKEN", secrets.service_token.clone()));
                set.push(("TURNWRIGHT_AGENT_TOKEN_SEED", secrets.agent_token_seed.clone()));
            }
            GATEWAY => {
                let database = with_role(&urls.database, "turnwright_gateway");
                let models = self.folder.join(crate::bundled::MODELS);
                set.push(("TURNWRIGHT_GATEWAY_LISTEN", listen));
                set.push(("TURNWRIGHT_GATEWAY_DATABASE_URL", database));
                set.push(("TURNWRIGHT_GATEWAY_MODELS", models.display().to_string()));
                set.push(("TURNWRIGHT_OPERATOR_TOKEN", secrets.operator_token.clone()));
                set.push(("TURNWRIGHT_AGENT_TOKEN_PUBLIC_KEY", secrets.agent_token_public_key()?));
                if let Some(scripted) = &urls.scripted {
                    set.push((SCRIPTED_URL, scripted.clone()));
                    set.push(("TURNWRIGHT_SCRIPTED_TOKEN", secrets.operator_token.clone()));
                }
            }
            WORKER => {
                let workspaces = self.folder.join("workspaces");
                set.push(("TURNWRIGHT_WORKER_LISTEN", listen));
                set.push(("TURNWRIGHT_CONTROL_URL", urls.control_plane.clone()));
                set.push(("TURNWRIGHT_GATEWAY_URL", urls.gateway.clone()));
                set.push(("TURNWRIGHT_NATS_URL", urls.nats.clone()));
                set.push(("TURNWRIGHT_SERVICE_TOKEN", secrets.service_token.clone()));
                set.push(("TURNWRIGHT_WORKER_WORKSPACES", workspaces.display().to_string()));
            }
            _ => {
                let journal = self.folder.join("console.journal");
                set.push(("TURNWRIGHT_CONSOLE_LISTEN", listen));
                set.push(("TURNWRIGHT_CONSOLE_TOKEN", secrets.operator_token.clone()));
                set.push(("TURNWRIGHT_CONSOLE_JOURNAL", journal.display().to_string()));
                set.push(("TURNWRIGHT_NATS_URL", urls.nats.clone()));
            }
        }
        // The gateway alone may need keys of providers, whose names its models file tells.
        let mut environment = if name == GATEWAY { self.env.clone() } else { shared(&self.env) };
        environment.extend(set.into_iter().map(|(key, value)| (key.to_owned(), value)));
        Ok(Plan {
            name,
            program: self.program(name),
            arguments,
            environment: environment.into_iter().collect(),
            log: self.folder.log(name),
        })
    }

    /// What to run to bring a schema up to date.
    #[must_use]
    pub fn migration(&self, name: &'static str, database: &str) -> Plan {
        let mut environment = shared(&self.env);
        environment.insert("TURNWRIGHT_OWNER_DATABASE_URL".to_owned(), database.to_owned());
        Plan {
            name,
            program: self.program(name),
            arguments: vec!["migrate".into()],
            environment: environment.into_iter().collect(),
            log: self.folder.log(name),
        }
    }

    /// How a service says that it is ready.
    ///
    /// # Errors
    /// When the token cannot stand in a header.
    pub fn probe(&self, name: &str, port: u16) -> Result<Probe, Error> {
        let url = base_url(port);
        if name == CONTROL_PLANE {
            let caller = CallerMetadata::new(&self.secrets.operator_token)
                .map_err(|e| Error::setup("the operator token is damaged").because(e))?;
            return Ok(Probe::Grpc { url, caller });
        }
        let path = if name == SCRIPTED { "healthz" } else { "readyz" };
        Ok(Probe::Http { url: format!("{url}/{path}"), client: self.client.clone() })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.programs.join(format!("turnwright-{name}"))
    }
}

/// Where a service on a port of this machine is reached.
#[must_use]
pub fn base_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn shared(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let seen = |key: &str| {
        SHARED.contains(&key) || SHARED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
    };
    env.iter().filter(|(key, _)| seen(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The URL of a database for a session that has a role's rights and no others.
#[must_use]
pub fn with_role(url: &str, role: &str) -> String {
    let option = format!("-c%20role%3D{role}");
    let Some((base, query)) = url.split_once('?') else {
        return format!("{url}?options={option}");
    };
    let mut found = false;
    let mut pairs: Vec<String> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.strip_prefix("options=") {
            Some(options) if !found => {
                found = true;
                pairs.push(format!("options={options}%20{option}"));
            }
            Some(_) | None => pairs.push(pair.to_owned()),
        }
    }
    if !found {
        pairs.push(format!("options={option}"));
    }
    format!("{base}?{}", pairs.join("&"))
}

/// The variables of our environment, to pass on; those that are not UTF-8 stay here.
#[must_use]
pub fn variables() -> BTreeMap<String, String> {
    let text = |(key, value): (OsString, OsString)| {
        Some((key.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services<'a>(folder: &'a Folder, secrets: &'a Secrets) -> Services<'a> {
        let env = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "hunter2"),
            ("PGPASSWORD", "hunter2"),
            ("TURNWRIGHT_WORKER_SLOTS", "3"),
        ];
        let env = env.map(|(k, v)| (k.to_owned(), v.to_owned()));
        // Made as `main` does before any client.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Services::new(folder, secrets, env.into()).unwrap()
    }

    #[test]
    fn only_the_gateway_sees_the_users_keys() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        let secrets = Secrets::of(&folder).unwrap();
        let services = services(&folder, &secrets);
        for name in [SCRIPTED, CONTROL_PLANE, GATEWAY, WORKER, ADAPTERS] {
            let plan = services.plan(name, 1, &Urls::default()).unwrap();
            let value = |key: &str| {
                plan.environment.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
            };
            assert_eq!(value("OPENAI_API_KEY").is_some(), name == GATEWAY, "{name}");
            assert_eq!(value("TURNWRIGHT_WORKER_SLOTS"), Some("3"));
            let operator = secrets.operator_token.as_str();
            let knows = plan.environment.iter().any(|(_, v)| v == operator);
            assert_eq!(knows, name != WORKER, "{name}");
            assert!(!format!("{plan:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_role_is_added_to_whatever_the_url_says() {
        let role = "options=-c%20role%3Dr";
        assert_eq!(with_role("postgres://h/d", "r"), format!("postgres://h/d?{role}"));
        assert_eq!(
            with_role("postgres://h/d?sslmode=require", "r"),
            format!("postgres://h/d?sslmode=require&{role}")
        );
        assert_eq!(
            with_role("postgres://h/d?options=-c%20a%3Db&x=y", "r"),
            "postgres://h/d?options=-c%20a%3Db%20-c%20role%3Dr&x=y"
        );
    }
}
