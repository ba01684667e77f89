//! The parts of an installation: their variables, and how each is started.

use crate::{TestDatabase, eventually, programs};
use std::{collections::BTreeMap, path::Path, time::Duration};
use tokio::{net::TcpListener, process::Child};
use turnwright_kit::{agent_token, auth, config::Env};
use turnwright_servers::Nats;

/// Echoes the last user message; enough for most tests.
pub const DEMO_RULES: &str = "rules:\n  - reply:\n      - text: \"You said: {{last_user}}\"\n";

/// A service of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The model provider.
    Scripted,
    /// The control plane.
    ControlPlane,
    /// The gateway.
    Gateway,
    /// The console adapter.
    Adapters,
    /// The worker.
    Worker,
}

/// Secrets and addresses.
#[derive(Clone, Debug)]
pub struct Keys {
    /// What operators present.
    pub operator: String,
    /// gRPC.
    pub control_url: String,
    /// HTTP.
    pub gateway_url: String,
    /// HTTP.
    pub console_url: String,
    pub(crate) vars: BTreeMap<String, String>,
}

impl Keys {
    pub(crate) fn new(
        folder: &Path,
        database: &TestDatabase,
        nats: &Nats,
        extra: &[(String, String)],
    ) -> Self {
        let operator = auth::new_token();
        let seed = agent_token::new_seed();
        let public = agent_token::public_key(&seed).expect("seed");
        let at = |name: &str| folder.join(name).display().to_string();
        std::fs::create_dir_all(folder.join("workspaces")).expect("workspaces");
        let vars = [
            ("TURNWRIGHT_CONTROL_DATABASE_URL", database.role_url("turnwright_control")),
            ("TURNWRIGHT_GATEWAY_DATABASE_URL", database.role_url("turnwright_gateway")),
            ("TURNWRIGHT_GATEWAY_MODELS", at("models.yaml")),
            ("TURNWRIGHT_NATS_URL", nats.url()),
            ("TURNWRIGHT_OPERATOR_TOKEN", operator.clone()),
            ("TURNWRIGHT_SERVICE_TOKEN", auth::new_token()),
            ("TURNWRIGHT_CONSOLE_TOKEN", operator.clone()),
            ("TURNWRIGHT_CONSOLE_JOURNAL", at("console.jsonl")),
            ("TURNWRIGHT_SCRIPTED_TOKEN", operator.clone()),
            ("TURNWRIGHT_SCRIPTED_REQUESTS", at("requests.jsonl")),
            ("TURNWRIGHT_AGENT_TOKEN_SEED", seed),
            ("TURNWRIGHT_AGENT_TOKEN_PUBLIC_KEY", public),
            ("TURNWRIGHT_WORKER_WORKSPACES", at("workspaces")),
            ("TURNWRIGHT_WORKER_LISTEN", "127.0.0.1:0".to_owned()),
        ];
        let mut vars: BTreeMap<_, _> = vars.map(|(k, v)| (k.to_owned(), v)).into();
        vars.extend(extra.iter().cloned());
        std::fs::write(folder.join("models.yaml"), MODELS).expect("models.yaml");
        Self {
            operator,
            control_url: String::new(),
            gateway_url: String::new(),
            console_url: String::new(),
            vars,
        }
    }

    /// A variable of the installation.
    ///
    /// # Panics
    /// When it has none of that name.
    #[must_use]
    pub fn var(&self, name: &str) -> &str {
        self.vars.get(name).unwrap_or_else(|| panic!("{name} is set"))
    }
}

pub(crate) fn env(keys: &Keys, extra: &[(String, String)]) -> BTreeMap<String, String> {
    let mut vars = keys.vars.clone();
    vars.extend(extra.iter().cloned());
    vars
}

const MODELS: &str = "\
providers:
  - name: scripted
    kind: chat_completions
    base_url: ${TURNWRIGHT_SCRIPTED_URL}
    api_key_env: TURNWRIGHT_SCRIPTED_TOKEN
models:
  - name: scripted
    provider: scripted
    upstream_model: scripted-1
    window_tokens: 128000
    modalities: [text]
    base_instructions: Answer briefly.
";

/// One agent with a skill in the catalogue and one that is recall-only.
pub(crate) fn test_agent() -> Vec<(String, String)> {
    [
        ("models.yaml", MODELS),
        ("ada/agent.yaml", "slug: ada\ndisplay_name: Ada\ntitle: keeps the books\n"),
        ("ada/SOUL.md", "Calm and exact.\n"),
        ("ada/MISSION.md", "Keeps the books.\n"),
        (
            "ada/skills/ledger/SKILL.md",
            "---\nname: ledger\ndescription: How the books are kept\ncategory: work\n---\nDebit left.\n",
        ),
        (
            "ada/skills/vault/SKILL.md",
            "---\nname: vault\ndescription: Where the vault is\nbrain-recall-only: true\n---\nBelow.\n",
        ),
    ]
    .map(|(p, t)| (p.to_owned(), t.to_owned()))
    .to_vec()
}

