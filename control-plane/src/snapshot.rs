//! The agent-loop configuration snapshot that a `TurnStart` carries: resolved once per agent and
//! effective revision, which never change.

use crate::{Error, settings};
use moka::future::Cache;
use serde_json::Value;
use std::sync::Arc;
use turnwright_control_store::Store;
use turnwright_proto::v1;

/// Snapshots by agent and effective revision.
#[derive(Debug)]
pub struct Snapshots {
    store: Store,
    cache: Cache<(String, i64), Arc<v1::AiAgentConfig>>,
}

impl Snapshots {
    /// Over a store; holds at most 10 000 snapshots.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, cache: Cache::new(10_000) }
    }

    /// The snapshot of an agent as of a revision, or as of the newest one; and that revision.
    ///
    /// # Errors
    /// When the agent or its model does not exist there, a stored setting is not valid, or
    /// PostgreSQL is away.
    pub async fn get(
        &self,
        agent: &str,
        revision: Option<i64>,
    ) -> Result<(Arc<v1::AiAgentConfig>, i64), Error> {
        let found = self.store.effective_revision(agent, revision).await?;
        let (effective, at) = found.ok_or_else(|| Error::NotFound {
            what: "agent",
            name: agent.to_owned(),
            hint: String::new(),
        })?;
        let key = (agent.to_owned(), effective);
        Ok((self.cache.try_get_with(key, self.load(agent, effective)).await?, at))
    }

    async fn load(&self, agent: &str, revision: i64) -> Result<Arc<v1::AiAgentConfig>, Error> {
        let rows = self.store.settings_at(agent, revision).await?;
        let resolved = settings::resolve(&rows)?;
        let value = |key: &str| resolved.get(key).map_or(Value::Null, |r| r.value.clone());
        let int = |key: &str| value(key).as_i64();
        let small = |key: &str| int(key).and_then(|n| i32::try_from(n).ok());
        let model_name = value("ai_agent.model").as_str().unwrap_or_default().to_owned();
        let (model, written) = self.store.model_at(&model_name, revision).await?;
        let ai_agent = v1::AiAgentConfig {
            max_iterations: small("ai_agent.max_iterations").unwrap_or(90),
            max_output_tokens: small("ai_agent.max_output_tokens"),
            inactivity_timeout_ms: int("ai_agent.inactivity_timeout_ms").unwrap_or(1_800_000),
            model: Some(v1::ModelProfile {
                name: model.name,
                window_tokens: model.window_tokens,
                max_output_tokens: model.max_output_tokens,
                default_base_instructions: model.base_instructions,
                revision: written,
            }),
            base_instructions: value("ai_agent.base_instructions").as_str().map(str::to_owned),
            base_instructions_revision: resolved
                .get("ai_agent.base_instructions")
                .map_or(0, |r| r.revision),
        };
        Ok(Arc::new(ai_agent))
    }
}
