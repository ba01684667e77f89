//! Who listens to a response. A client that leaves or falls behind never holds up what is stored:
//! one that leaves is forgotten, one that falls behind is told so and dropped.

use crate::event::Event;
use axum::response::sse;
use tokio::sync::mpsc::{self, OwnedPermit, error::TrySendError};

/// Events that wait for a client. A client this far behind is not reading.
const QUEUE: usize = 2048;

/// The client's end.
pub(crate) type Events = mpsc::Receiver<sse::Event>;

/// The teller's end. Gives out the sequence numbers.
#[derive(Debug)]
pub(crate) struct Audience {
    client: Option<Client>,
    sequence: u64,
}

#[derive(Debug)]
struct Client {
    events: mpsc::Sender<sse::Event>,
    /// A seat that is kept free for the last event.
    last: OwnedPermit<sse::Event>,
}

impl Audience {
    /// Nobody: the answer is given as a whole.
    pub(crate) const fn nobody() -> Self {
        Self { client: None, sequence: 0 }
    }

    /// One client that reads a stream.
    pub(crate) fn stream() -> (Self, Events) {
        let (events, seats) = mpsc::channel(QUEUE);
        let client = events.clone().try_reserve_owned().ok().map(|last| Client { events, last });
        (Self { client, sequence: 0 }, seats)
    }

    /// Tells an event; after one that ends the stream there is nobody left.
    pub(crate) fn tell(&mut self, event: &Event) {
        let Some(client) = self.client.take() else { return };
        let told = event.to_sse(self.sequence);
        self.sequence += 1;
        if event.is_terminal() {
            client.last.send(told);
            return;
        }
        match client.events.try_send(told) {
            Ok(()) => self.client = Some(client),
            Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!("a client does not read its stream and was dropped");
                let event = Event::Error {
                    code: "client_too_slow",
                    message: "the stream was not read in time; the response goes on, read it with \
                        GET /v1/responses/{id}",
                    param: None,
                };
                client.last.send(event.to_sse(self.sequence));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta() -> Event {
        Event::TextDelta {
            item_id: "m".into(),
            output_index: 0,
            content_index: 0,
            delta: "x".into(),
            logprobs: [],
        }
    }

    fn count(mut events: Events) -> usize {
        std::iter::from_fn(|| events.try_recv().ok()).count()
    }

    #[test]
    fn a_client_that_does_not_read_gets_a_last_word() {
        let (mut audience, events) = Audience::stream();
        for _ in 0..QUEUE * 2 {
            audience.tell(&delta());
        }
        assert!(audience.client.is_none());
        assert_eq!(count(events), QUEUE);
    }

    #[test]
    fn a_client_that_left_is_forgotten() {
        let (mut audience, events) = Audience::stream();
        drop(events);
        audience.tell(&delta());
        assert!(audience.client.is_none());
    }

    #[test]
    fn nothing_follows_the_end() {
        let (mut audience, events) = Audience::stream();
        audience.tell(&delta());
        audience.tell(&Event::Error { code: "x", message: "y", param: None });
        audience.tell(&delta());
        assert_eq!(count(events), 2);
    }
}
