//! What every request of a running gateway shares.

use crate::{caller::Keys, generation::registry::Registry, models::Models, upstream::Upstream};
use chrono::{DateTime, Utc};
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwright_gateway_store::Pool;
use uuid::Uuid;

/// The shared parts.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) pool: Pool,
    pub(crate) models: Models,
    pub(crate) upstream: Upstream,
    pub(crate) keys: Keys,
    /// The responses this process generates.
    pub(crate) registry: Registry,
    /// This process among the gateway's.
    pub(crate) replica: Uuid,
    /// Tasks of one request each.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// How long a response may go on once the process is to stop.
    pub(crate) drain: Duration,
    /// Requests and generations in flight.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) started_at: DateTime<Utc>,
}

/// A place among the requests in flight; a generation keeps its request's.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl App {
    /// A free place, if there is one.
    pub(crate) fn slot(&self) -> Option<Slot> {
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        Some(Slot { _permit: Arc::new(permit) })
    }

    /// Resolves when what is under way must end.
    pub(crate) async fn must_end(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.drain).await;
    }
}
