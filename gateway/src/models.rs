//! The models that can be asked for and the providers behind them, from one file. Credentials come
//! from the environment and are never in the file, a log or an error.

use secrecy::SecretString;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use turnwright_kit::config::Env;
use turnwright_types::ModelName;

/// Every model by its name.
#[derive(Clone, Debug, Default)]
pub struct Models(Arc<BTreeMap<String, Arc<Model>>>);

/// One model and how to reach it.
#[derive(Clone, Debug)]
pub struct Model {
    /// As clients name it.
    pub name: String,
    /// Its provider's name.
    pub provider: String,
    /// As the provider names it.
    pub upstream_model: String,
    /// Where completions are asked for.
    pub url: String,
    /// The provider's credential, if it wants one.
    pub api_key: Option<SecretString>,
    /// The most tokens it may be asked for.
    pub max_output_tokens: Option<u32>,
    /// Whether it sees images.
    pub images: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    providers: Vec<ProviderEntry>,
    #[serde(default)]
    models: Vec<ModelEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    name: Spanned<String>,
    kind: Spanned<String>,
    base_url: Spanned<String>,
    #[serde(default)]
    api_key_env: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    name: Spanned<String>,
    provider: Spanned<String>,
    #[serde(default)]
    upstream_model: Option<String>,
    #[serde(default)]
    max_output_tokens: Option<u32>,
    #[serde(default)]
    modalities: Vec<Spanned<String>>,
    // The control plane's part of the same file.
    #[serde(default, rename = "window_tokens")]
    _window_tokens: Option<u64>,
    #[serde(default, rename = "prices")]
    _prices: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "base_instructions")]
    _base_instructions: Option<String>,
}

/// A usable provider.
#[derive(Clone)]
struct Provider {
    url: String,
    api_key: Option<SecretString>,
}

impl Models {
    /// Reads a models file; every problem is noted in `env` with its file and line.
    pub fn load(path: &str, env: &mut Env) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text, env),
            Err(e) => {
                env.problem(path, format_args!("cannot be read: {e}"));
                Self::default()
            }
        }
    }

    /// As [`Models::load`], from text.
    pub(crate) fn parse(path: &str, text: &str, env: &mut Env) -> Self {
        let file: File = match serde_saphyr::from_str(text) {
            Ok(file) => file,
            Err(e) => {
                let line = e.location().map_or(1, |at| at.line());
                env.problem(&format!("{path}:{line}"), e.without_snippet());
                return Self::default();
            }
        };
        if file.models.is_empty() {
            env.problem(path, "names no model: list at least one under `models`");
        }
        let mut reader = Reader { path, env };
        let providers = reader.providers(file.providers);
        Self(Arc::new(reader.models(file.models, &providers)))
    }

    /// A model by the name clients give.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Model>> {
        self.0.get(name).cloned()
    }

    /// Every model, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.0.values().map(|model| &**model)
    }
}

/// Notes problems where they stand in the file.
struct Reader<'a> {
    path: &'a str,
    env: &'a mut Env,
}

impl Reader<'_> {
    fn problem<T>(&mut self, at: &Spanned<T>, why: &str) {
        let line = at.referenced.line();
        self.env.problem(&format!("{}:{line}", self.path), why);
    }

    fn providers(&mut self, entries: Vec<ProviderEntry>) -> BTreeMap<String, Option<Provider>> {
        let mut providers = BTreeMap::new();
        for entry in entries {
            let provider = self.provider(&entry);
            let name = entry.name.value.clone();
            // A provider with problems is known all the same: its models are not to be blamed.
            if providers.insert(name, provider).is_some() {
                self.problem(&entry.name, "two providers have this name");
            }
        }
        providers
    }

    fn provider(&mut self, entry: &ProviderEntry) -> Option<Provider> {
        if entry.kind.value != "chat_completions" {
            let why =
                format!("`{}` is no kind of provider: use `chat_completions`", entry.kind.value);
            self.problem(&entry.kind, &why);
            return None;
        }
        let base = self.substituted(&entry.base_url)?;
        if !base.starts_with("http://") && !base.starts_with("https://") {
            self.problem(&entry.base_url, "base_url must begin with http:// or https://");
            return None;
        }
        let api_key = match &entry.api_key_env {
            None => None,
            Some(variable) => match self.env.get(&variable.value) {
                Some(key) => Some(SecretString::from(key)),
                None => {
                    let why = format!("set {} to the key of this provider", variable.value);
                    self.problem(variable, &why);
                    return None;
                }
            },
        };
        Some(Provider { url: format!("{}/chat/completions", base.trim_end_matches('/')), api_key })
    }

    /// A text with each `${NAME}` replaced by that variable.
    fn substituted(&mut self, raw: &Spanned<String>) -> Option<String> {
        let mut text = String::new();
        let mut rest = raw.value.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((variable, after)) = after.split_once('}') else {
                self.problem(raw, "`${` has no `}`");
                return None;
            };
            let Some(value) = self.env.get(variable).map(str::to_owned) else {
                let why = format!("set {variable}, which base_url names");
                self.problem(raw, &why);
                return None;
            };
            text.push_str(before);
            text.push_str(&value);
            rest = after;
        }
        text.push_str(rest);
        Some(text)
    }

    fn models(
        &mut self,
        entries: Vec<ModelEntry>,
        providers: &BTreeMap<String, Option<Provider>>,
    ) -> BTreeMap<String, Arc<Model>> {
        let mut models = BTreeMap::new();
        let mut names = BTreeSet::new();
        for entry in entries {
            if let Err(e) = ModelName::parse(entry.name.value.as_str()) {
                self.problem(&entry.name, &e.to_string());
            }
            if !names.insert(entry.name.value.clone()) {
                self.problem(&entry.name, "two models have this name");
            }
            for modality in &entry.modalities {
                if !matches!(modality.value.as_str(), "text" | "image") {
                    self.problem(modality, "a modality is `text` or `image`");
                }
            }
            let provider = match providers.get(&entry.provider.value) {
                Some(Some(provider)) => provider.clone(),
                Some(None) => continue,
                None => {
                    self.problem(&entry.provider, "no provider of this file has this name");
                    continue;
                }
            };
            let model = Model {
                upstream_model: entry.upstream_model.unwrap_or_else(|| entry.name.value.clone()),
                provider: entry.provider.value,
                url: provider.url,
                api_key: provider.api_key,
                max_output_tokens: entry.max_output_tokens,
                images: entry.modalities.iter().any(|m| m.value == "image"),
                name: entry.name.value.clone(),
            };
            models.insert(entry.name.value, Arc::new(model));
        }
        models
    }
}

#[cfg(test)]
mod tests;
