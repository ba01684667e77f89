//! The gateway as a worker uses it: opening a turn, storing outputs, streaming a response. Every
//! call carries the turn's agent token; the gateway takes conversation and fence from it.

pub(crate) mod events;
pub(crate) mod fault;

pub(crate) use events::{Ended, Event, Events, FunctionCall, Outcome, events};
pub(crate) use fault::{Fault, Kind};

use crate::{BoxError, config::GATEWAY_URL};
use events::ErrorObject;
use reqwest::{Client, RequestBuilder, header::RETRY_AFTER, redirect::Policy};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;
use turnwright_kit::trace;
use turnwright_types::{
    ResponseId,
    gateway::{
        OPEN_TURN, OpenTurn, OpenedTurn, RequestExtension, STORE_OUTPUTS, StoreOutputs, Stored,
    },
};

/// How long a call that streams nothing may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why the gateway did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No connection, or it broke.
    #[error("the gateway cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// It did not answer in time.
    #[error("the gateway did not answer in time")]
    Late,
    /// It refused, by code.
    #[error("the gateway refused with status {status} and code `{code}`")]
    Refused { status: u16, code: String, after: Option<Duration> },
    /// Its answer is not what was agreed on.
    #[error("the gateway's answer cannot be read")]
    Malformed(#[source] BoxError),
    /// The stream ended before the response did.
    #[error("the stream ended before the response did")]
    Cut,
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Late;
        }
        if error.is_decode() {
            return Self::Malformed(error.without_url().into());
        }
        Self::Unreachable(error.without_url())
    }
}

/// A request for a response, as it travels.
#[derive(Debug, Serialize)]
pub(crate) struct ResponseRequest<'a> {
    pub(crate) model: &'a str,
    pub(crate) instructions: &'a str,
    pub(crate) input: Vec<Value>,
    /// Left out where no tool may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<&'a [Value]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) stream: bool,
    pub(crate) store: bool,
    pub(crate) turnwright: RequestExtension,
}

/// A client of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    http: Client,
    base: String,
}

impl Gateway {
    /// Prepares the client; it connects at the first call.
    pub(crate) fn new(url: &str) -> Result<Self, crate::Error> {
        let http = Client::builder()
            .connect_timeout(Duration::from_secs(2))
            .tcp_nodelay(true)
            .http1_only()
            .no_proxy()
            .redirect(Policy::none())
            .build()
            .map_err(|e| crate::Error::Unusable { variable: GATEWAY_URL, source: e.into() })?;
        Ok(Self { http, base: url.trim_end_matches('/').to_owned() })
    }

    /// Whether it answers at all.
    pub(crate) async fn healthy(&self) -> Result<(), Error> {
        let request = self.http.get(format!("{}/healthz", self.base)).timeout(DEADLINE);
        checked(request.send().await?).await?;
        Ok(())
    }

    /// The state of the token's turn.
    pub(crate) async fn open(&self, token: &str, body: OpenTurn) -> Result<OpenedTurn, Error> {
        read(self.post(OPEN_TURN, token, &body).timeout(DEADLINE)).await
    }

    /// Stores outputs; a repeat of a stored one is accepted.
    pub(crate) async fn store(&self, token: &str, body: &StoreOutputs) -> Result<Stored, Error> {
        read(self.post(STORE_OUTPUTS, token, body).timeout(DEADLINE)).await
    }

    /// Asks for a response and streams it. The stream has no deadline: who reads it keeps one.
    pub(crate) async fn respond(
        &self,
        token: &str,
        body: &ResponseRequest<'_>,
    ) -> Result<Events, Error> {
        let response = checked(self.post("/v1/responses", token, body).send().await?).await?;
        Ok(events(response.bytes_stream()))
    }

    /// How a response stands: `in_progress` or how it ended.
    pub(crate) async fn status(&self, token: &str, id: ResponseId) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Response {
            status: String,
        }
        let request = self.http.get(format!("{}/v1/responses/resp_{id}", self.base));
        let request = with_caller(request, token).timeout(DEADLINE);
        Ok(read::<Response>(request).await?.status)
    }

    fn post(&self, path: &str, token: &str, body: &impl Serialize) -> RequestBuilder {
        with_caller(self.http.post(format!("{}{path}", self.base)), token).json(body)
    }
}

fn with_caller(request: RequestBuilder, token: &str) -> RequestBuilder {
    let request = request.bearer_auth(token);
    match trace::current() {
        Some(parent) => request.header(trace::HEADER, parent),
        None => request,
    }
}

async fn read<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Error> {
    Ok(checked(request.send().await?).await?.json().await?)
}

/// The response, if it is no refusal.
async fn checked(response: reqwest::Response) -> Result<reqwest::Response, Error> {
    #[derive(Deserialize)]
    struct Body {
        error: ErrorObject,
    }
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let after = after.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
    // A refusal without the agreed body is told by its status alone.
    let code = response.json::<Body>().await.map(|body| body.error.code()).unwrap_or_default();
    Err(Error::Refused { status: status.as_u16(), code, after })
}
