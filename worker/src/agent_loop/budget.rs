//! How often a turn may ask the model, and how often a failed request is tried again. Counts only;
//! what a failure means is decided elsewhere.

use crate::gateway::{Fault, Kind};
use std::time::Duration;
use turnwright_kit::backoff::Backoff;

/// The longest a provider's wish to wait is honoured in one go.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The iterations of a turn. One is a logical model call, whatever its retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    max: u32,
    used: u32,
}

/// What the next model call may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// With tools.
    Ordinary,
    /// The last one: without tools, to bring together what there is.
    Synthesis,
    /// None is left.
    Spent,
}

impl Budget {
    /// Of `max` iterations, as many as stored responses tell are used.
    pub(crate) fn new(max: u32, used: i32) -> Self {
        Self { max, used: u32::try_from(used).unwrap_or(0) }
    }

    pub(crate) const fn next(self) -> NextCall {
        if self.used < self.max {
            NextCall::Ordinary
        } else if self.used == self.max {
            NextCall::Synthesis
        } else {
            NextCall::Spent
        }
    }

    /// Counts one iteration.
    pub(crate) const fn spend(&mut self) {
        self.used = self.used.saturating_add(1);
    }
}

/// The tries of one iteration.
#[derive(Debug)]
pub(crate) struct Retries {
    passing: Backoff,
    away: Backoff,
    rebuilt: bool,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            passing: Backoff::new(Duration::from_millis(250), Duration::from_secs(8), 4),
            away: Backoff::new(Duration::from_millis(100), Duration::from_secs(2), 8),
            rebuilt: false,
        }
    }
}

impl Retries {
    /// How long to wait before the turn is opened again; `None` when nothing more is tried.
    pub(crate) fn next(&mut self, fault: &Fault) -> Option<Duration> {
        let wait = match fault.kind {
            Kind::Passing => self.passing.next()?,
            Kind::Away => self.away.next()?,
            Kind::HeadMoved if !self.rebuilt => {
                self.rebuilt = true;
                Duration::ZERO
            }
            Kind::HeadMoved
            | Kind::FenceStale
            | Kind::ContextOverflow
            | Kind::Operator
            | Kind::Permanent => return None,
        };
        Some(wait.max(fault.after.unwrap_or_default().min(WAIT_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_after_the_last_iteration_brings_together_and_is_the_last() {
        let mut budget = Budget::new(2, 1);
        assert_eq!(budget.next(), NextCall::Ordinary);
        budget.spend();
        assert_eq!(budget.next(), NextCall::Synthesis);
        budget.spend();
        assert_eq!(budget.next(), NextCall::Spent);
        assert_eq!(Budget::new(2, 9).next(), NextCall::Spent);
    }

    fn tries(code: &str) -> usize {
        let (mut retries, fault) = (Retries::default(), Fault::of_code(code));
        std::iter::from_fn(|| retries.next(&fault)).count()
    }

    #[test]
    fn each_kind_has_its_own_budget() {
        assert_eq!(tries("upstream_cut"), 4);
        assert_eq!(tries("unavailable"), 8);
        assert_eq!(tries("head_moved"), 1);
        for never in ["fence_stale", "compaction_required", "invalid_api_key", "invalid_prompt"] {
            assert_eq!(tries(never), 0, "{never}");
        }
    }

    #[test]
    fn a_wish_to_wait_is_honoured_up_to_a_limit() {
        let mut retries = Retries::default();
        let mut fault = Fault::of_code("rate_limit_exceeded");
        fault.after = Some(Duration::from_secs(30));
        assert_eq!(retries.next(&fault), Some(Duration::from_secs(30)));
        fault.after = Some(Duration::from_secs(9000));
        assert_eq!(retries.next(&fault), Some(WAIT_MAX));
    }
}
