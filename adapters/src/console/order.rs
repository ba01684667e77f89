//! Order keys of signals: later keys sort after earlier ones, in this process and after a restart,
//! also when the clock is set back.

use parking_lot::Mutex;

/// Wide enough for every microsecond of an `i64`, so that text order is number order.
const WIDTH: usize = 20;

/// Makes order keys: the time in microseconds, or one more than the last key.
#[derive(Debug)]
pub struct OrderKeys(Mutex<i64>);

impl OrderKeys {
    /// Makes keys that sort after `last`, the newest key of the life before.
    #[must_use]
    pub fn after(last: Option<&str>) -> Self {
        Self(Mutex::new(last.and_then(|key| key.parse().ok()).unwrap_or(0)))
    }

    /// The next key, given the time in microseconds since 1970.
    pub fn next(&self, now_micros: i64) -> String {
        let mut last = self.0.lock();
        *last = now_micros.max(last.saturating_add(1));
        format!("{:0WIDTH$}", *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_grow_whatever_the_clock_says(
            before in prop::collection::vec(any::<i32>(), 1..20),
            after in prop::collection::vec(any::<i32>(), 1..20),
        ) {
            let keys = OrderKeys::after(None);
            let mut made: Vec<_> = before.into_iter().map(|t| keys.next(t.into())).collect();
            let restarted = OrderKeys::after(made.last().map(String::as_str));
            made.extend(after.into_iter().map(|t| restarted.next(t.into())));
            prop_assert!(made.is_sorted_by(|a, b| a < b), "{:?}", made);
        }
    }
}
