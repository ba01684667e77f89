//! The responses that this process generates now: the lease keeps theirs and sweeps what is not
//! here, and a stopping process waits for them.

use parking_lot::Mutex;
use std::{collections::HashSet, sync::Arc};
use tokio::sync::watch;
use turnwright_types::ResponseId;

/// Which responses are being generated. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Registry(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    active: Mutex<HashSet<ResponseId>>,
    count: watch::Sender<usize>,
}

/// Keeps a response registered until it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    id: ResponseId,
    registry: Registry,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { active: Mutex::default(), count: watch::Sender::new(0) }))
    }

    /// Registers a response before it is begun, so that there is no moment at which it is stored
    /// and nobody's.
    pub(crate) fn register(&self, id: ResponseId) -> Registered {
        let mut active = self.0.active.lock();
        active.insert(id);
        self.0.count.send_replace(active.len());
        Registered { id, registry: self.clone() }
    }

    pub(crate) fn active(&self) -> Vec<ResponseId> {
        self.0.active.lock().iter().copied().collect()
    }

    /// Resolves when nothing is being generated.
    pub(crate) async fn drained(&self) {
        let mut count = self.0.count.subscribe();
        // The sender lives as long as `self`.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut active = self.registry.0.active.lock();
        active.remove(&self.id);
        self.registry.0.count.send_replace(active.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[test]
    fn it_is_drained_when_the_last_one_is_dropped() {
        let registry = Registry::new();
        let one = registry.register(ResponseId::new());
        let two = registry.register(ResponseId::new());
        assert_eq!(registry.active().len(), 2);
        let mut drained = std::pin::pin!(registry.drained());
        let mut context = Context::from_waker(Waker::noop());
        assert!(drained.as_mut().poll(&mut context).is_pending());
        drop(one);
        assert!(drained.as_mut().poll(&mut context).is_pending());
        drop(two);
        assert!(drained.as_mut().poll(&mut context).is_ready());
    }
}
