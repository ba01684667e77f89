//! The one vocabulary of failure. Domain errors implement [`Classify`]; edges turn a class into a
//! gRPC status or an HTTP code, and log there, once.

use std::{error::Error as StdError, fmt};

/// What kind of failure it is, whatever the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The request can never succeed as it is.
    Invalid,
    /// No or no valid credential.
    Unauthenticated,
    /// The credential does not allow it.
    Forbidden,
    /// The named thing does not exist.
    NotFound,
    /// The state it was based on is no longer the state.
    Conflict,
    /// A limit was reached.
    Exhausted,
    /// A deadline passed.
    Timeout,
    /// A part it needs is away; the same request may succeed.
    Unavailable,
    /// A defect here.
    Internal,
}

impl Class {
    /// The gRPC code.
    #[must_use]
    pub const fn grpc(self) -> tonic::Code {
        match self {
            Self::Invalid => tonic::Code::InvalidArgument,
            Self::Unauthenticated => tonic::Code::Unauthenticated,
            Self::Forbidden => tonic::Code::PermissionDenied,
            Self::NotFound => tonic::Code::NotFound,
            Self::Conflict => tonic::Code::Aborted,
            Self::Exhausted => tonic::Code::ResourceExhausted,
            Self::Timeout => tonic::Code::DeadlineExceeded,
            Self::Unavailable => tonic::Code::Unavailable,
            Self::Internal => tonic::Code::Internal,
        }
    }

    /// The HTTP status.
    #[must_use]
    pub const fn http(self) -> http::StatusCode {
        match self {
            Self::Invalid => http::StatusCode::BAD_REQUEST,
            Self::Unauthenticated => http::StatusCode::UNAUTHORIZED,
            Self::Forbidden => http::StatusCode::FORBIDDEN,
            Self::NotFound => http::StatusCode::NOT_FOUND,
            Self::Conflict => http::StatusCode::CONFLICT,
            Self::Exhausted => http::StatusCode::TOO_MANY_REQUESTS,
            Self::Timeout => http::StatusCode::GATEWAY_TIMEOUT,
            Self::Unavailable => http::StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => http::StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The word used in metrics and NATS replies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Exhausted => "exhausted",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// Whether the same request may succeed when repeated.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Exhausted | Self::Timeout | Self::Unavailable)
    }

    /// The class behind a gRPC code, as a client sees it.
    #[must_use]
    pub const fn of_grpc(code: tonic::Code) -> Self {
        match code {
            tonic::Code::InvalidArgument
            | tonic::Code::FailedPrecondition
            | tonic::Code::OutOfRange => Self::Invalid,
            tonic::Code::Unauthenticated => Self::Unauthenticated,
            tonic::Code::PermissionDenied => Self::Forbidden,
            tonic::Code::NotFound => Self::NotFound,
            tonic::Code::Aborted | tonic::Code::AlreadyExists => Self::Conflict,
            tonic::Code::ResourceExhausted => Self::Exhausted,
            tonic::Code::DeadlineExceeded | tonic::Code::Cancelled => Self::Timeout,
            tonic::Code::Unavailable => Self::Unavailable,
            tonic::Code::Ok
            | tonic::Code::Unknown
            | tonic::Code::Unimplemented
            | tonic::Code::Internal
            | tonic::Code::DataLoss => Self::Internal,
        }
    }
}

/// An error that knows its class.
pub trait Classify: StdError {
    /// What kind of failure it is.
    fn class(&self) -> Class;

    /// What the caller may read. Says nothing of internal failures.
    fn public(&self) -> String {
        if self.class() == Class::Internal { "internal error".into() } else { self.to_string() }
    }
}

/// Prints an error and every source below it, once, joined by `: `.
pub struct Chain<'a>(pub &'a dyn StdError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(e) = next {
            write!(f, ": {e}")?;
            next = e.source();
        }
        Ok(())
    }
}

/// Logs a failure where it is consumed: defects loudly, refusals quietly.
pub fn log<E: Classify + 'static>(e: &E) {
    let class = e.class();
    match class {
        Class::Internal => tracing::error!(error = %Chain(e), "request failed"),
        Class::Unavailable | Class::Timeout => {
            tracing::warn!(error = %Chain(e), class = class.as_str(), "request failed");
        }
        Class::Invalid
        | Class::Unauthenticated
        | Class::Forbidden
        | Class::NotFound
        | Class::Conflict
        | Class::Exhausted => {
            tracing::debug!(error = %Chain(e), class = class.as_str(), "request refused");
        }
    }
}

/// The only place a domain error becomes a gRPC status, and the only place it is logged.
#[expect(clippy::needless_pass_by_value, reason = "used as map_err(status)")]
pub fn status<E: Classify + 'static>(e: E) -> tonic::Status {
    log(&e);
    tonic::Status::new(e.class().grpc(), e.public())
}
