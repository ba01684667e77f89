//! The installation that a demo plays on: a `turnwright dev` of its own, which outlives neither the
//! demo nor its kill. The data folder stays.

use crate::{
    Connection, Error,
    args::{AgentsFrom, DemoArgs, Global},
    dev::{
        folder::tail,
        process::{Plan, Process, Tether},
        services::variables,
    },
};
use std::{
    ffi::OsString,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use turnwright_kit::config::Env;

/// How long everything may take to start, on a slow machine under load.
const START_LIMIT: Duration = Duration::from_secs(180);
/// How long it may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(90);
/// Between two looks for the file that says it is ready.
const PAUSE: Duration = Duration::from_millis(20);

/// A data folder and the process that runs in it.
#[derive(Debug)]
pub struct Stage {
    data: PathBuf,
    plan: Plan,
    path: Option<String>,
    process: Option<Process>,
}

impl Stage {
    /// Chooses the data folder; nothing is started yet.
    ///
    /// # Errors
    /// When the folder cannot be made, or this program's own path is not known.
    pub fn set(args: &DemoArgs, global: &Global, env: &Env) -> Result<Self, Error> {
        let data = match &global.data {
            Some(data) => data.clone(),
            None => {
                let name = hex::encode(rand::random::<[u8; 6]>());
                std::env::temp_dir().join(format!("turnwright-demo-{name}"))
            }
        };
        let unusable = || Error::setup(format!("cannot use data folder {}", data.display()));
        // Others may pass through, as `dev` has it.
        let made = DirBuilder::new().recursive(true).mode(0o711).create(&data);
        made.map_err(|e| unusable().because(e))?;
        let data = data.canonicalize().map_err(|e| unusable().because(e))?;
        let program = std::env::current_exe()
            .map_err(|e| Error::setup("cannot find this program").because(e))?;
        let plan = Plan {
            name: "dev",
            program,
            arguments: arguments(&args.agents, &data),
            environment: variables().into_iter().collect(),
            log: data.join("dev.log"),
        };
        let path = env.get("PATH").map(str::to_owned);
        Ok(Self { data, plan, path, process: None })
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Starts the installation and waits until it is ready.
    ///
    /// # Errors
    /// When it ends before, or takes too long.
    pub async fn ready(&mut self) -> Result<Connection, Error> {
        let ready = ready_file(&self.data);
        // Of an earlier demo in the same folder.
        let _ = std::fs::remove_file(&ready);
        let path = self.path.clone().map(|path| ("PATH".to_owned(), path));
        let tether = Tether::find(&Env::of(path)).await;
        let process = self.process.insert(Process::start(&self.plan, &tether)?);
        let deadline = Instant::now() + START_LIMIT;
        while !ready.exists() {
            let failed = |why: &str| {
                let tail = tail(&self.plan.log);
                Error::setup(format!("the installation {why}:\n{tail}"))
            };
            if !process.is_running() {
                return Err(failed("did not start"));
            }
            if Instant::now() > deadline {
                return Err(failed("was not ready in time"));
            }
            sleep(PAUSE).await;
        }
        Connection::read(&ready)
    }

    /// Stops the installation; its data stays.
    pub async fn clear(&mut self) {
        if let Some(mut process) = self.process.take()
            && process.end(STOP_LIMIT).await.is_none()
        {
            tracing::error!(pid = process.pid(), "the installation did not stop; end it by hand");
        }
    }
}

fn ready_file(data: &Path) -> PathBuf {
    data.join("ready.json")
}

fn arguments(from: &AgentsFrom, data: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["dev".into(), "--unrecorded".into()];
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            arguments.extend([OsString::from(name), value]);
        }
    };
    option("--data", Some(data.into()));
    option("--ready", Some(ready_file(data).into()));
    option("--agents", from.agents.as_ref().map(Into::into));
    option("--provider-url", from.provider_url.as_ref().map(Into::into));
    option("--model", from.model.as_ref().map(Into::into));
    option("--key-env", from.key_env.as_ref().map(Into::into));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn what_the_demo_asks_of_dev_is_what_dev_understands() {
        let from = AgentsFrom {
            agents: Some("a b".into()),
            provider_url: Some("http://h/v1".to_owned()),
            model: Some("m".to_owned()),
            key_env: Some("K".to_owned()),
        };
        let arguments = arguments(&from, Path::new("/d"));
        let line = [OsString::from("turnwright")].into_iter().chain(arguments);
        let cli = Cli::try_parse_from(line).unwrap();
        let Command::Dev(dev) = cli.command else { panic!("another command") };
        assert_eq!(cli.global.data, Some("/d".into()));
        assert_eq!(dev.ready, Some("/d/ready.json".into()));
        assert_eq!(dev.agents.agents, from.agents);
        assert_eq!(dev.agents.model, from.model);
        assert!(dev.unrecorded);
    }
}
