//! How ids look on the wire: `resp_` and `conv_` before the UUID, accepted with and without.

use crate::problem::Problem;
use turnwright_types::{GatewayConversationId, ResponseId};
use uuid::Uuid;

/// A response's id on the wire.
pub(crate) fn response(id: ResponseId) -> String {
    format!("resp_{id}")
}

/// A conversation's id on the wire.
pub(crate) fn conversation(id: GatewayConversationId) -> String {
    format!("conv_{id}")
}

/// Reads a response's id; `None` when it cannot be one.
pub(crate) fn parse_response(raw: &str) -> Option<ResponseId> {
    ResponseId::parse(raw.strip_prefix("resp_").unwrap_or(raw)).ok()
}

/// Reads a conversation's id.
pub(crate) fn parse_conversation(raw: &str) -> Result<GatewayConversationId, Problem> {
    GatewayConversationId::parse(raw.strip_prefix("conv_").unwrap_or(raw))
        .map_err(|_| Problem::invalid("conversation", "expected a conversation id"))
}

/// A new call id; providers are told the same one.
pub(crate) fn new_call() -> String {
    format!("call_{}", Uuid::now_v7().simple())
}

/// A new request id.
pub(crate) fn new_request() -> String {
    format!("req_{}", Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_with_and_without_its_prefix() {
        let id = ResponseId::new();
        assert_eq!(parse_response(&response(id)), Some(id));
        assert_eq!(parse_response(&id.to_string()), Some(id));
        assert_eq!(parse_response("resp_resp_1"), None);
    }
}
