//! The context broker's RPCs.

use crate::{
    Error,
    broker::{Broker, Scope},
};
use std::sync::Arc;
use tonic::{Request, Response, Status};
use turnwright_kit::class::status;
use turnwright_proto::v1::{
    self, agent_conversation_context_broker_server::AgentConversationContextBroker,
};
use turnwright_types::{ConversationId, Invalid, SkillName};

pub(super) struct BrokerApi {
    broker: Arc<Broker>,
}

impl BrokerApi {
    pub(super) fn new(broker: Arc<Broker>) -> Self {
        Self { broker }
    }

    async fn context(
        &self,
        r: v1::GetConversationContextRequest,
    ) -> Result<v1::GetConversationContextResponse, Error> {
        let id = ConversationId::parse(&r.conversation_id)?;
        let scope = match v1::SkillScope::try_from(r.skill_scope) {
            Ok(v1::SkillScope::All) => Scope::All,
            Ok(v1::SkillScope::Unspecified | v1::SkillScope::Catalog) => Scope::Catalogue,
            Err(_) => return Err(Invalid::new("skill_scope", "unknown value").into()),
        };
        let revision = positive("revision", r.revision)?;
        if r.generation < 0 {
            return Err(Invalid::new("generation", "must not be negative").into());
        }
        self.broker.context(id, r.generation, revision, scope, &r.if_none_match).await
    }

    async fn skill(&self, r: v1::GetSkillRequest) -> Result<v1::GetSkillResponse, Error> {
        let id = ConversationId::parse(&r.conversation_id)?;
        let name = SkillName::parse(r.name)?;
        let path = if r.path.is_empty() { "SKILL.md".to_owned() } else { r.path };
        let revision = positive("revision", r.revision)?;
        let file = self.broker.skill(id, revision, name.as_str(), &path).await?;
        Ok(v1::GetSkillResponse {
            name: name.to_string(),
            path,
            content: file.content.into(),
            sha256: file.sha256,
            revision: file.revision,
            files: file.files,
        })
    }
}

fn positive(field: &'static str, n: i64) -> Result<i64, Invalid> {
    if n > 0 { Ok(n) } else { Err(Invalid::new(field, "must be at least 1")) }
}

#[tonic::async_trait]
impl AgentConversationContextBroker for BrokerApi {
    async fn get_conversation_context(
        &self,
        request: Request<v1::GetConversationContextRequest>,
    ) -> Result<Response<v1::GetConversationContextResponse>, Status> {
        self.context(request.into_inner()).await.map(Response::new).map_err(status)
    }

    async fn get_skill(
        &self,
        request: Request<v1::GetSkillRequest>,
    ) -> Result<Response<v1::GetSkillResponse>, Status> {
        self.skill(request.into_inner()).await.map(Response::new).map_err(status)
    }
}
