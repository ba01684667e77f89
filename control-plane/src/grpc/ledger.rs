//! The turn ledger's RPCs.

use crate::{Error, dispatch::Dispatch, dispatch::wire, reaper::Health, snapshot::Snapshots};
use chrono::{DateTime, TimeDelta, Utc};
use std::{sync::Arc, time::Duration};
use tonic::{Request, Response, Status};
use turnwright_control_store::{
    BatchRow, Claim, ClaimOutcome, Ended, NotClaimed, RenewedTurn, Store, TurnEnd,
};
use turnwright_kit::{Class, Classify as _, agent_token::Signer, class::status};
use turnwright_proto::{convert, v1, v1::turn_ledger_server::TurnLedger};
use turnwright_types::{
    Addressed, AgentClaims, AgentSlug, FailureClass, Fence, GatewayConversationId, Invalid, Pool,
    ResponseId, TurnId, WorkerIncarnation,
};

/// How long an agent token is good for.
const TOKEN_LIFE: TimeDelta = TimeDelta::minutes(15);
/// Every so often a renewal brings a fresh one.
const TOKEN_PERIOD_S: i64 = 300;
/// On so many renewals in a row, so that lost answers do not matter.
const TOKEN_WINDOW_S: i64 = 10;
/// The longest answer, in bytes.
const TEXT_BYTES: usize = 256 << 10;
/// Turns in one renewal.
const RENEWED_TURNS: usize = 1024;

pub(super) struct LedgerApi {
    store: Store,
    dispatch: Dispatch,
    snapshots: Arc<Snapshots>,
    signer: Signer,
    health: Health,
    lease: Duration,
}

