//! How long a turn takes to be answered when its worker is killed while a model call is in flight.

use crate::{
    adapter::Adapter,
    installation::{Installation, WORKER},
    provider::Provider,
    samples::Samples,
};
use anyhow::Context as _;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long a message may take to the provider; the worker may just be starting.
const ARRIVE_WITHIN: Duration = Duration::from_secs(30);

/// Kills the worker so many times, each time in the middle of a turn; from each kill to that turn's
/// reply.
///
/// # Errors
/// When a turn is not answered, or no worker is started again.
pub async fn measure(
    installation: &Installation,
    adapter: &Adapter,
    provider: &Provider,
    kills: usize,
) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for n in 0..kills {
        let mut conversation = adapter.open(&format!("takeover-{n}")).await?;
        let signal = conversation.signal()?;
        let (arrival, gate) = provider.hold(&signal.nonce);
        let published = conversation.publish(signal).await?;
        let arrived = timeout(ARRIVE_WITHIN, arrival).await;
        arrived.context("a message did not reach the provider")??;
        let old = installation.kill(WORKER)?;
        let killed = Instant::now();
        // The worker does not see the end of this answer, the gateway does.
        gate.open();
        samples.add(conversation.reply(&published).await? - killed);
        installation.replaced(WORKER, old).await?;
    }
    Ok(samples)
}
