//! A map that forgets its oldest entry when it is full.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Keeps the last `limit` keys by their first insertion.
#[derive(Debug)]
pub struct Recent<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<K>,
    limit: usize,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// An empty map of at most `limit` entries.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), limit }
    }

    /// The value of `key`, if it is still kept.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// Sets the value of `key`.
    pub fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_key_goes_first_and_a_new_value_does_not_make_it_younger() {
        let mut recent = Recent::new(2);
        recent.insert("a", 1);
        recent.insert("b", 2);
        recent.insert("a", 3);
        recent.insert("c", 4);
        assert_eq!(
            [recent.get(&"a"), recent.get(&"b"), recent.get(&"c")],
            [None, Some(&2), Some(&4)]
        );
    }
}
