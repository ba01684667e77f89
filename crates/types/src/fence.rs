//! The fence: who may write in a conversation.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `(turn_seq, epoch)`; it only grows within a conversation, and every write carries it.
/// A write whose fence is lower than the highest one seen is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The turn's place in its conversation, from 1.
    pub turn_seq: i64,
    /// Raised each time the right to run the turn changes hands.
    pub epoch: i64,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.turn_seq, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;

    #[test]
    fn a_later_turn_outranks_any_epoch_of_an_earlier_one() {
        let (old, new) = (Fence { turn_seq: 1, epoch: 9 }, Fence { turn_seq: 2, epoch: 10 });
        assert!(old < new);
        assert!(Fence { turn_seq: 2, epoch: 9 } < new);
    }
}
