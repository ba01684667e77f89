//! The calls of one response: tools that only read start when their call is whole, four at a time;
//! one with an effect runs alone, after the response is stored. Outputs come out in call order.

use super::{Effect, Output, Registry, Scope};
use crate::{agent_loop::repetition::Repetition, gateway::FunctionCall, progress::Progress};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use std::sync::Arc;
use tokio::sync::Semaphore;
use turnwright_proto::v1::{ToolFinished, ToolStarted, turn_progress::Event};
use turnwright_types::gateway::{CallOutput, StoredCall};

/// Tools that only read run this many at a time.
const SIDE_BY_SIDE: usize = 4;

/// What a worker that finds a call without output says of a tool that must not run again.
const UNKNOWN: &str = "error: the worker stopped while this ran, so its outcome is unknown: it may \
    or may not have happened. Check before you repeat it.";

/// The calls of one response.
pub(crate) struct Round<'a> {
    tools: &'a Registry,
    scope: &'a Scope,
    progress: &'a Progress,
    permits: Arc<Semaphore>,
    calls: Vec<(FunctionCall, State)>,
    running: FuturesUnordered<BoxFuture<'a, (usize, Output)>>,
}

enum State {
    /// Starts alone, once the response is stored.
    Waiting,
    Running,
    /// Run, and not stored yet.
    Done(Output),
    Stored(String),
}

impl<'a> Round<'a> {
    pub(crate) fn new(tools: &'a Registry, scope: &'a Scope, progress: &'a Progress) -> Self {
        Self {
            tools,
            scope,
            progress,
            permits: Arc::new(Semaphore::new(SIDE_BY_SIDE)),
            calls: Vec::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// Takes a call of the response. A call taken before is not taken again.
    pub(crate) fn offer(&mut self, call: FunctionCall) {
        if self.calls.iter().any(|(known, _)| known.call_id == call.call_id) {
            return;
        }
        let reads = self.tools.effect(&call.name) == Effect::ReadOnly;
        self.calls.push((call, State::Waiting));
        if reads {
            self.start(self.calls.len() - 1);
        }
    }

    /// Takes a stored call that another worker, or an earlier try of this one, may have run.
    pub(crate) fn resume(&mut self, stored: StoredCall) {
        let StoredCall { call_id, name, arguments, output } = stored;
        let call = FunctionCall { call_id, name, arguments };
        match output {
            Some(text) => self.calls.push((call, State::Stored(text))),
            None if self.tools.effect(&call.name) == Effect::SideEffect => {
                let unknown = Output { text: UNKNOWN.to_owned(), failed: true };
                self.calls.push((call, State::Done(unknown)));
            }
            None => self.offer(call),
        }
    }

    fn start(&mut self, at: usize) {
        let Some((call, state)) = self.calls.get_mut(at) else { return };
        *state = State::Running;
        let (call, tools, scope) = (call.clone(), self.tools, self.scope);
        let (progress, permits) = (self.progress, self.permits.clone());
        self.running.push(Box::pin(async move {
            // The semaphore is never closed; without a permit the call would still run.
            let _permit = permits.acquire_owned().await.ok();
            let FunctionCall { call_id, name, .. } = &call;
            progress.tell(Event::ToolStarted(ToolStarted {
                call_id: call_id.clone(),
                tool: name.clone(),
            }));
            let output = tools.run(&call, scope).await;
            progress.tell(Event::ToolFinished(ToolFinished {
                call_id: call_id.clone(),
                tool: name.clone(),
                failed: output.failed,
            }));
            (at, output)
        }));
    }

    /// Whether nothing is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Waits for the next tool that ends.
    pub(crate) async fn step(&mut self) {
        if let Some((at, output)) = self.running.next().await {
            self.done(at, output);
        }
    }

    fn done(&mut self, at: usize, output: Output) {
        if let Some((_, state)) = self.calls.get_mut(at) {
            *state = State::Done(output);
        }
    }

    /// The outputs that are done and not stored, as soon as there are any; `None` when every call
    /// has its output. To be called once the response is stored.
    pub(crate) async fn advance(&mut self, repeats: &mut Repetition) -> Option<Vec<CallOutput>> {
        loop {
            while let Some(Some((at, output))) = self.running.next().now_or_never() {
                self.done(at, output);
            }
            let done = self.take_done(repeats);
            if !done.is_empty() {
                return Some(done);
            }
            if self.is_idle() {
                let waits = |(_, state): &(_, State)| matches!(state, State::Waiting);
                let next = self.calls.iter().position(waits)?;
                self.start(next);
            }
            self.step().await;
        }
    }

    fn take_done(&mut self, repeats: &mut Repetition) -> Vec<CallOutput> {
        let mut outputs = Vec::new();
        // The first call names the round: a repeated round has the same calls in the same order.
        let name = self.calls.first().map(|(call, _)| call.call_id.clone()).unwrap_or_default();
        for (call, state) in &mut self.calls {
            let State::Done(output) = state else { continue };
            let mut text = std::mem::take(&mut output.text);
            if let Some(warning) = repeats.observe(&name, call, output.failed) {
                text.push_str(warning);
            }
            outputs.push(CallOutput { call_id: call.call_id.clone(), output: text.clone() });
            *state = State::Stored(text);
        }
        outputs
    }

    /// Every stored output, in call order, as the next request lists them.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.calls.iter().filter_map(|(call, state)| match state {
            State::Stored(text) => Some((call.call_id.as_str(), text.as_str())),
            State::Waiting | State::Running | State::Done(_) => None,
        })
    }
}
