//! Named gates that hold replies back until a test opens them. Names come from the rules; no other gate can be made.
use serde::Serialize;
use std::{collections::BTreeMap, ops::RangeBounds};
use tokio::sync::watch;

/// The gates of one server. Clones are handles to the same gates.
#[derive(Clone, Debug)]
pub struct Gates {
    states: watch::Sender<BTreeMap<String, Gate>>,
}

#[derive(Debug, Default)]
struct Gate {
    open: bool,
    waiting: usize,
    /// How often it was opened, so that one that is closed again at once still lets its waiters pass.
    openings: u64,
}

/// One gate as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateState {
    /// The name that the rules give it.
    pub name: String,
    /// Whether requests pass without waiting.
    pub open: bool,
    /// Requests that wait at it now.
    pub waiting: usize,
}

/// The rules name no such gate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule has a gate named `{0}`")]
pub struct UnknownGate(pub String);

impl Gates {
    /// Closed gates with these names.
    pub(crate) fn named(names: impl IntoIterator<Item = String>) -> Self {
        let gates = names.into_iter().map(|name| (name, Gate::default())).collect();
        Self { states: watch::Sender::new(gates) }
    }

    /// Lets pass all that wait now, and all that come until the gate is closed.
    ///
    /// # Errors
    /// [`UnknownGate`].
    pub fn open(&self, name: &str) -> Result<(), UnknownGate> {
        self.change(name, |gate| {
            gate.open = true;
            gate.openings += 1;
        })
    }

    /// Makes all that come from now on wait.
    ///
    /// # Errors
    /// [`UnknownGate`].
    pub fn close(&self, name: &str) -> Result<(), UnknownGate> {
        self.change(name, |gate| gate.open = false)
    }

    /// All gates, by name.
    pub fn list(&self) -> Vec<GateState> {
        let states = self.states.borrow();
        let state = |(name, gate): (&String, &Gate)| GateState {
            name: name.clone(),
            open: gate.open,
            waiting: gate.waiting,
        };
        states.iter().map(state).collect()
    }

    /// Returns once the number of requests that wait at the gate is in `range`, for instance `1..` or `..1`.
    /// It has no deadline of its own; the caller sets one.
    ///
    /// # Errors
    /// [`UnknownGate`].
    pub async fn until_waiting(
        &self,
        name: &str,
        range: impl RangeBounds<usize>,
    ) -> Result<(), UnknownGate> {
        let mut states = self.states.subscribe();
        let reached = states
            .wait_for(|gates| gates.get(name).is_none_or(|gate| range.contains(&gate.waiting)))
            .await
            .is_ok_and(|gates| gates.contains_key(name));
        if reached { Ok(()) } else { Err(UnknownGate(name.to_owned())) }
    }

    /// Waits until the gate is open; dropping the future gives the place up. An unknown gate is passed.
    pub(crate) async fn pass(&self, name: &str) {
        let mut held_since = None;
        self.states.send_if_modified(|gates| match gates.get_mut(name) {
            Some(gate) if !gate.open => {
                gate.waiting += 1;
                held_since = Some(gate.openings);
                true
            }
            Some(_) | None => false,
        });
        let Some(held_since) = held_since else { return };
        let _place = Place { gates: self, name };
        let mut states = self.states.subscribe();
        let opened = |gate: &Gate| gate.open || gate.openings != held_since;
        // Fails only when no sender is left, and `self` is one.
        let _ = states.wait_for(|gates| gates.get(name).is_none_or(opened)).await;
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Gate)) -> Result<(), UnknownGate> {
        let mut known = false;
        self.states.send_if_modified(|gates| {
            if let Some(gate) = gates.get_mut(name) {
                change(gate);
                known = true;
            }
            known
        });
        if known { Ok(()) } else { Err(UnknownGate(name.to_owned())) }
    }
}

/// A place in the queue of a gate, given up on every way out.
struct Place<'a> {
    gates: &'a Gates,
    name: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gates.states.send_modify(|gates| {
            if let Some(gate) = gates.get_mut(self.name) {
                gate.waiting = gate.waiting.saturating_sub(1);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates() -> Gates {
        Gates::named(["a".to_owned(), "b".to_owned()])
    }

    #[tokio::test]
    async fn a_gate_that_is_closed_again_at_once_still_lets_its_waiters_pass() {
        let gates = gates();
        let opener = async {
            gates.until_waiting("a", 2..).await.unwrap();
            gates.open("a").unwrap();
            gates.close("a").unwrap();
        };
        tokio::join!(gates.pass("a"), gates.pass("a"), opener);
        assert_eq!(gates.list()[0], GateState { name: "a".into(), open: false, waiting: 0 });
    }

    #[tokio::test]
    async fn an_open_gate_is_passed_until_it_is_closed() {
        let gates = gates();
        gates.open("b").unwrap();
        gates.pass("b").await;
        gates.close("b").unwrap();
        tokio::select! {
            () = gates.pass("b") => panic!("passed a closed gate"),
            end = gates.until_waiting("b", 1..) => end.unwrap(),
        }
        assert_eq!(gates.list()[1].waiting, 0, "leaving gives the place up");
    }

    #[tokio::test]
    async fn gates_that_no_rule_names_are_refused() {
        let unknown = UnknownGate("c".into());
        assert_eq!(gates().open("c"), Err(unknown));
        assert!(gates().close("c").is_err());
        assert!(gates().until_waiting("c", 0..).await.is_err());
    }
}
