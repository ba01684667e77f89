//! Progress of turns, from NATS to those who listen. Lossy by contract.

use super::{
    hub::{Hub, Live},
    routes::Routes,
};
use anyhow::bail;
use async_nats::Subscriber;
use futures::StreamExt as _;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use turnwright_proto::v1::TurnProgress;

/// Passes on what `progress` tells of the console's conversations.
///
/// # Errors
/// When the subscription ends before the process does.
pub async fn run(
    mut progress: Subscriber,
    routes: Arc<Routes>,
    hub: Arc<Hub>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let next = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            next = progress.next() => next,
        };
        let Some(message) = next else { bail!("the subscription to progress ended") };
        pass_on(&message.payload, &routes, &hub);
    }
}

fn pass_on(payload: &[u8], routes: &Routes, hub: &Hub) {
    let Ok(text) = std::str::from_utf8(payload) else { return };
    match serde_json::from_str::<TurnProgress>(text) {
        Ok(progress) => {
            if let Some(lane) = routes.find(&progress) {
                hub.tell(&lane, Live::Progress(text.into()));
            }
        }
        Err(e) => tracing::debug!(error = %e, "progress is not readable"),
    }
}
