//! One claimed turn from its first look at the transcript to its one ending: the agent loop under
//! the watch of lease and shutdown, then the commit.

use crate::{
    agent_loop::AgentLoop,
    commit::{Ending, Failure, Ours, commit},
    context,
    control::ControlPlane,
    envelope::Claim,
    gateway::Gateway,
    lease::Lease,
    progress::{Channel, Progress},
    running::{Entered, Running, Seat},
    tools::{Registry, Scope, workspace::Workspaces},
};
use futures::FutureExt as _;
use std::{
    io,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::OnceCell, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, info_span};
use turnwright_prompt::Context;
use turnwright_proto::v1::{TurnEnded, TurnStarted, turn_progress::Event};
use turnwright_types::{FailureClass, Pool, TurnState, WorkerIncarnation};

/// How long a turn may go on once the process is to stop.
const GRACE: Duration = Duration::from_secs(6);
/// How long an ending may be retried once the process is to stop.
const LAST_WORD: Duration = Duration::from_secs(3);

/// What the turns of a worker share.
pub(crate) struct Worker {
    pub(crate) control: ControlPlane,
    pub(crate) gateway: Gateway,
    pub(crate) nats: async_nats::Client,
    pub(crate) tools: Registry,
    pub(crate) workspaces: Workspaces,
    pub(crate) running: Running,
    pub(crate) lease: Lease,
    pub(crate) incarnation: WorkerIncarnation,
    pub(crate) pool: Pool,
    pub(crate) tasks: TaskTracker,
}

/// A turn that is being run.
pub(crate) struct Turn {
    pub(crate) claim: Claim,
    pub(crate) seat: Arc<Seat>,
    pub(crate) scope: Scope,
    pub(crate) progress: Progress,
    context: OnceCell<Context>,
    takeover: AtomicBool,
}

impl Turn {
    /// The agent's context at the turn's revision.
    pub(crate) async fn context(&self, worker: &Worker) -> Result<&Context, Failure> {
        self.context.get_or_try_init(|| context::insist(&worker.control, &self.claim.start)).await
    }

    /// Whether the turn is still to be taken over from another worker.
    pub(crate) fn takeover(&self) -> bool {
        self.takeover.load(Ordering::Relaxed)
    }

    /// Notes that it was opened, and taken over if it had to be.
    pub(crate) fn opened(&self) {
        self.takeover.store(false, Ordering::Relaxed);
    }

    /// Tells that the turn starts, or starts over: what was shown of its text before is void.
    pub(crate) fn tell_started(&self) {
        let asked = self.claim.batch.iter().filter(|signal| signal.asked);
        self.progress.tell(Event::Started(TurnStarted {
            event_keys: asked.map(|signal| signal.event_key.clone()).collect(),
            turn_seq: self.claim.fence.turn_seq,
        }));
    }
}

/// Runs a claimed turn to its ending and commits that. The seat is given up last: until then the
/// lease is renewed for it.
pub(crate) async fn run(
    worker: &Worker,
    entered: Entered,
    claim: Claim,
    prefetched: Option<Context>,
    stop: &CancellationToken,
) {
    let ours = Ours { turn: claim.start.turn, fence: claim.fence };
    let seat = entered.seat.clone();
    let channel = Channel {
        nats: worker.nats.clone(),
        turn: ours.turn,
        conversation: claim.start.conversation,
        epoch: ours.fence.epoch,
    };
    let progress = Progress::start(channel, &worker.tasks);
    let (ending, progress) = match scope(worker, &claim).await {
        Err(e) => (unusable_workspace(&e).into(), progress),
        Ok(scope) => {
            let takeover = AtomicBool::new(claim.takeover);
            let context = OnceCell::new_with(prefetched);
            let turn = Turn { claim, seat: seat.clone(), scope, progress, context, takeover };
            turn.tell_started();
            (supervised(worker, &turn, stop).await, turn.progress)
        }
    };
    let give_up = async {
        tokio::select! {
            () = seat.lost() => {}
            () = after(stop, LAST_WORD) => {}
        }
    };
    let state =
        commit(&worker.control, ours, ending, give_up).instrument(info_span!("commit")).await;
    // A turn that was handed back has not ended.
    if let Some(state) = state.filter(|s| TurnState::parse(s).is_ok_and(TurnState::is_terminal)) {
        progress.tell(Event::Ended(TurnEnded { state }));
    }
    drop(entered);
}

async fn scope(worker: &Worker, claim: &Claim) -> io::Result<Scope> {
    let (workspaces, conversation) = (worker.workspaces.clone(), claim.start.conversation);
    let opened = worker.tasks.spawn_blocking(move || workspaces.open(conversation)).await;
    let workspace = Arc::new(opened.map_err(io::Error::other)??);
    Ok(Scope { conversation, revision: claim.start.revision, workspace })
}

fn unusable_workspace(error: &io::Error) -> Failure {
    Failure::new(FailureClass::Infrastructure, "workspace_unavailable", error)
}

/// Runs the loop. A lost turn stops at once; without a lease all local work stops and starts over
/// from the transcript once the lease is held again; what the shutdown does not leave time for is
/// handed back.
async fn supervised(worker: &Worker, turn: &Turn, stop: &CancellationToken) -> Ending {
    let mut lease = worker.lease.clone();
    let mut drained = pin!(after(stop, GRACE));
    loop {
        tokio::select! {
            biased;
            () = turn.seat.lost() => return Ending::Lost,
            () = lease.lapsed() => {}
            () = &mut drained => return handed_back(),
            ending = AssertUnwindSafe(AgentLoop::new(worker, turn).run()).catch_unwind() => {
                return ending.unwrap_or_else(|_| defect());
            }
        }
        tracing::warn!("lease was not renewed in time; work stops until it is");
        tokio::select! {
            biased;
            () = turn.seat.lost() => return Ending::Lost,
            () = &mut drained => return handed_back(),
            () = lease.held() => turn.tell_started(),
        }
    }
}

async fn after(stop: &CancellationToken, grace: Duration) {
    stop.cancelled().await;
    sleep(grace).await;
}

/// A turn that brings its worker's task down must still end: the lease goes on without it.
fn defect() -> Ending {
    let detail = "the worker's task panicked; its log says where";
    Failure::new(FailureClass::Transient, "worker_defect", &detail).into()
}

fn handed_back() -> Ending {
    let class = FailureClass::Infrastructure;
    Failure::new(class, "worker_stopping", &"the worker stops; another one goes on").into()
}
