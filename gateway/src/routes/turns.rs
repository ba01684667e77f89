//! The gateway's extension for agents' turns: opening one, storing outputs, reading its prompt.

use super::body;
use crate::{app::App, caller::Caller, ids, problem::Problem};
use axum::{
    Extension, Json,
    extract::{Path, Request, State},
};
use std::sync::Arc;
use turnwright_gateway_store as store;
use turnwright_types::gateway::{OpenTurn, OpenedTurn, StoreOutputs, Stored, TurnPrompt};

pub(super) async fn open(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Json<OpenedTurn>, Problem> {
    let writer = caller.writer()?;
    let asked: OpenTurn = body::json(request).await?;
    Ok(Json(store::open_turn(&app.pool, &writer, asked.takeover).await?))
}

pub(super) async fn store_outputs(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Json<Stored>, Problem> {
    let writer = caller.writer()?;
    let asked: StoreOutputs = body::json(request).await?;
    Ok(Json(store::store_outputs(&app.pool, &writer, &asked.outputs).await?))
}

pub(super) async fn prompt(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((conversation, turn_seq)): Path<(String, String)>,
) -> Result<Json<TurnPrompt>, Problem> {
    caller.operator()?;
    let conversation = ids::parse_conversation(&conversation)?;
    let turn_seq = turn_seq
        .parse()
        .map_err(|_| Problem::invalid("turn_seq", "expected the number of a turn"))?;
    Ok(Json(store::turn_prompt(&app.pool, conversation, turn_seq).await?))
}
