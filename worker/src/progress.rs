//! What a running turn tells those who watch: lossy by contract, never in the loop's way. A slow or
//! absent NATS costs watchers events and the turn nothing.

use async_nats::HeaderMap;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwright_kit::trace;
use turnwright_proto::v1::{TextDelta, TurnProgress, turn_progress::Event};
use turnwright_types::{ConversationId, TurnId, subjects};

/// Events kept while they cannot be told; then the oldest go.
const KEPT: usize = 128;
/// The largest text of one event, in bytes.
const TEXT_MAX: usize = 16 << 10;
/// Text that comes within this time is told as one event.
const TOGETHER: Duration = Duration::from_millis(40);
/// How long one event may take to be handed over.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells the progress of one turn; the telling ends when this is dropped.
#[derive(Default)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Notify,
    closed: CancellationToken,
}

/// Events not told yet.
#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    /// Events that went untold: their numbers are left out, so that watchers see the gap.
    lost: i64,
}

/// Where and as what a turn's events are told.
pub(crate) struct Channel {
    pub(crate) nats: async_nats::Client,
    pub(crate) turn: TurnId,
    pub(crate) conversation: ConversationId,
    pub(crate) epoch: i64,
}

impl Progress {
    /// Starts telling on the turn's subject.
    pub(crate) fn start(channel: Channel, tasks: &TaskTracker) -> Self {
        let progress = Self::default();
        tasks.spawn(tell_all(progress.shared.clone(), channel, trace::current()));
        progress
    }

    /// More text.
    pub(crate) fn text(&self, delta: &str) {
        self.tell(Event::TextDelta(TextDelta { text: delta.to_owned() }));
    }

    /// Something happened.
    pub(crate) fn tell(&self, event: Event) {
        self.shared.waiting.lock().push(event);
        self.shared.wake.notify_one();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

impl Waiting {
    fn push(&mut self, event: Event) {
        if let (Event::TextDelta(more), Some(Event::TextDelta(last))) =
            (&event, self.events.back_mut())
            && last.text.len() + more.text.len() <= TEXT_MAX
        {
            last.text.push_str(&more.text);
            return;
        }
        if self.events.len() == KEPT {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(event);
    }
}

async fn tell_all(shared: Arc<Shared>, channel: Channel, traceparent: Option<String>) {
    let subject = subjects::turn_progress(channel.turn);
    let mut headers = HeaderMap::new();
    if let Some(parent) = traceparent {
        headers.insert(subjects::TRACEPARENT, parent);
    }
    let mut sequence = 0;
    loop {
        // Read before the events: what was told before the end is still taken.
        let closed = shared.closed.is_cancelled();
        let Waiting { events, lost } = std::mem::take(&mut *shared.waiting.lock());
        sequence += lost;
        for event in events {
            sequence += 1;
            let told = TurnProgress {
                turn_id: channel.turn.to_string(),
                conversation_id: channel.conversation.to_string(),
                epoch: channel.epoch,
                sequence,
                event: Some(event),
            };
            let Ok(body) = serde_json::to_vec(&told) else { continue };
            let telling =
                channel.nats.publish_with_headers(subject.clone(), headers.clone(), body.into());
            if !matches!(timeout(PATIENCE, telling).await, Ok(Ok(()))) {
                tracing::debug!(sequence, "progress was not told");
            }
        }
        if closed {
            return;
        }
        tokio::select! {
            () = shared.closed.cancelled() => {}
            () = async { sleep(TOGETHER).await; shared.wake.notified().await } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_proto::v1::{ToolStarted, TurnEnded};

    fn text(text: &str) -> Event {
        Event::TextDelta(TextDelta { text: text.to_owned() })
    }

    fn tool(n: usize) -> Event {
        Event::ToolStarted(ToolStarted { call_id: n.to_string(), tool: "t".to_owned() })
    }

    #[test]
    fn text_that_waits_is_told_together_and_in_order() {
        let mut waiting = Waiting::default();
        for event in [text("a"), text("b"), tool(1), text("c"), text("d")] {
            waiting.push(event);
        }
        assert_eq!(waiting.events, [text("ab"), tool(1), text("cd")]);
        let long = "x".repeat(TEXT_MAX);
        waiting.push(text(&long));
        assert_eq!(waiting.events.len(), 4);
    }

    #[test]
    fn the_oldest_go_when_nobody_takes_them() {
        let mut waiting = Waiting::default();
        (0..KEPT + 3).for_each(|n| waiting.push(tool(n)));
        waiting.push(Event::Ended(TurnEnded { state: "failed".into() }));
        assert_eq!((waiting.events.len(), waiting.lost), (KEPT, 4));
        assert_eq!(waiting.events.front(), Some(&tool(4)));
    }
}
