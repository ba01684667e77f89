//! The control plane's gRPC services as a worker uses them: one channel, a deadline on every call.
//! Retries belong to the callers, who know what a repeat means.

use crate::{Error, config::CONTROL_URL};
use secrecy::{ExposeSecret as _, SecretString};
use std::time::Duration;
use tokio::time::timeout;
use tonic::{
    Code, Request, Response, Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};
use turnwright_kit::{Class, Classify, auth::CallerMetadata};
use turnwright_proto::{
    MAX_MESSAGE_BYTES,
    v1::{
        self, agent_conversation_context_broker_client::AgentConversationContextBrokerClient,
        turn_ledger_client::TurnLedgerClient,
    },
};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long a claim may take: it and its repeats must end before the queue redelivers.
const CLAIM_DEADLINE: Duration = Duration::from_secs(2);
/// How long a renewal may take: the next one is due after a second.
const RENEW_DEADLINE: Duration = Duration::from_millis(900);

/// A call that was not answered with what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{call} was answered {code:?}: {message}")]
pub(crate) struct CallError {
    pub(crate) call: &'static str,
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl CallError {
    /// An answer that holds nothing this build can read.
    pub(crate) fn empty(call: &'static str) -> Self {
        Self { call, code: Code::Internal, message: "the answer is empty".to_owned() }
    }

    /// Whether the same call may succeed when repeated. A broken connection is told as `Unknown`,
    /// which no service of ours answers.
    pub(crate) fn passes(&self) -> bool {
        self.code == Code::Unknown || self.class().retryable()
    }
}

impl Classify for CallError {
    fn class(&self) -> Class {
        Class::of_grpc(self.code)
    }
}

type Caller = InterceptedService<Channel, CallerMetadata>;

/// Clients of the turn ledger and the context broker, over one connection.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    ledger: TurnLedgerClient<Caller>,
    broker: AgentConversationContextBrokerClient<Caller>,
}

impl ControlPlane {
    /// Prepares the channel; it connects at the first call.
    pub(crate) fn new(url: &str, token: &SecretString) -> Result<Self, Error> {
        let caller = CallerMetadata::new(token.expose_secret()).map_err(|e| Error::Unusable {
            variable: "TURNWRIGHT_SERVICE_TOKEN",
            source: e.into(),
        })?;
        let channel = Endpoint::from_shared(url.to_owned())
            .map_err(|e| Error::Unusable { variable: CONTROL_URL, source: e.into() })?
            .connect_timeout(Duration::from_secs(2))
            .timeout(DEADLINE)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .connect_lazy();
        let ledger = TurnLedgerClient::with_interceptor(channel.clone(), caller.clone());
        let broker = AgentConversationContextBrokerClient::with_interceptor(channel, caller)
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { ledger, broker })
    }

    /// Takes the right to run a turn; a repeat of the same request answers the same.
    pub(crate) async fn claim(
        &self,
        request: v1::ClaimTurnRequest,
    ) -> Result<v1::ClaimTurnResponse, CallError> {
        let request = bounded(request, CLAIM_DEADLINE);
        call("ClaimTurn", CLAIM_DEADLINE, self.ledger.clone().claim_turn(request)).await
    }

    /// Renews the lease of this incarnation.
    pub(crate) async fn renew(
        &self,
        request: v1::RenewLeaseRequest,
    ) -> Result<v1::RenewLeaseResponse, CallError> {
        let request = bounded(request, RENEW_DEADLINE);
        call("RenewLease", RENEW_DEADLINE, self.ledger.clone().renew_lease(request)).await
    }

    /// Ends a turn with an answer.
    pub(crate) async fn complete(
        &self,
        request: v1::CompleteTurnRequest,
    ) -> Result<v1::Ended, CallError> {
        let request = bounded(request, DEADLINE);
        let answer =
            call("CompleteTurn", DEADLINE, self.ledger.clone().complete_turn(request)).await?;
        answer.ended.ok_or_else(|| CallError::empty("CompleteTurn"))
    }

    /// Ends a turn without an answer, or hands it back.
    pub(crate) async fn fail(&self, request: v1::FailTurnRequest) -> Result<v1::Ended, CallError> {
        let request = bounded(request, DEADLINE);
        let answer = call("FailTurn", DEADLINE, self.ledger.clone().fail_turn(request)).await?;
        answer.ended.ok_or_else(|| CallError::empty("FailTurn"))
    }

    /// The context of a conversation at a revision.
    pub(crate) async fn context(
        &self,
        request: v1::GetConversationContextRequest,
    ) -> Result<v1::GetConversationContextResponse, CallError> {
        let request = bounded(request, DEADLINE);
        let mut broker = self.broker.clone();
        let answer = broker.get_conversation_context(request);
        call("GetConversationContext", DEADLINE, answer).await
    }

    /// A file of a skill at a revision.
    pub(crate) async fn skill(
        &self,
        request: v1::GetSkillRequest,
    ) -> Result<v1::GetSkillResponse, CallError> {
        let request = bounded(request, DEADLINE);
        call("GetSkill", DEADLINE, self.broker.clone().get_skill(request)).await
    }
}

/// The request with its deadline told to the server.
fn bounded<M>(message: M, within: Duration) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(within);
    request
}

async fn call<T>(
    call: &'static str,
    within: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match timeout(within, answer).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => {
            let message = status.message().to_owned();
            Err(CallError { call, code: status.code(), message })
        }
        Err(_) => {
            let message = "no answer in time".to_owned();
            Err(CallError { call, code: Code::DeadlineExceeded, message })
        }
    }
}
