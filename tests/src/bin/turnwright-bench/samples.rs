//! Durations that were measured, and what can be said of them.

use std::time::Duration;

/// Measured durations, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1000.0);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest one that at least `percent` of a hundred do not exceed; `None` of none.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let of = |values: &[u64]| {
            let mut samples = Samples::default();
            values.iter().for_each(|v| samples.add(Duration::from_millis(*v)));
            samples
        };
        assert_eq!(of(&[]).percentile(50), None);
        assert_eq!(of(&[3, 1, 2]).percentile(50), Some(2.0));
        assert_eq!(of(&[5, 1]).percentile(50), Some(1.0));
        assert_eq!(of(&[5, 1, 3, 2, 4]).percentile(99), Some(5.0));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(of(&hundred).percentile(99), Some(99.0));
    }
}
