//! The NATS side that every adapter shares: one connection, acknowledged publishing, JSON requests,
//! trace context on both. Knows subjects only as text.

use async_nats::{
    ConnectErrorKind, ConnectOptions, HeaderMap,
    connection::State,
    jetstream::{self, ContextBuilder, ErrorCode, message::PublishMessage},
};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;
use tokio::time::Instant;
use turnwright_kit::{Class, Classify, Credentials, NatsUrl, backoff::Backoff, trace};

/// How long a request or a publish acknowledgement may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Messages one subscription may hold unread; more are dropped by the client library.
const UNREAD_MESSAGES: usize = 4096;

/// NATS cannot be reached at start.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server refuses the credentials.
    #[error("NATS at {server} refuses the credentials; check the token in TURNWRIGHT_NATS_URL")]
    Refused {
        /// The address, without credentials.
        server: String,
    },
    /// No answer in time.
    #[error("NATS at {server} does not answer; start it, or correct TURNWRIGHT_NATS_URL")]
    Away {
        /// The address, without credentials.
        server: String,
        /// The last try's failure.
        #[source]
        source: async_nats::ConnectError,
    },
}

/// A message was not acknowledged by JetStream; it may be stored all the same.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// There is no connection now; nothing was sent.
    #[error("there is no connection to NATS")]
    Disconnected,
    /// The stream's limit for this subject is reached; nothing is stored.
    #[error("the stream is full for this subject")]
    Full,
    /// No acknowledgement.
    #[error("the stream did not acknowledge the message")]
    Unacknowledged(#[source] jetstream::context::PublishError),
}

/// A request got no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request cannot be encoded.
    #[error("cannot encode the request to {subject}")]
    Encode {
        /// The subject.
        subject: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Nobody answered in time.
    #[error("no answer from {subject}; is the control plane running?")]
    Unanswered {
        /// The subject.
        subject: &'static str,
        /// Why.
        #[source]
        source: async_nats::RequestError,
    },
    /// The answer is not of the contract.
    #[error("cannot read the answer from {subject}")]
    Decode {
        /// The subject.
        subject: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl Classify for CallError {
    fn class(&self) -> Class {
        match self {
            Self::Unanswered { .. } => Class::Unavailable,
            Self::Encode { .. } | Self::Decode { .. } => Class::Internal,
        }
    }
}

/// One connection to NATS; cheap to clone. It reconnects by itself.
#[derive(Clone, Debug)]
pub struct Nats {
    client: async_nats::Client,
    jetstream: jetstream::Context,
}

impl Nats {
    /// Connects as `name`, repeating for `within`.
    ///
    /// # Errors
    /// When the credentials are refused, or nobody answers in time.
    pub async fn connect(
        url: &NatsUrl,
        name: &str,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(ANSWER_WITHIN)
            .subscription_capacity(UNREAD_MESSAGES)
            .event_callback(|event| async move { tracing::info!(%event, "nats connection") });
        options = match url.credentials() {
            Credentials::None => options,
            Credentials::Token(token) => options.token(token.to_owned()),
            Credentials::User(user, password) => {
                options.user_and_password(user.to_owned(), password.to_owned())
            }
        };
        let deadline = Instant::now() + within;
        let mut delays = Backoff::endless(Duration::from_millis(50), Duration::from_secs(1));
        loop {
            let source = match options.clone().connect(url.address.as_str()).await {
                Ok(client) => return Ok(Self::over(client)),
                Err(e) if e.kind() == ConnectErrorKind::AuthorizationViolation => {
                    return Err(ConnectError::Refused { server: url.address.clone() });
                }
                Err(e) => e,
            };
            let wait = delays.next().unwrap_or(ANSWER_WITHIN);
            if Instant::now() + wait > deadline {
                return Err(ConnectError::Away { server: url.address.clone(), source });
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn over(client: async_nats::Client) -> Self {
        let jetstream = ContextBuilder::new().timeout(ANSWER_WITHIN).build(client.clone());
        Self { client, jetstream }
    }

    /// The core connection.
    #[must_use]
    pub const fn client(&self) -> &async_nats::Client {
        &self.client
    }

    /// The JetStream context.
    #[must_use]
    pub const fn jetstream(&self) -> &jetstream::Context {
        &self.jetstream
    }

    /// Publishes `body` and waits until the stream has stored it, or had stored it under the same
    /// `id`. Carries the current span's trace context.
    ///
    /// # Errors
    /// When there is no acknowledgement; repeating with the same `id` is safe.
    pub async fn publish(
        &self,
        subject: String,
        id: &str,
        body: Vec<u8>,
    ) -> Result<(), PublishError> {
        // Without this check the message would leave at some later reconnect, after the caller
        // was told that it did not.
        if self.client.connection_state() != State::Connected {
            return Err(PublishError::Disconnected);
        }
        let mut message = PublishMessage::build().payload(body.into()).message_id(id);
        if let Some(parent) = trace::current() {
            message = message.header(trace::HEADER, parent.as_str());
        }
        let sent = self.jetstream.send_publish(subject, message).await.map_err(refused)?;
        sent.await.map_err(refused)?;
        Ok(())
    }

    /// Asks on `subject` and reads the answer. Carries the current span's trace context.
    ///
    /// # Errors
    /// When nobody answers within five seconds, or not in the contract's form.
    pub async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        subject: &'static str,
        question: &Q,
    ) -> Result<A, CallError> {
        let body =
            serde_json::to_vec(question).map_err(|source| CallError::Encode { subject, source })?;
        let mut request =
            async_nats::Request::new().payload(body.into()).timeout(Some(ANSWER_WITHIN));
        if let Some(parent) = trace::current() {
            let mut headers = HeaderMap::new();
            headers.insert(trace::HEADER, parent.as_str());
            request = request.headers(headers);
        }
        let answer = self
            .client
            .send_request(subject, request)
            .await
            .map_err(|source| CallError::Unanswered { subject, source })?;
        serde_json::from_slice(&answer.payload)
            .map_err(|source| CallError::Decode { subject, source })
    }
}

fn refused(e: jetstream::context::PublishError) -> PublishError {
    let full = std::error::Error::source(&e)
        .and_then(|source| source.downcast_ref::<jetstream::Error>())
        // The server has one code for every reason a store refuses; its text names the limit.
        .is_some_and(|e| {
            e.error_code() == ErrorCode::STREAM_STORE_FAILED && e.to_string().contains("maximum")
        });
    if full { PublishError::Full } else { PublishError::Unacknowledged(e) }
}
