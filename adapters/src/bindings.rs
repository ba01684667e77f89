//! The bindings of one adapter kind, as the control plane lists them: kept for a moment, asked for
//! again when an agent is not among them.

use crate::transport::{CallError, Nats};
use parking_lot::RwLock;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use turnwright_proto::v1::{ListBindingsRequest, ListBindingsResponse, RpcError};
use turnwright_types::{AdapterName, AgentSlug, BindingId, subjects};

const KEPT: Duration = Duration::from_secs(1);

/// One agent's account at the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its name.
    pub id: BindingId,
    /// The agent.
    pub agent: AgentSlug,
    /// The agent's display name.
    pub agent_name: String,
}

/// The list cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BindingsError {
    /// No usable answer.
    #[error("the list of agents is not available")]
    Call(#[from] CallError),
    /// The control plane refuses.
    #[error("the control plane does not list bindings ({code}): {message}")]
    Refused {
        /// The contract's code.
        code: String,
        /// What it says.
        message: String,
    },
}

/// The binding of an agent cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The agent has none.
    #[error("agent not found")]
    Unknown {
        /// The agents that have one.
        known: Vec<AgentSlug>,
    },
    /// The list cannot be had.
    #[error(transparent)]
    List(#[from] BindingsError),
}

#[derive(Clone, Debug)]
struct Kept {
    /// When it was asked for; what it says may be older than the answer, never than this.
    asked: Instant,
    bindings: Arc<[Binding]>,
}

/// The bindings of one adapter kind.
#[derive(Debug)]
pub struct Bindings {
    nats: Nats,
    adapter: AdapterName,
    kept: RwLock<Option<Kept>>,
    asking: tokio::sync::Mutex<()>,
}

impl Bindings {
    /// Of `adapter`.
    #[must_use]
    pub fn new(nats: Nats, adapter: AdapterName) -> Self {
        Self { nats, adapter, kept: RwLock::new(None), asking: tokio::sync::Mutex::new(()) }
    }

    /// All of them, as they are now: people list agents right after they applied one. While the
    /// control plane is away, what was last known counts.
    ///
    /// # Errors
    /// When the control plane does not answer and nothing is known.
    pub async fn list(&self) -> Result<Arc<[Binding]>, BindingsError> {
        match self.ask().await {
            Ok(bindings) => Ok(bindings),
            Err(e) => self.kept(Duration::MAX).ok_or(e),
        }
    }

    /// The binding of `agent`. An agent that is not in the kept list is asked for at once; while
    /// the control plane is away, what was last known counts.
    ///
    /// # Errors
    /// When the agent has no binding, or the list cannot be had.
    pub async fn find(&self, agent: &AgentSlug) -> Result<Binding, FindError> {
        let pick = |all: &[Binding]| all.iter().find(|b| b.agent == *agent).cloned();
        if let Some(found) = self.kept(KEPT).as_deref().and_then(pick) {
            return Ok(found);
        }
        match self.ask().await {
            Ok(all) => pick(&all).ok_or_else(|| FindError::Unknown {
                known: all.iter().map(|b| b.agent.clone()).collect(),
            }),
            Err(e) => {
                let last = self.kept(Duration::MAX);
                last.as_deref().and_then(pick).ok_or(FindError::List(e))
            }
        }
    }

    fn kept(&self, age: Duration) -> Option<Arc<[Binding]>> {
        let kept = self.kept.read();
        kept.as_ref().filter(|k| k.asked.elapsed() <= age).map(|k| k.bindings.clone())
    }

    /// Asks the control plane, which also makes sure of the adapter's consumer. One caller at a
    /// time; a caller that waited takes an answer asked for since it came.
    ///
    /// # Errors
    /// When the control plane does not answer.
    pub async fn ask(&self) -> Result<Arc<[Binding]>, BindingsError> {
        let came = Instant::now();
        let _turn = self.asking.lock().await;
        if let Some(bindings) = self.kept(came.elapsed()) {
            return Ok(bindings);
        }
        let asked = Instant::now();
        let question = ListBindingsRequest { adapter: self.adapter.to_string() };
        let answer: ListBindingsResponse =
            self.nats.call(subjects::BINDING_LIST, &question).await?;
        if let Some(RpcError { code, message }) = answer.error {
            return Err(BindingsError::Refused { code, message });
        }
        let bindings: Arc<[Binding]> = answer.bindings.into_iter().filter_map(read).collect();
        *self.kept.write() = Some(Kept { asked, bindings: bindings.clone() });
        Ok(bindings)
    }
}

fn read(wire: turnwright_proto::v1::Binding) -> Option<Binding> {
    let parsed = BindingId::parse(wire.id)
        .and_then(|id| AgentSlug::parse(wire.agent).map(|agent| (id, agent)));
    match parsed {
        Ok((id, agent)) => Some(Binding { id, agent, agent_name: wire.agent_name }),
        Err(e) => {
            tracing::warn!(error = %e, "a listed binding is not usable");
            None
        }
    }
}
