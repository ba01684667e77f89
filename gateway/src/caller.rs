//! Who asks: an operator or ordinary client with the installation's token, or a worker with the
//! token of one turn.

use crate::problem::Problem;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use turnwright_gateway_store::Writer;
use turnwright_kit::{
    agent_token::Verifier,
    auth::{Tokens, bearer},
};
use turnwright_types::{AgentClaims, GatewayConversationId};

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// May read everything and write unfenced conversations.
    Operator,
    /// May read and write one conversation, under its fence.
    Agent(Arc<AgentClaims>),
}

/// What is accepted.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) tokens: Tokens,
    pub(crate) agents: Verifier,
}

impl Keys {
    /// The caller behind a request's token.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let refused = || {
            let message = "send a valid token in `authorization: Bearer …`";
            Problem::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
        };
        let token = bearer(headers).ok_or_else(refused)?;
        if self.tokens.role(token).is_some() {
            return Ok(Caller::Operator);
        }
        let claims = self.agents.verify::<AgentClaims>(token).map_err(|_| refused())?;
        Ok(Caller::Agent(Arc::new(claims)))
    }
}

impl Caller {
    /// The writer that an agent token makes.
    pub(crate) fn writer(&self) -> Result<Writer, Problem> {
        match self {
            Self::Agent(claims) => Ok(Writer {
                conversation: claims.conversation,
                agent: claims.sub.clone(),
                fence: claims.fence,
            }),
            Self::Operator => {
                let message = "this needs the token of an agent's turn";
                Err(Problem::new(StatusCode::FORBIDDEN, "agent_token_required", message))
            }
        }
    }

    /// Whether the caller may read a conversation.
    pub(crate) fn may_read(&self, conversation: GatewayConversationId) -> bool {
        match self {
            Self::Operator => true,
            Self::Agent(claims) => claims.conversation == conversation,
        }
    }

    /// Refuses everyone but operators.
    pub(crate) fn operator(&self) -> Result<(), Problem> {
        match self {
            Self::Operator => Ok(()),
            Self::Agent(_) => {
                let message = "this needs an operator's token";
                Err(Problem::new(StatusCode::FORBIDDEN, "operator_token_required", message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::AUTHORIZATION;
    use turnwright_kit::{
        agent_token::{Signer, new_seed, public_key},
        auth::Role,
    };
    use turnwright_types::{AgentSlug, Fence, TurnId};

    fn with(token: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        headers
    }

    #[test]
    fn a_token_says_who_asks() {
        let seed = new_seed();
        let keys = Keys {
            tokens: Tokens::new([("operator", Role::Operator)]),
            agents: Verifier::new(&public_key(&seed).unwrap(), AgentClaims::AUDIENCE).unwrap(),
        };
        let claims = AgentClaims {
            aud: AgentClaims::AUDIENCE.into(),
            sub: AgentSlug::parse("ada").unwrap(),
            conversation: GatewayConversationId::new(),
            turn: TurnId::new(),
            fence: Fence { turn_seq: 2, epoch: 3 },
            exp: 4_102_444_800,
        };
        let token = Signer::from_seed(&seed).unwrap().sign(&claims).unwrap();
        let agent = keys.caller(&with(&token)).unwrap();
        assert_eq!(agent.writer().unwrap().fence, claims.fence);
        assert!(agent.may_read(claims.conversation));
        assert!(!agent.may_read(GatewayConversationId::new()));
        assert!(agent.operator().is_err());
        let operator = keys.caller(&with("operator")).unwrap();
        assert!(operator.operator().is_ok() && operator.writer().is_err());
        for bad in [HeaderMap::new(), with("guess"), with(&token[1..])] {
            assert_eq!(keys.caller(&bad).unwrap_err().status, StatusCode::UNAUTHORIZED);
        }
    }
}
