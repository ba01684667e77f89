//! What the broker reads, on its hot path: prepared, pipelined reads over deadpool-postgres, apart
//! from the transactional pool.

use crate::{Error, SESSION};
use chrono::{DateTime, Utc};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use serde_json::Value;
use std::{str::FromStr as _, time::Duration};
use tokio_postgres::{NoTls, Row};
use turnwright_types::ConversationId;

/// The heavy part: one agent at one effective revision.
#[derive(Clone, Debug)]
pub struct ContextRow {
    /// The agent.
    pub agent: String,
    /// Its effective revision.
    pub effective_revision: i64,
    /// Its name.
    pub display_name: String,
    /// Its title.
    pub title: String,
    /// The revision that wrote its profile.
    pub profile_revision: i64,
    /// kind → {text, sha256, revision}.
    pub documents: Value,
    /// [{name, category, description, tags, recall_only, revision}], in catalogue order.
    pub skills: Value,
    /// {value, revision} of `system.timezone`, if set.
    pub timezone: Option<Value>,
}

/// The light part: frozen per generation.
#[derive(Clone, Debug)]
pub struct OriginRow {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its agent.
    pub agent: String,
    /// Its key.
    pub key: String,
    /// Which generation this is.
    pub generation: i32,
    /// When the generation began.
    pub started_at: DateTime<Utc>,
    /// The adapter it came through.
    pub adapter: String,
    /// The kind of place.
    pub kind: String,
    /// The name of the place or peer.
    pub label: String,
}

/// One file of a skill at a revision.
#[derive(Clone, Debug)]
pub struct SkillFile {
    /// The file.
    pub content: Vec<u8>,
    /// Its hash, in hexadecimal.
    pub sha256: String,
    /// The revision that wrote the skill.
    pub revision: i64,
    /// Every file of the skill, in order.
    pub files: Vec<String>,
}

/// The broker's reader.
#[derive(Clone, Debug)]
pub struct ContextStore {
    pool: Pool,
}

const ORIGIN: &str = "
    select c.id, c.agent, c.key, g.generation, g.started_at, g.origin_adapter, g.origin_kind,
           g.origin_label
      from control.conversations c
      join control.generations g on g.conversation = c.id
     where c.id = $1 and g.generation = case when $2::int4 = 0 then c.generation else $2::int4 end";

const EFFECTIVE: &str = "
    select greatest((select max(revision) from control.agent_revisions
                      where agent = $1 and revision <= $2),
                    (select max(revision) from control.agent_revisions
                      where agent = '' and revision <= $2)) as effective,
           (select revision from control.revision_counter) as newest";

const CONTEXT: &str = "
    select agent_slug, effective_revision, display_name, title, profile_revision, documents,
           skills, timezone
      from control.agent_conversation_context
     where conversation = $1 and effective_revision = $2";

const SKILL: &str = "
    select s.files, s.rev_from, s.files ->> $4 as wanted, b.content,
           exists (select from control.skills n where n.agent = s.agent and n.name = s.name
                    and n.rev_to is null and n.enabled) as enabled_now
      from control.skills s
      left join control.blobs b on b.sha256 = decode(s.files ->> $4, 'hex')
     where s.agent = $1 and s.name = $2 and s.enabled and s.rev_from <= $3
       and (s.rev_to is null or s.rev_to > $3)";

