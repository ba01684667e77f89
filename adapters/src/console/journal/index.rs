//! What of the store is in memory: the newest messages of the conversations that were last active,
//! and the nonces that were last used. Bounded in every direction.

use super::{Appended, content};
use crate::{
    api::{By, Message},
    console::{lane::Lane, recent::Recent},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};
use turnwright_types::Sha256;
use uuid::Uuid;

/// Messages kept of one conversation.
pub const MESSAGES: usize = 200;
const CONVERSATIONS: usize = 10_000;
const NONCES: usize = 100_000;
const BYTES: usize = 64 << 20;
/// What a message costs besides its text.
const OVERHEAD: usize = 512;

/// The index over the journal.
#[derive(Debug)]
pub struct Index {
    lanes: HashMap<Lane, VecDeque<Arc<Message>>>,
    /// Lanes by the index of their newest message.
    by_age: BTreeMap<u64, Lane>,
    bytes: usize,
    nonces: Recent<Uuid, Appended>,
    last_index: u64,
    last_order_key: Option<String>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            by_age: BTreeMap::new(),
            bytes: 0,
            nonces: Recent::new(NONCES),
            last_index: 0,
            last_order_key: None,
        }
    }
}

impl Index {
    /// The index that the next message gets.
    pub fn next_index(&self) -> u64 {
        self.last_index + 1
    }

    /// What is stored under a message id, if it is one of the last.
    pub fn find(&self, message_id: &Uuid) -> Option<Appended> {
        self.nonces.get(message_id).copied()
    }

    /// The kept messages of `lane` above `index`.
    pub fn after(&self, lane: &Lane, index: u64) -> Vec<Arc<Message>> {
        let Some(held) = self.lanes.get(lane) else { return Vec::new() };
        let from = held.partition_point(|message| message.index <= index);
        held.iter().skip(from).cloned().collect()
    }

    /// The newest order key of a user's message.
    pub fn last_order_key(&self) -> Option<&str> {
        self.last_order_key.as_deref()
    }

    /// Every kept message.
    pub fn messages(&self) -> impl Iterator<Item = (&Lane, &Message)> {
        self.lanes.iter().flat_map(|(lane, held)| held.iter().map(move |m| (lane, m.as_ref())))
    }

    /// Takes a message that is on disk.
    pub fn push(&mut self, lane: &Lane, message: Arc<Message>) {
        let hash = content(lane, &message.text);
        self.push_hashed(lane, message, hash);
    }

    /// As [`Self::push`], with the hash of the message's content.
    pub fn push_hashed(&mut self, lane: &Lane, message: Arc<Message>, content: Sha256) {
        let index = message.index;
        self.last_index = self.last_index.max(index);
        self.nonces.insert(message.message_id, Appended { index, content });
        if let By::User(user) = &message.by
            && self.last_order_key.as_deref() < Some(user.order_key.as_str())
        {
            self.last_order_key = Some(user.order_key.clone());
        }

        self.bytes += cost(&message);
        let held = self.lanes.entry(lane.clone()).or_default();
        if let Some(last) = held.back() {
            self.by_age.remove(&last.index);
        }
        self.by_age.insert(index, lane.clone());
        held.push_back(message);
        if held.len() > MESSAGES
            && let Some(oldest) = held.pop_front()
        {
            self.bytes -= cost(&oldest);
        }
        self.shrink(lane);
    }

    /// Forgets the conversations that were quiet longest, then the oldest messages of `newest`.
    fn shrink(&mut self, newest: &Lane) {
        while self.lanes.len() > CONVERSATIONS || (self.bytes > BYTES && self.lanes.len() > 1) {
            let Some((_, quiet)) = self.by_age.pop_first() else { return };
            for message in self.lanes.remove(&quiet).unwrap_or_default() {
                self.bytes -= cost(&message);
            }
        }
        let Some(held) = self.lanes.get_mut(newest) else { return };
        while self.bytes > BYTES
            && held.len() > 1
            && let Some(oldest) = held.pop_front()
        {
            self.bytes -= cost(&oldest);
        }
    }
}

fn cost(message: &Message) -> usize {
    OVERHEAD + message.text.len()
}
