//! Which conversation a turn's progress belongs to: learnt from the event keys the console itself
//! made, and from deliveries. What is not known is not the console's.

use super::{lane::Lane, recent::Recent};
use crate::api::{By, Message};
use parking_lot::Mutex;
use turnwright_proto::v1::{TurnProgress, turn_progress::Event};
use turnwright_types::{ConversationId, EventKey};

const EVENT_KEYS: usize = 10_000;
const CONVERSATIONS: usize = 10_000;

/// What is known of conversations; bounded.
#[derive(Debug)]
pub struct Routes(Mutex<Known>);

#[derive(Debug)]
struct Known {
    /// `None` where two conversations used the same key: it says nothing then.
    by_event: Recent<EventKey, Option<Lane>>,
    by_conversation: Recent<ConversationId, Lane>,
}

impl Default for Routes {
    fn default() -> Self {
        Self(Mutex::new(Known {
            by_event: Recent::new(EVENT_KEYS),
            by_conversation: Recent::new(CONVERSATIONS),
        }))
    }
}

impl Routes {
    /// A signal with this key is about to be published for `lane`.
    pub fn expect(&self, key: &EventKey, lane: &Lane) {
        let mut known = self.0.lock();
        let shared = known.by_event.get(key).is_some_and(|other| other.as_ref() != Some(lane));
        known.by_event.insert(key.clone(), (!shared).then(|| lane.clone()));
    }

    /// A delivery says which conversation `lane` is.
    pub fn learn(&self, conversation: ConversationId, lane: &Lane) {
        self.0.lock().by_conversation.insert(conversation, lane.clone());
    }

    /// What a stored message tells.
    pub fn learn_from(&self, lane: &Lane, message: &Message) {
        match &message.by {
            By::User(user) => self.expect(&user.event_key, lane),
            By::Agent(agent) => {
                if let Some(conversation) = agent.conversation_id {
                    self.learn(conversation, lane);
                }
            }
        }
    }

    /// Where to show `progress`; learns from a start.
    pub fn find(&self, progress: &TurnProgress) -> Option<Lane> {
        let conversation = ConversationId::parse(&progress.conversation_id).ok()?;
        let mut known = self.0.lock();
        if let Some(lane) = known.by_conversation.get(&conversation) {
            return Some(lane.clone());
        }
        let Some(Event::Started(started)) = &progress.event else { return None };
        let lane = started
            .event_keys
            .iter()
            .filter_map(|key| EventKey::parse(key.as_str()).ok())
            .find_map(|key| known.by_event.get(&key).cloned().flatten())?;
        known.by_conversation.insert(conversation, lane.clone());
        Some(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Conversation;
    use turnwright_proto::v1::{TextDelta, TurnStarted};
    use turnwright_types::BindingId;

    fn lane(binding: &str) -> Lane {
        Lane { binding: BindingId::parse(binding).unwrap(), conversation: Conversation::default() }
    }

    fn started(conversation: ConversationId, key: &str) -> TurnProgress {
        TurnProgress {
            conversation_id: conversation.to_string(),
            event: Some(Event::Started(TurnStarted {
                event_keys: vec![key.to_owned()],
                turn_seq: 1,
            })),
            ..TurnProgress::default()
        }
    }

    #[test]
    fn a_start_teaches_the_conversation_of_what_follows() {
        let (routes, conversation) = (Routes::default(), ConversationId::new());
        let delta = TurnProgress {
            conversation_id: conversation.to_string(),
            event: Some(Event::TextDelta(TextDelta { text: "a".to_owned() })),
            ..TurnProgress::default()
        };
        routes.expect(&EventKey::parse("k").unwrap(), &lane("a"));
        assert_eq!(routes.find(&delta), None);
        assert_eq!(routes.find(&started(conversation, "k")), Some(lane("a")));
        assert_eq!(routes.find(&delta), Some(lane("a")));
    }

    #[test]
    fn a_key_that_two_conversations_used_shows_nothing() {
        let routes = Routes::default();
        let key = EventKey::parse("k").unwrap();
        for binding in ["a", "b", "a"] {
            routes.expect(&key, &lane(binding));
        }
        assert_eq!(routes.find(&started(ConversationId::new(), "k")), None);
    }

    #[test]
    fn a_delivery_teaches_the_conversation() {
        let (routes, conversation) = (Routes::default(), ConversationId::new());
        routes.learn(conversation, &lane("a"));
        assert_eq!(routes.find(&started(conversation, "unknown")), Some(lane("a")));
    }
}
