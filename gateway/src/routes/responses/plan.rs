//! From a parsed request to a begun response and the body for its provider. What the request may
//! do is decided here; what the transcript allows, the store decides.

use super::repeated;
use crate::{
    app::App,
    caller::Caller,
    generation::registry::Registered,
    models::Model,
    problem::Problem,
    request::{Continues, CreateResponse, previous_not_found},
    resource::{Facts, Resource},
    upstream::chat,
};
use bytes::Bytes;
use chrono::Utc;
use http::StatusCode;
use std::sync::Arc;
use turnwright_gateway_store::{
    self as store, End, FencedRequest, Finish, Missing, NewResponse, Started, Target,
};
use turnwright_types::ResponseId;

/// What a request began.
pub(super) enum Begun {
    New(Box<Prepared>),
    /// The response that the same request began before, as it stands.
    Repeat(Box<Resource>),
}

/// A response that is ready to be generated.
pub(super) struct Prepared {
    pub(super) model: Arc<Model>,
    pub(super) body: Bytes,
    pub(super) resource: Resource,
    pub(super) registered: Option<Registered>,
}

/// Begins the response that was asked for.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    asked: CreateResponse,
) -> Result<Begun, Problem> {
    let model = app.models.get(&asked.model).ok_or_else(|| {
        let message = format!("model `{}` does not exist; see /v1/models", asked.model);
        Problem::new(StatusCode::NOT_FOUND, "model_not_found", message).at("model")
    })?;
    if asked.store {
        stored(app, caller, model, asked).await
    } else {
        stateless(app, caller, model, asked).await
    }
}

/// Where a stored request goes.
fn target(caller: &Caller, asked: &mut CreateResponse) -> Result<Target, Problem> {
    match (caller, asked.extension.take()) {
        (Caller::Agent(_), None) => {
            Err(Problem::invalid("turnwright", "an agent's request carries `turnwright`"))
        }
        (Caller::Operator, Some(_)) => {
            let message = "`turnwright` needs the token of an agent's turn";
            Err(Problem::new(StatusCode::FORBIDDEN, "agent_token_required", message)
                .at("turnwright"))
        }
        (Caller::Agent(_), Some(extension)) => {
            if asked.continues != Continues::Nothing {
                let message = "an agent's conversation is the one of its token";
                return Err(Problem::invalid("conversation", message));
            }
            Ok(Target::Fenced(Box::new(FencedRequest {
                writer: caller.writer()?,
                request_no: extension.request_no,
                head: extension.head,
                manifest: extension.manifest,
                baseline: extension.baseline,
                base_instructions: extension.base_instructions,
            })))
        }
        (Caller::Operator, None) => Ok(match asked.continues {
            Continues::Nothing => Target::Chain { previous: None },
            Continues::Response(previous) => Target::Chain { previous: Some(previous) },
            Continues::Conversation(id) => Target::Conversation(id),
        }),
    }
}

async fn stored(
    app: &App,
    caller: &Caller,
    model: Arc<Model>,
    mut asked: CreateResponse,
) -> Result<Begun, Problem> {
    let target = target(caller, &mut asked)?;
    let fenced = matches!(target, Target::Fenced(_));
    let id = ResponseId::new();
    let registered = app.registry.register(id);
    let parameters = serde_json::to_value(&asked.parameters).map_err(|e| internal(&e))?;
    let new = NewResponse {
        id,
        owner: app.replica,
        target,
        input: asked.input,
        instructions: asked.instructions,
        model: asked.model,
        parameters,
    };
    let begun = store::begin_response(&app.pool, &new).await;
    let started = match begun.map_err(|e| refused(e, asked.continues))? {
        store::Begun::New(started) => started,
        store::Begun::Repeat(id) => return Ok(Begun::Repeat(Box::new(repeated(app, id).await?))),
    };
    let Started { conversation, created_at, head, path } = started;
    let instructions = new.instructions;
    let body = match chat::body(&model, instructions.as_deref(), &path, &asked.parameters) {
        Ok(body) => body.into(),
        Err(problem) => {
            abandon(app, id, &problem).await;
            return Err(problem);
        }
    };
    let facts = Facts {
        id,
        created_at,
        model: new.model,
        previous: previous(asked.continues),
        conversation: Some(conversation),
        instructions: instructions.filter(|_| !fenced),
        parameters: asked.parameters,
    };
    let resource = Resource::begun(Arc::new(facts), fenced.then_some(head));
    Ok(Begun::New(Box::new(Prepared { model, body, resource, registered: Some(registered) })))
}

/// A request that leaves nothing behind. It may read what is stored.
async fn stateless(
    app: &App,
    caller: &Caller,
    model: Arc<Model>,
    asked: CreateResponse,
) -> Result<Begun, Problem> {
    caller.operator().map_err(|_| Problem::invalid("store", "an agent's requests are stored"))?;
    if asked.extension.is_some() {
        return Err(Problem::invalid("turnwright", "`turnwright` needs `store: true`"));
    }
    let mut path = match asked.continues {
        Continues::Nothing => Vec::new(),
        Continues::Response(id) => {
            store::path_of(&app.pool, id).await.map_err(|e| refused(e, asked.continues))?
        }
        Continues::Conversation(_) => {
            let message = "a conversation keeps what is said in it: it needs `store: true`";
            return Err(Problem::invalid("conversation", message));
        }
    };
    let fresh = store::reconcile(&path, asked.input)?;
    path.extend(fresh.into_iter().map(|item| item.placed(0, None)));
    let body = chat::body(&model, asked.instructions.as_deref(), &path, &asked.parameters)?;
    let facts = Facts {
        id: ResponseId::new(),
        created_at: Utc::now(),
        model: asked.model,
        previous: previous(asked.continues),
        conversation: None,
        instructions: asked.instructions,
        parameters: asked.parameters,
    };
    let resource = Resource::begun(Arc::new(facts), None);
    let prepared = Prepared { model, body: body.into(), resource, registered: None };
    Ok(Begun::New(Box::new(prepared)))
}

const fn previous(continues: Continues) -> Option<ResponseId> {
    match continues {
        Continues::Response(id) => Some(id),
        Continues::Nothing | Continues::Conversation(_) => None,
    }
}

/// A refusal of the store, in the words of the parameter it is about.
fn refused(error: store::Error, continues: Continues) -> Problem {
    match (&error, continues) {
        (store::Error::NotFound(Missing::Response(_)), Continues::Response(id)) => {
            previous_not_found(&crate::ids::response(id))
        }
        (store::Error::PreviousInProgress, _) => Problem::from(error).at("previous_response_id"),
        (store::Error::NotFound(Missing::Conversation(_)), _) => {
            Problem::from(error).at("conversation")
        }
        _ => error.into(),
    }
}

/// Ends a response that was begun and cannot be sent.
async fn abandon(app: &App, id: ResponseId, problem: &Problem) {
    let finish = Finish {
        response: id,
        end: End::Failed(problem.to_row()),
        output: Vec::new(),
        usage: None,
        upstream_sha256: None,
        first_content_ago: None,
    };
    if let Err(error) = store::finish_response(&app.pool, &finish).await {
        // The sweep ends what nobody generates.
        tracing::warn!(response.id = %id, error = %turnwright_kit::Chain(&error), "a response was left open");
    }
}

fn internal(error: &serde_json::Error) -> Problem {
    tracing::error!(error = %error, "request parameters cannot be stored");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal error")
}
