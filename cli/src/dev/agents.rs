//! Which agents and models a start brings along: the bundled examples, a folder, or either of them
//! set to one configured provider. It changes files in memory and in the data folder only.

use crate::{
    Connection, Error,
    apply::{self, author},
    args::AgentsFrom,
    bundled, control,
    dev::folder::Folder,
};
use serde_json::{Map, Value, json};
use std::{fs, path::Path};
use turnwright_kit::config::Env;
use turnwright_proto::v1::{ApplyRequest, ApplyResponse, ListAgentsRequest, SourceFile};

/// The setting that names an agent's model.
const MODEL: &str = "ai_agent.model";
/// The provider that the command line configures.
const CONFIGURED: &str = "configured";
/// Global settings of an agents folder.
const SETTINGS: &str = "settings.yaml";
/// The variable that the bundled models file takes the scripted provider's address from.
pub const SCRIPTED_URL: &str = "TURNWRIGHT_SCRIPTED_URL";

/// The files to apply.
#[derive(Debug)]
pub struct Agents {
    files: Vec<SourceFile>,
    /// Asked for by name, so applied also where there are agents already.
    asked: bool,
}

impl Agents {
    /// Reads the files and puts the gateway's part of them, `models.yaml`, into the data folder.
    ///
    /// # Errors
    /// When the folder asked for cannot be read, or the data folder not be written.
    pub fn prepare(from: &AgentsFrom, folder: &Folder) -> Result<Self, Error> {
        let derived = folder.join("agents");
        let mut files = match &from.agents {
            Some(asked) => apply::read(asked)?,
            None if derived.is_dir() => apply::read(&derived)?,
            None => examples(),
        };
        if !files.iter().any(|f| f.path == bundled::MODELS) {
            files.extend(examples().into_iter().filter(|f| f.path == bundled::MODELS));
        }
        if let (Some(url), Some(model)) = (&from.provider_url, &from.model) {
            let provider = Provider { url, model, key_env: from.key_env.as_deref() };
            provider.answer_for_all(&mut files)?;
            write_all(&derived, &files)?;
        }
        let asked = from.agents.is_some() || from.provider_url.is_some();
        let models = folder.join(bundled::MODELS);
        if asked || !models.exists() {
            let content = files.iter().find(|f| f.path == bundled::MODELS);
            let content = content.map(|f| f.content.as_slice()).unwrap_or_default();
            write(&models, content)?;
        }
        Ok(Self { files, asked })
    }

    /// Applies them if they were asked for, or if there are no agents yet.
    ///
    /// # Errors
    /// When the control plane does not answer or refuses.
    pub async fn apply(
        self,
        connection: &Connection,
        env: &Env,
    ) -> Result<Option<ApplyResponse>, Error> {
        let mut admin = control::admin(connection).await?;
        let known = admin.list_agents(ListAgentsRequest {}).await;
        let known = known.map_err(|s| control::refused(&s))?.into_inner();
        if !self.asked && !known.agents.is_empty() {
            return Ok(None);
        }
        let request = ApplyRequest {
            files: self.files,
            base_revision: None,
            reason: "applied at the start of turnwright dev".to_owned(),
            author: author(env),
        };
        apply::send(connection, request).await.map(Some)
    }
}

/// Whether the models of a data folder ask for the scripted provider.
///
/// # Errors
/// When they cannot be read.
pub fn wants_scripted(folder: &Folder) -> Result<bool, Error> {
    let path = folder.join(bundled::MODELS);
    let text = fs::read_to_string(&path)
        .map_err(|e| Error::setup(format!("cannot read {}", path.display())).because(e))?;
    Ok(text.contains(SCRIPTED_URL))
}

fn examples() -> Vec<SourceFile> {
    let file = |(path, content): &(&str, &[u8])| SourceFile {
        path: (*path).to_owned(),
        content: content.to_vec(),
        unreadable: String::new(),
    };
    bundled::AGENTS.iter().map(file).collect()
}

/// A provider from the command line.
struct Provider<'a> {
    url: &'a str,
    model: &'a str,
    key_env: Option<&'a str>,
}

