//! The console's HTTP interface: paths, limits and what each answers.

use super::{events, hub::Hub, incoming::Incoming, lane::Lane, refusal::Refusal, signals::Signals};
use crate::{
    api::{self, Accepted, Agent, Agents, Conversation, PostMessage},
    bindings::Bindings,
};
use axum::{
    Json, Router,
    extract::{
        DefaultBodyLimit, Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode},
    response::sse::{KeepAlive, Sse},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::timeout::TimeoutLayer;
use tracing::Instrument as _;
use turnwright_kit::{
    auth::{RequireToken, Tokens},
    health::{self, Readiness},
    trace,
};
use turnwright_types::AgentSlug;

/// Event streams open at once.
const STREAMS: usize = 1024;
/// How long a request may take until its answer begins, reading its body included. Longer than the
/// waits inside, which say what they waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What the handlers work with.
#[derive(Debug)]
pub struct Console {
    signals: Signals,
    bindings: Arc<Bindings>,
    hub: Arc<Hub>,
    streams: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Console {
    /// Ends its event streams when `stop` is cancelled.
    #[must_use]
    pub fn new(
        signals: Signals,
        bindings: Arc<Bindings>,
        hub: Arc<Hub>,
        stop: CancellationToken,
    ) -> Self {
        Self { signals, bindings, hub, streams: Arc::new(Semaphore::new(STREAMS)), stop }
    }
}

/// The routes; all but health need one of `tokens`.
pub fn router(console: Console, tokens: Tokens, ready: Readiness) -> Router {
    Router::new()
        .route(api::AGENTS, get(agents))
        .route(api::MESSAGES, post(post_message))
        .route(api::EVENTS, get(stream_events))
        .with_state(Arc::new(console))
        .merge(health::router(ready))
        .layer(DefaultBodyLimit::max(api::MAX_BODY_BYTES))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, ANSWER_WITHIN))
        .layer(RequireToken { tokens, open_paths: &["/healthz", "/readyz"] })
}

async fn agents(State(console): State<Arc<Console>>) -> Result<Json<Agents>, Refusal> {
    let bindings = console.bindings.list().await.map_err(Refusal::Agents)?;
    let agents = bindings
        .iter()
        .map(|b| Agent {
            agent: b.agent.clone(),
            name: b.agent_name.clone(),
            binding: b.id.clone(),
        })
        .collect();
    Ok(Json(Agents { agents }))
}

async fn post_message(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    body: Result<Json<PostMessage>, JsonRejection>,
) -> Result<(StatusCode, Json<Accepted>), Refusal> {
    let Json(message) = body?;
    let message = Incoming::try_from(message)?;
    let span = tracing::info_span!(
        "signal",
        agent = %message.agent,
        conversation = %message.conversation,
        event_key = %message.event_key,
    );
    trace::adopt(&span, headers.get(trace::HEADER).and_then(|value| value.to_str().ok()));
    let accepted = console.signals.accept(message).instrument(span).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    agent: String,
    conversation: Option<String>,
    after: Option<u64>,
}

async fn stream_events(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(EventsQuery { agent, conversation, after }) = query?;
    let agent = AgentSlug::parse(agent)?;
    let conversation = match conversation {
        Some(name) => Conversation::parse(name)?,
        None => Conversation::default(),
    };
    // What browsers send when they reconnect counts more than the address they first asked for.
    let resumed = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    let after = resumed.or(after).unwrap_or(0);
    let binding = match console.bindings.find(&agent).await {
        Ok(binding) => binding.id,
        Err(e) => return Err(Refusal::unfound(agent, e)),
    };
    let seat = console.streams.clone().try_acquire_owned().map_err(|_| Refusal::Streams)?;
    let lane = Lane { binding, conversation };
    let journal = console.signals.journal.clone();
    let feed = events::stream(journal, &console.hub, lane, after, console.stop.clone(), seat);
    Ok(Sse::new(feed).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}
