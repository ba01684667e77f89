//! One agent's folder.

use super::{Draft, Files, settings_of, skill, yaml};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use turnwright_control_store::{AgentRow, BindingRow, DocumentRow};
use turnwright_types::{AdapterName, AgentSlug, BindingId};

/// The largest document, in bytes.
const DOCUMENT_BYTES: usize = 64 << 10;
/// The longest name or title, in bytes.
const NAME_BYTES: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentFile {
    slug: String,
    display_name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    bindings: Vec<Binding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    id: String,
    adapter: String,
    #[serde(default)]
    account: String,
    #[serde(default = "ignore")]
    unaddressed: String,
    #[serde(default = "message_bytes")]
    max_message_bytes: i32,
}

fn ignore() -> String {
    "ignore".to_owned()
}

const fn message_bytes() -> i32 {
    16 << 10
}

/// Reads an agent's folder; its slug, if it has a valid one.
pub(super) fn parse(folder: &str, files: &Files<'_>, draft: &mut Draft) -> Option<AgentSlug> {
    let place = format!("{folder}/agent.yaml");
    let file = files.get("agent.yaml").and_then(|bytes| match yaml::read::<AgentFile>(bytes) {
        Ok(file) => Some(file),
        Err(why) => {
            draft.problem(format!("{place}{}", why.line), why.text);
            None
        }
    });
    let slug = file.as_ref().and_then(|f| match AgentSlug::parse(f.slug.clone()) {
        Ok(slug) => Some(slug),
        Err(e) => {
            draft.problem(&place, e);
            None
        }
    });
    // Documents and skills are looked at even if agent.yaml is broken: all problems at once.
    let owner = slug.as_ref().map_or(folder, AgentSlug::as_str).to_owned();
    documents(folder, &owner, files, draft);
    skill::parse_all(folder, &owner, files, draft);
    let (file, slug) = (file?, slug?);
    for (field, text) in [("display_name", &file.display_name), ("title", &file.title)] {
        if text.len() > NAME_BYTES || text.chars().any(char::is_control) {
            draft
                .problem(&place, format!("{field} must be one line of at most {NAME_BYTES} bytes"));
        }
    }
    if file.display_name.trim().is_empty() {
        draft.problem(&place, "display_name must not be empty");
    }
    settings_of(&place, slug.as_str(), file.settings, draft);
    bindings(&place, &slug, file.bindings, draft);
    draft.desired.agents.push(AgentRow {
        slug: slug.to_string(),
        display_name: file.display_name,
        title: file.title,
    });
    Some(slug)
}

fn documents(folder: &str, owner: &str, files: &Files<'_>, draft: &mut Draft) {
    for (name, kind) in [("SOUL.md", "soul"), ("MISSION.md", "mission"), ("DESIGN.md", "design")] {
        let place = format!("{folder}/{name}");
        let Some(bytes) = files.get(name) else {
            if !draft.problems.iter().any(|p| p.starts_with(&place)) {
                draft.notes.push(format!("{place} is missing: the bundled template stands in"));
            }
            continue;
        };
        match std::str::from_utf8(bytes) {
            Err(_) => draft.problem(place, "not UTF-8"),
            Ok(text) if text.contains('\0') => draft.problem(place, "holds the character U+0000"),
            Ok(text) if text.len() > DOCUMENT_BYTES => {
                draft.problem(place, format!("larger than {DOCUMENT_BYTES} bytes"));
            }
            Ok(text) => draft.desired.documents.push(DocumentRow {
                agent: owner.to_owned(),
                kind: kind.to_owned(),
                body: text.to_owned(),
            }),
        }
    }
}

/// The declared bindings, and the console binding that every agent has.
fn bindings(place: &str, slug: &AgentSlug, declared: Vec<Binding>, draft: &mut Draft) {
    let mut seen = BTreeSet::new();
    let console = Binding {
        id: format!("console-{slug}"),
        adapter: "console".to_owned(),
        account: String::new(),
        unaddressed: ignore(),
        max_message_bytes: message_bytes(),
    };
    for b in declared.into_iter().chain([console]) {
        if let Err(e) = BindingId::parse(b.id.clone()) {
            draft.problem(place, e);
        }
        if let Err(e) = AdapterName::parse(b.adapter.clone()) {
            draft.problem(place, format!("binding `{}`: {e}", b.id));
        }
        if !["ignore", "record_only"].contains(&b.unaddressed.as_str()) {
            draft.problem(
                place,
                format!("binding `{}`: unaddressed must be ignore or record_only", b.id),
            );
        }
        if !(256..=262_144).contains(&b.max_message_bytes) {
            draft.problem(
                place,
                format!("binding `{}`: max_message_bytes must be 256 to 262144", b.id),
            );
        }
        if !seen.insert(b.id.clone()) {
            draft.problem(place, format!("binding `{}` is declared twice", b.id));
        }
        draft.desired.bindings.push(BindingRow {
            id: b.id,
            agent: slug.to_string(),
            adapter: b.adapter,
            account: b.account,
            unaddressed: b.unaddressed,
            max_message_bytes: b.max_message_bytes,
        });
    }
}
