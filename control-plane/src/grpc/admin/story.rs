//! The ledger's side of a turn's story, in order of time.

use chrono::{DateTime, Utc};
use turnwright_control_store::{DeliveryRow, StoryRow, TurnRow};
use turnwright_proto::{convert::timestamp, v1};

pub(super) fn of(
    turn: &TurnRow,
    signals: &[StoryRow],
    deliveries: &[DeliveryRow],
) -> Vec<v1::StoryEvent> {
    let mut events: Vec<(DateTime<Utc>, &str, String)> = Vec::new();
    for s in signals {
        let part = if s.wakes { "asked" } else { "context" };
        let detail = format!("{} from {}, {} bytes", s.event_key, s.sender_name, s.bytes);
        events.push((s.published_at, "signal", detail));
        events.push((
            s.admitted_at,
            "admitted",
            format!("{}: {}, {part}", s.event_key, s.addressed),
        ));
    }
    events.push((turn.created_at, "queued", format!("turn {} of {}", turn.turn_seq, turn.key)));
    if turn.queued_at > turn.created_at {
        let detail = format!("{} attempts, {} crashes", turn.attempts, turn.crashes);
        events.push((turn.queued_at, "queued_again", detail));
    }
    if let (Some(at), Some(worker)) = (turn.claimed_at, turn.worker) {
        let revision = turn.revision.unwrap_or(0);
        let why = turn.revision_reason.as_deref().unwrap_or_default();
        let detail = format!("worker {worker}, epoch {}, revision {revision} ({why})", turn.epoch);
        events.push((at, "claimed", detail));
    }
    if let Some(at) = turn.ended_at {
        let why = [&turn.end_reason, &turn.end_detail].into_iter().flatten();
        let why: Vec<&str> = why.map(String::as_str).collect();
        let detail = if why.is_empty() {
            turn.state.clone()
        } else {
            format!("{}: {}", turn.state, why.join(", "))
        };
        events.push((at, "ended", detail));
    }
    for d in deliveries {
        events.push((
            d.planned_at,
            "delivery_planned",
            format!("{}, {} bytes", d.id, d.body.len()),
        ));
        if let Some(at) = d.settled_at {
            let id = d.provider_message_id.as_deref().or(d.detail.as_deref()).unwrap_or_default();
            events.push((at, "delivery_settled", format!("{} {} {id}", d.id, d.state)));
        }
    }
    // Stable: what happened in one instant keeps the order it was written in above.
    events.sort_by_key(|(at, ..)| *at);
    events
        .into_iter()
        .map(|(at, step, detail)| v1::StoryEvent {
            at: Some(timestamp(at)),
            step: step.to_owned(),
            detail,
        })
        .collect()
}
