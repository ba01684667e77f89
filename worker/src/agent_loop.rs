//! The agent loop: model call, tools, model call, until there is an answer. Every pass starts from
//! what the gateway has stored, so a retry, a restart and a takeover are the same code. Writes
//! nothing but outputs; the ending is the caller's to commit.

mod budget;
mod model_call;
pub(crate) mod repetition;
mod request;

use crate::{
    commit::{Ending, Failure},
    convert,
    gateway::{Error, Fault, FunctionCall, Kind, ResponseRequest},
    resume::{NextStep, decide},
    tools::round::Round,
    turn::{Turn, Worker},
};
use budget::{Budget, NextCall, Retries};
use repetition::Repetition;
use request::{Prepared, Sources, output, synthesis};
use serde_json::Value;
use std::mem;
use tokio::time::{Instant, sleep};
use tracing::info_span;
use turnwright_types::{
    FailureClass, ResponseId,
    gateway::{CallOutput, OpenTurn, OpenedTurn, RequestExtension, StoreOutputs},
};

/// Why a pass did not come to its end.
enum Halt {
    /// The turn is to be opened again, if the fault's kind and the budget of tries allow it.
    Fault(Fault),
    /// The turn ends.
    End(Ending),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::End(failure.into())
    }
}

/// One run of the loop.
pub(crate) struct AgentLoop<'a> {
    worker: &'a Worker,
    turn: &'a Turn,
    retries: Retries,
    repeats: Repetition,
    /// The response last waited for, and since when.
    attached: Option<(ResponseId, Instant)>,
    /// Text of a response that may not be the one that counts was shown.
    text_shown: bool,
    /// The request for a synthesis is stored; a retry does not repeat it.
    synthesis_asked: bool,
}

/// Where the transcript stands.
struct Position {
    head: i64,
    request_no: i32,
}

/// A response that completed.
struct Answer {
    id: Option<ResponseId>,
    text: String,
    calls: Vec<FunctionCall>,
}

impl<'a> AgentLoop<'a> {
    pub(crate) fn new(worker: &'a Worker, turn: &'a Turn) -> Self {
        Self {
            worker,
            turn,
            retries: Retries::default(),
            repeats: Repetition::default(),
            attached: None,
            text_shown: false,
            synthesis_asked: false,
        }
    }

    /// Runs until the turn has an ending.
    pub(crate) async fn run(mut self) -> Ending {
        loop {
            let fault = match self.pass().await {
                Ok(Some(ending)) | Err(Halt::End(ending)) => return ending,
                Ok(None) => continue,
                Err(Halt::Fault(fault)) => fault,
            };
            if fault.kind == Kind::FenceStale {
                return Ending::Lost;
            }
            let Some(wait) = self.retries.next(&fault) else {
                let (class, reason) = fault.failure();
                return Failure::new(class, reason, &fault.code).into();
            };
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(code = %fault.code, wait_ms, "model call failed; it is tried again");
            if mem::take(&mut self.text_shown) {
                self.turn.tell_started();
            }
            sleep(wait).await;
        }
    }

