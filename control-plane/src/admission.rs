//! Takes signals off the stream, in order per channel, and admits them. A message is acknowledged
//! only after its transaction committed; what can never be admitted is put aside with its reason.

mod event;

use crate::{
    Error,
    dispatch::{Dispatch, wire::header},
    streams::{self, boxed},
};
use async_nats::jetstream::{self, AckKind, Context, Message};
use futures::StreamExt as _;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use turnwright_control_store::{Admitted, NewSignal, Store};
use turnwright_kit::{Chain, Classify as _, backoff::Backoff, trace};
use turnwright_types::{Invalid, subjects};

/// Messages of one channel always go to the same lane, so that they are admitted in order.
const LANES: usize = 8;
/// Messages waiting per lane.
const LANE_DEPTH: usize = 64;
/// Deliveries of a message that fails for no reason of the infrastructure, before quarantine.
const TRIES: i64 = 5;

/// The admission of one replica.
#[derive(Clone, Debug)]
pub struct Admission {
    store: Store,
    dispatch: Dispatch,
}

impl Admission {
    /// Over the ledger; what it wakes goes to `dispatch`.
    #[must_use]
    pub fn new(store: Store, dispatch: Dispatch) -> Self {
        Self { store, dispatch }
    }

    /// Runs until stopped.
    ///
    /// # Errors
    /// Never while NATS may come back; the result fits a supervised task.
    pub async fn run(self, js: Context, stop: CancellationToken) -> anyhow::Result<()> {
        let mut backoff = Backoff::endless(Duration::from_millis(100), Duration::from_secs(2));
        while !stop.is_cancelled() {
            if let Err(e) = self.consume(&js, &stop).await {
                tracing::warn!(error = %Chain(&e), "admission lost its consumer; it will be re-made");
                let pause = backoff.next().unwrap_or_default();
                tokio::select! { () = stop.cancelled() => {}, () = tokio::time::sleep(pause) => {} }
            }
        }
        Ok(())
    }

    async fn consume(&self, js: &Context, stop: &CancellationToken) -> Result<(), Error> {
        let consumer: jetstream::consumer::PullConsumer = js
            .get_consumer_from_stream(streams::ADMISSION, subjects::SIGNALS)
            .await
            .map_err(boxed("find the admission consumer"))?;
        let mut messages = consumer
            .stream()
            .max_messages_per_batch(256)
            .messages()
            .await
            .map_err(boxed("pull signals"))?;
        let (lanes, work): (Vec<_>, Vec<_>) =
            (0..LANES).map(|_| mpsc::channel::<Arrived>(LANE_DEPTH)).unzip();
        let workers = work.into_iter().map(|mut lane| async move {
            while let Some(arrived) = lane.recv().await {
                self.admit(arrived).await;
            }
        });
        let feed = async move {
            loop {
                let next = tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    next = messages.next() => next,
                };
                match next {
                    None => return Ok(()),
                    Some(Err(e)) => return Err(boxed("pull signals")(e)),
                    Some(Ok(message)) => {
                        let arrived = Arrived::read(message)?;
                        // A closed lane means that its worker is gone with this future.
                        let _ = lanes[arrived.lane()].send(arrived).await;
                    }
                }
            }
        };
        let (end, _) = futures::join!(feed, futures::future::join_all(workers));
        end
    }

    async fn admit(&self, arrived: Arrived) {
        let message = &arrived.message;
        let span = tracing::info_span!("admit", subject = %message.subject, otel.kind = "consumer");
        trace::adopt(&span, header(message, subjects::TRACEPARENT));
        async {
            let settled = match self.take(&arrived).await {
                Ok(()) => message.ack().await,
                Err(e) => {
                    tracing::warn!(error = %Chain(&e), "signal not admitted; it will come again");
                    message.ack_with(AckKind::Nak(Some(Duration::from_millis(500)))).await
                }
            };
            if let Err(error) = settled {
                tracing::warn!(error, "acknowledgement not sent; the signal will come again");
            }
        }
        .instrument(span)
        .await;
    }

    /// Admits a message or puts it aside. An error means: not settled, deliver again.
    async fn take(&self, arrived: &Arrived) -> Result<(), Error> {
        let (message, sequence, tries) = (&arrived.message, arrived.sequence, arrived.tries);
        let signal = match &arrived.signal {
            Ok(signal) => signal,
            Err(why) => return self.put_aside(message, sequence, &why.to_string()).await,
        };
        match self.store.admit(signal).await {
            Ok(Admitted::UnknownBinding) => {
                let why = format!(
                    "binding `{}` does not exist for adapter `{}`",
                    signal.binding, signal.adapter
                );
                self.put_aside(message, sequence, &why).await
            }
            Ok(Admitted::Open { turn, conversation, .. }) => {
                tracing::debug!(conversation.id = %conversation, woke = turn.is_some(), "admitted");
                if let Some(turn) = turn.filter(|t| t.due) {
                    self.dispatch.turn(&turn).await;
                }
                Ok(())
            }
            Ok(Admitted::Closed { conversation, .. }) => {
                self.dispatch.lane(conversation).await;
                Ok(())
            }
            Ok(Admitted::Duplicate) => Ok(()),
            Err(e) if !e.class().retryable() && tries >= TRIES => {
                let why = Chain(&e).to_string();
                self.put_aside(message, sequence, &why).await
            }
            Err(e) => Err(e.into()),
        }
    }

    async fn put_aside(&self, message: &Message, sequence: u64, why: &str) -> Result<(), Error> {
        tracing::warn!(reason = why, "signal quarantined");
        let sequence = i64::try_from(sequence).unwrap_or(i64::MAX);
        self.store.quarantine(&message.subject, sequence, why, &message.payload).await?;
        Ok(())
    }
}

/// A message off the stream, read once.
struct Arrived {
    message: Message,
    sequence: u64,
    tries: i64,
    signal: Result<NewSignal, Invalid>,
}

impl Arrived {
    fn read(message: Message) -> Result<Self, Error> {
        let info =
            message.info().map_err(|source| Error::Nats { what: "read a message", source })?;
        let (sequence, tries, published) = (info.stream_sequence, info.delivered, info.published);
        let signal = event::parse(&message, published);
        Ok(Self { sequence, tries, signal, message })
    }

    /// By channel, so that one busy binding uses every lane and one channel only one.
    fn lane(&self) -> usize {
        let mut hasher = DefaultHasher::new();
        self.message.subject.as_str().hash(&mut hasher);
        if let Ok(s) = &self.signal {
            (&s.channel_id, &s.thread_id).hash(&mut hasher);
        }
        usize::try_from(hasher.finish() % LANES as u64).unwrap_or(0)
    }
}
