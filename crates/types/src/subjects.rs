//! NATS streams, subjects and headers: the public names of the transport.

use crate::{AdapterName, BindingId, Pool, TurnId};

/// The stream of signals: file store, durable truth until admission.
pub const SIGNALS: &str = "SIGNALS";
/// The stream of turn starts; can be rebuilt from the ledger.
pub const TURNS: &str = "TURNS";
/// The stream of deliveries; can be rebuilt from the ledger.
pub const DELIVERIES: &str = "DELIVERIES";

/// Everything on [`SIGNALS`].
pub const SIGNAL_ALL: &str = "tw.v1.signal.>";
/// Everything on [`TURNS`].
pub const TURN_START_ALL: &str = "tw.v1.turn.start.>";
/// Everything on [`DELIVERIES`].
pub const DELIVERY_ALL: &str = "tw.v1.delivery.>";

/// Request and reply: an adapter claims the one attempt of a delivery.
pub const DELIVERY_BEGIN: &str = "tw.v1.rpc.delivery.begin";
/// Request and reply: an adapter reports what became of a delivery.
pub const DELIVERY_RECEIPT: &str = "tw.v1.rpc.delivery.receipt";
/// Request and reply: an adapter asks for its bindings.
pub const BINDING_LIST: &str = "tw.v1.rpc.binding.list";

/// The W3C trace context header, in NATS messages as in HTTP.
pub const TRACEPARENT: &str = "traceparent";

/// Where an adapter publishes a binding's signals.
#[must_use]
pub fn signal(adapter: &AdapterName, binding: &BindingId) -> String {
    format!("tw.v1.signal.{adapter}.{binding}")
}

/// Where a turn is offered to a pool; one message per subject.
#[must_use]
pub fn turn_start(pool: &Pool, turn: TurnId) -> String {
    format!("tw.v1.turn.start.{pool}.{turn}")
}

/// Every turn offered to a pool.
#[must_use]
pub fn turn_start_pool(pool: &Pool) -> String {
    format!("tw.v1.turn.start.{pool}.*")
}

/// Where a running turn tells its progress; core NATS, lossy by contract.
#[must_use]
pub fn turn_progress(turn: TurnId) -> String {
    format!("tw.v1.turn.progress.{turn}")
}

/// The progress of every turn.
pub const TURN_PROGRESS_ALL: &str = "tw.v1.turn.progress.*";

/// Where a binding's deliveries go.
#[must_use]
pub fn delivery(adapter: &AdapterName, binding: &BindingId) -> String {
    format!("tw.v1.delivery.{adapter}.{binding}")
}

/// Every delivery of an adapter kind.
#[must_use]
pub fn delivery_adapter(adapter: &AdapterName) -> String {
    format!("tw.v1.delivery.{adapter}.*")
}

/// The adapter and binding that a signal's subject names.
///
/// # Errors
/// When the subject is not `tw.v1.signal.<adapter>.<binding>`.
pub fn parse_signal(subject: &str) -> Result<(AdapterName, BindingId), crate::Invalid> {
    let mut parts = subject.strip_prefix("tw.v1.signal.").unwrap_or("").split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(adapter), Some(binding), None) => {
            Ok((AdapterName::parse(adapter)?, BindingId::parse(binding)?))
        }
        _ => Err(crate::Invalid::new("subject", "expected tw.v1.signal.<adapter>.<binding>")),
    }
}

/// `Nats-Msg-Id` of a signal: binding id / event key.
#[must_use]
pub fn signal_message_id(binding: &BindingId, event_key: &crate::EventKey) -> String {
    format!("{binding}/{event_key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_subject_reads_back() {
        let (a, b) = (AdapterName::parse("slack").unwrap(), BindingId::parse("acme-1").unwrap());
        assert_eq!(parse_signal(&signal(&a, &b)), Ok((a, b)));
        for bad in ["tw.v1.signal.slack", "tw.v1.signal.slack.a.b", "other", "tw.v1.signal..b"] {
            assert!(parse_signal(bad).is_err(), "{bad}");
        }
    }
}