    /// Goes on from what is stored; `None` when it must be looked at again.
    async fn pass(&mut self) -> Result<Option<Ending>, Halt> {
        let opened = self.open().await?;
        let mut round = self.round();
        match decide(&opened) {
            NextStep::Complete { text, response } => {
                return Ok(Some(Ending::Complete { text, response }));
            }
            NextStep::Attach(response) => {
                self.wait_for(response).await?;
                return Ok(None);
            }
            NextStep::Outputs(calls) => calls.into_iter().for_each(|call| round.resume(call)),
            NextStep::First | NextStep::Again => {}
        }
        let workspace = convert::workspace(&self.turn.scope.workspace.path().to_string_lossy());
        let tools = self.worker.tools.names();
        let context = self.turn.context(self.worker).await?;
        let sources = Sources { context, workspace: &workspace, tools: &tools };
        let mut prepared = info_span!("assemble")
            .in_scope(|| Prepared::assemble(&self.turn.claim, &opened, sources))?;
        let mut budget =
            Budget::new(self.turn.claim.start.config.max_iterations, opened.iterations);
        let mut at = Position { head: opened.head, request_no: opened.requests };
        let mut first = true;
        loop {
            self.finish(&mut round, &mut at).await?;
            let last = match budget.next() {
                NextCall::Ordinary => false,
                NextCall::Synthesis => true,
                NextCall::Spent => return Err(self.exhausted().into()),
            };
            let mut input: Vec<_> = round.outputs().map(output).collect();
            input.append(&mut prepared.messages);
            if last && !self.synthesis_asked {
                input.push(synthesis());
            }
            at.request_no += 1;
            let manifest = if mem::take(&mut first) {
                mem::take(&mut prepared.manifest)
            } else {
                prepared.later_manifest()?
            };
            let request = self.request(&prepared, input, manifest, &at, !last);
            let mut next = self.round();
            let answer = self.ask(&request, &mut next).await?;
            budget.spend();
            self.retries = Retries::default();
            self.text_shown = false;
            if last || answer.calls.is_empty() {
                return self.answered(answer, last).map(Some).map_err(Halt::from);
            }
            answer.calls.into_iter().for_each(|call| next.offer(call));
            round = next;
        }
    }

    async fn open(&self) -> Result<OpenedTurn, Halt> {
        let takeover = self.turn.takeover();
        let opened =
            self.worker.gateway.open(&self.turn.seat.token(), OpenTurn { takeover }).await?;
        self.turn.opened();
        Ok(opened)
    }

    fn round(&self) -> Round<'a> {
        Round::new(&self.worker.tools, &self.turn.scope, &self.turn.progress)
    }

    /// Runs what is left of a round and stores each output as soon as it is there.
    async fn finish(&mut self, round: &mut Round<'a>, at: &mut Position) -> Result<(), Halt> {
        while let Some(outputs) = round.advance(&mut self.repeats).await {
            at.head = self.store(outputs).await?;
        }
        match self.repeats.exhausted() {
            None => Ok(()),
            Some(tool) => {
                let detail = format!("the same call of `{tool}` failed three times");
                let class = FailureClass::Permanent;
                Err(Failure::new(class, "repeated_failure", &detail).into())
            }
        }
    }

    async fn store(&self, outputs: Vec<CallOutput>) -> Result<i64, Halt> {
        let outputs = StoreOutputs { outputs };
        Ok(self.worker.gateway.store(&self.turn.seat.token(), &outputs).await?.head)
    }

    fn request<'r>(
        &self,
        prepared: &'r Prepared<'_>,
        input: Vec<Value>,
        manifest: Value,
        at: &Position,
        with_tools: bool,
    ) -> ResponseRequest<'r>
    where
        'a: 'r,
    {
        let (turn, worker) = (self.turn, self.worker);
        let config = &turn.claim.start.config;
        ResponseRequest {
            model: &config.model.name,
            instructions: &prepared.instructions,
            input,
            tools: with_tools.then(|| worker.tools.wire()),
            max_output_tokens: config.max_output_tokens,
            stream: true,
            store: true,
            turnwright: RequestExtension {
                request_no: at.request_no,
                head: at.head,
                manifest,
                baseline: prepared.baseline.clone(),
                base_instructions: prepared.base_instructions.clone(),
            },
        }
    }

    /// What an answer without calls, or the last one allowed, comes to.
    fn answered(&self, answer: Answer, last: bool) -> Result<Ending, Failure> {
        if answer.text.trim().is_empty() {
            if last {
                return Err(self.exhausted());
            }
            let class = FailureClass::Transient;
            return Err(Failure::new(class, "empty_answer", &"the model answered without text"));
        }
        let Some(response) = answer.id else {
            let class = FailureClass::Infrastructure;
            return Err(Failure::new(class, "gateway_unavailable", &"a response without an id"));
        };
        Ok(Ending::Complete { text: answer.text, response })
    }

    fn exhausted(&self) -> Failure {
        let max = self.turn.claim.start.config.max_iterations;
        let detail = format!("{max} model calls brought no answer");
        Failure::new(FailureClass::Permanent, "iteration_exhausted", &detail)
    }
}
