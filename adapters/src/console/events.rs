//! The event stream of one conversation: what is stored, then what happens. A slow reader misses
//! progress, never a message that is still in memory.

use super::{
    hub::{Hub, Live},
    journal::Journal,
    lane::Lane,
};
use crate::api::{EVENT_LAGGED, EVENT_MESSAGE, EVENT_PROGRESS, Lagged, Message};
use axum::response::sse::Event;
use futures::{Stream, stream};
use std::{collections::VecDeque, convert::Infallible, sync::Arc};
use tokio::sync::{
    OwnedSemaphorePermit,
    broadcast::{Receiver, error::RecvError},
};
use tokio_util::sync::CancellationToken;

/// What one listener still has to be told.
struct Feed {
    journal: Journal,
    lane: Lane,
    live: Receiver<Live>,
    ready: VecDeque<Event>,
    /// The index of the newest message told or ready to be.
    told: u64,
    stop: CancellationToken,
    _seat: OwnedSemaphorePermit,
}

/// The events of `lane` after the message at index `after`, until `stop`. Holds `seat` while it
/// lives.
pub fn stream(
    journal: Journal,
    hub: &Hub,
    lane: Lane,
    after: u64,
    stop: CancellationToken,
    seat: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + use<> {
    // Listens before it reads: what is stored in between comes twice and is told once.
    let live = hub.listen(&lane);
    let ready = VecDeque::new();
    let mut feed = Feed { journal, lane, live, ready, told: after, stop, _seat: seat };
    feed.read_stored();
    stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((Ok(event), feed))
    })
}

impl Feed {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let live = tokio::select! {
                () = self.stop.cancelled() => return None,
                live = self.live.recv() => live,
            };
            match live {
                Ok(Live::Message(message)) => self.tell(&message),
                Ok(Live::Progress(json)) => {
                    self.ready.push_back(Event::default().event(EVENT_PROGRESS).data(json));
                }
                Err(RecvError::Lagged(missed)) => {
                    self.push(Event::default().event(EVENT_LAGGED), &Lagged { missed });
                    self.read_stored();
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn read_stored(&mut self) {
        for message in self.journal.after(&self.lane, self.told) {
            self.tell(&message);
        }
    }

    fn tell(&mut self, message: &Arc<Message>) {
        if message.index > self.told {
            self.told = message.index;
            let event = Event::default().event(EVENT_MESSAGE).id(message.index.to_string());
            self.push(event, message.as_ref());
        }
    }

    fn push(&mut self, event: Event, data: &impl serde::Serialize) {
        match event.json_data(data) {
            Ok(event) => self.ready.push_back(event),
            Err(e) => tracing::error!(error = %e, "an event cannot be encoded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::Conversation,
        console::journal::{self, Draft},
    };
    use futures::StreamExt as _;
    use std::{future, time::Duration};
    use tokio::sync::Semaphore;
    use turnwright_kit::{OnExit, Supervisor};
    use turnwright_types::BindingId;

    fn draft(n: usize) -> Draft {
        let json = serde_json::json!({
            "author": "user", "event_key": format!("k{n}"), "sender": {"id": "a"}, "order_key": "0",
        });
        Draft {
            lane: lane(),
            nonce: format!("n{n}"),
            text: "hi".to_owned(),
            by: serde_json::from_value(json).unwrap(),
        }
    }

    fn lane() -> Lane {
        Lane {
            binding: BindingId::parse("console-maren").unwrap(),
            conversation: Conversation::default(),
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_that_it_lagged_and_misses_no_message() {
        const MESSAGES: usize = 5;
        let folder = tempfile::tempdir().unwrap();
        let (sup, hub) = (Supervisor::default(), Arc::new(Hub::default()));
        let opened = journal::open(folder.path().join("journal"), hub.clone()).await.unwrap();
        let (journal, writer) = opened;
        sup.spawn("journal", OnExit::StopProcess, |stop| writer.run(stop));
        journal.append(draft(0)).await.unwrap();

        let seat = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let feed = stream(journal.clone(), &hub, lane(), 0, CancellationToken::new(), seat);
        for n in 1..MESSAGES {
            journal.append(draft(n)).await.unwrap();
        }
        for _ in 0..1000 {
            hub.tell(&lane(), Live::Progress("{}".into()));
        }
        let told = feed
            .map(|event| format!("{event:?}"))
            .filter(|text| future::ready(!text.contains("event: progress")))
            .take(MESSAGES + 1);
        let told: Vec<_> =
            tokio::time::timeout(Duration::from_secs(10), told.collect()).await.unwrap();
        assert!(told[0].contains("id: 1\\n"), "{told:?}");
        assert!(told[1].contains("event: lagged"), "{told:?}");
        for (text, n) in told[2..].iter().zip(2..) {
            assert!(text.contains(&format!("id: {n}\\n")), "{told:?}");
        }
        sup.run_until(async {}, Duration::from_secs(5)).await;
    }
}
