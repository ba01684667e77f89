//! The HTTP surface: who may ask, and the way of one request. Everything but `/healthz` wants the token.
#[cfg(test)]
mod tests;

use crate::{
    Config, Error, Gates, Rules, Token,
    answer::{self, Head},
    history,
    plan::{Plan, Seed},
    play::Play,
    record::Record,
    refusal::Refusal,
    request::{ChatRequest, View},
    rules::{ErrorReply, Values},
    usage::Prefixes,
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Request, State, rejection::BytesRejection},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::de::IgnoredAny;
use serde_json::json;
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The largest request body in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// How many requests are answered at a time; more are told to try again.
const MAX_IN_FLIGHT: usize = 1024;

struct App {
    rules: Arc<Rules>,
    token: Token,
    record: Record,
    prefixes: Prefixes,
    gates: Gates,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
}

/// The whole service, for a listener or for calls within the process. Replies end early once `stop` is cancelled.
///
/// # Errors
/// [`Error::OpenRequests`].
pub fn router(config: &Config, stop: CancellationToken) -> Result<Router, Error> {
    let app = Arc::new(App {
        rules: Arc::clone(&config.rules),
        token: config.token.clone(),
        record: Record::open(&config.requests)?,
        prefixes: Prefixes::default(),
        gates: config.gates(),
        slots: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
        stop,
    });
    let models = json!({
        "object": "list",
        "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "turnwright"}],
    });
    Ok(Router::new()
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/v1/models", get(move || async move { Json(models) }))
        .route("/v1/chat/completions", post(chat))
        .route("/gates", get(list_gates))
        .route("/gates/{name}/open", post(open_gate))
        .route("/gates/{name}/close", post(close_gate))
        .fallback(|| async { Refusal::no_such_path() })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), require_token))
        .with_state(app))
}

async fn require_token(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent.and_then(|value| value.split_once(' '));
    let admitted = token.is_some_and(|(scheme, token)| {
        scheme.eq_ignore_ascii_case("bearer") && app.token.admits(token.trim())
    });
    if admitted || request.uri().path() == "/healthz" {
        next.run(request).await
    } else {
        Refusal::unauthenticated().into_response()
    }
}

fn list_gates(State(app): State<Arc<App>>) -> std::future::Ready<Response> {
    std::future::ready(Json(json!({"gates": app.gates.list()})).into_response())
}

fn open_gate(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> std::future::Ready<Result<StatusCode, Refusal>> {
    let opened = app.gates.open(&name).map_err(Refusal::from);
    std::future::ready(opened.map(|()| StatusCode::NO_CONTENT))
}

fn close_gate(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> std::future::Ready<Result<StatusCode, Refusal>> {
    let closed = app.gates.close(&name).map_err(Refusal::from);
    std::future::ready(closed.map(|()| StatusCode::NO_CONTENT))
}

async fn chat(
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let body = body?;
    // A body that is not UTF-8 is no JSON, and the empty text that stands for it is none either.
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let parsed = serde_json::from_str::<ChatRequest<'_>>(text);
    let is_json = parsed.is_ok() || serde_json::from_str::<IgnoredAny>(text).is_ok();
    app.record.append(body.clone(), is_json).await.map_err(|error| {
        tracing::error!(%error, "cannot append to the requests file");
        let message = "the request could not be recorded";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "not_recorded", message)
    })?;
    let request = parsed.map_err(|error| Refusal::unreadable(&error, is_json))?;
    let slots = Arc::clone(&app.slots);
    let slot = slots.try_acquire_owned().map_err(|_| Refusal::overloaded())?;
    match app.decide(&request, &body, slot)? {
        Decision::Refuse(mut play, error) => {
            while play.next().await?.is_some() {}
            Err(error.into())
        }
        Decision::Answer(head, play) if request.wants_stream() => {
            Ok(answer::sse::response(head, play, request.wants_usage()))
        }
        Decision::Answer(head, play) => answer::json::response(head, play).await,
    }
}

/// What a request gets.
enum Decision {
    Answer(Head, Play),
    /// An error once the play, waits only, is over.
    Refuse(Play, ErrorReply),
}

impl App {
    /// Checks the history, finds the rule and fills in its reply.
    fn decide(
        &self,
        request: &ChatRequest<'_>,
        body: &[u8],
        slot: OwnedSemaphorePermit,
    ) -> Result<Decision, Refusal> {
        let messages = request.messages()?;
        history::check(&messages)?;
        let view = View::of(&messages)?;
        let (rule, captures) = self.rules.choose(&view);
        tracing::debug!(rule = rule.name, turn = view.turn, "rule chosen");
        let seed = Seed::of(body);
        let values = Values { view: &view, captures: &captures };
        let plan = Plan::of(&rule.reply, values, &seed);
        let play = Play::new(plan, self.gates.clone(), self.stop.clone(), slot);
        if let Some(error) = &rule.reply.error {
            return Ok(Decision::Refuse(play, error.clone()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let head = Head {
            id: seed.completion_id(),
            created: now.as_secs(),
            model: request.model.to_string(),
            prompt: self.prefixes.observe(&request.model, request.prompt()),
        };
        Ok(Decision::Answer(head, play))
    }
}
