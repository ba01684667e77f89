//! The relays: turn starts to workers and deliveries to adapters, published after the commit that
//! made them. A publication may be lost; a scan repeats it, and a repeat is harmless.

pub mod wire;

use crate::{Error, config::StreamLimits, snapshot::Snapshots, streams};
use async_nats::jetstream::Context;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use turnwright_control_store::{DeliveryMessage, Finished, QueuedTurn, Receipt, Store};
use turnwright_kit::{Chain, Class, Classify as _, Nudge, reconcile};
use turnwright_types::{AdapterName, ConversationId, FailureClass};

/// How often rows that came due are looked for.
const SCAN: Duration = Duration::from_millis(250);
/// Every so many scans also look for rows that a publication was lost for.
const OVERLOOKED_EVERY: u64 = 20;
/// A row that is due for so long was overlooked.
const OVERLOOKED_S: f64 = 5.0;
/// A begun delivery without a receipt for so long is of unknown outcome.
const SILENT_ADAPTER_S: f64 = 120.0;

/// Publishes what the ledger says is due. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dispatch {
    store: Store,
    js: Context,
    snapshots: Arc<Snapshots>,
    streams: StreamLimits,
    reconnected: Reconnected,
}

/// Tells the relays that NATS came back, perhaps without its streams in memory.
#[derive(Clone, Debug, Default)]
pub struct Reconnected {
    happened: Arc<AtomicBool>,
    nudge: Nudge,
}

impl Reconnected {
    /// NATS is there again.
    pub fn tell(&self) {
        self.happened.store(true, Ordering::Release);
        self.nudge.now();
    }
}

impl Dispatch {
    /// Over a ledger and a JetStream.
    #[must_use]
    pub fn new(
        store: Store,
        js: Context,
        snapshots: Arc<Snapshots>,
        streams: StreamLimits,
        reconnected: Reconnected,
    ) -> Self {
        Self { store, js, snapshots, streams, reconnected }
    }

    /// Publishes the start of a turn. A failure is logged; the scan tries again.
    pub async fn turn(&self, turn: &QueuedTurn) {
        if let Err(e) = self.publish_turn(turn).await {
            tracing::warn!(turn.id = %turn.turn, error = %Chain(&e), "turn start not published");
            self.reconnected.nudge.now();
        }
    }

    /// Publishes the head of a conversation's lane, if there is one. A failure is logged; the scan
    /// tries again.
    pub async fn lane(&self, conversation: ConversationId) {
        let end = match self.store.lane_head(conversation).await {
            Ok(Some(delivery)) => self.publish_delivery(delivery).await,
            Ok(None) => Ok(()),
            Err(e) => Err(e.into()),
        };
        if let Err(e) = end {
            tracing::warn!(conversation.id = %conversation, error = %Chain(&e), "delivery not published");
        }
    }

    /// Publishes what the end of a turn set off.
    pub async fn after(&self, finished: &Finished) {
        let lane = async {
            if finished.planned {
                self.lane(finished.conversation).await;
            }
        };
        let next = async {
            if let Some(turn) = finished.next.as_ref().filter(|t| t.due) {
                self.turn(turn).await;
            }
        };
        futures::join!(lane, next);
    }

    /// Publishes a turn, or ends it when no worker could ever run it: the turn fails with a
    /// notice, not the relay.
    async fn publish_turn(&self, turn: &QueuedTurn) -> Result<(), Error> {
        match self.offer(turn).await {
            Err(e) if e.permanent() => self.refuse(turn, &e).await,
            end => end,
        }
    }

    async fn offer(&self, turn: &QueuedTurn) -> Result<(), Error> {
        match self.snapshots.get(&turn.agent, turn.revision).await {
            Ok((config, at)) => wire::publish_turn(&self.js, turn, &config, at).await,
            Err(e) => Err(e),
        }
    }

    async fn refuse(&self, turn: &QueuedTurn, why: &Error) -> Result<(), Error> {
        tracing::error!(turn.id = %turn.turn, error = %Chain(why), "turn cannot be started");
        let reason = match why.class() {
            Class::NotFound => "configuration_missing",
            _ => "configuration_invalid",
        };
        let finished = self.store.refuse_turn(turn.turn, reason, &why.public()).await?;
        if let Some(finished) = finished {
            Box::pin(self.after(&finished)).await;
        }
        Ok(())
    }

    /// The scans, until stopped.
    ///
    /// # Errors
    /// Never; the result fits a supervised task.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut scans = 0_u64;
        let nudge = self.reconnected.nudge.clone();
        reconcile::run("dispatch", SCAN, nudge, stop, move || {
            // The first scan after a start looks at everything.
            let back = self.reconnected.happened.swap(false, Ordering::AcqRel);
            let (this, thorough) = (self.clone(), back || scans.is_multiple_of(OVERLOOKED_EVERY));
            scans += 1;
            async move {
                let end = this.scan(thorough, back).await;
                if end.is_err() && back {
                    this.reconnected.happened.store(true, Ordering::Release);
                }
                Ok(end?)
            }
        })
        .await
    }

    /// `back`: NATS was away and may have lost all that it held in memory, however young.
    async fn scan(&self, thorough: bool, back: bool) -> Result<(), Error> {
        if thorough {
            streams::ensure(&self.js, &self.streams).await?;
            for adapter in self.store.adapters().await? {
                streams::adapter(&self.js, &AdapterName::parse(adapter)?).await?;
            }
        }
        let overlooked_s = if back { 0.0 } else { OVERLOOKED_S };
        // One row that fails must not hide the rest.
        let mut end = Ok(());
        for turn in self.store.due_turns(1_500, thorough.then_some(overlooked_s)).await? {
            end = self.publish_turn(&turn).await.and(end);
        }
        if thorough {
            for (delivery, receipt) in self.store.overdue(SILENT_ADAPTER_S).await? {
                let settled = self.store.settle_delivery(delivery, &receipt).await?;
                tracing::warn!(delivery.id = %delivery, state = %settled.state, "delivery is overdue");
                self.lane(settled.conversation).await;
            }
            for delivery in self.store.waiting_heads(overlooked_s).await? {
                end = self.publish_delivery(delivery).await.and(end);
            }
        }
        end
    }

    /// Publishes a delivery, or settles one that can never be published.
    async fn publish_delivery(&self, delivery: DeliveryMessage) -> Result<(), Error> {
        let id = delivery.id;
        match wire::publish_delivery(&self.js, delivery).await {
            Err(e) if e.permanent() => {
                tracing::error!(delivery.id = %id, error = %Chain(&e), "delivery cannot be sent");
                let receipt = Receipt::Failed { detail: e.public() };
                let settled = self.store.settle_delivery(id, &receipt).await?;
                Box::pin(self.lane(settled.conversation)).await;
                Ok(())
            }
            end => end,
        }
    }

    /// Takes a worker's failure report to the ledger and publishes what follows.
    ///
    /// # Errors
    /// As [`Store::fail_turn`].
    pub async fn failed(
        &self,
        turn: turnwright_types::TurnId,
        fence: turnwright_types::Fence,
        class: FailureClass,
        reason: &str,
        detail: &str,
    ) -> Result<turnwright_control_store::Ended, Error> {
        let ended = self.store.fail_turn(turn, fence, class, reason, detail).await?;
        if let Some(finished) = &ended.finished {
            self.after(finished).await;
        }
        if let Some(again) = ended.requeued.as_ref().filter(|t| t.due) {
            self.turn(again).await;
        }
        Ok(ended)
    }
}
