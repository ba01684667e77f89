//! The one way to a model provider: a stateless streamed request. Everything behind it speaks of
//! deltas; what a provider's wire looks like stays in here.

pub(crate) mod chat;
mod event_stream;
pub(crate) mod refusal;

use crate::{models::Model, problem::Problem};
use bytes::Bytes;
use chat::stream::{ChatStream, Said};
use event_stream::EventStream;
use http::header;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use std::{collections::VecDeque, time::Duration};

/// How long a provider may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To accept a connection.
    pub connect: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        }
    }
}

/// What a provider says, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delta {
    Text(String),
    /// A piece of a function call; the first of an index names the function.
    Call {
        index: usize,
        name: String,
        arguments: String,
    },
    Usage(Usage),
    Stop(Stop),
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    End,
    OutputLimit,
    Filter,
    GaveUp,
}

/// Token counts as the provider told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Usage {
    /// As the API tells it.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "input_tokens": self.input,
            "input_tokens_details": { "cached_tokens": self.cached },
            "output_tokens": self.output,
            "output_tokens_details": { "reasoning_tokens": self.reasoning },
            "total_tokens": self.input + self.output,
        })
    }
}

/// The client of every provider.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    client: reqwest::Client,
    patience: Patience,
}

impl Upstream {
    /// # Errors
    /// When the TLS backend cannot be set up.
    pub(crate) fn new(patience: Patience) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(patience.connect)
            // A provider's answer to where it is, not where it was: no redirects with credentials.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .pool_idle_timeout(Duration::from_secs(60))
            .build()?;
        Ok(Self { client, patience })
    }

    /// Sends a request and waits for the head of the answer.
    ///
    /// # Errors
    /// When the provider cannot be reached, refuses, or answers with something else than a stream.
    pub(crate) async fn send(&self, model: &Model, body: Bytes) -> Result<Answer, Problem> {
        let mut request = self
            .client
            .post(&model.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "text/event-stream")
            .body(body);
        if let Some(key) = &model.api_key {
            request = request.bearer_auth(key.expose_secret());
        }
        if let Some(parent) = turnwright_kit::trace::current() {
            request = request.header(turnwright_kit::trace::HEADER, parent);
        }
        let sent = tokio::time::timeout(self.patience.first_byte, request.send()).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(e)) => return Err(refusal::unreachable(&model.provider, &e)),
            Err(_) => return Err(refusal::silent(self.patience.first_byte)),
        };
        if !response.status().is_success() {
            let problem = refusal::of_response(&model.provider, response).await;
            return Err(refusal::without(problem, model.api_key.as_ref()));
        }
        let streams = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if streams {
            Ok(Answer::new(response, self.patience.idle, model.api_key.clone()))
        } else {
            Err(refusal::not_a_stream())
        }
    }
}

/// What comes next of an answer.
#[derive(Debug)]
pub(crate) enum Next {
    Delta(Delta),
    /// The provider said that there is no more, or closed the stream in order.
    Over,
    /// The stream broke.
    Cut,
    Failed(Problem),
}

/// A provider's answer while it comes.
#[derive(Debug)]
pub(crate) struct Answer {
    response: reqwest::Response,
    idle: Duration,
    /// Never to be quoted.
    credential: Option<SecretString>,
    events: EventStream,
    chat: ChatStream,
    ready: VecDeque<Delta>,
    end: Option<End>,
}

#[derive(Debug)]
enum End {
    Over,
    Cut,
    Failed(Problem),
}

impl Answer {
    fn new(response: reqwest::Response, idle: Duration, credential: Option<SecretString>) -> Self {
        Self {
            response,
            idle,
            credential,
            events: EventStream::default(),
            chat: ChatStream::default(),
            ready: VecDeque::new(),
            end: None,
        }
    }

    /// The next delta, or the end. Not to be called after the end.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Next::Delta(delta);
            }
            match self.end.take() {
                Some(End::Over) => return Next::Over,
                Some(End::Cut) => return Next::Cut,
                Some(End::Failed(problem)) => {
                    return Next::Failed(refusal::without(problem, self.credential.as_ref()));
                }
                None => {}
            }
            match tokio::time::timeout(self.idle, self.response.chunk()).await {
                Ok(Ok(Some(piece))) => self.take(&piece),
                Ok(Ok(None)) => self.end = Some(End::Over),
                Ok(Err(e)) => {
                    tracing::info!(error = %e.without_url(), "the provider's stream was cut");
                    self.end = Some(End::Cut);
                }
                Err(_) => {
                    tracing::info!(idle = ?self.idle, "the provider's stream fell silent");
                    self.end = Some(End::Cut);
                }
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        let (chat, ready, end) = (&mut self.chat, &mut self.ready, &mut self.end);
        let taken = self.events.push(piece, |data| {
            // What comes after an end is not of this answer.
            if end.is_some() {
                return;
            }
            match chat.event(data, |delta| ready.push_back(delta)) {
                Ok(Said::More) => {}
                Ok(Said::Done) => *end = Some(End::Over),
                Err(problem) => *end = Some(End::Failed(problem)),
            }
        });
        if taken.is_err() && self.end.is_none() {
            self.end = Some(End::Failed(refusal::unreadable()));
        }
    }
}

#[cfg(test)]
mod tests;
