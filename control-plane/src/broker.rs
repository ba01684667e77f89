//! The context broker's cache: the heavy part once per agent and effective revision, the light
//! part once per conversation and generation. Both are immutable, so nothing can be stale; what
//! moves, the current generation and enablement, is read anew.

pub(crate) mod read;

use crate::Error;
use moka::future::Cache;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use turnwright_control_store::{ContextStore, SkillFile};
use turnwright_proto::v1;
use turnwright_types::{ConversationId, Sha256};

/// Bytes that the heavy parts may take together.
const HEAVY_BYTES: u64 = 256 << 20;
/// Light parts held at once.
const LIGHT: u64 = 200_000;

/// The light part, with the agent it belongs to.
#[derive(Debug)]
pub struct Origin {
    agent: String,
    wire: v1::ConversationOrigin,
}

/// The heavy part in both scopes, and its hash.
#[derive(Debug)]
pub struct Heavy {
    catalogue: v1::AgentContext,
    all: v1::AgentContext,
    digest: String,
    bytes: u32,
}

/// Serves contexts from the cache, and from PostgreSQL what is not there.
#[derive(Debug)]
pub struct Broker {
    store: ContextStore,
    heavy: Cache<(String, i64), Arc<Heavy>>,
    effective: Cache<(String, i64), i64>,
    light: Cache<(ConversationId, i32), Arc<Origin>>,
    view_reads: AtomicU64,
}

/// Which skills a context lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Without the recall-only ones.
    Catalogue,
    /// Every enabled one.
    All,
}

impl Broker {
    /// Over a reader.
    #[must_use]
    pub fn new(store: ContextStore) -> Self {
        Self {
            store,
            heavy: Cache::builder()
                .weigher(|_, v: &Arc<Heavy>| v.bytes)
                .max_capacity(HEAVY_BYTES)
                .build(),
            effective: Cache::new(200_000),
            light: Cache::new(LIGHT),
            view_reads: AtomicU64::new(0),
        }
    }

    /// How often the view was read.
    pub fn view_reads(&self) -> u64 {
        self.view_reads.load(Ordering::Relaxed)
    }

    /// The context of a conversation at a revision; generation 0 is the current one.
    ///
    /// # Errors
    /// `NotFound` naming the conversation, its generation or the revision; `Unavailable` when
    /// PostgreSQL is away and the cache does not hold it.
    pub async fn context(
        &self,
        conversation: ConversationId,
        generation: i32,
        revision: i64,
        scope: Scope,
        if_none_match: &str,
    ) -> Result<v1::GetConversationContextResponse, Error> {
        let origin = self.origin(conversation, generation).await?;
        let effective = self.effective(&origin.agent, revision).await?;
        let key = (origin.agent.clone(), effective);
        let heavy = self.heavy.try_get_with(key, self.load(conversation, effective)).await?;
        let etag = format!(
            "{}.{}.{}",
            heavy.digest,
            origin.wire.generation,
            if scope == Scope::All { "all" } else { "catalogue" }
        );
        if if_none_match == etag {
            return Ok(v1::GetConversationContextResponse {
                etag,
                not_modified: true,
                ..Default::default()
            });
        }
        let agent = if scope == Scope::All { &heavy.all } else { &heavy.catalogue };
        Ok(v1::GetConversationContextResponse {
            etag,
            not_modified: false,
            agent: Some(agent.clone()),
            origin: Some(origin.wire.clone()),
        })
    }

    /// A file of a skill at a revision, if the skill is enabled still.
    ///
    /// # Errors
    /// `NotFound` naming what is missing; `Unavailable` when PostgreSQL is away.
    pub async fn skill(
        &self,
        conversation: ConversationId,
        revision: i64,
        name: &str,
        path: &str,
    ) -> Result<SkillFile, Error> {
        let origin = self.origin(conversation, 0).await?;
        Ok(self.store.skill_file(&origin.agent, revision, name, path).await?)
    }

    async fn origin(&self, id: ConversationId, generation: i32) -> Result<Arc<Origin>, Error> {
        if generation != 0 {
            let load = async {
                let row = self.store.origin(id, generation).await?;
                read::origin(row.ok_or_else(|| unknown(id))?).map(Arc::new)
            };
            return Ok(self.light.try_get_with((id, generation), load).await?);
        }
        let row = self.store.origin(id, 0).await?.ok_or_else(|| unknown(id))?;
        Ok(Arc::new(read::origin(row)?))
    }

    async fn effective(&self, agent: &str, revision: i64) -> Result<i64, Error> {
        let load = async {
            let missing = |hint: String| Error::NotFound {
                what: "revision",
                name: revision.to_string(),
                hint,
            };
            match self.store.effective(agent, revision).await? {
                // What lies ahead may still change: never cached, never answered.
                (_, newest) if revision > newest => {
                    Err(missing(format!("; the newest is {newest}")))
                }
                (Some(effective), _) => Ok(effective),
                (None, _) => Err(missing(format!(" for agent `{agent}`"))),
            }
        };
        Ok(self.effective.try_get_with((agent.to_owned(), revision), load).await?)
    }

    async fn load(
        &self,
        conversation: ConversationId,
        effective: i64,
    ) -> Result<Arc<Heavy>, Error> {
        self.view_reads.fetch_add(1, Ordering::Relaxed);
        let row = self.store.context(conversation, effective).await?;
        let row = row.ok_or_else(|| unknown(conversation))?;
        let all = read::agent(row)?;
        let mut catalogue = all.clone();
        catalogue.skills.retain(|s| !s.recall_only);
        let encoded = prost::Message::encode_to_vec(&all);
        let bytes = u32::try_from(encoded.len() * 2).unwrap_or(u32::MAX);
        let digest = Sha256::of(encoded).to_string();
        Ok(Arc::new(Heavy { catalogue, all, digest, bytes }))
    }
}

fn unknown(conversation: ConversationId) -> Error {
    Error::NotFound { what: "conversation", name: conversation.to_string(), hint: String::new() }
}
