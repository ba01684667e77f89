//! The configuration store: rows valid from a revision to before another. One apply is one
//! transaction, one revision and one link of the hash chain; an unchanged one writes nothing.

pub mod agent_view;
mod rows;
mod write;

pub use rows::{AgentRow, BindingRow, Desired, DocumentRow, ModelRow, SettingRow, SkillRow};

use crate::{Error, Store, error::retrying};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One object that an apply changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its name, such as `agent/maren/document/soul`.
    pub object: String,
    /// `created`, `updated` or `deleted`.
    pub action: String,
    /// SHA-256 of its new content, in hexadecimal; empty when deleted.
    pub sha256: String,
}

/// What an apply did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The newest revision, new or not.
    pub revision: i64,
    /// What changed; empty when nothing did.
    pub changes: Vec<Change>,
}

impl Store {
    /// Makes the configuration as `desired`: the agents it names wholly so, its models and global
    /// settings added or replaced, everything else untouched.
    ///
    /// # Errors
    /// [`Error::Conflict`] when an object it changes was changed after `base`.
    pub async fn apply(
        &self,
        desired: &Desired,
        base: Option<i64>,
        author: &str,
        reason: &str,
    ) -> Result<Applied, Error> {
        retrying!(self.apply_once(desired, base, author, reason))
    }

    async fn apply_once(
        &self,
        desired: &Desired,
        base: Option<i64>,
        author: &str,
        reason: &str,
    ) -> Result<Applied, Error> {
        let mut tx = self.pool.begin().await?;
        // The counter's row is the lock: revisions commit in order.
        let newest =
            sqlx::query_scalar!("select revision from control.revision_counter for update")
                .fetch_one(&mut *tx)
                .await?;
        let agents = desired.agent_slugs();
        let current = rows::current(&mut tx, &agents).await?;
        let diff = Diff::between(&current, desired)?;
        if diff.changes.is_empty() {
            return Ok(Applied { revision: newest, changes: Vec::new() });
        }
        if let Some(base) = base {
            let objects = diff.changed_after(base);
            if !objects.is_empty() {
                return Err(Error::Conflict { base, objects });
            }
        }
        let revision = newest + 1;
        write::revision(&mut tx, revision, author, reason, &diff.changes).await?;
        write::close(&mut tx, revision, &diff).await?;
        write::insert(&mut tx, revision, desired, &diff).await?;
        tx.commit().await?;
        Ok(Applied { revision, changes: diff.changes })
    }
}

/// What has to be closed and inserted.
pub(crate) struct Diff {
    pub changes: Vec<Change>,
    /// Objects whose current row ends, with the revision that wrote it.
    pub closed: BTreeMap<String, i64>,
    /// Objects that get a new row.
    pub opened: Vec<String>,
    /// Agents whose context changes; empty string for all of them.
    pub touched: Vec<String>,
}

impl Diff {
    fn between(current: &rows::Current, desired: &Desired) -> Result<Self, Error> {
        let wanted = desired.digests()?;
        let mut diff =
            Self { changes: vec![], closed: BTreeMap::new(), opened: vec![], touched: vec![] };
        for (object, sha256) in &wanted {
            let action = match current.get(object) {
                Some(row) if row.sha256 == *sha256 => continue,
                Some(row) => {
                    diff.closed.insert(object.clone(), row.rev_from);
                    "updated"
                }
                None => "created",
            };
            diff.opened.push(object.clone());
            diff.changes.push(Change {
                object: object.clone(),
                action: action.to_owned(),
                sha256: sha256.clone(),
            });
        }
        for (object, row) in current {
            // Models and global settings that an apply does not name stay.
            if !wanted.contains_key(object) && object.starts_with("agent/") {
                diff.closed.insert(object.clone(), row.rev_from);
                diff.changes.push(Change {
                    object: object.clone(),
                    action: "deleted".to_owned(),
                    sha256: String::new(),
                });
            }
        }
        diff.changes.sort_by(|a, b| a.object.cmp(&b.object));
        let agent_of = |object: &str| {
            let slug = object.strip_prefix("agent/").and_then(|rest| rest.split('/').next());
            slug.unwrap_or("").to_owned()
        };
        diff.touched = diff.changes.iter().map(|c| agent_of(&c.object)).collect();
        diff.touched.sort_unstable();
        diff.touched.dedup();
        Ok(diff)
    }

    fn changed_after(&self, base: i64) -> Vec<String> {
        let late = self.closed.iter().filter(|(_, rev_from)| **rev_from > base);
        late.map(|(object, _)| object.clone()).collect()
    }
}
