//! Pulls turns: exactly one message for each free slot, and none that would wait here while another
//! worker is free. Holds no turn back at shutdown: it stops pulling and lets what runs end.

use crate::{claim, turn::Worker};
use async_nats::jetstream::{Message, consumer::PullConsumer};
use futures::StreamExt as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

/// How long a pull waits at the server. Short, because a server that restarts forgets it.
const PULL: Duration = Duration::from_secs(3);
/// How long the answer that a pull has ended may be late.
const LATE: Duration = Duration::from_millis(500);
/// Before the next pull after a failed one.
const PAUSE: Duration = Duration::from_millis(250);

/// Pulls until stopped; turns run on the worker's tasks, one per permit of `slots`.
pub(crate) async fn run(
    worker: Arc<Worker>,
    consumer: PullConsumer,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let failing = Arc::new(AtomicBool::new(false));
    loop {
        let slot = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            slot = slots.clone().acquire_owned() => slot?,
        };
        let (consumer, failing) = (consumer.clone(), failing.clone());
        let (worker, stop) = (worker.clone(), stop.clone());
        let tasks = worker.tasks.clone();
        tasks.spawn(async move {
            // Given back when the turn has ended, however it ends.
            let _slot = slot;
            if let Some(message) = pull(&consumer, &failing, &stop).await {
                claim::take(&worker, &message, &stop).await;
            }
        });
    }
}

/// One message, or `None` when there is none for now.
async fn pull(
    consumer: &PullConsumer,
    failing: &AtomicBool,
    stop: &CancellationToken,
) -> Option<Message> {
    let next = async {
        let mut one = consumer.batch().max_messages(1).expires(PULL).messages().await?;
        one.next().await.transpose()
    };
    let pulled = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        pulled = timeout(PULL + LATE, next) => pulled,
    };
    let error = match pulled {
        Ok(Ok(message)) => {
            if failing.swap(false, Ordering::Relaxed) {
                tracing::info!("turns can be pulled again");
            }
            return message;
        }
        Ok(Err(e)) => e,
        Err(_) => return None,
    };
    if !failing.swap(true, Ordering::Relaxed) {
        tracing::warn!(error = %error, "turns cannot be pulled; it is tried on");
    }
    let _ = timeout(PAUSE, stop.cancelled()).await;
    None
}
