//! An applied folder: parsed whole, every problem of every file told at once, then written as one
//! revision.
//!
//! ```text
//! models.yaml            providers and models
//! settings.yaml          global settings, key: value
//! <agent>/agent.yaml     slug, names, settings, bindings
//! <agent>/SOUL.md        and MISSION.md, DESIGN.md; a template stands in for a missing one
//! <agent>/skills/<name>/SKILL.md and its files
//! ```

mod agent;
mod models;
mod skill;
mod yaml;

use crate::{Error, settings};
use std::collections::BTreeMap;
use turnwright_control_store::{Applied, Desired, SettingRow, Store};
use turnwright_types::AgentSlug;

/// Files in one apply.
const MAX_FILES: usize = 4_096;
/// The largest file, in bytes.
const MAX_FILE_BYTES: usize = 4 << 20;

/// A file as the caller read it.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path in the folder, with `/`.
    pub path: String,
    /// Its bytes, or why they could not be read.
    pub content: Result<Vec<u8>, String>,
}

/// What an apply did, for people.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The revision and its changes.
    pub applied: Applied,
    /// Such as a template standing in for a document.
    pub notes: Vec<String>,
}

/// A folder while it is read: what it wants, what is wrong, what to say.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    desired: Desired,
    problems: Vec<String>,
    notes: Vec<String>,
}

impl Draft {
    fn problem(&mut self, place: impl std::fmt::Display, why: impl std::fmt::Display) {
        self.problems.push(format!("{place}: {why}"));
    }
}

/// The files of one folder, by path below it.
pub(crate) type Files<'a> = BTreeMap<&'a str, &'a [u8]>;

/// Applies a folder as one revision.
///
/// # Errors
/// [`Error::Apply`] with every problem; a conflict with another edit; PostgreSQL away.
pub async fn apply(
    store: &Store,
    files: &[SourceFile],
    base: Option<i64>,
    author: &str,
    reason: &str,
) -> Result<Outcome, Error> {
    let Draft { desired, problems, notes } = check(store, files).await?;
    if !problems.is_empty() {
        return Err(Error::Apply { problems });
    }
    let applied = store.apply(&desired, base, author, reason).await?;
    Ok(Outcome { applied, notes })
}

/// Parses a folder and checks what needs the store: that every agent's model exists.
async fn check(store: &Store, files: &[SourceFile]) -> Result<Draft, Error> {
    let mut draft = parse(files);
    catalogues(store, &mut draft).await?;
    Ok(draft)
}

/// Refuses an agent whose catalogue would not fit its model's budget: better now than in a turn.
async fn catalogues(store: &Store, draft: &mut Draft) -> Result<(), Error> {
    let mut problems = Vec::new();
    for agent in &draft.desired.agents {
        let own = |s: &&SettingRow| s.key == "ai_agent.model" && s.agent == agent.slug;
        let named = draft.desired.settings.iter().find(own).and_then(|s| s.value.as_str());
        let window = match window(store, draft, named).await? {
            Ok(window) => window,
            Err(name) => {
                let place = format!("{}/agent.yaml", agent.slug);
                problems.push(format!("{place}: its model is `{name}`, which is not declared"));
                continue;
            }
        };
        let skills: Vec<turnwright_prompt::Skill> = draft
            .desired
            .skills
            .iter()
            .filter(|s| s.agent == agent.slug && s.enabled && !s.recall_only)
            .map(|s| turnwright_prompt::Skill {
                name: s.name.clone(),
                category: s.category.clone(),
                description: s.description.clone(),
                tags: s.tags.clone(),
                revision: 0,
            })
            .collect();
        if let Err(e) = turnwright_prompt::check_catalogue(&skills, window) {
            problems.push(format!("{}/skills: {e}", agent.slug));
        }
    }
    let global = |s: &&SettingRow| s.key == "ai_agent.model" && s.agent.is_empty();
    if let Some(name) = draft.desired.settings.iter().find(global).and_then(|s| s.value.as_str())
        && let Err(name) = window(store, draft, Some(name)).await?
    {
        problems.push(format!("settings.yaml: ai_agent.model is `{name}`, which is not declared"));
    }
    draft.problems.extend(problems);
    Ok(())
}

