//! One response from its provider to its row: says what the provider says while it says it, stores
//! the end, and only then tells it. Runs on a task of its own, so that a client that leaves loses
//! nothing.

mod assembler;
pub(crate) mod audience;
mod output;
pub(crate) mod registry;

use crate::{
    app::{App, Slot},
    event::{Event, Stage},
    models::Model,
    problem::Problem,
    resource::{Resource, Status},
    upstream::{Delta, Next, Usage},
};
use assembler::{Assembler, Ending, Outcome, UPSTREAM_CUT, Verdict};
use audience::Audience;
use bytes::Bytes;
use chrono::Utc;
use http::StatusCode;
use output::OutputItem;
use registry::Registered;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::Instant};
use tracing::{Instrument as _, field::Empty};
use turnwright_gateway_store::{self as store, End, Finish, Finished};
use turnwright_kit::{Classify as _, backoff::Backoff};
use turnwright_types::Sha256;

/// The most text and arguments of one response, in bytes.
const MOST_OUTPUT: usize = 16 * 1024 * 1024;

/// A response about to be generated.
pub(crate) struct Generation {
    pub(crate) app: Arc<App>,
    pub(crate) model: Arc<Model>,
    /// The request for the provider.
    pub(crate) body: Bytes,
    pub(crate) resource: Resource,
    /// Held while it is generated, if it is stored.
    pub(crate) registered: Option<Registered>,
    pub(crate) audience: Audience,
    /// Gets the response as a whole.
    pub(crate) answer: oneshot::Sender<Resource>,
    /// Its place among the requests in flight.
    pub(crate) slot: Slot,
}

/// What was said, and when it began.
struct Said {
    ending: Ending,
    first_content: Option<Instant>,
}

impl Generation {
    /// Runs to the end of the response.
    pub(crate) async fn run(self) {
        let Self { app, model, body, resource, registered, mut audience, answer, slot } = self;
        for stage in [Stage::Created, Stage::InProgress] {
            audience.tell(&Event::Response { stage, response: Box::new(resource.clone()) });
        }
        let sha256 = registered.is_some().then(|| Sha256::of(&body));
        let span = tracing::info_span!(
            "chat",
            otel.name = %format_args!("chat {}", model.upstream_model),
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = %model.provider,
            gen_ai.request.model = %model.upstream_model,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            "error.type" = Empty,
        );
        let said = speak(&app, &model, body, &mut audience).instrument(span.clone()).await;
        record(&span, &said.ending);
        let (resource, held) = settle(&app, resource, said, sha256).await;
        drop(registered);
        for event in &held {
            audience.tell(event);
        }
        audience.tell(&Event::over(resource.clone()));
        // A client that left reads it again.
        let _ = answer.send(resource);
        drop(slot);
    }
}

fn record(span: &tracing::Span, ending: &Ending) {
    if let Some(usage) = ending.usage {
        span.record("gen_ai.usage.input_tokens", usage.input);
        span.record("gen_ai.usage.output_tokens", usage.output);
    }
    match &ending.verdict {
        Verdict::Completed => {}
        Verdict::Incomplete(reason) => {
            span.record("error.type", *reason);
        }
        Verdict::Failed(problem) => {
            span.record("error.type", problem.code.as_str());
        }
    }
}

/// Asks the provider and tells what it says, until it ends or this process has to.
async fn speak(app: &App, model: &Model, body: Bytes, audience: &mut Audience) -> Said {
    let mut assembler = Assembler::default();
    let mut first_content = None;
    let mut bytes = 0;
    let outcome = {
        let mut take = |delta: Delta| {
            bytes += match &delta {
                Delta::Text(text) => text.len(),
                Delta::Call { name, arguments, .. } => name.len() + arguments.len(),
                Delta::Usage(_) | Delta::Stop(_) => 0,
            };
            assembler.push(delta, &mut |event| audience.tell(&event));
            if assembler.has_content() {
                first_content.get_or_insert_with(Instant::now);
            }
            bytes <= MOST_OUTPUT
        };
        tokio::select! {
            outcome = listen(app, model, body, &mut take) => outcome,
            () = app.must_end() => Outcome::Cut("gateway_stopping"),
        }
    };
    let ending = assembler.end(outcome, &mut |event| audience.tell(&event));
    Said { ending, first_content }
}

