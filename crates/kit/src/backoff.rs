//! Delays between tries: exponential, capped, with jitter, from a budget that ends.

use std::time::Duration;

/// A budget of tries. `next` is the delay before the following try, or `None` when spent.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    cap: Duration,
    left: Option<u32>,
}

impl Backoff {
    /// Starts at `first`, doubles up to `cap`, allows `tries` delays.
    #[must_use]
    pub const fn new(first: Duration, cap: Duration, tries: u32) -> Self {
        Self { next: first, cap, left: Some(tries) }
    }

    /// For reconnecting loops that end only with the process.
    #[must_use]
    pub const fn endless(first: Duration, cap: Duration) -> Self {
        Self { next: first, cap, left: None }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let base = self.next;
        self.next = (base * 2).min(self.cap);
        // Full delay minus up to a quarter: replicas that failed together do not retry together.
        Some(base.mul_f64(1.0 - 0.25 * rand::random::<f64>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_end() {
        let d: Vec<_> =
            Backoff::new(Duration::from_millis(100), Duration::from_millis(300), 4).collect();
        assert_eq!(d.len(), 4);
        for (got, base) in d.iter().zip([100, 200, 300, 300]) {
            assert!(
                *got <= Duration::from_millis(base) && *got >= Duration::from_millis(base * 3 / 4)
            );
        }
    }
}
