//! The turns this process works on. It decides that a turn is worked on once here; that it is
//! worked on once anywhere is the ledger's and the fence's business.

use parking_lot::{Mutex, RwLock};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;
use turnwright_types::TurnId;

/// The turns of this process, from before their claim until their end.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<TurnId, Arc<Seat>>>>);

impl Running {
    /// Takes a turn in. `None` when this or a later dispatch of it is being worked on: the message
    /// was delivered again. An older dispatch has lost the turn by this one's existence.
    pub(crate) fn enter(&self, turn: TurnId, dispatch_no: i64) -> Option<Entered> {
        let seat = Arc::new(Seat {
            turn,
            dispatch_no,
            token: RwLock::default(),
            lost: CancellationToken::new(),
        });
        match self.0.lock().entry(turn) {
            Entry::Occupied(older) if older.get().dispatch_no >= dispatch_no => return None,
            Entry::Occupied(mut older) => older.insert(seat.clone()).lose(),
            Entry::Vacant(free) => {
                free.insert(seat.clone());
            }
        }
        Some(Entered { running: self.clone(), seat })
    }

    /// The claimed turns, for one renewal. The answer is applied to exactly these: a turn that left
    /// and came back meanwhile is another seat.
    pub(crate) fn claimed(&self) -> Vec<Arc<Seat>> {
        self.0.lock().values().filter(|seat| seat.token.read().is_some()).cloned().collect()
    }
}

/// One turn being worked on here.
pub(crate) struct Seat {
    pub(crate) turn: TurnId,
    dispatch_no: i64,
    /// None until the turn is claimed.
    token: RwLock<Option<Arc<str>>>,
    lost: CancellationToken,
}

impl Seat {
    /// Keeps the agent token: the claim's, then each fresh one.
    pub(crate) fn keep_token(&self, token: &str) {
        *self.token.write() = Some(token.into());
    }

    /// The newest agent token.
    pub(crate) fn token(&self) -> Arc<str> {
        self.token.read().clone().unwrap_or_default()
    }

    /// Says that the turn is another's now.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
    }

    /// Resolves once the turn is another's.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// Holds a seat; gives it up when dropped.
pub(crate) struct Entered {
    running: Running,
    pub(crate) seat: Arc<Seat>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut seats = self.running.0.lock();
        if seats.get(&self.seat.turn).is_some_and(|seat| Arc::ptr_eq(seat, &self.seat)) {
            seats.remove(&self.seat.turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redelivery_is_not_worked_on_twice() {
        let (running, turn) = (Running::default(), TurnId::new());
        let first = running.enter(turn, 2).unwrap();
        assert!(running.enter(turn, 2).is_none() && running.enter(turn, 1).is_none());
        drop(first);
        assert!(running.enter(turn, 2).is_some());
    }

    #[test]
    fn a_later_dispatch_ends_the_older_one_and_keeps_its_seat() {
        let (running, turn) = (Running::default(), TurnId::new());
        let old = running.enter(turn, 1).unwrap();
        let new = running.enter(turn, 2).unwrap();
        assert!(old.seat.lost.is_cancelled() && !new.seat.lost.is_cancelled());
        drop(old);
        new.seat.keep_token("t");
        assert_eq!(running.claimed().len(), 1);
    }

    #[test]
    fn only_claimed_turns_are_renewed() {
        let running = Running::default();
        let entered = running.enter(TurnId::new(), 1).unwrap();
        assert!(running.claimed().is_empty());
        entered.seat.keep_token("a");
        running.claimed()[0].keep_token("b");
        assert_eq!(&*entered.seat.token(), "b");
    }
}
