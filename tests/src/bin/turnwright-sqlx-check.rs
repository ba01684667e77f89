//! `turnwright-sqlx-check [--write]`: prepares every query of the stores against freshly migrated
//! schemas and compares with the committed cache, missing and dead entries alike. `--write` puts
//! the fresh ones in its place.

use anyhow::{Context as _, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use turnwright_tests::{TestDatabase, programs::repository};

const CRATES: [(&str, &str); 3] = [
    ("turnwright-control-store", "control-plane/store"),
    ("turnwright-gateway-store", "gateway/store"),
    ("turnwright-ledger-check", "cli/ledger-check"),
];

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let write = std::env::args().nth(1).as_deref() == Some("--write");
    let root = repository();
    let database = TestDatabase::new().await;
    let fresh = tempfile::tempdir()?;
    let mut command = tokio::process::Command::new("cargo");
    command.arg("check").current_dir(&root);
    for (package, folder) in CRATES {
        // Only a compilation runs the macros.
        touch(&root.join(folder).join("src/lib.rs"))?;
        command.args(["-p", package]);
    }
    let status = command
        .arg("--quiet")
        .env("DATABASE_URL", database.owner_url())
        .env("SQLX_OFFLINE", "false")
        .env("SQLX_OFFLINE_DIR", fresh.path())
        .status()
        .await
        .context("run cargo check")?;
    database.drop().await;
    if !status.success() {
        bail!("the stores do not compile against the migrated schemas");
    }
    let committed = root.join(".sqlx");
    let (have, want) = (read(&committed)?, read(fresh.path())?);
    if want.is_empty() {
        bail!("cargo check wrote no query data");
    }
    if write {
        fs::create_dir_all(&committed)?;
        for name in have.keys().filter(|n| !want.contains_key(*n)) {
            fs::remove_file(committed.join(name))?;
        }
        for (name, text) in &want {
            fs::write(committed.join(name), text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let differ = want.iter().filter(|(n, t)| have.get(*n) != Some(t)).map(|(n, _)| n);
    let dead = have.keys().filter(|n| !want.contains_key(*n));
    let wrong: Vec<&String> = differ.chain(dead).collect();
    if !wrong.is_empty() {
        bail!(
            "{} entries of .sqlx are missing, old or dead; run `cargo run -p turnwright-tests \
             --bin turnwright-sqlx-check -- --write` and commit: {wrong:?}",
            wrong.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn touch(path: &Path) -> anyhow::Result<()> {
    let file = fs::File::options().append(true).open(path)?;
    file.set_modified(std::time::SystemTime::now())?;
    Ok(())
}

fn read(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    if !folder.is_dir() {
        return Ok(BTreeMap::new());
    }
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            out.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(out)
}
