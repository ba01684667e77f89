//! `turnwright dev`: everything on this machine, on real parts, in one data folder. Stop it and
//! start it again: nothing is lost.

pub mod agents;
pub mod folder;
pub mod installation;
pub mod ports;
pub mod probe;
pub mod process;
pub mod secrets;
pub mod servers;
pub mod services;
pub mod tell;

use crate::{
    Error, Out,
    args::{DevArgs, Global},
    bundled,
    connection::remember,
};
use agents::Agents;
use folder::Folder;
use installation::{Installation, Starter};
use parking_lot::Mutex;
use ports::Ports;
use process::Tether;
use secrets::Secrets;
use services::Services;
use std::{
    fs, io,
    path::{Path, PathBuf},
    pin::pin,
    time::Instant,
};
use tell::Tell;
use turnwright_kit::{Chain, config::Env, signals, telemetry};

/// Runs until SIGTERM, Ctrl-C, or the loss of a server that does not come back.
///
/// # Errors
/// When the data folder cannot be used, or a part does not start.
pub async fn run(args: &DevArgs, global: &Global, env: &Env, out: &mut Out) -> Result<(), Error> {
    let began = Instant::now();
    let _telemetry = observe(env);
    let handlers = |e: io::Error| Error::setup("cannot listen for signals").because(e);
    let mut stop = pin!(signals::termination().map_err(handlers)?);
    let folder = Folder::own(&data(global, env)?)?;
    let secrets = Secrets::of(&folder)?;
    let agents = Agents::prepare(&args.agents, &folder)?;
    write_rules(&folder.join("scripted-rules.yaml"))?;
    // Of the last start: nobody is to take them for this one's.
    for stale in args.ready.iter().chain([&folder.connection()]) {
        let _ = fs::remove_file(stale);
    }

    let tell = Tell::on(out);
    let with = Starter {
        folder: &folder,
        secrets: &secrets,
        ports: Mutex::new(Ports::of(&folder)),
        services: Services::new(&folder, &secrets, services::variables())?,
        tether: Tether::find(env).await,
        env,
        tell: &tell,
    };
    let mut installation = Installation::default();
    let end = tokio::select! {
        () = &mut stop => Ok(()),
        end = serve(args, &mut installation, &with, agents, began) => Err(end),
    };
    tell.note("stopping");
    let again = signals::termination().map_err(handlers)?;
    tokio::select! {
        () = installation.stop() => {}
        // Whoever asks twice does not want to wait: dropping kills.
        () = again => {}
    }
    drop(installation);
    let _ = fs::remove_file(folder.connection());
    end
}

/// Starts everything and watches over it; returns only when that does not succeed.
async fn serve(
    args: &DevArgs,
    installation: &mut Installation,
    with: &Starter<'_, '_>,
    agents: Agents,
    began: Instant,
) -> Error {
    let connection = match installation.start(with, agents).await {
        Ok(connection) => connection,
        Err(e) => return e,
    };
    let mut files = vec![with.folder.connection()];
    files.extend(args.ready.clone());
    let slug = "turnwright chat --agent SLUG";
    with.tell.note(&format!("started in {} ms; talk with `{slug}`", began.elapsed().as_millis()));
    if !args.unrecorded
        && let Err(e) = remember(with.folder.path(), with.env)
    {
        // Commands then need --data.
        tracing::warn!(error = %Chain(&e), "cannot remember this start for other commands");
    }
    if let Err(e) = with.tell.publish(connection, files) {
        return e;
    }
    installation.keep(with).await
}

/// The folder to use: it must be named.
fn data(global: &Global, env: &Env) -> Result<PathBuf, Error> {
    let named = global.data.clone().or_else(|| env.get("TURNWRIGHT_DATA").map(PathBuf::from));
    named.ok_or_else(|| Error::setup("name a data folder: `turnwright dev --data DIR`"))
}

/// The rules of the scripted provider lie in the folder, where they can be changed.
fn write_rules(path: &Path) -> Result<(), Error> {
    if path.exists() {
        return Ok(());
    }
    fs::write(path, bundled::DEMO_RULES)
        .map_err(|e| Error::setup(format!("cannot write {}", path.display())).because(e))
}

/// Warnings go to standard error, unless `TURNWRIGHT_LOG` asks for more.
fn observe(env: &Env) -> Option<telemetry::Guard> {
    let config = telemetry::Config {
        service: "turnwright-dev",
        filter: env.get("TURNWRIGHT_LOG").unwrap_or("warn").to_owned(),
        json: env.get("TURNWRIGHT_LOG_FORMAT") == Some("json"),
        otlp_endpoint: None,
    };
    telemetry::init(&config).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_must_be_named() {
        let named = Env::of([("TURNWRIGHT_DATA".to_owned(), "/e".to_owned())]);
        let mut global = Global::default();
        assert_eq!(data(&global, &Env::of([])).unwrap_err().exit_code(), 2);
        assert_eq!(data(&global, &named).unwrap(), Path::new("/e"));
        global.data = Some("/d".into());
        assert_eq!(data(&global, &named).unwrap(), Path::new("/d"));
    }

    #[test]
    fn changed_rules_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.yaml");
        write_rules(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), bundled::DEMO_RULES);
        fs::write(&path, "rules: []").unwrap();
        write_rules(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "rules: []");
    }
}
