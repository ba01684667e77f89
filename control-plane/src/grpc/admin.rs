//! The admin RPCs: for operators only.

use crate::{
    Error,
    apply::{self, SourceFile},
    broker::read::template,
    settings,
};
use tonic::{Request, Response, Status};
use turnwright_control_store::{AgentOverview, Store, TurnFilter, TurnRow};
use turnwright_kit::{auth::Role, class::status, trace};
use turnwright_proto::{convert::timestamp, v1, v1::admin_server::Admin};
use turnwright_types::{AgentSlug, ConversationId, Invalid, TurnId};

mod story;

pub(super) struct AdminApi {
    store: Store,
}

impl AdminApi {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    async fn apply(&self, r: v1::ApplyRequest) -> Result<v1::ApplyResponse, Error> {
        let files: Vec<SourceFile> = r
            .files
            .into_iter()
            .map(|f| SourceFile {
                path: f.path,
                content: if f.unreadable.is_empty() { Ok(f.content) } else { Err(f.unreadable) },
            })
            .collect();
        let author = if r.author.is_empty() { "operator" } else { &r.author };
        let reason = if r.reason.is_empty() { "apply" } else { &r.reason };
        let done = apply::apply(&self.store, &files, r.base_revision, author, reason).await?;
        let changes = done.applied.changes.iter();
        Ok(v1::ApplyResponse {
            revision: done.applied.revision,
            changed: !done.applied.changes.is_empty(),
            changes: changes.map(|c| format!("{} {}", c.object, c.action)).collect(),
            notes: done.notes,
        })
    }

    async fn summary(&self, a: AgentOverview) -> Result<v1::AgentSummary, Error> {
        let rows = self.store.settings_at(&a.slug, a.effective_revision).await?;
        let resolved = settings::resolve(&rows)?;
        let model = resolved.get("ai_agent.model").and_then(|r| r.value.as_str());
        Ok(v1::AgentSummary {
            model: model.unwrap_or_default().to_owned(),
            slug: a.slug,
            display_name: a.display_name,
            title: a.title,
            skills: i32::try_from(a.skills).unwrap_or(i32::MAX),
            effective_revision: a.effective_revision,
        })
    }

    async fn agents(&self) -> Result<v1::ListAgentsResponse, Error> {
        let found = self.store.agents(None).await?;
        let agents = futures::future::try_join_all(found.into_iter().map(|a| self.summary(a)));
        Ok(v1::ListAgentsResponse { agents: agents.await?, revision: self.store.revision().await? })
    }

    async fn agent(&self, slug: String) -> Result<v1::GetAgentResponse, Error> {
        let slug = AgentSlug::parse(slug)?;
        let Some(overview) = self.store.agents(Some(slug.as_str())).await?.pop() else {
            let known = self.store.agents(None).await?;
            let known: Vec<String> = known.into_iter().map(|a| a.slug).collect();
            let hint = format!("; known are {}", known.join(", "));
            return Err(Error::NotFound { what: "agent", name: slug.to_string(), hint });
        };
        let rows = self.store.settings_at(slug.as_str(), overview.effective_revision).await?;
        let resolved = settings::resolve(&rows)?;
        let state = self.store.agent_state(slug.as_str()).await?;
        let mut documents: Vec<v1::AgentDocument> = state
            .documents
            .into_iter()
            .map(|(kind, sha256, bytes, revision)| v1::AgentDocument {
                kind,
                sha256,
                bytes,
                revision,
            })
            .collect();
        for kind in ["soul", "mission", "design"] {
            if let Some((text, sha256)) = template(kind)
                && !documents.iter().any(|d| d.kind == kind)
            {
                documents.push(v1::AgentDocument {
                    kind: kind.to_owned(),
                    sha256: sha256.to_string(),
                    bytes: i64::try_from(text.len()).unwrap_or(0),
                    revision: 0,
                });
            }
        }
        Ok(v1::GetAgentResponse {
            agent: Some(self.summary(overview).await?),
            documents,
            skills: state
                .skills
                .into_iter()
                .map(|(name, category, description, recall_only, enabled, revision)| {
                    v1::AgentSkill { name, category, description, recall_only, enabled, revision }
                })
                .collect(),
            settings: resolved
                .into_values()
                .map(|r| v1::ResolvedSetting {
                    key: r.key.to_owned(),
                    value_json: r.value.to_string(),
                    source: r.source.to_owned(),
                    revision: r.revision,
                })
                .collect(),
            bindings: state.bindings,
        })
    }

