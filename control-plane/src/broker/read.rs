//! Rows of the view as messages: parsed here, once per cache entry.

use super::Origin;
use crate::{Error, settings};
use serde::Deserialize;
use std::collections::BTreeMap;
use turnwright_control_store::{ContextRow, Error as StoreError, OriginRow, SettingRow};
use turnwright_proto::{convert, v1};
use turnwright_types::{ChannelKind, Sha256};

/// What stands in for a document that an agent does not have.
const TEMPLATES: [(&str, &str); 3] = [
    ("soul", include_str!("../../templates/SOUL.md")),
    ("mission", include_str!("../../templates/MISSION.md")),
    ("design", include_str!("../../templates/DESIGN.md")),
];

#[derive(Deserialize)]
struct Document {
    text: String,
    sha256: String,
    revision: i64,
}

#[derive(Deserialize)]
struct Skill {
    name: String,
    category: String,
    description: String,
    tags: Vec<String>,
    recall_only: bool,
    revision: i64,
}

#[derive(Deserialize)]
struct TimeZone {
    value: serde_json::Value,
    revision: i64,
}

fn corrupt(what: &'static str, why: impl std::fmt::Display) -> Error {
    StoreError::Corrupt { what, why: why.to_string() }.into()
}

pub(super) fn origin(row: OriginRow) -> Result<Origin, Error> {
    let kind = ChannelKind::parse(&row.kind).map_err(|e| corrupt("origin kind", e))?;
    let wire = v1::ConversationOrigin {
        conversation_id: row.conversation.to_string(),
        conversation_key: row.key,
        generation: row.generation,
        started_at: Some(convert::timestamp(row.started_at)),
        adapter: row.adapter,
        kind: v1::ChannelKind::from(kind).into(),
        label: row.label,
    };
    Ok(Origin { agent: row.agent, wire })
}

pub(super) fn agent(row: ContextRow) -> Result<v1::AgentContext, Error> {
    let mut documents: BTreeMap<String, Document> =
        serde_json::from_value(row.documents).map_err(|e| corrupt("documents", e))?;
    let skills: Vec<Skill> =
        serde_json::from_value(row.skills).map_err(|e| corrupt("skills", e))?;
    let [soul, mission, design] = TEMPLATES.map(|(kind, template)| {
        Some(match documents.remove(kind) {
            Some(d) => v1::Document { text: d.text, sha256: d.sha256, revision: d.revision },
            None => v1::Document {
                text: template.to_owned(),
                sha256: Sha256::of(template).to_string(),
                revision: 0,
            },
        })
    });
    let stored = row.timezone.map(serde_json::from_value::<TimeZone>).transpose();
    let stored = stored.map_err(|e| corrupt("time zone", e))?.map(|t| {
        let (agent, key) = (String::new(), "system.timezone".to_owned());
        (SettingRow { agent, key, value: t.value }, t.revision)
    });
    let rows: Vec<_> = stored.into_iter().collect();
    let resolved = settings::resolve(&rows)?;
    let zone = resolved.get("system.timezone");
    Ok(v1::AgentContext {
        slug: row.agent,
        display_name: row.display_name,
        title: row.title,
        soul,
        mission,
        design,
        skills: skills
            .into_iter()
            .map(|s| v1::SkillSummary {
                name: s.name,
                category: s.category,
                description: s.description,
                tags: s.tags,
                recall_only: s.recall_only,
                revision: s.revision,
            })
            .collect(),
        timezone: zone.and_then(|z| z.value.as_str()).unwrap_or("UTC").to_owned(),
        effective_revision: row.effective_revision,
        timezone_revision: zone.map_or(0, |z| z.revision),
        profile_revision: row.profile_revision,
    })
}

/// The text and hash of the template for a document kind.
pub(crate) fn template(kind: &str) -> Option<(&'static str, Sha256)> {
    TEMPLATES.iter().find(|(k, _)| *k == kind).map(|(_, text)| (*text, Sha256::of(text)))
}
