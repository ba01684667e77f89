//! The rows of the configuration tables, as values: what is wanted and what is there, compared by
//! the hash of their content.

use crate::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::PgConnection;
use std::collections::BTreeMap;
use turnwright_types::Sha256;

/// A row of `control.agents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRow {
    /// Its stable name.
    pub slug: String,
    /// Its name.
    pub display_name: String,
    /// What it does.
    pub title: String,
}

/// A row of `control.documents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentRow {
    /// Its agent.
    pub agent: String,
    /// `soul`, `mission` or `design`.
    pub kind: String,
    /// Markdown.
    pub body: String,
}

/// A row of `control.skills`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkillRow {
    /// Its agent.
    pub agent: String,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// When to use it.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Left out of the catalogue.
    pub recall_only: bool,
    /// Whether the agent has it.
    pub enabled: bool,
    /// The whole frontmatter, unknown keys kept.
    pub frontmatter: Value,
    /// path → hex SHA-256 of [`Desired::blobs`].
    pub files: BTreeMap<String, String>,
}

/// A row of `control.settings`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingRow {
    /// Its agent; empty for the global scope.
    pub agent: String,
    /// The declared key.
    pub key: String,
    /// The validated value.
    pub value: Value,
}

/// A row of `control.models`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// The reference agents use.
    pub name: String,
    /// Who serves it.
    pub provider: String,
    /// Its name there.
    pub upstream_model: String,
    /// Its window, if known.
    pub window_tokens: Option<i32>,
    /// The most it can write at once, if known.
    pub max_output_tokens: Option<i32>,
    /// What it reads.
    pub modalities: Vec<String>,
    /// Core instructions for agents without their own.
    pub base_instructions: String,
    /// Per million tokens, as decimal text.
    pub prices: Value,
}

/// A row of `control.bindings`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BindingRow {
    /// Its stable name.
    pub id: String,
    /// Its agent.
    pub agent: String,
    /// The adapter kind.
    pub adapter: String,
    /// The account at the provider.
    pub account: String,
    /// What happens to messages that do not address the agent.
    pub unaddressed: String,
    /// The longest message it can send, in bytes.
    pub max_message_bytes: i32,
}

/// What an apply wants.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// Agents, each wholly described by the rows that name it.
    pub agents: Vec<AgentRow>,
    /// Their documents.
    pub documents: Vec<DocumentRow>,
    /// Their skills.
    pub skills: Vec<SkillRow>,
    /// Their settings and global ones.
    pub settings: Vec<SettingRow>,
    /// Models.
    pub models: Vec<ModelRow>,
    /// Their bindings.
    pub bindings: Vec<BindingRow>,
    /// The contents that skills refer to.
    pub blobs: BTreeMap<String, Vec<u8>>,
}

impl AgentRow {
    fn object(&self) -> String {
        format!("agent/{}", self.slug)
    }
}
impl DocumentRow {
    fn object(&self) -> String {
        format!("agent/{}/document/{}", self.agent, self.kind)
    }
}
impl SkillRow {
    fn object(&self) -> String {
        format!("agent/{}/skill/{}", self.agent, self.name)
    }
}
impl SettingRow {
    fn object(&self) -> String {
        if self.agent.is_empty() {
            format!("setting/{}", self.key)
        } else {
            format!("agent/{}/setting/{}", self.agent, self.key)
        }
    }
}
impl ModelRow {
    fn object(&self) -> String {
        format!("model/{}", self.name)
    }
}
impl BindingRow {
    fn object(&self) -> String {
        format!("agent/{}/binding/{}", self.agent, self.id)
    }
}

impl Desired {
    pub(crate) fn agent_slugs(&self) -> Vec<String> {
        self.agents.iter().map(|a| a.slug.clone()).collect()
    }

    /// Object name → hex SHA-256 of its content.
    pub(crate) fn digests(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut out = BTreeMap::new();
        let mut put = |object: String, row: &Value| {
            out.insert(object, Sha256::of(canonical(row)).to_string());
        };
        for r in &self.agents {
            put(r.object(), &value(r)?);
        }
        for r in &self.documents {
            put(r.object(), &value(r)?);
        }
        for r in &self.skills {
            put(r.object(), &value(r)?);
        }
        for r in &self.settings {
            put(r.object(), &value(r)?);
        }
        for r in &self.models {
            put(r.object(), &value(r)?);
        }
        for r in &self.bindings {
            put(r.object(), &value(r)?);
        }
        Ok(out)
    }

