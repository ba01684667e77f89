//! `/v1/responses`: beginning a response, reading one, and reading what a request added.

mod plan;

use super::body;
use crate::{
    app::{App, Slot},
    caller::Caller,
    generation::{Generation, audience::Audience},
    ids,
    problem::Problem,
    replay::{self, Replay},
    request::CreateResponse,
    resource::{Resource, Status},
};
use axum::{
    Extension, Json,
    extract::{Path, Query, RawQuery, Request, State},
    response::{
        IntoResponse as _, Response,
        sse::{KeepAlive, Sse},
    },
};
use http::StatusCode;
use plan::Begun;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tracing::Instrument as _;
use turnwright_gateway_store as store;
use turnwright_types::ResponseId;

/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Slot>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = CreateResponse::parse(&body::read(request).await?)?;
    let streams = asked.stream;
    let begun = plan::begin(&app, &caller, asked).await?;
    let (audience, events) = if streams {
        let (audience, events) = Audience::stream();
        (audience, Some(events))
    } else {
        (Audience::nobody(), None)
    };
    let (answer, whole) = oneshot::channel();
    // From here on the response is the task's: a client that leaves stops nothing.
    let span = tracing::Span::current();
    match begun {
        Begun::New(begun) => {
            let plan::Prepared { model, body, resource, registered } = *begun;
            let app_tasks = app.tasks.clone();
            let generation =
                Generation { app, model, body, resource, registered, audience, answer, slot };
            app_tasks.spawn(generation.run().instrument(span));
        }
        Begun::Repeat(first) => {
            let id = first.facts.id;
            let app_tasks = app.tasks.clone();
            let replay = Replay { app, id, audience, answer, slot };
            app_tasks.spawn(replay.run(*first).instrument(span));
        }
    }
    match events {
        Some(events) => {
            let events = ReceiverStream::new(events).map(Ok::<_, Infallible>);
            let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
            Ok(Sse::new(events).keep_alive(keep_alive).into_response())
        }
        None => whole.await.map_err(|_| lost()).and_then(answered),
    }
}

/// The answer to a client that does not stream.
fn answered(resource: Resource) -> Result<Response, Problem> {
    match resource.status {
        Status::Failed(problem) => Err(problem),
        Status::InProgress | Status::Completed | Status::Incomplete { .. } => {
            Ok(Json(resource).into_response())
        }
    }
}

fn lost() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal error")
}

pub(super) async fn read(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Resource>, Problem> {
    if query.is_some_and(|query| query.split('&').any(|pair| pair == "stream=true")) {
        let message = "stored responses are not streamed here; read the response itself";
        return Err(Problem::not_offered("stream", message));
    }
    let id = ids::parse_response(&id).ok_or_else(|| not_found(&id))?;
    let row = store::get_response(&app.pool, id).await?;
    if !caller.may_read(row.conversation) {
        return Err(not_found(&ids::response(id)));
    }
    Ok(Json(Resource::stored(row)?))
}

/// Paging of a list, as the API has it.
#[derive(Debug, Deserialize)]
pub(super) struct Paging {
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    order: Option<String>,
    #[serde(default)]
    after: Option<String>,
}

pub(super) async fn input_items(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(paging): Query<Paging>,
) -> Result<Json<Value>, Problem> {
    let id = ids::parse_response(&id).ok_or_else(|| not_found(&id))?;
    let added = store::response_input_items(&app.pool, id).await?;
    if !caller.may_read(added.conversation) {
        return Err(not_found(&ids::response(id)));
    }
    page(added.items, &paging).map(Json)
}

fn page(mut items: Vec<(String, String)>, paging: &Paging) -> Result<Value, Problem> {
    match paging.order.as_deref() {
        Some("asc") => {}
        None | Some("desc") => items.reverse(),
        Some(_) => return Err(Problem::invalid("order", "expected `asc` or `desc`")),
    }
    let limit = paging.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(Problem::invalid("limit", "must be between 1 and 100"));
    }
    let start = match &paging.after {
        None => 0,
        Some(after) => match items.iter().position(|(id, _)| id == after) {
            Some(at) => at + 1,
            None => return Err(Problem::invalid("after", "no item of this list has this id")),
        },
    };
    let rest = items.get(start..).unwrap_or_default();
    let shown = &rest[..limit.min(rest.len())];
    let data: Vec<Value> = shown.iter().map(|(id, body)| with_id(id, body)).collect();
    let id_of = |item: Option<&(String, String)>| item.map(|(id, _)| id.clone());
    Ok(json!({
        "object": "list",
        "data": data,
        "first_id": id_of(shown.first()),
        "last_id": id_of(shown.last()),
        "has_more": rest.len() > shown.len(),
    }))
}

/// An item as it is stored, under the gateway's id.
fn with_id(id: &str, body: &str) -> Value {
    let mut item: Value = serde_json::from_str(body).unwrap_or_default();
    if let Some(object) = item.as_object_mut() {
        object.insert("id".to_owned(), id.into());
        object.entry("type").or_insert_with(|| "message".into());
    }
    item
}

fn not_found(id: &str) -> Problem {
    let message = format!("response `{id}` does not exist");
    Problem::new(StatusCode::NOT_FOUND, "response_not_found", message)
}

/// Reads the response that a repeated request began before.
async fn repeated(app: &App, id: ResponseId) -> Result<Resource, Problem> {
    replay::read(app, id).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paging(limit: usize, order: &str, after: Option<&str>) -> Paging {
        Paging { limit: Some(limit), order: Some(order.into()), after: after.map(str::to_owned) }
    }

    fn ids(page: &Value) -> Vec<&str> {
        page["data"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_list_is_paged_from_either_end() {
        let items: Vec<_> =
            ["a", "b", "c"].map(|id| (id.to_owned(), r#"{"role":"user"}"#.to_owned())).into();
        let first = page(items.clone(), &paging(2, "asc", None)).unwrap();
        assert_eq!((ids(&first), &first["has_more"]), (vec!["a", "b"], &json!(true)));
        let rest = page(items.clone(), &paging(2, "asc", Some("b"))).unwrap();
        assert_eq!((ids(&rest), &rest["has_more"]), (vec!["c"], &json!(false)));
        assert_eq!(ids(&page(items.clone(), &paging(9, "desc", None)).unwrap()), ["c", "b", "a"]);
        assert_eq!(first["data"][0]["type"], "message");
        assert!(page(items.clone(), &paging(0, "asc", None)).is_err());
        assert!(page(items, &paging(1, "asc", Some("x"))).is_err());
    }
}