impl Provider<'_> {
    /// Makes its model the one that every agent of the files runs on. A file that cannot be read
    /// as YAML stays as it is: the control plane will say what is wrong with it.
    fn answer_for_all(&self, files: &mut Vec<SourceFile>) -> Result<(), Error> {
        if !files.iter().any(|f| f.path == SETTINGS) {
            files.push(SourceFile { path: SETTINGS.to_owned(), ..SourceFile::default() });
        }
        for file in files.iter_mut().filter(|f| f.unreadable.is_empty()) {
            let Ok(text) = std::str::from_utf8(&file.content) else { continue };
            let is_agent = file.path.split('/').nth(1) == Some("agent.yaml")
                && file.path.split('/').count() == 2;
            let changed = match file.path.as_str() {
                bundled::MODELS => mapping(text).map(|models| self.in_models(models)),
                SETTINGS => mapping(text).map(|settings| self.in_settings(settings)),
                _ if is_agent => mapping(text).and_then(|agent| self.in_agent(agent)),
                _ => None,
            };
            if let Some(changed) = changed {
                // JSON is YAML.
                file.content = serde_json::to_vec_pretty(&changed)
                    .map_err(|e| Error::setup(format!("cannot write {}", file.path)).because(e))?;
            }
        }
        Ok(())
    }

    fn in_models(&self, mut models: Map<String, Value>) -> Value {
        let base = list(&models, "models")
            .find_map(|m| m.get("base_instructions").cloned())
            .unwrap_or_else(|| json!(""));
        let named = |name: &str| {
            let name = name.to_owned();
            move |entry: &&Value| entry.get("name").and_then(Value::as_str) != Some(name.as_str())
        };
        let mut providers: Vec<Value> =
            list(&models, "providers").filter(named(CONFIGURED)).cloned().collect();
        let mut provider =
            json!({ "name": CONFIGURED, "kind": "chat_completions", "base_url": self.url });
        if let Some(variable) = self.key_env {
            provider["api_key_env"] = json!(variable);
        }
        providers.push(provider);
        let mut entries: Vec<Value> =
            list(&models, "models").filter(named(self.model)).cloned().collect();
        entries.push(json!({
            "name": self.model,
            "provider": CONFIGURED,
            "upstream_model": self.model,
            "modalities": ["text"],
            "base_instructions": base,
        }));
        models.insert("providers".to_owned(), Value::Array(providers));
        models.insert("models".to_owned(), Value::Array(entries));
        Value::Object(models)
    }

    fn in_settings(&self, mut settings: Map<String, Value>) -> Value {
        settings.insert(MODEL.to_owned(), json!(self.model));
        Value::Object(settings)
    }

    /// Only an agent that names a model of its own is changed.
    fn in_agent(&self, mut agent: Map<String, Value>) -> Option<Value> {
        let own = agent.get_mut("settings")?.get_mut(MODEL)?;
        *own = json!(self.model);
        Some(Value::Object(agent))
    }
}

/// A YAML mapping, empty for a file that holds nothing; `None` for anything else.
fn mapping(text: &str) -> Option<Map<String, Value>> {
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    let read: Option<Map<String, Value>> = serde_saphyr::from_str(text).ok()?;
    Some(read.unwrap_or_default())
}

fn list<'a>(of: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    of.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Replaces a folder by these files.
fn write_all(folder: &Path, files: &[SourceFile]) -> Result<(), Error> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|e| Error::setup(format!("cannot replace {}", folder.display())).because(e))?;
    }
    for file in files.iter().filter(|f| f.unreadable.is_empty()) {
        write(&folder.join(&file.path), &file.content)?;
    }
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, content))
        .map_err(|e| Error::setup(format!("cannot write {}", path.display())).because(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_provider() -> AgentsFrom {
        AgentsFrom {
            provider_url: Some("http://127.0.0.1:9/v1".to_owned()),
            model: Some("tiny".to_owned()),
            key_env: Some("TINY_KEY".to_owned()),
            ..AgentsFrom::default()
        }
    }

    fn read(path: &Path) -> Value {
        serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn a_new_folder_gets_the_examples_and_their_models() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        let agents = Agents::prepare(&AgentsFrom::default(), &folder).unwrap();
        assert!(!agents.asked && agents.files.len() == bundled::AGENTS.len());
        let models = fs::read(folder.join(bundled::MODELS)).unwrap();
        assert_eq!(Some(models.as_slice()), bundled::agent_file(bundled::MODELS));
        assert!(wants_scripted(&folder).unwrap());
    }

    #[test]
    fn a_configured_provider_answers_for_every_agent() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        let agents = Agents::prepare(&with_provider(), &folder).unwrap();
        assert!(agents.asked);
        let models = read(&folder.join(bundled::MODELS));
        let added = models["models"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&added["name"], &added["provider"]), (&json!("tiny"), &json!("configured")));
        assert!(!added["base_instructions"].as_str().unwrap().is_empty());
        let provider = models["providers"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(provider["api_key_env"], "TINY_KEY");
        let derived = folder.join("agents");
        assert_eq!(read(&derived.join(SETTINGS))[MODEL], "tiny");
        for (path, _) in bundled::AGENTS.iter().filter(|(p, _)| p.ends_with("/agent.yaml")) {
            let own = read(&derived.join(path));
            assert!(own["settings"].get(MODEL).is_none_or(|m| m == "tiny"), "{path}");
        }
        // A second time changes nothing more.
        let before = fs::read(folder.join(bundled::MODELS)).unwrap();
        Agents::prepare(&with_provider(), &folder).unwrap();
        assert_eq!(fs::read(folder.join(bundled::MODELS)).unwrap(), before);
    }

    #[test]
    fn a_folder_without_models_gets_the_bundled_ones() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::own(&dir.path().join("data")).unwrap();
        let own = dir.path().join("own");
        fs::create_dir_all(own.join("a")).unwrap();
        fs::write(own.join("a/agent.yaml"), "slug: a\ndisplay_name: A\n").unwrap();
        let from = AgentsFrom { agents: Some(own), ..AgentsFrom::default() };
        let agents = Agents::prepare(&from, &folder).unwrap();
        let paths: Vec<_> = agents.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["a/agent.yaml", "models.yaml"]);
        assert!(wants_scripted(&folder).unwrap());
    }
}
