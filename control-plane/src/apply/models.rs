//! `models.yaml`: the models, checked against the providers beside them. Where providers listen
//! and how they are paid is the gateway's business.

use super::{Draft, yaml};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use turnwright_control_store::ModelRow;
use turnwright_types::ModelName;

/// The longest core instructions, in bytes; they travel with every turn start.
const BASE_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    providers: Vec<Provider>,
    #[serde(default)]
    models: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    name: String,
    kind: String,
    base_url: String,
    #[serde(default)]
    api_key_env: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    provider: String,
    upstream_model: String,
    #[serde(default)]
    window_tokens: Option<i32>,
    #[serde(default)]
    max_output_tokens: Option<i32>,
    #[serde(default)]
    modalities: Vec<String>,
    #[serde(default)]
    base_instructions: String,
    #[serde(default)]
    prices: BTreeMap<String, String>,
}

pub(super) fn parse(path: &str, bytes: &[u8], draft: &mut Draft) {
    let file: File = match yaml::read(bytes) {
        Ok(file) => file,
        Err(why) => return draft.problem(format!("{path}{}", why.line), why.text),
    };
    let mut providers = BTreeSet::new();
    for p in &file.providers {
        if p.kind != "chat_completions" {
            draft.problem(path, format!("provider `{}`: kind must be chat_completions", p.name));
        }
        if p.base_url.is_empty() || p.api_key_env.as_deref() == Some("") {
            draft.problem(
                path,
                format!("provider `{}`: base_url and api_key_env must not be empty", p.name),
            );
        }
        if !providers.insert(p.name.as_str()) {
            draft.problem(path, format!("provider `{}` is declared twice", p.name));
        }
    }
    let mut names = BTreeSet::new();
    for m in &file.models {
        let place = format!("model `{}`", m.name);
        if let Err(e) = ModelName::parse(m.name.clone()) {
            draft.problem(path, format!("{place}: {e}"));
        }
        if m.base_instructions.len() > BASE_BYTES {
            draft.problem(
                path,
                format!("{place}: base_instructions larger than {BASE_BYTES} bytes"),
            );
        }
        if !names.insert(m.name.as_str()) {
            draft.problem(path, format!("{place} is declared twice"));
        }
        if !providers.contains(m.provider.as_str()) {
            draft.problem(path, format!("{place}: provider `{}` is not declared", m.provider));
        }
        for (key, value) in
            [("window_tokens", m.window_tokens), ("max_output_tokens", m.max_output_tokens)]
        {
            if value.is_some_and(|v| v <= 0) {
                draft.problem(path, format!("{place}: {key} must be at least 1"));
            }
        }
    }
    let rows = file.models.into_iter().map(|m| ModelRow {
        name: m.name,
        provider: m.provider,
        upstream_model: m.upstream_model,
        window_tokens: m.window_tokens,
        max_output_tokens: m.max_output_tokens,
        modalities: m.modalities,
        base_instructions: m.base_instructions,
        prices: serde_json::json!(m.prices),
    });
    draft.desired.models.extend(rows);
}