impl LedgerApi {
    pub(super) fn new(
        store: Store,
        dispatch: Dispatch,
        snapshots: Arc<Snapshots>,
        signer: Signer,
        health: Health,
        lease: Duration,
    ) -> Self {
        Self { store, dispatch, snapshots, signer, health, lease }
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    fn token(
        &self,
        agent: &str,
        conversation: GatewayConversationId,
        turn: TurnId,
        fence: Fence,
        now: DateTime<Utc>,
    ) -> Result<String, Error> {
        let claims = AgentClaims {
            aud: AgentClaims::AUDIENCE.to_owned(),
            sub: AgentSlug::parse(agent)?,
            conversation,
            turn,
            fence,
            exp: (now + TOKEN_LIFE).timestamp(),
        };
        self.signer.sign(&claims).map_err(Error::Key)
    }

    async fn claim(&self, r: v1::ClaimTurnRequest) -> Result<v1::ClaimTurnResponse, Error> {
        let claim = Claim {
            turn: TurnId::parse(&r.turn_id)?,
            dispatch_no: r.dispatch_no,
            worker: WorkerIncarnation::parse(&r.worker_incarnation)?,
            pool: Pool::parse(r.pool)?,
        };
        let outcome = match self.store.claim(&claim).await? {
            ClaimOutcome::Not(why) => {
                let reason = match why {
                    NotClaimed::AlreadyClaimed => v1::NotClaimedReason::AlreadyClaimed,
                    NotClaimed::Finished => v1::NotClaimedReason::Finished,
                    NotClaimed::Superseded => v1::NotClaimedReason::Superseded,
                };
                v1::claim_turn_response::Outcome::NotClaimed(v1::NotClaimed {
                    reason: reason.into(),
                })
            }
            ClaimOutcome::Claimed {
                turn,
                revision,
                fence,
                gateway_conversation,
                batch,
                takeover,
                now,
            } => {
                let config = match self.snapshots.get(&turn.agent, Some(revision)).await {
                    Ok((config, _)) => config,
                    // The claim stands: the turn must end here, or it would belong to a worker
                    // that was never told.
                    Err(e) if e.permanent() => return self.unusable(claim.turn, fence, &e).await,
                    Err(e) => return Err(e),
                };
                let token =
                    self.token(&turn.agent, gateway_conversation, claim.turn, fence, now)?;
                v1::claim_turn_response::Outcome::Claimed(v1::Claimed {
                    start: Some(wire::turn_start(&turn, &config, revision)?),
                    fence: Some(fence.into()),
                    agent_token: token,
                    gateway_conversation_id: gateway_conversation.to_string(),
                    generation: turn.generation,
                    batch: batch.into_iter().map(signal).collect::<Result<_, _>>()?,
                    takeover,
                    now: Some(convert::timestamp(now)),
                    lease_ms: self.lease_ms(),
                })
            }
        };
        Ok(v1::ClaimTurnResponse { outcome: Some(outcome) })
    }

    /// Ends a claimed turn whose configuration no worker could run.
    async fn unusable(
        &self,
        turn: TurnId,
        fence: Fence,
        why: &Error,
    ) -> Result<v1::ClaimTurnResponse, Error> {
        let (class, reason) = (FailureClass::Permanent, "configuration_invalid");
        self.dispatch.failed(turn, fence, class, reason, &why.public()).await?;
        let reason = v1::NotClaimedReason::Finished.into();
        let outcome = v1::claim_turn_response::Outcome::NotClaimed(v1::NotClaimed { reason });
        Ok(v1::ClaimTurnResponse { outcome: Some(outcome) })
    }

    async fn renew(&self, r: v1::RenewLeaseRequest) -> Result<v1::RenewLeaseResponse, Error> {
        let worker = WorkerIncarnation::parse(&r.worker_incarnation)?;
        let pool = Pool::parse(r.pool)?;
        if r.turn_ids.len() > RENEWED_TURNS {
            return Err(Invalid::new("turn_ids", format!("more than {RENEWED_TURNS}")).into());
        }
        let turns: Vec<TurnId> =
            r.turn_ids.iter().map(|t| TurnId::parse(t)).collect::<Result<_, _>>()?;
        let mut watch = self.health.watch();
        let end = self.store.renew(worker, pool.as_str(), r.draining, &turns).await;
        watch.accepted(!matches!(&end, Err(e) if e.class() == Class::Unavailable));
        let turns = end?.into_iter().map(|t| self.turn_status(&t)).collect::<Result<_, _>>()?;
        Ok(v1::RenewLeaseResponse { turns, lease_ms: self.lease_ms() })
    }

    fn turn_status(&self, t: &RenewedTurn) -> Result<v1::TurnStatus, Error> {
        let held = t.claimed_at.map_or(0, |at| (t.now - at).num_seconds());
        let due = held >= TOKEN_PERIOD_S && held % TOKEN_PERIOD_S < TOKEN_WINDOW_S;
        let agent_token = if t.owned && due {
            self.token(&t.agent, t.gateway_conversation, t.turn, t.fence, t.now)?
        } else {
            String::new()
        };
        Ok(v1::TurnStatus { turn_id: t.turn.to_string(), lost: !t.owned, agent_token })
    }

    async fn end(
        &self,
        turn: &str,
        fence: Option<v1::Fence>,
        end: TurnEnd,
    ) -> Result<v1::Ended, Error> {
        let (turn, fence) = (TurnId::parse(turn)?, convert::fence(fence)?);
        let ended = self.store.end_turn(turn, fence, &end).await?;
        if let Some(finished) = &ended.finished {
            self.dispatch.after(finished).await;
        }
        Ok(wire_ended(&ended))
    }

    async fn complete(&self, r: v1::CompleteTurnRequest) -> Result<v1::Ended, Error> {
        let response = ResponseId::parse(&r.response_id)?;
        if r.text.trim().is_empty() || r.text.len() > TEXT_BYTES {
            let why = format!("expected text of 1 to {TEXT_BYTES} bytes");
            return Err(Invalid::new("text", why).into());
        }
        // PostgreSQL text cannot hold it.
        let text = r.text.replace('\0', "\u{fffd}");
        self.end(&r.turn_id, r.fence, TurnEnd::Completed { text, response }).await
    }

    async fn silent(&self, r: v1::SilentTurnRequest) -> Result<v1::Ended, Error> {
        let id = r.response_id.as_str();
        let response = if id.is_empty() { None } else { Some(ResponseId::parse(id)?) };
        self.end(&r.turn_id, r.fence, TurnEnd::Silent { response }).await
    }

    async fn fail(&self, r: v1::FailTurnRequest) -> Result<v1::Ended, Error> {
        let (turn, fence) = (TurnId::parse(&r.turn_id)?, convert::fence(r.fence)?);
        let class = convert::enumeration::<v1::FailureClass, FailureClass>("class", r.class)?;
        let word = |b: u8| b.is_ascii_lowercase() || b == b'_';
        if r.reason.is_empty() || r.reason.len() > 64 || !r.reason.bytes().all(word) {
            return Err(Invalid::new("reason", "expected a word of a-z and `_`").into());
        }
        let detail: String = r.detail.chars().filter(|c| *c != '\0').take(2_000).collect();
        let ended = self.dispatch.failed(turn, fence, class, &r.reason, &detail).await?;
        Ok(wire_ended(&ended))
    }
}

fn signal(row: BatchRow) -> Result<v1::BatchSignal, Invalid> {
    let addressed = Addressed::parse(&row.addressed)?;
    Ok(v1::BatchSignal {
        signal_id: row.signal.to_string(),
        event_key: row.event_key,
        speaker_id: row.speaker_id,
        speaker_name: row.speaker_name,
        addressed: v1::Addressed::from(addressed).into(),
        occurred_at: Some(convert::timestamp(row.occurred_at)),
        text: row.body,
        reply_to: row.reply_to,
        asked: row.wakes,
        late: row.late,
    })
}

fn wire_ended(e: &Ended) -> v1::Ended {
    v1::Ended { state: e.state.to_string(), already: e.already }
}

#[tonic::async_trait]
impl TurnLedger for LedgerApi {
    async fn claim_turn(
        &self,
        request: Request<v1::ClaimTurnRequest>,
    ) -> Result<Response<v1::ClaimTurnResponse>, Status> {
        self.claim(request.into_inner()).await.map(Response::new).map_err(status)
    }

    async fn renew_lease(
        &self,
        request: Request<v1::RenewLeaseRequest>,
    ) -> Result<Response<v1::RenewLeaseResponse>, Status> {
        self.renew(request.into_inner()).await.map(Response::new).map_err(status)
    }

    async fn complete_turn(
        &self,
        request: Request<v1::CompleteTurnRequest>,
    ) -> Result<Response<v1::CompleteTurnResponse>, Status> {
        let ended = self.complete(request.into_inner()).await.map_err(status)?;
        Ok(Response::new(v1::CompleteTurnResponse { ended: Some(ended) }))
    }

    async fn silent_turn(
        &self,
        request: Request<v1::SilentTurnRequest>,
    ) -> Result<Response<v1::SilentTurnResponse>, Status> {
        let ended = self.silent(request.into_inner()).await.map_err(status)?;
        Ok(Response::new(v1::SilentTurnResponse { ended: Some(ended) }))
    }

    async fn fail_turn(
        &self,
        request: Request<v1::FailTurnRequest>,
    ) -> Result<Response<v1::FailTurnResponse>, Status> {
        let ended = self.fail(request.into_inner()).await.map_err(status)?;
        Ok(Response::new(v1::FailTurnResponse { ended: Some(ended) }))
    }
}