/// How each service is started in this process.
pub(crate) mod start {
    use super::{Duration, Env, Keys, TcpListener, eventually};
    use turnwright_kit::Supervisor;

    /// A listener at the address the service had before, or at a free one.
    async fn listener(url: &mut String) -> TcpListener {
        let address = url.strip_prefix("http://").unwrap_or("127.0.0.1:0").to_owned();
        let listener = eventually("the address is free", Duration::from_secs(10), || async {
            TcpListener::bind(&address).await.map_err(|e| e.to_string())
        })
        .await;
        *url = format!("http://{}", listener.local_addr().expect("address"));
        listener
    }

    fn config<T>(keys: &Keys, read: impl FnOnce(&mut Env) -> T) -> T {
        let mut env = Env::of(keys.vars.clone());
        let config = read(&mut env);
        env.finish(config).expect("configuration")
    }

    pub(crate) async fn scripted(
        keys: &mut Keys,
        rules: &str,
    ) -> (Supervisor, turnwright_scripted::Gates) {
        use turnwright_scripted::{Config, Rules, Token, serve};
        let rules = Rules::parse(rules).unwrap_or_else(|e| panic!("{e}"));
        let token = Token::parse(keys.var("TURNWRIGHT_SCRIPTED_TOKEN")).expect("token");
        let config = Config::new(rules, keys.var("TURNWRIGHT_SCRIPTED_REQUESTS"), token);
        let gates = config.gates();
        let mut url = String::new();
        let listener = listener(&mut url).await;
        keys.vars.insert("TURNWRIGHT_SCRIPTED_URL".into(), format!("{url}/v1"));
        let sup = Supervisor::default();
        sup.spawn("scripted", turnwright_kit::OnExit::StopProcess, |stop| async move {
            Ok(serve(config, listener, stop).await?)
        });
        (sup, gates)
    }

    pub(crate) async fn control_plane(
        keys: &mut Keys,
    ) -> (Supervisor, turnwright_control_plane::Handle) {
        let sup = Supervisor::default();
        let config = config(keys, turnwright_control_plane::Config::from_env);
        let listener = listener(&mut keys.control_url).await;
        let handle = turnwright_control_plane::serve(config, listener, &sup);
        let handle = handle.await.unwrap_or_else(|e| panic!("control plane: {e}"));
        keys.vars.insert("TURNWRIGHT_CONTROL_URL".into(), keys.control_url.clone());
        (sup, handle)
    }

    pub(crate) async fn gateway(keys: &mut Keys) -> Supervisor {
        let sup = Supervisor::default();
        let config = config(keys, turnwright_gateway::Config::from_env);
        let listener = listener(&mut keys.gateway_url).await;
        let end = turnwright_gateway::serve(config, listener, &sup).await;
        end.unwrap_or_else(|e| panic!("gateway: {e}"));
        keys.vars.insert("TURNWRIGHT_GATEWAY_URL".into(), keys.gateway_url.clone());
        sup
    }

    pub(crate) async fn adapters(keys: &mut Keys) -> Supervisor {
        let sup = Supervisor::default();
        let config = config(keys, turnwright_adapters::Config::from_env);
        let listener = listener(&mut keys.console_url).await;
        let end = turnwright_adapters::serve(config, listener, &sup).await;
        end.unwrap_or_else(|e| panic!("adapters: {e}"));
        sup
    }

    pub(crate) async fn worker(keys: &mut Keys) -> Supervisor {
        let sup = Supervisor::default();
        let config = config(keys, turnwright_worker::Config::from_env);
        let listener = listener(&mut String::new()).await;
        let end = turnwright_worker::serve(config, listener, &sup).await;
        end.unwrap_or_else(|e| panic!("worker: {e}"));
        sup
    }
}

/// A worker program; killed when dropped.
#[derive(Debug)]
pub struct WorkerProcess(Child);

impl WorkerProcess {
    pub(crate) fn spawn(vars: BTreeMap<String, String>) -> Self {
        let child = tokio::process::Command::new(programs::program("turnwright-worker"))
            .env_clear()
            .envs(vars)
            .kill_on_drop(true)
            .spawn();
        Self(child.expect("start a worker"))
    }

    /// SIGKILL, and the end of the process.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(mut self) {
        self.0.kill().await.expect("kill the worker");
    }

    /// SIGSTOP: the process stands still, its connections stay.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// SIGCONT.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.0.id().and_then(|p| i32::try_from(p).ok()).expect("the worker runs");
        let pid = rustix::process::Pid::from_raw(pid).expect("pid");
        rustix::process::kill_process(pid, signal).expect("signal the worker");
    }
}
