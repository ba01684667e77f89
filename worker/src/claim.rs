//! Takes one message of the queue: reads the envelope, claims the turn while the context is
//! fetched, and settles the message as soon as the claim is answered. From there on the lease owns
//! the turn.

use crate::{
    commit::{Failure, Ours, commit},
    context,
    control::CallError,
    envelope::{Claim, Start},
    turn::{self, Worker},
};
use async_nats::jetstream::{AckKind, Message};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, field::Empty, info_span};
use turnwright_kit::{Chain, Class, Classify as _, backoff::Backoff, trace};
use turnwright_proto::{
    convert::fence,
    v1::{self, claim_turn_response::Outcome},
};
use turnwright_types::FailureClass;

/// When a turn that could not be claimed is offered again.
const AGAIN: Duration = Duration::from_secs(2);

/// Works on one message until its turn has ended.
pub(crate) async fn take(worker: &Worker, message: &Message, stop: &CancellationToken) {
    let start = match Start::parse(&message.payload) {
        Ok(start) => start,
        Err(e) => {
            let subject = &message.subject;
            tracing::error!(%subject, error = %Chain(&e), "not a turn start; it is dropped");
            settle(message, AckKind::Term).await;
            return;
        }
    };
    let span = info_span!(
        parent: None,
        "turn",
        otel.kind = "consumer",
        turn.id = %start.turn,
        turn.kind = %start.kind,
        turn.fence = Empty,
        agent = %start.agent,
        conversation.id = %start.conversation,
        config.revision = Empty,
        dispatch_no = start.dispatch_no,
    );
    trace::adopt(&span, start.traceparent.as_deref());
    offered(worker, message, &start, stop).instrument(span).await;
}

async fn offered(worker: &Worker, message: &Message, start: &Start, stop: &CancellationToken) {
    let Some(entered) = worker.running.enter(start.turn, start.dispatch_no) else {
        // The acknowledgement was lost; the turn is being run here.
        settle(message, AckKind::Ack).await;
        return;
    };
    let settled = async {
        let error = match claim(worker, start).await {
            Ok(answer) => {
                settle(message, AckKind::Ack).await;
                return Some(answer);
            }
            Err(error) => error,
        };
        tracing::warn!(error = %Chain(&error), "turn was not claimed; it is offered again");
        settle(message, AckKind::Nak(Some(AGAIN))).await;
        // The claim may have been granted and its answer lost. Then nobody else can run the turn
        // as long as this worker lives, so the answer must be known.
        if unsure(&error) { known(worker, start, stop).await } else { None }
    };
    let settled = settled.instrument(info_span!("claim"));
    let (answer, prefetched) = tokio::join!(settled, context::fetch(&worker.control, start));
    let Some(Outcome::Claimed(claimed)) = answer else { return };
    entered.seat.keep_token(&claimed.agent_token);
    let held = fence(claimed.fence);
    let claim = match Claim::try_from(claimed) {
        Ok(claim) if claim.start.turn == start.turn => claim,
        Ok(_) => return tracing::error!("another turn was claimed than was asked for"),
        Err(e) => {
            tracing::error!(error = %e, "claimed turn cannot be run");
            if let Ok(fence) = held {
                let ours = Ours { turn: start.turn, fence };
                let failure = Failure::new(FailureClass::Permanent, "claim_unusable", &e);
                commit(&worker.control, ours, failure.into(), entered.seat.lost()).await;
            }
            return;
        }
    };
    Span::current().record("turn.fence", tracing::field::display(claim.fence));
    Span::current().record("config.revision", claim.start.revision);
    // Another revision or generation has another context; a failed prefetch is made up for when
    // the context is needed.
    let same = (claim.start.revision, claim.start.generation) == (start.revision, start.generation);
    let prefetched = prefetched.ok().filter(|_| same);
    turn::run(worker, entered, claim, prefetched, stop).await;
}

/// Claims the turn; what may pass is tried again, within the time the queue waits for a word.
async fn claim(worker: &Worker, start: &Start) -> Result<Outcome, CallError> {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(800), 3);
    loop {
        let error = match claim_once(worker, start).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        match backoff.next() {
            Some(wait) if error.passes() => sleep(wait).await,
            Some(_) | None => return Err(error),
        }
    }
}

/// Whether a claim may have been granted behind this error: what passes, and a defect over there.
fn unsure(error: &CallError) -> bool {
    error.passes() || error.class() == Class::Internal
}

/// Asks until the claim is answered, for a repeat is answered as the first; `None` when the process
/// stops before, and with it its lease.
async fn known(worker: &Worker, start: &Start, stop: &CancellationToken) -> Option<Outcome> {
    let asking = async {
        let mut backoff = Backoff::endless(Duration::from_secs(1), Duration::from_secs(5));
        loop {
            sleep(backoff.next()?).await;
            match claim_once(worker, start).await {
                Ok(outcome) => return Some(outcome),
                Err(error) if unsure(&error) => {}
                Err(_) => return None,
            }
        }
    };
    stop.run_until_cancelled(asking).await.flatten()
}

async fn claim_once(worker: &Worker, start: &Start) -> Result<Outcome, CallError> {
    let request = v1::ClaimTurnRequest {
        turn_id: start.turn.to_string(),
        dispatch_no: start.dispatch_no,
        worker_incarnation: worker.incarnation.to_string(),
        pool: worker.pool.to_string(),
    };
    let answer = worker.control.claim(request).await?;
    let outcome = answer.outcome.ok_or_else(|| CallError::empty("ClaimTurn"))?;
    if let Outcome::NotClaimed(refusal) = &outcome {
        tracing::debug!(reason = ?refusal.reason(), "turn is not ours to run");
    }
    Ok(outcome)
}

/// Settles a message. A lost word is harmless: the message comes again and is known.
async fn settle(message: &Message, word: AckKind) {
    if let Err(e) = message.ack_with(word).await {
        tracing::warn!(error = %e, "message was not settled; it will come again");
    }
}
