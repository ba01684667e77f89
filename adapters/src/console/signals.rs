//! Messages in: a user's message becomes a signal, and is shown in the store once the signal is
//! durable.

use super::{
    incoming::Incoming,
    journal::{Appended, Draft, Journal, content, message_id},
    lane::Lane,
    order::OrderKeys,
    refusal::Refusal,
    routes::Routes,
};
use crate::{
    api::{Accepted, By, UserPart},
    bindings::Bindings,
    transport::Nats,
};
use chrono::{DateTime, Utc};
use std::sync::Arc;
use turnwright_proto::{
    convert,
    v1::{self, SignalEvent},
};
use turnwright_types::{AdapterName, Addressed, ChannelKind, subjects};

/// Takes users' messages.
#[derive(Debug)]
pub struct Signals {
    /// Where signals go.
    pub nats: Nats,
    /// The console's adapter kind.
    pub adapter: AdapterName,
    /// The agents.
    pub bindings: Arc<Bindings>,
    /// The message store.
    pub journal: Journal,
    /// Learns which conversation a turn will belong to.
    pub routes: Arc<Routes>,
    /// Orders the signals.
    pub order: OrderKeys,
}

impl Signals {
    /// Publishes the signal of a message, waits until the stream has it, then stores the message.
    /// A repeat with the same event key is answered as the first time.
    ///
    /// # Errors
    /// When the agent is unknown, the event key stands for another message, or a part is away.
    pub async fn accept(&self, message: Incoming) -> Result<Accepted, Refusal> {
        let Incoming { agent, conversation, text, sender, event_key } = message;
        let binding = match self.bindings.find(&agent).await {
            Ok(binding) => binding.id,
            Err(e) => return Err(Refusal::unfound(agent, e)),
        };
        let lane = Lane { binding, conversation };
        let nonce = subjects::signal_message_id(&lane.binding, &event_key);
        let said = content(&lane, &text);
        let accept = |stored: Appended| {
            if stored.content != said {
                return Err(Refusal::EventKeyUsed(event_key.clone()));
            }
            Ok(Accepted {
                event_key: event_key.clone(),
                message_id: message_id(&nonce),
                index: stored.index,
                conversation: lane.conversation.clone(),
                binding: lane.binding.clone(),
            })
        };
        if let Some(stored) = self.journal.find(&nonce) {
            return accept(stored);
        }

        let now = Utc::now();
        let by = UserPart {
            event_key: event_key.clone(),
            sender,
            order_key: self.order.next(now.timestamp_micros()),
        };
        // Known before the turn can start, so that its first progress finds the conversation.
        self.routes.expect(&event_key, &lane);
        let signal = self.signal(&lane, &nonce, &by, &text, now);
        let body = serde_json::to_vec(&signal).map_err(Refusal::Encode)?;
        let subject = subjects::signal(&self.adapter, &lane.binding);
        let published = self.nats.publish(subject, &nonce, body).await;
        published.map_err(|e| Refusal::unpublished(event_key.clone(), e))?;

        let draft = Draft { lane: lane.clone(), nonce: nonce.clone(), text, by: By::User(by) };
        let stored = self.journal.append(draft).await;
        accept(stored.map_err(|source| Refusal::Unstored { key: event_key.clone(), source })?)
    }

    fn signal(
        &self,
        lane: &Lane,
        nonce: &str,
        by: &UserPart,
        text: &str,
        now: DateTime<Utc>,
    ) -> SignalEvent {
        let channel = v1::Channel {
            kind: v1::ChannelKind::from(ChannelKind::Dm).into(),
            id: lane.conversation.to_string(),
            ..v1::Channel::default()
        };
        let sender = v1::Sender {
            id: by.sender.id.clone(),
            display_name: by.sender.display_name.clone(),
            ..v1::Sender::default()
        };
        let data = v1::Signal {
            channel: Some(channel),
            sender: Some(sender),
            addressed: v1::Addressed::from(Addressed::Dm).into(),
            text: text.to_owned(),
            message_id: message_id(nonce).to_string(),
            reply_to: String::new(),
            order_key: by.order_key.clone(),
        };
        SignalEvent {
            specversion: "1.0".to_owned(),
            r#type: "turnwright.signal.v1".to_owned(),
            source: format!("/adapters/{}/{}", self.adapter, lane.binding),
            id: by.event_key.to_string(),
            time: Some(convert::timestamp(now)),
            datacontenttype: "application/json".to_owned(),
            data: Some(data),
        }
    }
}
