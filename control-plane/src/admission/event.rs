//! A message of the stream as a signal: everything checked here, nothing after.

use async_nats::jetstream::Message;
use chrono::{DateTime, Utc};
use turnwright_control_store::NewSignal;
use turnwright_proto::{convert, v1};
use turnwright_types::{EventKey, Invalid, subjects};

/// The largest event, in bytes.
const EVENT_BYTES: usize = 256 << 10;
/// The longest text, in bytes.
const TEXT_BYTES: usize = 64 << 10;
/// The longest name or provider id, in bytes.
const NAME_BYTES: usize = 512;

/// Parses and validates a signal.
pub(super) fn parse(message: &Message, published_at: DateTime<Utc>) -> Result<NewSignal, Invalid> {
    let header = crate::dispatch::wire::header(message, subjects::TRACEPARENT);
    read(&message.subject, &message.payload, header, published_at)
}

fn read(
    subject: &str,
    body: &[u8],
    traceparent: Option<&str>,
    published_at: DateTime<Utc>,
) -> Result<NewSignal, Invalid> {
    let (adapter, binding) = subjects::parse_signal(subject)?;
    if body.len() > EVENT_BYTES {
        return Err(Invalid::new("event", format!("longer than {EVENT_BYTES} bytes")));
    }
    let event: v1::SignalEvent = serde_json::from_slice(body)
        .map_err(|e| Invalid::new("event", format!("not a CloudEvent in JSON: {e}")))?;
    let must = |field, found: &str, want: &str| {
        if found == want { Ok(()) } else { Err(Invalid::new(field, format!("expected `{want}`"))) }
    };
    must("specversion", &event.specversion, "1.0")?;
    must("type", &event.r#type, "turnwright.signal.v1")?;
    let occurred_at = convert::time("time", event.time)?;
    let signal = event.data.ok_or_else(|| Invalid::new("data", "must be set"))?;
    let channel = signal.channel.ok_or_else(|| Invalid::new("data.channel", "must be set"))?;
    let sender = signal.sender.ok_or_else(|| Invalid::new("data.sender", "must be set"))?;
    if signal.text.len() > TEXT_BYTES {
        return Err(Invalid::new("data.text", format!("longer than {TEXT_BYTES} bytes")));
    }
    let text = without_nul("data.text", signal.text)?;
    Ok(NewSignal {
        adapter: adapter.to_string(),
        binding,
        event_key: EventKey::parse(event.id)?,
        order_key: required("data.orderKey", signal.order_key)?,
        message_id: required("data.messageId", signal.message_id)?,
        reply_to: optional("data.replyTo", signal.reply_to)?,
        channel_kind: convert::enumeration::<v1::ChannelKind, _>(
            "data.channel.kind",
            channel.kind,
        )?,
        channel_id: required("data.channel.id", channel.id)?,
        thread_id: optional("data.channel.threadId", channel.thread_id)?,
        channel_label: optional("data.channel.label", channel.label)?,
        sender_id: required("data.sender.id", sender.id)?,
        sender_name: optional("data.sender.displayName", sender.display_name)?,
        from_self: sender.self_,
        agent_hops: sender.agent_hops,
        addressed: convert::enumeration::<v1::Addressed, _>("data.addressed", signal.addressed)?,
        text,
        occurred_at,
        published_at,
        // A W3C trace context of version 00 has 55 characters.
        traceparent: traceparent.filter(|t| t.len() <= 128).map(str::to_owned),
    })
}

fn required(field: &'static str, value: String) -> Result<String, Invalid> {
    if value.is_empty() { Err(Invalid::new(field, "must be set")) } else { optional(field, value) }
}

fn optional(field: &'static str, value: String) -> Result<String, Invalid> {
    if value.len() > NAME_BYTES {
        return Err(Invalid::new(field, format!("longer than {NAME_BYTES} bytes")));
    }
    without_nul(field, value)
}

/// PostgreSQL text cannot hold it, and no chat message means it.
fn without_nul(field: &'static str, value: String) -> Result<String, Invalid> {
    if value.contains('\0') {
        return Err(Invalid::new(field, "holds the character U+0000"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SUBJECT: &str = "tw.v1.signal.console.console-a";

    fn good() -> Value {
        json!({"specversion": "1.0", "type": "turnwright.signal.v1", "source": "/x", "id": "m1",
            "time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json",
            "data": {"channel": {"kind": "CHANNEL_KIND_DM", "id": "c"},
                     "sender": {"id": "u", "displayName": "Ada"},
                     "addressed": "ADDRESSED_DM", "text": "hi", "messageId": "m1",
                     "orderKey": "1", "somethingNew": true}})
    }

    fn parse(v: &Value) -> Result<NewSignal, Invalid> {
        read(SUBJECT, v.to_string().as_bytes(), None, Utc::now())
    }

    #[test]
    fn a_good_event_is_read_and_unknown_fields_are_ignored() {
        let s = parse(&good()).unwrap();
        assert_eq!((s.binding.as_str(), s.sender_name.as_str()), ("console-a", "Ada"));
    }

    #[test]
    fn each_missing_or_wrong_part_is_named() {
        for (path, field) in [
            ("/specversion", "specversion"),
            ("/type", "type"),
            ("/time", "time"),
            ("/id", "event_key"),
            ("/data", "data"),
            ("/data/channel", "data.channel"),
            ("/data/channel/kind", "data.channel.kind"),
            ("/data/sender/id", "data.sender.id"),
            ("/data/addressed", "data.addressed"),
            ("/data/orderKey", "data.orderKey"),
            ("/data/messageId", "data.messageId"),
        ] {
            let mut v = good();
            let (parent, key) = path.rsplit_once('/').unwrap();
            v.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
            assert_eq!(parse(&v).unwrap_err().field, field, "{path}");
        }
        assert_eq!(read(SUBJECT, b"{", None, Utc::now()).unwrap_err().field, "event");
        let mut v = good();
        v["data"]["text"] = json!("a\u{0}b");
        assert_eq!(parse(&v).unwrap_err().field, "data.text");
        // Six typed characters are no U+0000.
        v["data"]["text"] = json!("a\\u0000b");
        assert_eq!(parse(&v).unwrap().text, "a\\u0000b");
    }
}
