//! Deliveries out: each is posted once into the message store, told by a receipt, then acknowledged.
//! Its nonce is the delivery id, so a redelivery finds the message that is there already.

use super::{
    journal::{Draft, Journal, message_id},
    lane::Lane,
    routes::Routes,
};
use crate::{
    api::{AgentPart, By, Conversation},
    bindings::Bindings,
    transport::Nats,
};
use anyhow::{Context as _, anyhow};
use async_nats::jetstream::{self, AckKind, consumer::PullConsumer};
use chrono::Utc;
use futures::StreamExt as _;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use turnwright_kit::{Chain, OnExit, Supervisor, backoff::Backoff, health::Readiness, trace};
use turnwright_proto::{
    convert,
    v1::{Delivery, DeliveryOutcome, DeliveryReceipt, DeliveryReceiptResponse},
};
use turnwright_types::{
    AdapterName, BindingId, ConversationId, DeliveryId, Invalid, TurnId, subjects,
};

/// Tasks that post. A conversation's deliveries always go to the same one, in order.
const POSTERS: usize = 8;
/// Deliveries that may wait for one of them.
const WAITING: usize = 4;
/// Deliveries pulled ahead.
const PULLED: usize = 32;
const HEARTBEAT: Duration = Duration::from_secs(5);
/// When a delivery that could not be posted or told comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Takes deliveries.
#[derive(Clone, Debug)]
pub struct Deliveries {
    /// Where they come from and receipts go.
    pub nats: Nats,
    /// The console's adapter kind.
    pub adapter: AdapterName,
    /// Asked once before pulling, so that the consumer exists.
    pub bindings: Arc<Bindings>,
    /// Where they are posted.
    pub journal: Journal,
    /// Learns which conversation a delivery belongs to.
    pub routes: Arc<Routes>,
    /// Set while deliveries are received.
    pub ready: Readiness,
}

/// A delivery and the message that carried it.
struct Work {
    delivery: Delivery,
    message: jetstream::Message,
}

/// What is to become of a message.
enum Verdict {
    /// Done with.
    Ack,
    /// It comes again.
    Again,
    /// The process stops; it comes again when its time to acknowledge is over.
    Leave,
}

impl Deliveries {
    /// Starts the tasks that pull and post.
    pub fn start(self, sup: &Supervisor) {
        let posters: Vec<_> = (0..POSTERS)
            .map(|_| {
                let (queue, work) = mpsc::channel(WAITING);
                let poster = self.clone();
                sup.spawn("post deliveries", OnExit::StopProcess, |stop| {
                    poster.post_all(work, stop)
                });
                queue
            })
            .collect();
        sup.spawn("pull deliveries", OnExit::StopProcess, |stop| self.pull_all(posters, stop));
    }

    async fn pull_all(
        self,
        posters: Vec<mpsc::Sender<Work>>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let fresh = || Backoff::endless(Duration::from_millis(100), Duration::from_secs(5));
        let mut delays = fresh();
        loop {
            let Err(e) = self.pull(&posters, &stop).await else { return Ok(()) };
            if self.ready.get() {
                self.ready.set(false);
                delays = fresh();
            }
            tracing::warn!(error = %Chain(e.as_ref()), "no deliveries for now; trying again");
            let wait = delays.next().unwrap_or(AGAIN_AFTER);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Hands deliveries to the posters until stopped.
    async fn pull(
        &self,
        posters: &[mpsc::Sender<Work>],
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        self.bindings.ask().await.context("ask for the console's bindings")?;
        let durable = format!("adapter-{}", self.adapter);
        let consumer: PullConsumer = self
            .nats
            .jetstream()
            .get_consumer_from_stream(&durable, subjects::DELIVERIES)
            .await
            .with_context(|| format!("look up consumer {durable}"))?;
        let mut messages = consumer
            .stream()
            .max_messages_per_batch(PULLED)
            .heartbeat(HEARTBEAT)
            .messages()
            .await
            .context("pull deliveries")?;
        self.ready.set(true);
        loop {
            let next = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                next = messages.next() => next,
            };
            let message = next.ok_or_else(|| anyhow!("the pull ended"))?.context("pull")?;
            let Some(work) = read(message).await else { continue };
            let mut hasher = DefaultHasher::new();
            work.delivery.conversation_id.hash(&mut hasher);
            let place = usize::try_from(hasher.finish() % POSTERS as u64).unwrap_or(0);
            let Some(poster) = posters.get(place) else { continue };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                sent = poster.send(work) => sent.map_err(|_| anyhow!("a poster is gone"))?,
            }
        }
    }

