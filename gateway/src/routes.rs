//! The HTTP surface: routes, and the layer in front of them that names requests, traces them,
//! lets callers in and bounds how many are in flight.

mod body;
mod responses;
mod turns;

use crate::{app::App, ids, problem::Problem};
use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tracing::{Instrument as _, field::Empty};
use turnwright_kit::{health, trace};
use turnwright_types::gateway;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Everything the gateway answers.
pub(crate) fn router(app: Arc<App>, ready: health::Readiness) -> Router {
    Router::new()
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::read))
        .route("/v1/responses/{id}/input_items", get(responses::input_items))
        .route("/v1/models", get(|State(app): State<Arc<App>>| async move { models(&app) }))
        .route(gateway::OPEN_TURN, post(turns::open))
        .route(gateway::STORE_OUTPUTS, post(turns::store_outputs))
        .route(gateway::TURN_PROMPT, get(turns::prompt))
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "unknown_url", "no such path; see /v1/responses")
        })
        .method_not_allowed_fallback(|| async {
            let message = "the path does not take this method";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        })
        .layer(middleware::from_fn_with_state(app.clone(), front))
        .with_state(app)
        .merge(health::router(ready))
}

/// Gives a request its id and span, and its problem, if it has one, its body.
async fn front(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let request_id = ids::new_request();
    let span = tracing::info_span!(
        parent: None,
        "http.request",
        otel.name = %format_args!("{} {}", request.method(), request.uri().path()),
        otel.kind = "server",
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        http.response.status_code = Empty,
        request.id = %request_id,
    );
    let parent = request.headers().get(trace::HEADER).and_then(|value| value.to_str().ok());
    trace::adopt(&span, parent);
    let mut response = admit(app, request, next).instrument(span.clone()).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = problem.answer(&request_id);
    }
    span.record("http.response.status_code", response.status().as_u16());
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

async fn admit(app: Arc<App>, mut request: Request, next: Next) -> Response {
    let caller = match app.keys.caller(request.headers()) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let Some(slot) = app.slot() else {
        let message = "too many requests are in flight here; try again";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
        return problem.retry_after(Some(Duration::from_secs(1))).into_response();
    };
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(slot);
    next.run(request).await
}

fn models(app: &App) -> Json<Value> {
    let created = app.started_at.timestamp();
    let data: Vec<_> = app
        .models
        .iter()
        .map(|model| {
            json!({ "id": model.name, "object": "model", "created": created,
                "owned_by": model.provider })
        })
        .collect();
    Json(json!({ "object": "list", "data": data }))
}
