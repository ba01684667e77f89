//! How long a message takes to reach the provider and to be answered, one message at a time.

use crate::{
    adapter::{Adapter, Conversation},
    provider::Provider,
    samples::Samples,
};
use anyhow::Context as _;

/// What was taken.
#[derive(Debug, Default)]
pub struct Latencies {
    /// To the provider, first messages of conversations.
    pub cold: Samples,
    /// To the provider, later messages of one conversation.
    pub warm: Samples,
    /// To the reply at the console, of all of them.
    pub delivery: Samples,
}

/// Takes the latencies of so many turns of each kind.
///
/// # Errors
/// When a turn is not answered.
pub async fn measure(
    adapter: &Adapter,
    provider: &Provider,
    turns: usize,
) -> anyhow::Result<Latencies> {
    let mut taken = Latencies::default();
    for n in 0..turns {
        let mut conversation = adapter.open(&format!("cold-{n}")).await?;
        turn(&mut conversation, provider, &mut taken.cold, &mut taken.delivery).await?;
    }
    let mut conversation = adapter.open("warm").await?;
    conversation.ask().await?;
    for _ in 0..turns {
        turn(&mut conversation, provider, &mut taken.warm, &mut taken.delivery).await?;
    }
    Ok(taken)
}

async fn turn(
    conversation: &mut Conversation<'_>,
    provider: &Provider,
    first_byte: &mut Samples,
    delivery: &mut Samples,
) -> anyhow::Result<()> {
    let signal = conversation.signal()?;
    let mut arrival = provider.expect(&signal.nonce);
    let published = conversation.publish(signal).await?;
    let replied = conversation.reply(&published).await?;
    let arrived = arrival.try_recv().context("a reply came without its message at the provider")?;
    first_byte.add(arrived - published.began);
    delivery.add(replied - published.began);
    Ok(())
}
