//! `turnwright apply`: reads a folder as it is and hands it to the control plane, which checks all
//! of it at once. What cannot be read is handed over as unreadable, so that one answer names every
//! problem.

use crate::{Connection, Error, Format, Out, args::ApplyArgs, control};
use serde_json::json;
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use turnwright_kit::config::Env;
use turnwright_proto::v1::{ApplyRequest, ApplyResponse, SourceFile};

/// The largest file, in bytes.
pub const FILE_MAX: u64 = 4 << 20;
/// The most bytes of all files together.
pub const TOTAL_MAX: usize = 24 << 20;
/// The most files.
pub const FILES_MAX: usize = 4096;
/// How deep folders may lie in one another.
const DEPTH_MAX: usize = 16;

/// Applies a folder.
///
/// # Errors
/// When the folder cannot be read, or the control plane does not answer or refuses; its refusal
/// names every problem.
pub async fn run(
    args: &ApplyArgs,
    connection: &Connection,
    env: &Env,
    out: &mut Out,
) -> Result<(), Error> {
    let author = args.author.clone().unwrap_or_else(|| author(env));
    let request = ApplyRequest {
        files: read(&args.folder)?,
        base_revision: args.base,
        reason: args.reason.clone(),
        author,
    };
    let answer = send(connection, request).await?;
    print(&answer, out)
}

/// Who changes something, when nobody says.
#[must_use]
pub fn author(env: &Env) -> String {
    env.get("USER").or_else(|| env.get("LOGNAME")).unwrap_or("operator").to_owned()
}

/// Hands files to the control plane.
///
/// # Errors
/// When it does not answer or refuses.
pub async fn send(connection: &Connection, request: ApplyRequest) -> Result<ApplyResponse, Error> {
    let mut admin = control::admin(connection).await?;
    let answer = admin.apply(request).await;
    Ok(answer.map_err(|s| control::refused(&s))?.into_inner())
}

/// Prints what an apply did.
///
/// # Errors
/// When it cannot be written.
pub fn print(answer: &ApplyResponse, out: &mut Out) -> Result<(), Error> {
    let models = answer.changed && answer.changes.iter().any(|c| c.starts_with("model"));
    let restart = "the gateway reads models when it starts: restart it with this folder's \
                   models.yaml (`turnwright dev --agents DIR`)";
    if out.format() == Format::Json {
        let mut notes = answer.notes.clone();
        notes.extend(models.then(|| restart.to_owned()));
        return out.json(&json!({
            "revision": answer.revision,
            "changed": answer.changed,
            "changes": answer.changes,
            "notes": notes,
        }));
    }
    let done = if answer.changed { "applied" } else { "unchanged" };
    out.line(format_args!("{done}: revision {}", answer.revision))?;
    for change in &answer.changes {
        out.line(format_args!("  {change}"))?;
    }
    for note in &answer.notes {
        out.line(format_args!("note: {note}"))?;
    }
    if models {
        out.line(format_args!("note: {restart}"))?;
    }
    Ok(())
}

/// Every file of a folder, by its path below it, in order. Names that begin with a dot are left
/// out.
///
/// # Errors
/// When there is no such folder, or it holds more than an apply can carry.
pub fn read(folder: &Path) -> Result<Vec<SourceFile>, Error> {
    let shown = folder.display();
    let meta = fs::metadata(folder)
        .map_err(|e| Error::setup(format!("cannot read folder {shown}")).because(e))?;
    if !meta.is_dir() {
        return Err(Error::setup(format!("{shown} is not a folder")));
    }
    let mut walk = Walk { files: Vec::new(), bytes: 0 };
    walk.folder(folder, "", 0)?;
    walk.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(walk.files)
}

struct Walk {
    files: Vec<SourceFile>,
    bytes: usize,
}

impl Walk {
    fn folder(&mut self, at: &Path, below: &str, depth: usize) -> Result<(), Error> {
        let listed = fs::read_dir(at).and_then(|entries| {
            entries.map(|e| Ok(e?.path())).collect::<io::Result<Vec<PathBuf>>>()
        });
        let entries = match listed {
            Ok(entries) => entries,
            Err(e) => return self.unreadable(below, &e),
        };
        for path in entries {
            let Some(name) = path.file_name() else { continue };
            let shown = name.to_string_lossy();
            if shown.starts_with('.') {
                continue;
            }
            let below =
                if below.is_empty() { shown.to_string() } else { format!("{below}/{shown}") };
            if name.to_str().is_none() {
                self.unreadable(&below, &"its name is not UTF-8")?;
                continue;
            }
            match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() && depth >= DEPTH_MAX => {
                    let why = format!("folders lie more than {DEPTH_MAX} deep");
                    self.unreadable(&below, &why)?;
                }
                Ok(meta) if meta.is_dir() => self.folder(&path, &below, depth + 1)?,
                Ok(meta) if !meta.is_file() => self.unreadable(&below, &"it is not a file")?,
                Ok(meta) if meta.len() > FILE_MAX => {
                    let why = format!("it is longer than {} MiB", FILE_MAX >> 20);
                    self.unreadable(&below, &why)?;
                }
                Ok(_) => match fs::read(&path) {
                    Ok(content) => {
                        self.push(SourceFile { path: below, content, unreadable: String::new() })?;
                    }
                    Err(e) => self.unreadable(&below, &e)?,
                },
                Err(e) => self.unreadable(&below, &e)?,
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, path: &str, why: &dyn std::fmt::Display) -> Result<(), Error> {
        let path = path.to_owned();
        self.push(SourceFile { path, content: Vec::new(), unreadable: why.to_string() })
    }

    fn push(&mut self, file: SourceFile) -> Result<(), Error> {
        self.bytes += file.content.len();
        self.files.push(file);
        if self.files.len() > FILES_MAX {
            return Err(Error::setup(format!("the folder holds more than {FILES_MAX} files")));
        }
        if self.bytes > TOTAL_MAX {
            let max = TOTAL_MAX >> 20;
            return Err(Error::setup(format!("the folder's files are larger than {max} MiB")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_come_by_path_and_hidden_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in ["m/SOUL.md", "m/skills/a/SKILL.md", "b.yaml", ".git/config", "m/.swp"] {
            put(path);
        }
        let files = read(dir.path()).unwrap();
        let paths: Vec<_> = files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["b.yaml", "m/SOUL.md", "m/skills/a/SKILL.md"]);
        assert!(files.iter().all(|f| f.content == b"x" && f.unreadable.is_empty()));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_is_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("good"), "x").unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        symlink(dir.path(), dir.path().join("round")).unwrap();
        let files = read(dir.path()).unwrap();
        let unreadable = |path: &str| {
            files.iter().find(|f| f.path == path).is_some_and(|f| !f.unreadable.is_empty())
        };
        assert!(unreadable("dangling"));
        assert!(!unreadable("good"));
        assert!(files.iter().any(|f| f.path.ends_with("round") && !f.unreadable.is_empty()));
        assert!(read(&dir.path().join("good")).is_err());
    }

    #[test]
    fn a_file_over_the_limit_is_not_sent() {
        let dir = tempfile::tempdir().unwrap();
        let big = fs::File::create(dir.path().join("big")).unwrap();
        big.set_len(FILE_MAX + 1).unwrap();
        let files = read(dir.path()).unwrap();
        assert!(files[0].content.is_empty() && !files[0].unreadable.is_empty());
    }
}
