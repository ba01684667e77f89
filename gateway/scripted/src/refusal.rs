//! Errors as clients read them: the OpenAI error object. It must not log; who makes a refusal knows if it matters.
use crate::{UnknownGate, history::HistoryError, play::Interrupted, rules::ErrorReply};
use axum::{
    Json,
    extract::rejection::BytesRejection,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// A request that gets no answer, and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: String,
    message: String,
    param: Option<String>,
    retry_after_s: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        Self { status, code, message, param: None, retry_after_s: None }
    }

    pub(crate) fn unauthenticated() -> Self {
        let message = "send the token as `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_url", "there is nothing at this path")
    }

    pub(crate) fn overloaded() -> Self {
        let message = "too many requests are in flight: try again later";
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message);
        Self { retry_after_s: Some(1), ..refusal }
    }

    /// The body is not JSON, or not a request.
    pub(crate) fn unreadable(error: &serde_json::Error, is_json: bool) -> Self {
        let code = if is_json { "invalid_request" } else { "invalid_json" };
        Self::new(StatusCode::BAD_REQUEST, code, error.to_string())
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }
}

impl From<BytesRejection> for Refusal {
    fn from(rejection: BytesRejection) -> Self {
        Self::new(rejection.status(), "unreadable_body", rejection.body_text())
    }
}

impl From<HistoryError> for Refusal {
    fn from(error: HistoryError) -> Self {
        let message = error.flaw.to_string();
        let refusal = Self::new(StatusCode::BAD_REQUEST, "invalid_history", message);
        Self { param: Some(error.param()), ..refusal }
    }
}

impl From<ErrorReply> for Refusal {
    fn from(error: ErrorReply) -> Self {
        let ErrorReply { status, code, message, retry_after_s } = error;
        Self { status, code, message, param: None, retry_after_s }
    }
}

impl From<Interrupted> for Refusal {
    fn from(why: Interrupted) -> Self {
        let (status, code) = match why {
            Interrupted::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Interrupted::Gate(_) => (StatusCode::GATEWAY_TIMEOUT, "gate_timeout"),
        };
        Self::new(status, code, why.to_string())
    }
}

impl From<UnknownGate> for Refusal {
    fn from(error: UnknownGate) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_gate", error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = self.kind();
        let Self { status, code, message, param, retry_after_s } = self;
        let error = json!({"message": message, "type": kind, "param": param, "code": code});
        let mut response = (status, Json(json!({"error": error}))).into_response();
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