    /// The wanted rows of one table whose objects are `opened`, as a JSON array.
    pub(crate) fn opened(&self, table: Table, opened: &[String]) -> Result<Value, Error> {
        fn keep<T: Serialize>(
            rows: &[T],
            object: fn(&T) -> String,
            opened: &[String],
        ) -> Result<Value, Error> {
            let kept = rows.iter().filter(|r| opened.contains(&object(r)));
            kept.map(value).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        match table {
            Table::Agents => keep(&self.agents, AgentRow::object, opened),
            Table::Documents => keep(&self.documents, DocumentRow::object, opened),
            Table::Skills => keep(&self.skills, SkillRow::object, opened),
            Table::Settings => keep(&self.settings, SettingRow::object, opened),
            Table::Models => keep(&self.models, ModelRow::object, opened),
            Table::Bindings => keep(&self.bindings, BindingRow::object, opened),
        }
    }
}

/// A configuration table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Table {
    Agents,
    Documents,
    Skills,
    Settings,
    Models,
    Bindings,
}

/// A current row, reduced to what a diff needs.
pub(crate) struct CurrentRow {
    pub rev_from: i64,
    pub sha256: String,
}

/// Object name → current row.
pub(crate) type Current = BTreeMap<String, CurrentRow>;

fn value(row: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(row).map_err(|e| Error::corrupt("configuration row", e))
}

/// JSON with sorted keys, so that a value has one text whatever map it went through.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, String> =
                map.iter().map(|(k, v)| (k, canonical(v))).collect();
            let parts: Vec<String> = sorted
                .iter()
                .map(|(k, v)| format!("{}:{v}", Value::String((*k).clone())))
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The current rows of the named agents, all models and all global settings.
pub(crate) async fn current(db: &mut PgConnection, agents: &[String]) -> Result<Current, Error> {
    let mut out = Current::new();
    let rows = sqlx::query!(
        r#"select 'agents' as "t!", rev_from as "r!", to_jsonb(x) as "j!" from control.agents x
            where rev_to is null and slug = any($1)
           union all select 'documents', rev_from, to_jsonb(x) from control.documents x
            where rev_to is null and agent = any($1)
           union all select 'skills', rev_from, to_jsonb(x) from control.skills x
            where rev_to is null and agent = any($1)
           union all select 'settings', rev_from, to_jsonb(x) from control.settings x
            where rev_to is null and (agent = any($1) or agent = '')
           union all select 'models', rev_from, to_jsonb(x) from control.models x
            where rev_to is null
           union all select 'bindings', rev_from, to_jsonb(x) from control.bindings x
            where rev_to is null and agent = any($1)"#,
        agents
    )
    .fetch_all(db)
    .await?;
    for row in rows {
        let (object, value) = match row.t.as_str() {
            "agents" => read::<AgentRow>(row.j, AgentRow::object)?,
            "documents" => read::<DocumentRow>(row.j, DocumentRow::object)?,
            "skills" => read::<SkillRow>(row.j, SkillRow::object)?,
            "settings" => read::<SettingRow>(row.j, SettingRow::object)?,
            "models" => read::<ModelRow>(row.j, ModelRow::object)?,
            _ => read::<BindingRow>(row.j, BindingRow::object)?,
        };
        let sha256 = Sha256::of(canonical(&value)).to_string();
        out.insert(object, CurrentRow { rev_from: row.r, sha256 });
    }
    Ok(out)
}

/// Through the row's type, so that columns of the store itself do not count as content.
fn read<T: Serialize + for<'a> Deserialize<'a>>(
    row: Value,
    object: fn(&T) -> String,
) -> Result<(String, Value), Error> {
    let row: T = serde_json::from_value(row).map_err(|e| Error::corrupt("configuration row", e))?;
    Ok((object(&row), value(&row)?))
}

#[cfg(test)]
mod tests {
    use super::canonical;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter_and_content_does() {
        assert_eq!(
            canonical(&json!({"b": [1, {"d": 1, "c": 2}], "a": "x"})),
            canonical(&json!({"a": "x", "b": [1, {"c": 2, "d": 1}]}))
        );
        assert_ne!(canonical(&json!({"a": 1})), canonical(&json!({"a": "1"})));
    }
}