impl ContextStore {
    /// Prepares a pool of at most `max_connections` sessions; connects on first use.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn new(url: &str, max_connections: usize) -> Result<Self, Error> {
        let mut config = tokio_postgres::Config::from_str(url).map_err(away)?;
        let mut options = config.get_options().unwrap_or_default().to_owned();
        for (key, value) in SESSION {
            options.push_str(&format!(" -c {key}={value}"));
        }
        config.application_name("turnwright-broker").options(&options);
        config.connect_timeout(Duration::from_secs(5));
        let manager = Manager::from_config(
            config,
            NoTls,
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let wait = Some(Duration::from_secs(5));
        let pool = Pool::builder(manager)
            .max_size(max_connections)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts { wait, create: wait, recycle: wait })
            .build()
            .map_err(away)?;
        Ok(Self { pool })
    }

    async fn one(
        &self,
        sql: &str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        let db = self.pool.get().await.map_err(away)?;
        let statement = db.prepare_cached(sql).await.map_err(away)?;
        db.query_opt(&statement, params).await.map_err(away)
    }

    /// The light part of a conversation's generation; generation 0 is the current one.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn origin(
        &self,
        conversation: ConversationId,
        generation: i32,
    ) -> Result<Option<OriginRow>, Error> {
        let row = self.one(ORIGIN, &[&conversation.uuid(), &generation]).await?;
        let Some(r) = row else { return Ok(None) };
        Ok(Some(OriginRow {
            conversation,
            agent: r.try_get(1).map_err(away)?,
            key: r.try_get(2).map_err(away)?,
            generation: r.try_get(3).map_err(away)?,
            started_at: r.try_get(4).map_err(away)?,
            adapter: r.try_get(5).map_err(away)?,
            kind: r.try_get(6).map_err(away)?,
            label: r.try_get(7).map_err(away)?,
        }))
    }

    /// The agent's effective revision at `revision`, and the newest revision there is. `None` when
    /// the agent has none that early.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn effective(&self, agent: &str, revision: i64) -> Result<(Option<i64>, i64), Error> {
        let row = self.one(EFFECTIVE, &[&agent, &revision]).await?;
        match row {
            Some(r) => Ok((r.try_get(0).map_err(away)?, r.try_get(1).map_err(away)?)),
            None => Ok((None, 0)),
        }
    }

    /// The heavy part, read from the view `control.agent_conversation_context`.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn context(
        &self,
        conversation: ConversationId,
        effective_revision: i64,
    ) -> Result<Option<ContextRow>, Error> {
        let row = self.one(CONTEXT, &[&conversation.uuid(), &effective_revision]).await?;
        let Some(r) = row else { return Ok(None) };
        Ok(Some(ContextRow {
            agent: r.try_get(0).map_err(away)?,
            effective_revision: r.try_get(1).map_err(away)?,
            display_name: r.try_get(2).map_err(away)?,
            title: r.try_get(3).map_err(away)?,
            profile_revision: r.try_get(4).map_err(away)?,
            documents: r.try_get(5).map_err(away)?,
            skills: r.try_get(6).map_err(away)?,
            timezone: r.try_get(7).map_err(away)?,
        }))
    }

    /// A file of a skill at `revision`, if the skill was enabled then and is enabled now.
    ///
    /// # Errors
    /// `NotFound` naming skill or file; when PostgreSQL is away.
    pub async fn skill_file(
        &self,
        agent: &str,
        revision: i64,
        name: &str,
        path: &str,
    ) -> Result<SkillFile, Error> {
        let row = self.one(SKILL, &[&agent, &name, &revision, &path]).await?;
        let missing = || Error::NotFound { what: "skill", name: name.to_owned() };
        let r = row.ok_or_else(missing)?;
        if !r.try_get::<_, bool>(4).map_err(away)? {
            return Err(missing());
        }
        let files: Value = r.try_get(0).map_err(away)?;
        let wanted: Option<String> = r.try_get(2).map_err(away)?;
        let content: Option<Vec<u8>> = r.try_get(3).map_err(away)?;
        let (Some(sha256), Some(content)) = (wanted, content) else {
            return Err(Error::NotFound { what: "skill file", name: format!("{name}/{path}") });
        };
        let mut names: Vec<String> =
            files.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
        names.sort_unstable();
        Ok(SkillFile { content, sha256, revision: r.try_get(1).map_err(away)?, files: names })
    }
}

fn away(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Context(Box::new(e))
}
