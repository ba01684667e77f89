//! A client of the console's HTTP interface, for `turnwright chat` and for tests. A TLS provider
//! must be installed in the process before it is made.

use crate::api::{
    self, Accepted, Agent, Agents, ErrorBody, ErrorDetail, Lagged, Message, PostMessage,
};
use eventsource_stream::{EventStreamError, Eventsource as _};
use futures::{StreamExt as _, stream::BoxStream};
use reqwest::{RequestBuilder, Response, StatusCode, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use std::{future, time::Duration};
use turnwright_kit::{Class, Classify, trace};
use turnwright_proto::v1::TurnProgress;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// The server sends a comment every 15 seconds; a stream silent for longer than this is dead.
const SILENT_FOR: Duration = Duration::from_secs(45);

/// What the console answered, or why it did not.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base URL cannot be used.
    #[error("`{0}` is not an HTTP URL; expected http://host:port")]
    Url(String),
    /// The client cannot be made.
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// The console does not answer, or the stream was cut.
    #[error("the console does not answer; is it running?")]
    Away(#[source] reqwest::Error),
    /// The token is missing or wrong.
    #[error("the console refuses the token")]
    Unauthenticated,
    /// The console refuses the request.
    #[error("{}", .detail.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Why.
        detail: ErrorDetail,
    },
    /// The answer is not of this interface.
    #[error("cannot read the console's answer: {0}")]
    Malformed(String),
}

impl Error {
    /// The stable word of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { detail, .. } => Some(&detail.code),
            Self::Url(_)
            | Self::Client(_)
            | Self::Away(_)
            | Self::Unauthenticated
            | Self::Malformed(_) => None,
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Url(_) => Class::Invalid,
            Self::Client(_) | Self::Malformed(_) => Class::Internal,
            Self::Away(_) => Class::Unavailable,
            Self::Unauthenticated => Class::Unauthenticated,
            Self::Refused { status, .. } => match status {
                404 => Class::NotFound,
                409 => Class::Conflict,
                429 => Class::Exhausted,
                400..=499 => Class::Invalid,
                503 => Class::Unavailable,
                _ => Class::Internal,
            },
        }
    }

    fn public(&self) -> String {
        self.to_string()
    }
}

/// One event of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A stored message, by whomever.
    Message(Message),
    /// What a turn of the conversation does now.
    Progress(TurnProgress),
    /// Progress was lost, because the reader was slow.
    Lagged(Lagged),
}

/// A client of one console.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: SecretString,
}

impl Client {
    /// For the console at `base`, such as `http://127.0.0.1:7004`. Never uses a proxy.
    ///
    /// # Errors
    /// When `base` is not an HTTP URL.
    pub fn new(base: &str, token: impl Into<SecretString>) -> Result<Self, Error> {
        let base = Url::parse(base)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| Error::Url(base.to_owned()))?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(SILENT_FOR)
            .build()
            .map_err(Error::Client)?;
        Ok(Self { http, base, token: token.into() })
    }

    /// The agents that can be written to.
    ///
    /// # Errors
    /// When the console does not answer or refuses.
    pub async fn agents(&self) -> Result<Vec<Agent>, Error> {
        let request = self.http.get(self.path(api::AGENTS)).timeout(ANSWER_WITHIN);
        let answer: Agents = json(self.send_request(request).await?).await?;
        Ok(answer.agents)
    }

    /// Sends a message; returns once its signal is stored. With an event key in the message
    /// ([`PostMessage::new`] makes one), repeating it is safe whatever the error was.
    ///
    /// # Errors
    /// When the console does not answer or refuses.
    pub async fn send(&self, message: &PostMessage) -> Result<Accepted, Error> {
        let request = self.http.post(self.path(api::MESSAGES)).timeout(ANSWER_WITHIN).json(message);
        json(self.send_request(request).await?).await
    }

    /// The events of a conversation: its stored messages above the index `after`, then what
    /// happens. Ends when the console stops; go on with the last message's index.
    ///
    /// # Errors
    /// When the console does not answer or refuses; later, in the stream, when it is cut.
    pub async fn events(
        &self,
        agent: &str,
        conversation: &str,
        after: u64,
    ) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
        let mut url = self.path(api::EVENTS);
        url.query_pairs_mut()
            .append_pair("agent", agent)
            .append_pair("conversation", conversation)
            .append_pair("after", &after.to_string());
        let response = self.send_request(self.http.get(url)).await?;
        let events = response.bytes_stream().eventsource();
        Ok(events.filter_map(|next| future::ready(read(next).transpose())).boxed())
    }

    fn path(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }

    async fn send_request(&self, request: RequestBuilder) -> Result<Response, Error> {
        let mut request = request.bearer_auth(self.token.expose_secret());
        if let Some(parent) = trace::current() {
            request = request.header(trace::HEADER, parent);
        }
        let response = request.send().await.map_err(Error::Away)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(Error::Unauthenticated);
        }
        let body: ErrorBody = json(response).await?;
        Err(Error::Refused { status: status.as_u16(), detail: body.error })
    }
}

async fn json<T: serde::de::DeserializeOwned>(response: Response) -> Result<T, Error> {
    let status = response.status();
    let body = response.bytes().await.map_err(Error::Away)?;
    serde_json::from_slice(&body).map_err(|e| Error::Malformed(format!("{e} (status {status})")))
}

fn read(
    next: Result<eventsource_stream::Event, EventStreamError<reqwest::Error>>,
) -> Result<Option<Event>, Error> {
    let event = match next {
        Ok(event) => event,
        Err(EventStreamError::Transport(e)) => return Err(Error::Away(e)),
        Err(e @ (EventStreamError::Utf8(_) | EventStreamError::Parser(_))) => {
            return Err(Error::Malformed(e.to_string()));
        }
    };
    let parsed = match event.event.as_str() {
        api::EVENT_MESSAGE => serde_json::from_str(&event.data).map(Event::Message),
        api::EVENT_PROGRESS => serde_json::from_str(&event.data).map(Event::Progress),
        api::EVENT_LAGGED => serde_json::from_str(&event.data).map(Event::Lagged),
        _ => return Ok(None),
    };
    parsed.map(Some).map_err(|e| Error::Malformed(format!("event `{}`: {e}", event.event)))
}
