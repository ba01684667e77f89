//! Rows as NATS messages: subject, headers, ProtoJSON body.

use crate::{Error, streams::boxed};
use async_nats::{
    HeaderMap,
    jetstream::{self, Context, Message, context::PublishError},
};
use std::error::Error as _;
use turnwright_control_store::{DeliveryMessage, QueuedTurn};
use turnwright_proto::{convert, v1};
use turnwright_types::{AdapterName, BindingId, ChannelKind, Invalid, Pool, TurnKind, subjects};

/// JetStream's answer when a subject holds all the messages it may: the turn is offered already.
const SUBJECT_FULL: u64 = 10_077;

/// A header of a message, if it has one.
#[must_use]
pub fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(|v| v.as_str())
}

/// A turn as the envelope that starts it, with the configuration as of `revision`.
///
/// # Errors
/// When a stored name is not valid any more.
pub fn turn_start(
    turn: &QueuedTurn,
    config: &v1::AiAgentConfig,
    revision: i64,
) -> Result<v1::TurnStart, Invalid> {
    Ok(v1::TurnStart {
        turn_id: turn.turn.to_string(),
        dispatch_no: turn.dispatch_no,
        agent: turn.agent.clone(),
        conversation_id: turn.conversation.to_string(),
        revision,
        request_context: Some(v1::RequestContext {
            ai_agent: Some(config.clone()),
            kind: v1::TurnKind::from(TurnKind::parse(&turn.kind)?).into(),
        }),
        traceparent: turn.traceparent.clone().unwrap_or_default(),
        generation: turn.generation,
    })
}

pub(super) async fn publish_turn(
    js: &Context,
    turn: &QueuedTurn,
    config: &v1::AiAgentConfig,
    revision: i64,
) -> Result<(), Error> {
    let pool = Pool::parse(turn.pool.clone())?;
    let subject = subjects::turn_start(&pool, turn.turn);
    let body = body(&turn_start(turn, config, revision)?)?;
    if turn.dispatch_no > 1 {
        // The offer before may still hold the subject: its worker died before it acknowledged.
        let stream = js.get_stream_no_info(subjects::TURNS).await.map_err(boxed("find TURNS"))?;
        stream.purge().filter(subject.clone()).await.map_err(boxed("withdraw a turn start"))?;
    }
    let headers = headers(turn.traceparent.as_deref());
    let sent = js.publish_with_headers(subject, headers, body.into()).await;
    let end = match sent {
        Ok(ack) => ack.await,
        Err(e) => Err(e),
    };
    match end {
        Ok(_) => Ok(()),
        Err(e) if is_full(&e) => Ok(()),
        Err(e) => Err(boxed("publish a turn start")(e)),
    }
}

fn is_full(e: &PublishError) -> bool {
    e.source()
        .and_then(|s| s.downcast_ref::<jetstream::Error>())
        .is_some_and(|s| s.error_code().0 == SUBJECT_FULL)
}

pub(super) async fn publish_delivery(js: &Context, d: DeliveryMessage) -> Result<(), Error> {
    let (adapter, binding) = (AdapterName::parse(d.adapter)?, BindingId::parse(d.binding.clone())?);
    let subject = subjects::delivery(&adapter, &binding);
    let mut headers = headers(d.traceparent.as_deref());
    headers.insert("Nats-Msg-Id", d.id.to_string().as_str());
    let kind = ChannelKind::parse(&d.channel_kind)?;
    let message = v1::Delivery {
        delivery_id: d.id.to_string(),
        binding: d.binding,
        agent: d.agent,
        channel: Some(v1::Channel {
            kind: v1::ChannelKind::from(kind).into(),
            id: d.channel_id,
            thread_id: d.thread_id,
            label: d.channel_label,
        }),
        reply_to: d.reply_to,
        text: d.body,
        turn_id: d.turn.map(|t| t.to_string()).unwrap_or_default(),
        conversation_id: d.conversation.to_string(),
        origin: d.origin,
        not_after: Some(convert::timestamp(d.not_after)),
        traceparent: d.traceparent.unwrap_or_default(),
        reply_event_key: d.reply_event_key,
        ordinal: d.ordinal,
        chunks: d.chunks,
    };
    let sent = js.publish_with_headers(subject, headers, body(&message)?.into()).await;
    let ack = sent.map_err(boxed("publish a delivery"))?;
    ack.await.map_err(boxed("publish a delivery"))?;
    Ok(())
}

fn headers(traceparent: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(t) = traceparent {
        headers.insert(subjects::TRACEPARENT, t);
    }
    headers
}

/// A message's JSON form.
pub(crate) fn body(message: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(message).map_err(boxed("encode a message"))
}
