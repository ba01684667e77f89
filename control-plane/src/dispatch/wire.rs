//! Rows as NATS messages: subject, headers, ProtoJSON body.

use crate::{Error, streams::boxed};
use async_nats::{
    HeaderMap,
    jetstream::{
        self, Context, Message,
        context::{PublishError, PublishErrorKind},
    },
};
use std::error::Error as _;
use turnwright_control_store::{DeliveryMessage, QueuedTurn};
use turnwright_proto::{convert, v1};
use turnwright_types::{AdapterName, BindingId, ChannelKind, Invalid, Pool, TurnKind, subjects};

/// JetStream's answer when a subject holds all the messages it may: the turn is offered already.
const SUBJECT_FULL: u64 = 10_077;
/// JetStream's answers when a message, or its headers, are larger than the stream takes.
const TOO_LARGE: [u64; 2] = [10_054, 10_097];

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
    let body = bytes::Bytes::from(body(&turn_start(turn, config, revision)?)?);
    let publish = async || {
        let headers = headers(turn.traceparent.as_deref());
        match js.publish_with_headers(subject.clone(), headers, body.clone()).await {
            Ok(ack) => ack.await.map(|_| ()),
            Err(e) => Err(e),
        }
    };
    match publish().await {
        Ok(()) => Ok(()),
        Err(e) if code(&e) == Some(SUBJECT_FULL) => {
            // An offer that stands keeps its place in the queue; only an older one is withdrawn:
            // its worker died before it acknowledged.
            if turn.dispatch_no > 1 && withdraw_older(js, &subject, turn.dispatch_no).await? {
                publish().await.map_err(|e| failed(e, "a turn start"))?;
            }
            Ok(())
        }
        Err(e) => Err(failed(e, "a turn start")),
    }
}

/// Removes an offer of an earlier dispatch from a subject. Answers whether the subject is free.
async fn withdraw_older(js: &Context, subject: &str, dispatch_no: i64) -> Result<bool, Error> {
    let stream = js.get_stream_no_info(subjects::TURNS).await.map_err(boxed("find TURNS"))?;
    let Ok(held) = stream.get_last_raw_message_by_subject(subject).await else {
        // Gone in between: acknowledged, or the server lost it.
        return Ok(true);
    };
    let offered: v1::TurnStart = serde_json::from_slice(&held.payload).unwrap_or_default();
    if offered.dispatch_no >= dispatch_no {
        return Ok(false);
    }
    stream.delete_message(held.sequence).await.map_err(boxed("withdraw a turn start"))?;
    Ok(true)
}

/// The code of JetStream's refusal, if it refused.
fn code(e: &PublishError) -> Option<u64> {
    let source = e.source()?.downcast_ref::<jetstream::Error>()?;
    Some(source.error_code().0)
}

fn failed(e: PublishError, what: &'static str) -> Error {
    let too_large = matches!(e.kind(), PublishErrorKind::MaxPayloadExceeded);
    if too_large || code(&e).is_some_and(|c| TOO_LARGE.contains(&c)) {
        return Error::Unpublishable { what };
    }
    boxed("publish")(e)
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
    let ack = sent.map_err(|e| failed(e, "a delivery"))?;
    ack.await.map_err(|e| failed(e, "a delivery"))?;
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