    async fn post_all(
        self,
        mut work: mpsc::Receiver<Work>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        loop {
            let next = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                next = work.recv() => next,
            };
            let Some(Work { delivery, message }) = next else {
                // The queue ends with the puller, and that only with the process.
                stop.cancelled().await;
                return Ok(());
            };
            let span = tracing::info_span!(
                "deliver",
                delivery.id = %delivery.delivery_id,
                conversation.id = %delivery.conversation_id,
                turn.id = %delivery.turn_id,
            );
            trace::adopt(&span, Some(delivery.traceparent.as_str()));
            self.deliver(delivery, &message, &stop).instrument(span).await;
        }
    }

    async fn deliver(
        &self,
        delivery: Delivery,
        message: &jetstream::Message,
        stop: &CancellationToken,
    ) {
        let verdict = match self.post(delivery).await {
            Ok(receipt) => self.tell(&receipt, message, stop).await,
            Err(e) => {
                tracing::warn!(error = %Chain(e.as_ref()), "delivery was not posted; it comes again");
                Verdict::Again
            }
        };
        let told = match verdict {
            Verdict::Ack => message.ack().await,
            Verdict::Again => message.ack_with(AckKind::Nak(Some(AGAIN_AFTER))).await,
            Verdict::Leave => return,
        };
        if let Err(e) = told {
            tracing::warn!(error = %e, "acknowledgement was not sent; the delivery comes again");
        }
    }

    /// Posts a delivery, unless it is posted already, too old, or not for a place of the console.
    async fn post(&self, delivery: Delivery) -> anyhow::Result<DeliveryReceipt> {
        let id = delivery.delivery_id.clone();
        if self.journal.find(&id).is_some() {
            return Ok(sent(id));
        }
        if let Ok(end) = convert::time("not_after", delivery.not_after)
            && end < Utc::now()
        {
            return Ok(failed(id, "expired: not_after passed before it was posted".to_owned()));
        }
        let draft = match draft(delivery) {
            Ok(draft) => draft,
            Err(e) => return Ok(failed(id, format!("the console cannot post it: {e}"))),
        };
        if let By::Agent(AgentPart { conversation_id: Some(conversation), .. }) = &draft.by {
            self.routes.learn(*conversation, &draft.lane);
        }
        self.journal.append(draft).await?;
        Ok(sent(id))
    }

    /// Reports until it is answered; keeps `message` from being redelivered meanwhile.
    async fn tell(
        &self,
        receipt: &DeliveryReceipt,
        message: &jetstream::Message,
        stop: &CancellationToken,
    ) -> Verdict {
        let mut first = true;
        for delay in Backoff::endless(Duration::from_millis(100), Duration::from_secs(5)) {
            let answer: Result<DeliveryReceiptResponse, _> =
                self.nats.call(subjects::DELIVERY_RECEIPT, receipt).await;
            let away = match answer {
                Ok(DeliveryReceiptResponse { error: None, .. }) => return Verdict::Ack,
                Ok(DeliveryReceiptResponse { error: Some(e), .. }) => match e.code.as_str() {
                    "unavailable" | "timeout" | "exhausted" | "conflict" => e.message,
                    "internal" => {
                        tracing::error!(error = %e.message, "receipt failed; it is sent again");
                        return Verdict::Again;
                    }
                    code => {
                        tracing::error!(error = %e.message, code, "receipt was refused");
                        return Verdict::Ack;
                    }
                },
                Err(e) => Chain(&e).to_string(),
            };
            if first {
                tracing::warn!(error = %away, "receipt was not taken; it is sent again");
                first = false;
            }
            if let Err(e) = message.ack_with(AckKind::Progress).await {
                tracing::debug!(error = %e, "progress was not sent");
            }
            tokio::select! {
                () = stop.cancelled() => return Verdict::Leave,
                () = tokio::time::sleep(delay) => {}
            }
        }
        Verdict::Again
    }
}

/// The delivery in a message. One without a readable id can never be told of, so it ends here.
async fn read(message: jetstream::Message) -> Option<Work> {
    let parsed = serde_json::from_slice::<Delivery>(&message.payload)
        .map_err(|e| e.to_string())
        .and_then(|delivery| match DeliveryId::parse(&delivery.delivery_id) {
            Ok(_) => Ok(delivery),
            Err(e) => Err(e.to_string()),
        });
    match parsed {
        Ok(delivery) => Some(Work { delivery, message }),
        Err(why) => {
            tracing::error!(error = %why, subject = %message.subject, "delivery is malformed");
            if let Err(e) = message.ack_with(AckKind::Term).await {
                tracing::warn!(error = %e, "termination was not sent; the delivery comes again");
            }
            None
        }
    }
}

/// What to post for a delivery.
fn draft(delivery: Delivery) -> Result<Draft, Invalid> {
    let place = delivery.channel.ok_or_else(|| Invalid::new("channel", "must be set"))?.id;
    let lane = Lane {
        binding: BindingId::parse(delivery.binding)?,
        conversation: Conversation::parse(place)?,
    };
    let by = AgentPart {
        delivery_id: DeliveryId::parse(&delivery.delivery_id)?,
        reply_to: some(delivery.reply_to),
        reply_event_key: some(delivery.reply_event_key),
        origin: delivery.origin,
        turn_id: TurnId::parse(&delivery.turn_id).ok(),
        conversation_id: ConversationId::parse(&delivery.conversation_id).ok(),
        ordinal: delivery.ordinal,
        chunks: delivery.chunks,
    };
    Ok(Draft { lane, nonce: delivery.delivery_id, text: delivery.text, by: By::Agent(by) })
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn sent(delivery_id: String) -> DeliveryReceipt {
    DeliveryReceipt {
        provider_message_id: message_id(&delivery_id).to_string(),
        outcome: DeliveryOutcome::Sent.into(),
        detail: String::new(),
        delivery_id,
    }
}

fn failed(delivery_id: String, detail: String) -> DeliveryReceipt {
    DeliveryReceipt {
        outcome: DeliveryOutcome::Failed.into(),
        provider_message_id: String::new(),
        detail,
        delivery_id,
    }
}
