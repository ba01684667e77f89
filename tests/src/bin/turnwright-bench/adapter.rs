//! Plays a chat adapter and its users: publishes signals by the public contract, as the console
//! does, and watches the console for the replies.

use crate::{installation::Connection, provider::Nonce};
use anyhow::{Context as _, bail, ensure};
use chrono::Utc;
use futures::{StreamExt as _, stream::BoxStream};
use std::{
    fmt,
    time::{Duration, Instant},
};
use tokio::time::timeout;
use turnwright_adapters::{
    api::{Agent, By, Message},
    client::{self, Client, Event},
    transport::Nats,
};
use turnwright_kit::NatsUrl;
use turnwright_proto::{convert, v1};
use turnwright_types::{AdapterName, EventKey, subjects};
use uuid::Uuid;

/// For everything but turns.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// For a turn, from its signal to its reply, also when its worker dies.
const REPLY_WITHIN: Duration = Duration::from_secs(60);

/// The adapter.
#[derive(Debug)]
pub struct Adapter {
    nats: Nats,
    console: Client,
    name: AdapterName,
    agent: Agent,
    /// Sets the conversations of this run apart from those of others.
    run: String,
}

impl Adapter {
    /// Connects, and takes the first agent to talk to.
    ///
    /// # Errors
    /// When NATS or the console does not answer, or there is no agent.
    pub async fn connect(to: &Connection) -> anyhow::Result<Self> {
        let url = NatsUrl::parse(&to.nats).context("the connection names no NATS server")?;
        let nats = Nats::connect(&url, "turnwright-bench", ANSWER_WITHIN).await?;
        let console = Client::new(&to.console, to.token.clone())?;
        let agent = console.agents().await?.into_iter().next();
        Ok(Self {
            nats,
            console,
            name: AdapterName::parse("console")?,
            agent: agent.context("there is no agent to talk to")?,
            run: hex::encode(rand::random::<[u8; 4]>()),
        })
    }

    /// Begins a conversation that was not there before; `what` is its name within this run.
    ///
    /// # Errors
    /// When the console does not answer.
    pub async fn open(&self, what: &str) -> anyhow::Result<Conversation<'_>> {
        let name = format!("bench-{}-{what}", self.run);
        let events = self.console.events(self.agent.agent.as_str(), &name, 0);
        let events = timeout(ANSWER_WITHIN, events).await;
        let events = events.context("the console does not answer")??;
        Ok(Conversation { adapter: self, name, events })
    }
}

/// A signal that is ready to be published.
#[derive(Debug)]
pub struct Signal {
    /// Stands in its text.
    pub nonce: Nonce,
    event_key: EventKey,
    subject: String,
    id: String,
    body: Vec<u8>,
}

/// A signal that the stream has.
#[derive(Debug)]
pub struct Published {
    /// When its publishing began.
    pub began: Instant,
    event_key: EventKey,
}

/// One conversation and its events.
pub struct Conversation<'a> {
    adapter: &'a Adapter,
    name: String,
    events: BoxStream<'static, Result<Event, client::Error>>,
}

impl fmt::Debug for Conversation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Conversation<'_> {
    /// A new message from a user.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn signal(&self) -> anyhow::Result<Signal> {
        let Adapter { name: adapter, agent: Agent { binding, .. }, .. } = self.adapter;
        let nonce = Nonce::new();
        let event_key = EventKey::parse(Uuid::now_v7().to_string())?;
        let now = Utc::now();
        let data = v1::Signal {
            channel: Some(v1::Channel {
                kind: v1::ChannelKind::Dm.into(),
                id: self.name.clone(),
                ..v1::Channel::default()
            }),
            sender: Some(v1::Sender {
                id: "bench".to_owned(),
                display_name: "Bench".to_owned(),
                ..v1::Sender::default()
            }),
            addressed: v1::Addressed::Dm.into(),
            text: format!("Please note {nonce}."),
            message_id: event_key.to_string(),
            reply_to: String::new(),
            order_key: format!("{:020}", now.timestamp_micros()),
        };
        let event = v1::SignalEvent {
            specversion: "1.0".to_owned(),
            r#type: "turnwright.signal.v1".to_owned(),
            source: format!("/adapters/{adapter}/{binding}"),
            id: event_key.to_string(),
            time: Some(convert::timestamp(now)),
            datacontenttype: "application/json".to_owned(),
            data: Some(data),
        };
        Ok(Signal {
            nonce,
            subject: subjects::signal(adapter, binding),
            id: subjects::signal_message_id(binding, &event_key),
            body: serde_json::to_vec(&event).context("cannot encode a signal")?,
            event_key,
        })
    }

    /// Publishes a signal and waits until the stream has it; the clock starts with the call.
    ///
    /// # Errors
    /// When there is no acknowledgement.
    pub async fn publish(&self, signal: Signal) -> anyhow::Result<Published> {
        let Signal { event_key, subject, id, body, .. } = signal;
        let began = Instant::now();
        self.adapter.nats.publish(subject, &id, body).await?;
        Ok(Published { began, event_key })
    }

    /// Waits until the console shows the reply to a signal, and says when that was.
    ///
    /// # Errors
    /// When there is none in time, or a notice instead.
    pub async fn reply(&mut self, to: &Published) -> anyhow::Result<Instant> {
        let shown = timeout(REPLY_WITHIN, self.shown(&to.event_key)).await;
        shown.with_context(|| format!("no reply in conversation {} in time", self.name))?
    }

    /// Publishes a new message and waits for its reply; when that was shown.
    ///
    /// # Errors
    /// As [`Conversation::publish`] and [`Conversation::reply`].
    pub async fn ask(&mut self) -> anyhow::Result<Instant> {
        let published = self.publish(self.signal()?).await?;
        self.reply(&published).await
    }

    async fn shown(&mut self, to: &EventKey) -> anyhow::Result<Instant> {
        loop {
            let event = self.events.next().await;
            let now = Instant::now();
            let message = match event {
                Some(Ok(Event::Message(message))) => message,
                Some(Ok(Event::Progress(_) | Event::Lagged(_))) => continue,
                Some(Err(e)) => return Err(e).context("the console's events broke off"),
                None => bail!("the console's events ended"),
            };
            let Message { text, by: By::Agent(post), .. } = message else { continue };
            if post.reply_event_key.as_deref() == Some(to.as_str()) {
                ensure!(post.origin == "reply", "the turn ended with a notice: {text}");
                return Ok(now);
            }
        }
    }
}
