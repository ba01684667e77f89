//! One model call: a request, its events, its end. Text goes to whoever watches, calls go to the
//! round; a response that did not complete is a fault, whatever it had brought.

use super::{AgentLoop, Answer, Halt};
use crate::{
    commit::Failure,
    gateway::{Ended, Error, Event, Fault, Kind, Outcome, ResponseRequest},
    tools::round::Round,
};
use futures::StreamExt as _;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument as _, Span, field::Empty, info_span};
use turnwright_types::{FailureClass, ResponseId};

/// Between looks at a response that another request generates.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_millis(250);

impl<'a> AgentLoop<'a> {
    /// Sends a request and follows its events to the end. Tools that only read start in `round` as
    /// soon as their call is whole.
    pub(super) async fn ask(
        &mut self,
        request: &ResponseRequest<'_>,
        round: &mut Round<'a>,
    ) -> Result<Answer, Halt> {
        let name = format!("chat {}", request.model);
        let span = info_span!(
            "chat",
            otel.name = name.as_str(),
            otel.kind = "client",
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.request.model = request.model,
            gen_ai.response.id = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            request_no = request.turnwright.request_no,
        );
        async {
            let answer = self.follow(request, round).await;
            if answer.is_err() {
                Span::current().record("otel.status_code", "ERROR");
            }
            answer
        }
        .instrument(span)
        .await
    }

    async fn follow(
        &mut self,
        request: &ResponseRequest<'_>,
        round: &mut Round<'a>,
    ) -> Result<Answer, Halt> {
        let patience = self.turn.claim.start.config.inactivity;
        let token = self.turn.seat.token();
        let begun = self.worker.gateway.respond(&token, request);
        let mut events = timeout(patience, begun).await.map_err(|_| inactive(patience))??;
        loop {
            let event = tokio::select! {
                event = timeout(patience, events.next()) => event.map_err(|_| inactive(patience))?,
                // The watchdog starts anew: a tool that ran is a sign of life.
                () = round.step(), if !round.is_idle() => continue,
            };
            match event.transpose()? {
                Some(Event::Begun(_)) => self.synthesis_asked |= request.tools.is_none(),
                Some(Event::Text(delta)) => {
                    self.text_shown = true;
                    self.turn.progress.text(&delta);
                }
                Some(Event::Call(call)) if request.tools.is_some() => round.offer(call),
                Some(Event::Call(_)) => {}
                Some(Event::Ended(ended)) => return answer(ended),
                None => return Err(Error::Cut.into()),
            }
        }
    }

    /// Waits until a response that is being generated has ended.
    pub(super) async fn wait_for(&mut self, response: ResponseId) -> Result<(), Halt> {
        let patience = self.turn.claim.start.config.inactivity;
        let since = match self.attached {
            Some((known, since)) if known == response => since,
            Some(_) | None => Instant::now(),
        };
        self.attached = Some((response, since));
        let mut wait = LOOK;
        loop {
            sleep(wait).await;
            wait = (wait * 2).min(LOOK_MAX);
            if since.elapsed() > patience {
                return Err(inactive(patience).into());
            }
            match self.worker.gateway.status(&self.turn.seat.token(), response).await {
                Ok(status) if matches!(status.as_str(), "in_progress" | "queued") => {}
                Ok(_) => return Ok(()),
                Err(error) => match Fault::from(error) {
                    fault if fault.kind == Kind::FenceStale => return Err(Halt::Fault(fault)),
                    fault if matches!(fault.kind, Kind::Away | Kind::Passing) => {}
                    // It cannot be looked at: the turn itself tells how it stands.
                    _ => return Ok(()),
                },
            }
        }
    }
}

fn inactive(patience: Duration) -> Failure {
    let detail = format!("no event for {} ms", patience.as_millis());
    Failure::new(FailureClass::Transient, "inactivity", &detail)
}

/// What a response's end means. Calls of one that did not complete never run.
fn answer(ended: Ended) -> Result<Answer, Halt> {
    let span = Span::current();
    if let Some(id) = ended.id {
        span.record("gen_ai.response.id", tracing::field::display(id));
    }
    if let Some(usage) = ended.usage {
        span.record("gen_ai.usage.input_tokens", usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    }
    match ended.outcome {
        Outcome::Completed => Ok(Answer { id: ended.id, text: ended.text, calls: ended.calls }),
        Outcome::Incomplete(why) if why == "max_output_tokens" => {
            let detail = "the answer is longer than max_output_tokens allows";
            Err(Failure::new(FailureClass::Permanent, "output_limit", &detail).into())
        }
        Outcome::Incomplete(code) => Err(Halt::Fault(Fault::of_code(&code))),
        Outcome::Failed { code, after } => {
            Err(Halt::Fault(Fault { after, ..Fault::of_code(&code) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commit::Ending, gateway::FunctionCall};

    fn ended(outcome: Outcome) -> Ended {
        let call = FunctionCall { call_id: "c".into(), name: "x".into(), arguments: String::new() };
        Ended { id: None, outcome, text: "half".into(), calls: vec![call], usage: None }
    }

    #[test]
    fn only_a_completed_response_is_an_answer() {
        assert_eq!(answer(ended(Outcome::Completed)).ok().map(|a| a.calls.len()), Some(1));
        let limit = answer(ended(Outcome::Incomplete("max_output_tokens".into())));
        let Err(Halt::End(Ending::Fail(failure))) = limit else { panic!("it is taken") };
        assert_eq!(failure.reason, "output_limit");
        let wait = Some(Duration::from_secs(3));
        let failed = Outcome::Failed { code: "rate_limit_exceeded".into(), after: wait };
        for (outcome, after) in [(Outcome::Incomplete("upstream_cut".into()), None), (failed, wait)]
        {
            let Err(Halt::Fault(fault)) = answer(ended(outcome)) else { panic!("it is taken") };
            assert_eq!((fault.kind, fault.after), (Kind::Passing, after));
        }
    }
}
