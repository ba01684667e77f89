//! What adapters ask over NATS, request and reply: their bindings, the one attempt of a delivery,
//! and the receipt that settles it. Part of the public contract.

use crate::{Error, dispatch::Dispatch, dispatch::wire::body, streams};
use async_nats::{Client, Message, jetstream::Context};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;
use turnwright_control_store::{Receipt, Store};
use turnwright_kit::{Chain, Classify, class};
use turnwright_proto::v1;
use turnwright_types::{AdapterName, DeliveryId, DeliveryState, Invalid, subjects};

/// Replicas share the questions.
const QUEUE: &str = "control-plane";
/// Answers in the making at once.
const CONCURRENCY: usize = 32;
/// The longest word an adapter may give to keep.
const DETAIL_BYTES: usize = 1024;

/// The answering side of one replica.
#[derive(Clone, Debug)]
pub struct AdapterRpc {
    nats: Client,
    js: Context,
    store: Store,
    dispatch: Dispatch,
}

impl AdapterRpc {
    /// Over a ledger; what a receipt releases goes to `dispatch`.
    #[must_use]
    pub fn new(nats: Client, js: Context, store: Store, dispatch: Dispatch) -> Self {
        Self { nats, js, store, dispatch }
    }

    /// Answers until stopped.
    ///
    /// # Errors
    /// When NATS refuses the subscriptions.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let all = futures::stream::select_all([
            self.nats.queue_subscribe(subjects::DELIVERY_BEGIN, QUEUE.into()).await?,
            self.nats.queue_subscribe(subjects::DELIVERY_RECEIPT, QUEUE.into()).await?,
            self.nats.queue_subscribe(subjects::BINDING_LIST, QUEUE.into()).await?,
        ]);
        all.take_until(stop.cancelled())
            .for_each_concurrent(CONCURRENCY, |message| self.answer(message))
            .await;
        Ok(())
    }

    async fn answer(&self, message: Message) {
        let Some(reply) = message.reply.clone() else { return };
        let payload = match message.subject.as_str() {
            subjects::DELIVERY_BEGIN => body(&self.begin(&message.payload).await),
            subjects::DELIVERY_RECEIPT => body(&self.receipt(&message.payload).await),
            _ => body(&self.bindings(&message.payload).await),
        };
        match payload {
            Ok(payload) => {
                if let Err(e) = self.nats.publish(reply, payload.into()).await {
                    tracing::warn!(error = %Chain(&e), "reply to an adapter not sent");
                }
            }
            Err(e) => class::log(&e),
        }
    }

    async fn begin(&self, payload: &[u8]) -> v1::BeginDeliveryResponse {
        let work = async {
            let ask: v1::BeginDeliveryRequest = read(payload)?;
            let id = DeliveryId::parse(&ask.delivery_id)?;
            bounded("adapterIncarnation", &ask.adapter_incarnation)?;
            Ok::<_, Error>(self.store.begin_delivery(id, &ask.adapter_incarnation).await?)
        };
        match work.await {
            Ok((go, state)) => {
                v1::BeginDeliveryResponse { go, state: state.to_string(), error: None }
            }
            Err(e) => v1::BeginDeliveryResponse {
                go: false,
                state: String::new(),
                error: Some(refusal(e)),
            },
        }
    }

    async fn receipt(&self, payload: &[u8]) -> v1::DeliveryReceiptResponse {
        match self.settle(payload).await {
            Ok(state) => v1::DeliveryReceiptResponse { state: state.to_string(), error: None },
            Err(e) => v1::DeliveryReceiptResponse { state: String::new(), error: Some(refusal(e)) },
        }
    }

    async fn settle(&self, payload: &[u8]) -> Result<DeliveryState, Error> {
        let r: v1::DeliveryReceipt = read(payload)?;
        let id = DeliveryId::parse(&r.delivery_id)?;
        bounded("detail", &r.detail)?;
        bounded("providerMessageId", &r.provider_message_id)?;
        let outcome = v1::DeliveryOutcome::try_from(r.outcome)
            .map_err(|_| Invalid::new("outcome", "unknown value"))?;
        let receipt = match outcome {
            v1::DeliveryOutcome::Sent if r.provider_message_id.is_empty() => {
                return Err(Invalid::new("providerMessageId", "must be set").into());
            }
            v1::DeliveryOutcome::Sent => {
                Receipt::Sent { provider_message_id: r.provider_message_id }
            }
            v1::DeliveryOutcome::Failed => Receipt::Failed { detail: r.detail },
            v1::DeliveryOutcome::Unknown => Receipt::Unknown { detail: r.detail },
            v1::DeliveryOutcome::Unspecified => {
                return Err(Invalid::new("outcome", "must be set").into());
            }
        };
        let settled = self.store.settle_delivery(id, &receipt).await?;
        self.dispatch.lane(settled.conversation).await;
        Ok(settled.state)
    }

    async fn bindings(&self, payload: &[u8]) -> v1::ListBindingsResponse {
        let work = async {
            let ask: v1::ListBindingsRequest = read(payload)?;
            let adapter = AdapterName::parse(ask.adapter)?;
            streams::adapter(&self.js, &adapter).await?;
            let rows = self.store.bindings(adapter.as_str()).await?;
            Ok::<_, Error>((adapter, rows))
        };
        match work.await {
            Ok((adapter, rows)) => {
                let bindings = rows.into_iter().map(|b| v1::Binding {
                    id: b.id,
                    adapter: adapter.to_string(),
                    agent: b.agent,
                    agent_name: b.agent_name,
                    max_message_bytes: b.max_message_bytes,
                });
                v1::ListBindingsResponse { bindings: bindings.collect(), error: None }
            }
            Err(e) => v1::ListBindingsResponse { bindings: vec![], error: Some(refusal(e)) },
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(payload)
        .map_err(|e| Invalid::new("request", format!("not the expected JSON: {e}")).into())
}

fn bounded(field: &'static str, text: &str) -> Result<(), Error> {
    if text.len() > DETAIL_BYTES {
        return Err(Invalid::new(field, format!("longer than {DETAIL_BYTES} bytes")).into());
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the error ends here")]
fn refusal(e: Error) -> v1::RpcError {
    class::log(&e);
    v1::RpcError { code: e.class().as_str().to_owned(), message: e.public() }
}
