//! The one error object of the API: the same words whether a request is refused, a response fails
//! in a stream, or a stored failure is read again.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use std::time::Duration;
use turnwright_gateway_store as store;
use turnwright_kit::{Class, Classify};

/// Why a request or a response failed, in the API's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable word for programs.
    pub code: String,
    /// What a person reads; says what to do.
    pub message: String,
    /// The request parameter at fault.
    pub param: Option<String>,
    /// How long to wait before another try.
    pub retry_after: Option<Duration>,
    /// The head of the conversation, when it is not the one the request builds on.
    pub head: Option<i64>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            param: None,
            retry_after: None,
            head: None,
        }
    }

    /// A parameter that cannot be what it is.
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_value", message).at(param)
    }

    /// A parameter that nobody here knows.
    pub(crate) fn unknown_parameter(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("unknown parameter: `{param}`");
        Self::new(StatusCode::BAD_REQUEST, "unknown_parameter", message).at(param)
    }

    /// Something the API has and this gateway does not offer.
    pub(crate) fn not_offered(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unsupported_parameter", message).at(param)
    }

    pub(crate) fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn retry_after(mut self, after: Option<Duration>) -> Self {
        self.retry_after = after;
        self
    }

    /// The `type` of the error object: whose fault it is.
    pub(crate) fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The error object, as it stands in a body, a failed response and a row.
    pub(crate) fn object(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("message".into(), self.message.as_str().into());
        object.insert("type".into(), self.kind().into());
        object.insert("code".into(), self.code.as_str().into());
        object.insert("param".into(), self.param.as_deref().into());
        if let Some(after) = self.retry_after {
            let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            object.insert("retry_after_ms".into(), millis.into());
        }
        if let Some(head) = self.head {
            object.insert("head".into(), head.into());
        }
        object
    }

    /// The error object with its status, for a row.
    pub(crate) fn to_row(&self) -> Value {
        let mut object = self.object();
        object.insert("status".into(), self.status.as_u16().into());
        Value::Object(object)
    }

    /// The reverse of [`Problem::to_row`]; what a row does not say is a server error.
    pub(crate) fn from_row(row: &Value) -> Self {
        let text = |key| row.get(key).and_then(Value::as_str);
        let status = row.get("status").and_then(Value::as_u64).and_then(|s| u16::try_from(s).ok());
        Self {
            status: status
                .and_then(|s| StatusCode::from_u16(s).ok())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: text("code").unwrap_or("server_error").to_owned(),
            message: text("message").unwrap_or("the response failed").to_owned(),
            param: text("param").map(str::to_owned),
            retry_after: row
                .get("retry_after_ms")
                .and_then(Value::as_u64)
                .map(Duration::from_millis),
            head: None,
        }
    }

    /// The answer to a request.
    pub(crate) fn answer(&self, request_id: &str) -> Response {
        let mut object = self.object();
        object.insert("request_id".into(), request_id.into());
        let mut response = Response::new(Body::from(json!({ "error": object }).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = self.retry_after {
            // Whole seconds, rounded up: waiting a little long is right, a little short is not.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        turnwright_kit::class::log(&error);
        let mut problem = Self::new(error.class().http(), error.code(), error.public());
        if let store::Error::HeadMoved { head } = error {
            problem.head = Some(head);
            problem.param = Some("turnwright.head".to_owned());
        }
        if error.class() == Class::Unavailable {
            problem.retry_after = Some(Duration::from_secs(1));
        }
        problem
    }
}

/// Carried in the response's extensions to the layer that knows the request id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_failure_reads_back() {
        let problem =
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", "slow down")
                .retry_after(Some(Duration::from_millis(1500)));
        assert_eq!(Problem::from_row(&problem.to_row()), problem);
        let bare = Problem::from_row(&json!({}));
        assert_eq!((bare.status.as_u16(), bare.code.as_str()), (500, "server_error"));
    }

    #[test]
    fn an_answer_carries_the_error_object_and_its_headers() {
        let problem =
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", "slow down")
                .retry_after(Some(Duration::from_millis(1500)));
        let answer = problem.answer("req_1");
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "2");
        assert_eq!(problem.kind(), "rate_limit_error");
    }

    #[test]
    fn a_moved_head_is_told() {
        let problem = Problem::from(store::Error::HeadMoved { head: 7 });
        assert_eq!((problem.status.as_u16(), problem.code.as_str()), (409, "head_moved"));
        assert_eq!(problem.object()["head"], 7);
    }
}
