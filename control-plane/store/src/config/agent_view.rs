//! Reads of the configuration at a revision: what admin and the agent-loop snapshot need.

use super::{ModelRow, SettingRow};
use crate::{Error, Store};

/// One line per agent.
#[derive(Clone, Debug)]
pub struct AgentOverview {
    /// Its stable name.
    pub slug: String,
    /// Its name.
    pub display_name: String,
    /// What it does.
    pub title: String,
    /// Enabled skills.
    pub skills: i64,
    /// Its effective revision.
    pub effective_revision: i64,
}

/// Documents, skills and bindings of one agent, now.
#[derive(Clone, Debug, Default)]
pub struct AgentState {
    /// (kind, hex SHA-256, bytes, revision).
    pub documents: Vec<(String, String, i64, i64)>,
    /// (name, category, description, recall-only, enabled, revision).
    pub skills: Vec<(String, String, String, bool, bool, i64)>,
    /// Binding ids.
    pub bindings: Vec<String>,
}

impl Store {
    /// Every current agent, or the named one.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn agents(&self, slug: Option<&str>) -> Result<Vec<AgentOverview>, Error> {
        Ok(sqlx::query_as!(
            AgentOverview,
            r#"select a.slug, a.display_name, a.title,
                      (select count(*) from control.skills s
                        where s.agent = a.slug and s.rev_to is null and s.enabled) as "skills!",
                      (select max(r.revision) from control.agent_revisions r
                        where r.agent in (a.slug, '')) as "effective_revision!"
                 from control.agents a
                where a.rev_to is null and ($1::text is null or a.slug = $1) order by a.slug"#,
            slug
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Documents, skills and bindings of one agent, now.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn agent_state(&self, slug: &str) -> Result<AgentState, Error> {
        let documents = sqlx::query!(
            r#"select kind, encode(sha256, 'hex') as "sha256!", octet_length(body)::bigint as "bytes!",
                      rev_from from control.documents where agent = $1 and rev_to is null order by kind"#,
            slug
        )
        .fetch_all(&self.pool)
        .await?;
        let skills = sqlx::query!(
            "select name, category, description, recall_only, enabled, rev_from
               from control.skills where agent = $1 and rev_to is null order by category, name",
            slug
        )
        .fetch_all(&self.pool)
        .await?;
        let bindings = sqlx::query_scalar!(
            "select id from control.bindings where agent = $1 and rev_to is null order by id",
            slug
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(AgentState {
            documents: documents
                .into_iter()
                .map(|d| (d.kind, d.sha256, d.bytes, d.rev_from))
                .collect(),
            skills: skills
                .into_iter()
                .map(|s| (s.name, s.category, s.description, s.recall_only, s.enabled, s.rev_from))
                .collect(),
            bindings,
        })
    }

    /// The stored settings that apply to an agent at a revision, global and its own, with the
    /// revision that wrote each.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn settings_at(
        &self,
        agent: &str,
        revision: i64,
    ) -> Result<Vec<(SettingRow, i64)>, Error> {
        let rows = sqlx::query!(
            "select agent, key, value, rev_from from control.settings
              where agent in ($1, '') and rev_from <= $2 and (rev_to is null or rev_to > $2)",
            agent,
            revision
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|r| (SettingRow { agent: r.agent, key: r.key, value: r.value }, r.rev_from))
            .collect())
    }

    /// A model at a revision, with the revision that wrote it.
    ///
    /// # Errors
    /// `NotFound` naming the model; when PostgreSQL is away.
    pub async fn model_at(&self, name: &str, revision: i64) -> Result<(ModelRow, i64), Error> {
        let r = sqlx::query!(
            "select name, provider, upstream_model, window_tokens, max_output_tokens, modalities,
                    base_instructions, prices, rev_from
               from control.models
              where name = $1 and rev_from <= $2 and (rev_to is null or rev_to > $2)",
            name,
            revision
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or_else(|| Error::NotFound { what: "model", name: name.to_owned() })?;
        let model = ModelRow {
            name: r.name,
            provider: r.provider,
            upstream_model: r.upstream_model,
            window_tokens: r.window_tokens,
            max_output_tokens: r.max_output_tokens,
            modalities: r.modalities,
            base_instructions: r.base_instructions,
            prices: r.prices,
        };
        Ok((model, r.rev_from))
    }

    /// The agent's effective revision at `at`, which is the newest of all when `None`; and `at`
    /// itself. `None` for an unknown agent.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn effective_revision(
        &self,
        agent: &str,
        at: Option<i64>,
    ) -> Result<Option<(i64, i64)>, Error> {
        let row = sqlx::query!(
            r#"with at as (select coalesce($2, (select revision from control.revision_counter)) as r)
               select greatest(
                        (select max(revision) from control.agent_revisions
                          where agent = $1 and revision <= at.r),
                        (select max(revision) from control.agent_revisions
                          where agent = '' and revision <= at.r)) as effective,
                      at.r as "at!"
                 from at
                where exists (select from control.agents where slug = $1)"#,
            agent,
            at
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.and_then(|r| Some((r.effective?, r.at))))
    }
}
