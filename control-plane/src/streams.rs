//! The three streams and their consumers, made and corrected by the control plane.

use crate::{Error, config::StreamLimits};
use async_nats::jetstream::{
    Context,
    consumer::{AckPolicy, pull},
    stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
};
use std::time::Duration;
use turnwright_types::{AdapterName, Pool, subjects};

/// The durable consumer of admission.
pub const ADMISSION: &str = "admission";

/// Makes the streams and the consumers that every installation has.
///
/// # Errors
/// When NATS is away or refuses the configuration.
pub async fn ensure(js: &Context, limits: &StreamLimits) -> Result<(), Error> {
    let signals = Config {
        name: subjects::SIGNALS.into(),
        subjects: vec![subjects::SIGNAL_ALL.into()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_messages_per_subject: limits.signals_per_binding,
        max_message_size: 512 << 10,
        duplicate_window: Duration::from_secs(120),
        num_replicas: limits.replicas,
        ..Config::default()
    };
    let turns = Config {
        name: subjects::TURNS.into(),
        subjects: vec![subjects::TURN_START_ALL.into()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::Memory,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_messages_per_subject: 1,
        max_message_size: 512 << 10,
        num_replicas: limits.replicas,
        ..Config::default()
    };
    let deliveries = Config {
        name: subjects::DELIVERIES.into(),
        subjects: vec![subjects::DELIVERY_ALL.into()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::Memory,
        max_message_size: 512 << 10,
        // Waiting heads are published again every few seconds while their adapter is away; what the
        // window does not drop, age does.
        duplicate_window: Duration::from_secs(30),
        max_age: Duration::from_secs(60),
        num_replicas: limits.replicas,
        ..Config::default()
    };
    for config in [signals, turns, deliveries] {
        js.create_or_update_stream(config).await.map_err(boxed("make a stream"))?;
    }
    let admission = consumer(ADMISSION, subjects::SIGNAL_ALL.into(), 30, 1024);
    js.create_consumer_on_stream(admission, subjects::SIGNALS)
        .await
        .map_err(boxed("make the admission consumer"))?;
    if let Ok(pool) = Pool::parse("default") {
        workers(js, &pool).await?;
    }
    Ok(())
}

/// Makes the consumer of a worker pool.
///
/// # Errors
/// When NATS is away.
pub async fn workers(js: &Context, pool: &Pool) -> Result<(), Error> {
    // A message is acknowledged at the claim, well within ten seconds.
    let config = consumer(&format!("workers-{pool}"), subjects::turn_start_pool(pool), 10, 10_000);
    js.create_consumer_on_stream(config, subjects::TURNS)
        .await
        .map_err(boxed("make a worker pool's consumer"))?;
    Ok(())
}

/// Makes the consumer of an adapter kind.
///
/// # Errors
/// When NATS is away.
pub async fn adapter(js: &Context, adapter: &AdapterName) -> Result<(), Error> {
    let name = format!("adapter-{adapter}");
    let config = consumer(&name, subjects::delivery_adapter(adapter), 30, 10_000);
    js.create_consumer_on_stream(config, subjects::DELIVERIES)
        .await
        .map_err(boxed("make an adapter's consumer"))?;
    Ok(())
}

fn consumer(name: &str, filter: String, ack_wait_s: u64, max_ack_pending: i64) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        filter_subject: filter,
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(ack_wait_s),
        max_ack_pending,
        ..pull::Config::default()
    }
}

pub(crate) fn boxed<E: std::error::Error + Send + Sync + 'static>(
    what: &'static str,
) -> impl FnOnce(E) -> Error {
    move |e| Error::nats(what)(Box::new(e))
}