async fn listen(
    app: &App,
    model: &Model,
    body: Bytes,
    take: &mut (impl FnMut(Delta) -> bool + Send),
) -> Outcome {
    let mut answer = match app.upstream.send(model, body).await {
        Ok(answer) => answer,
        Err(problem) => return Outcome::Failed(problem),
    };
    loop {
        match answer.next().await {
            Next::Delta(delta) => {
                if !take(delta) {
                    return Outcome::Cut("output_too_long");
                }
            }
            Next::Over => return Outcome::Over,
            Next::Cut => return Outcome::Cut(UPSTREAM_CUT),
            Next::Failed(problem) => return Outcome::Failed(problem),
        }
    }
}

/// Stores the end if the response is stored, and returns the response and what may be told now.
async fn settle(
    app: &App,
    begun: Resource,
    said: Said,
    sha256: Option<Sha256>,
) -> (Resource, Vec<Event>) {
    let Said { ending, first_content } = said;
    let Ending { verdict, output, usage, held } = ending;
    let usage = usage.map(Usage::to_json);
    let over = Resource {
        status: status(&verdict),
        output: output.iter().map(|item| item.raw.clone()).collect(),
        usage: usage.clone(),
        ended_at: Some(Utc::now()),
        ..begun.clone()
    };
    let Some(sha256) = sha256 else { return (over, held) };
    let finish = Finish {
        response: begun.facts.id,
        end: end(&verdict),
        output: output.iter().map(OutputItem::to_store).collect(),
        usage,
        upstream_sha256: Some(sha256),
        first_content_ago: first_content.map(|at| at.elapsed()),
    };
    match store_end(app, &finish).await {
        Ok(Finished { head, ended_at }) => {
            let head = over.head.map(|_| head);
            (Resource { ended_at: Some(ended_at), head, ..over }, held)
        }
        Err(store::Error::FenceStale | store::Error::Ended { .. }) => {
            let status = Status::Incomplete { reason: "taken_over".to_owned() };
            (Resource { status, ..begun }, Vec::new())
        }
        Err(error) => {
            tracing::error!(
                response.id = %begun.facts.id,
                error = %turnwright_kit::Chain(&error),
                "a response was generated and could not be stored"
            );
            let problem = Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not_stored",
                "the response was generated and could not be stored; send the request again",
            );
            (Resource { status: Status::Failed(problem), ..begun }, Vec::new())
        }
    }
}

/// Stores an end, through an outage of some seconds: what was paid for is not to be lost.
async fn store_end(app: &App, finish: &Finish) -> store::Result<Finished> {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 12);
    loop {
        let error = match store::finish_response(&app.pool, finish).await {
            Ok(finished) => return Ok(finished),
            Err(error) => error,
        };
        match backoff.next() {
            Some(delay) if error.class().retryable() => tokio::time::sleep(delay).await,
            _ => return Err(error),
        }
    }
}

fn status(verdict: &Verdict) -> Status {
    match verdict {
        Verdict::Completed => Status::Completed,
        Verdict::Incomplete(reason) => Status::Incomplete { reason: (*reason).to_owned() },
        Verdict::Failed(problem) => Status::Failed(problem.clone()),
    }
}

fn end(verdict: &Verdict) -> End {
    match verdict {
        Verdict::Completed => End::Completed,
        Verdict::Incomplete(reason) => End::Incomplete(incomplete(reason)),
        Verdict::Failed(problem) => End::Failed(problem.to_row()),
    }
}

fn incomplete(reason: &str) -> Value {
    json!({ "code": reason })
}
