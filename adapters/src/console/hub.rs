//! Who listens to which conversation. What is told here may be missed by a slow listener; what must
//! not be missed is in the journal.

use super::lane::Lane;
use crate::api::Message;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::broadcast;

/// Events one listener may be behind before it misses some.
const BEHIND: usize = 256;

/// What happens in a conversation.
#[derive(Clone, Debug)]
pub enum Live {
    /// A message was stored.
    Message(Arc<Message>),
    /// A turn told its progress, in ProtoJSON.
    Progress(Arc<str>),
}

/// The listeners of every conversation.
#[derive(Debug, Default)]
pub struct Hub(Mutex<HashMap<Lane, broadcast::Sender<Live>>>);

impl Hub {
    /// Listens to `lane` from now on.
    pub fn listen(&self, lane: &Lane) -> broadcast::Receiver<Live> {
        let mut lanes = self.0.lock();
        lanes.retain(|_, sender| sender.receiver_count() > 0);
        match lanes.get(lane) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = broadcast::channel(BEHIND);
                lanes.insert(lane.clone(), sender);
                receiver
            }
        }
    }

    /// Tells those who listen to `lane`.
    pub fn tell(&self, lane: &Lane, event: Live) {
        if let Some(sender) = self.0.lock().get(lane) {
            // Nobody listening any more is no failure.
            let _ = sender.send(event);
        }
    }
}