/// The window of the named model, or of the one that the global scope or the default names; the
/// name, if there is no such model.
async fn window(
    store: &Store,
    draft: &Draft,
    named: Option<&str>,
) -> Result<Result<Option<u32>, String>, Error> {
    let global = |s: &&SettingRow| s.key == "ai_agent.model" && s.agent.is_empty();
    let stored = store.settings_at("", store.revision().await?).await?;
    let stored: Vec<&SettingRow> = stored.iter().map(|(row, _)| row).collect();
    let declared = settings::find("ai_agent.model").map(|s| (s.default)()).unwrap_or_default();
    let name = named
        .or_else(|| draft.desired.settings.iter().find(global)?.value.as_str())
        .or_else(|| stored.into_iter().find(global)?.value.as_str())
        .or(declared.as_str())
        .unwrap_or_default();
    let tokens = match draft.desired.models.iter().find(|m| m.name == name) {
        Some(model) => model.window_tokens,
        None => match store.model_at(name, store.revision().await?).await {
            Ok((model, _)) => model.window_tokens,
            Err(turnwright_control_store::Error::NotFound { .. }) => {
                return Ok(Err(name.to_owned()));
            }
            Err(e) => return Err(e.into()),
        },
    };
    Ok(Ok(tokens.and_then(|t| u32::try_from(t).ok())))
}

/// Parses a folder; problems are in the draft.
pub(crate) fn parse(files: &[SourceFile]) -> Draft {
    let mut draft = Draft::default();
    if files.len() > MAX_FILES {
        draft.problem("folder", format!("more than {MAX_FILES} files"));
        return draft;
    }
    let mut folders: BTreeMap<&str, Files<'_>> = BTreeMap::new();
    let mut top = Files::new();
    for file in files {
        let path = file.path.as_str();
        if path.split('/').any(|p| p.is_empty() || p == "." || p == "..") {
            draft.problem(path, "not a plain relative path");
            continue;
        }
        let bytes = match &file.content {
            Ok(bytes) if bytes.len() > MAX_FILE_BYTES => {
                draft.problem(path, format!("larger than {MAX_FILE_BYTES} bytes"));
                continue;
            }
            Ok(bytes) => bytes.as_slice(),
            Err(why) => {
                draft.problem(path, format!("cannot be read: {why}"));
                continue;
            }
        };
        match path.split_once('/') {
            Some((folder, rest)) => {
                folders.entry(folder).or_default().insert(rest, bytes);
            }
            None => {
                top.insert(path, bytes);
            }
        }
    }
    if let Some(bytes) = top.get("models.yaml") {
        models::parse("models.yaml", bytes, &mut draft);
    }
    if let Some(bytes) = top.get("settings.yaml") {
        global_settings(bytes, &mut draft);
    }
    // A folder whose agent.yaml could not be read is an agent all the same.
    let agents: Vec<_> = folders
        .iter()
        .filter(|(f, files)| {
            let yaml = format!("{f}/agent.yaml");
            files.contains_key("agent.yaml") || draft.problems.iter().any(|p| p.starts_with(&yaml))
        })
        .collect();
    if agents.is_empty() && !top.contains_key("models.yaml") && !top.contains_key("settings.yaml") {
        draft.problem(
            "folder",
            "holds no agent: expected <agent>/agent.yaml, models.yaml or settings.yaml",
        );
    }
    let mut slugs: BTreeMap<AgentSlug, String> = BTreeMap::new();
    for (folder, files) in agents {
        if let Some(slug) = agent::parse(folder, files, &mut draft)
            && let Some(other) = slugs.insert(slug.clone(), (*folder).to_owned())
        {
            draft
                .problem(format!("{folder}/agent.yaml"), format!("slug `{slug}` is {other}'s too"));
        }
    }
    draft
}

fn global_settings(bytes: &[u8], draft: &mut Draft) {
    let path = "settings.yaml";
    match yaml::read::<BTreeMap<String, serde_json::Value>>(bytes) {
        Ok(map) => settings_of(path, "", map, draft),
        Err(why) => draft.problem(format!("{path}{}", why.line), why.text),
    }
}

/// Checks settings of a file against their declarations.
fn settings_of(
    path: &str,
    agent: &str,
    map: BTreeMap<String, serde_json::Value>,
    draft: &mut Draft,
) {
    for (key, value) in map {
        let Some(setting) = settings::find(&key) else {
            let known: Vec<&str> = settings::SETTINGS.iter().map(|s| s.key).collect();
            draft.problem(path, format!("unknown setting `{key}`; known are {}", known.join(", ")));
            continue;
        };
        if setting.scope == settings::Scope::Global && !agent.is_empty() {
            draft.problem(path, format!("setting `{key}` is global: put it into settings.yaml"));
            continue;
        }
        match setting.check(&value) {
            Ok(()) => {
                draft.desired.settings.push(SettingRow { agent: agent.to_owned(), key, value });
            }
            Err(why) => draft.problem(path, format!("setting `{key}`: {why}")),
        }
    }
}

#[cfg(test)]
mod tests;