    async fn turns(&self, r: v1::ListTurnsRequest) -> Result<v1::ListTurnsResponse, Error> {
        let limit = match r.page_size {
            0 => 50,
            n @ 1..=500 => i64::from(n),
            _ => return Err(Invalid::new("page_size", "must be 1 to 500").into()),
        };
        let conversation = match r.conversation_id.as_str() {
            "" => None,
            id => Some(ConversationId::parse(id)?.uuid()),
        };
        let agent = Some(r.agent).filter(|a| !a.is_empty());
        let key = Some(r.conversation_key).filter(|k| !k.is_empty());
        let turn_seq = Some(r.turn_seq).filter(|n| *n > 0);
        let filter = TurnFilter { agent, conversation, key, turn_seq, turn: None, limit };
        let rows = self.store.turns(&filter).await?;
        Ok(v1::ListTurnsResponse { turns: rows.iter().map(turn_summary).collect() })
    }

    async fn turn(&self, id: &str) -> Result<v1::GetTurnResponse, Error> {
        let id = TurnId::parse(id)?;
        let filter = TurnFilter { turn: Some(id.uuid()), limit: 1, ..TurnFilter::default() };
        let row = self.store.turns(&filter).await?.pop().ok_or_else(|| Error::NotFound {
            what: "turn",
            name: id.to_string(),
            hint: "; `turnwright turn list` shows those there are".to_owned(),
        })?;
        let signals = self.store.turn_signals(id).await?;
        let deliveries = self.store.turn_deliveries(id).await?;
        Ok(v1::GetTurnResponse {
            turn: Some(turn_summary(&row)),
            gateway_conversation_id: row.gateway_conversation.to_string(),
            story: story::of(&row, &signals, &deliveries),
            trace_id: row.traceparent.as_deref().and_then(trace::trace_id).unwrap_or_default(),
            revision_reason: row.revision_reason.clone().unwrap_or_default(),
            deliveries: deliveries
                .into_iter()
                .map(|d| v1::TurnDelivery {
                    delivery_id: d.id.to_string(),
                    state: d.state,
                    text: d.body,
                    provider_message_id: d.provider_message_id.unwrap_or_default(),
                })
                .collect(),
        })
    }

    async fn quarantine(&self, page_size: i32) -> Result<v1::ListQuarantineResponse, Error> {
        let limit = i64::from(page_size.clamp(1, 500));
        let rows = self.store.quarantined(limit).await?;
        let signals = rows.into_iter().map(|q| v1::QuarantinedSignal {
            id: q.id,
            subject: q.subject,
            reason: q.reason,
            at: Some(timestamp(q.created_at)),
            bytes: q.bytes,
        });
        Ok(v1::ListQuarantineResponse { signals: signals.collect() })
    }
}

fn turn_summary(t: &TurnRow) -> v1::TurnSummary {
    v1::TurnSummary {
        turn_id: t.id.to_string(),
        agent: t.agent.clone(),
        conversation_id: t.conversation.to_string(),
        conversation_key: t.key.clone(),
        turn_seq: t.turn_seq,
        state: t.state.clone(),
        kind: t.kind.clone(),
        revision: t.revision.unwrap_or(0),
        attempts: t.attempts,
        crashes: t.crashes,
        epoch: t.epoch,
        created_at: Some(timestamp(t.created_at)),
        ended_at: t.ended_at.map(timestamp),
        reason: t.end_reason.clone().unwrap_or_default(),
    }
}

/// The message, if an operator sent it.
fn operator<T>(request: Request<T>) -> Result<T, Status> {
    match request.extensions().get::<Role>() {
        Some(Role::Operator) => Ok(request.into_inner()),
        _ => Err(Status::permission_denied("this call needs the operator token")),
    }
}

#[tonic::async_trait]
impl Admin for AdminApi {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let r = operator(request)?;
        self.apply(r).await.map(Response::new).map_err(status)
    }

    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        operator(request)?;
        self.agents().await.map(Response::new).map_err(status)
    }

    async fn get_agent(
        &self,
        request: Request<v1::GetAgentRequest>,
    ) -> Result<Response<v1::GetAgentResponse>, Status> {
        let r = operator(request)?;
        self.agent(r.slug).await.map(Response::new).map_err(status)
    }

    async fn list_turns(
        &self,
        request: Request<v1::ListTurnsRequest>,
    ) -> Result<Response<v1::ListTurnsResponse>, Status> {
        let r = operator(request)?;
        self.turns(r).await.map(Response::new).map_err(status)
    }

    async fn get_turn(
        &self,
        request: Request<v1::GetTurnRequest>,
    ) -> Result<Response<v1::GetTurnResponse>, Status> {
        let r = operator(request)?;
        self.turn(&r.turn_id).await.map(Response::new).map_err(status)
    }

    async fn list_quarantine(
        &self,
        request: Request<v1::ListQuarantineRequest>,
    ) -> Result<Response<v1::ListQuarantineResponse>, Status> {
        let r = operator(request)?;
        self.quarantine(r.page_size).await.map(Response::new).map_err(status)
    }
}
