//! How many turns a second an installation completes when many conversations are always busy.

use crate::adapter::{Adapter, Conversation};
use futures::future::try_join_all;
use std::time::{Duration, Instant};

/// Keeps `conversations` busy: each sends its next message when its reply is there. The turns whose
/// reply fell into `window`, which begins after `ramp`.
///
/// # Errors
/// When a turn is not answered.
pub async fn measure(
    adapter: &Adapter,
    conversations: usize,
    ramp: Duration,
    window: Duration,
) -> anyhow::Result<usize> {
    let names: Vec<String> = (0..conversations).map(|n| format!("load-{n}")).collect();
    let mut open = try_join_all(names.iter().map(|name| adapter.open(name))).await?;
    let from = Instant::now() + ramp;
    let until = from + window;
    let busy = open.iter_mut().map(|conversation| keep_busy(conversation, from, until));
    Ok(try_join_all(busy).await?.into_iter().sum())
}

async fn keep_busy(
    conversation: &mut Conversation<'_>,
    from: Instant,
    until: Instant,
) -> anyhow::Result<usize> {
    let mut completed = 0;
    loop {
        let replied = conversation.ask().await?;
        if replied >= until {
            return Ok(completed);
        }
        if replied >= from {
            completed += 1;
        }
    }
}
