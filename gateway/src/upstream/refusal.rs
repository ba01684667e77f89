//! What a provider's failures mean to a client of this gateway. Never passes on a credential, a
//! URL or a header of the provider.

use crate::problem::Problem;
use http::{HeaderMap, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::time::Duration;

/// The most of an error body that is read, in bytes.
const MOST: usize = 64 * 1024;
/// How long an error body may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The provider cannot be reached.
pub(crate) fn unreachable(provider: &str, error: &reqwest::Error) -> Problem {
    // The URL may hold what its operator would not show.
    tracing::warn!(provider, connect = error.is_connect(), "the provider cannot be reached");
    server("the model provider cannot be reached")
}

/// The provider accepted the request and said nothing.
pub(crate) fn silent(waited: Duration) -> Problem {
    server(format!("the model provider did not answer within {} s", waited.as_secs()))
}

/// The provider answered with a body that is no stream.
pub(crate) fn not_a_stream() -> Problem {
    server("the model provider answered without a stream")
}

/// The provider said something that is not of its protocol.
pub(crate) fn unreadable() -> Problem {
    server("the model provider's answer is not readable")
}

/// A response with an error status.
pub(crate) async fn of_response(provider: &str, mut response: reqwest::Response) -> Problem {
    let status = response.status();
    let after = retry_after(response.headers());
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() > MOST {
                break;
            }
        }
    };
    // Whatever came until then is looked at.
    let _ = tokio::time::timeout(PATIENCE, read).await;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let problem = of(status, body.get("error").unwrap_or(&body)).retry_after(after);
    tracing::warn!(provider, status = status.as_u16(), code = problem.code, "the provider refused");
    problem
}

/// A failure without the credential, should the provider's words quote it.
pub(crate) fn without(mut problem: Problem, credential: Option<&SecretString>) -> Problem {
    if let Some(secret) = credential.map(ExposeSecret::expose_secret).filter(|s| !s.is_empty()) {
        problem.message = problem.message.replace(secret, "[credential]");
    }
    problem
}

/// An error object in the middle of a stream.
pub(crate) fn in_stream(error: &Value) -> Problem {
    let status = error
        .get("code")
        .or_else(|| error.get("status"))
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok())
        .and_then(|code| StatusCode::from_u16(code).ok());
    of(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error)
}

fn of(status: StatusCode, error: &Value) -> Problem {
    let text = |key| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let (code, kind, message) = (text("code"), text("type"), text("message"));
    let names = |word: &str| code == word || kind == word;
    let told =
        |fallback: &str| if message.is_empty() { fallback.to_owned() } else { message.to_owned() };
    let lower = message.to_lowercase();
    let credential = ["invalid_api_key", "authentication_error", "permission_error"];
    if matches!(status.as_u16(), 401 | 403) || credential.into_iter().any(names) {
        // Its words may quote the credential.
        let message =
            "the model provider refused the gateway's credential; an operator must correct it";
        return Problem::new(StatusCode::BAD_GATEWAY, "provider_auth", message);
    }
    if names("insufficient_quota") {
        return Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "insufficient_quota",
            told("the account at the model provider has no quota left"),
        );
    }
    if status == StatusCode::TOO_MANY_REQUESTS || names("rate_limit_exceeded") {
        let message = told("the model provider limits the rate of requests");
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
    }
    if names("context_length_exceeded")
        || lower.contains("context length")
        || lower.contains("context window")
    {
        let message = told("the input is longer than the model's context");
        return Problem::new(StatusCode::BAD_REQUEST, "context_length_exceeded", message);
    }
    match status.as_u16() {
        404 => {
            let message = told("the model provider does not know the model or the path");
            Problem::new(StatusCode::NOT_FOUND, "model_not_found", message).at("model")
        }
        400 | 413 | 422 => {
            let message = told("the model provider refused the request");
            Problem::new(StatusCode::BAD_REQUEST, "invalid_prompt", message)
        }
        _ => server(told("the model provider failed")),
    }
}

fn server(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_GATEWAY, "server_error", message)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(millis) = text("retry-after-ms").and_then(|v| v.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    text(header::RETRY_AFTER.as_str()).and_then(|v| v.parse().ok()).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn code(status: u16, error: &Value) -> (u16, String) {
        let problem = of(StatusCode::from_u16(status).unwrap(), error);
        (problem.status.as_u16(), problem.code)
    }

    #[test]
    fn a_refused_credential_is_known_by_its_word_and_never_quoted() {
        let told = json!({"code": "invalid_api_key", "message": "wrong key: sk-1234"});
        for problem in [in_stream(&told), of(StatusCode::BAD_REQUEST, &told)] {
            assert_eq!(problem.code, "provider_auth");
            assert!(!problem.message.contains("sk-1234"));
        }
        let other =
            of(StatusCode::BAD_REQUEST, &json!({"message": "the key sk-1234 has no quota"}));
        let shown = without(other, Some(&"sk-1234".to_owned().into()));
        assert!(!shown.message.contains("sk-1234"), "{}", shown.message);
    }

    #[test]
    fn each_failure_has_its_word() {
        let says = |status: u16, code: &str| (status, code.to_owned());
        assert_eq!(code(429, &json!({})), says(429, "rate_limit_exceeded"));
        assert_eq!(
            code(429, &json!({"code": "insufficient_quota"})),
            says(429, "insufficient_quota")
        );
        assert_eq!(code(401, &json!({})), says(502, "provider_auth"));
        assert_eq!(
            code(400, &json!({"code": "context_length_exceeded"})),
            says(400, "context_length_exceeded")
        );
        let long = json!({"message": "This model's maximum context length is 8 tokens"});
        assert_eq!(code(400, &long), says(400, "context_length_exceeded"));
        assert_eq!(code(400, &json!({"message": "bad"})), says(400, "invalid_prompt"));
        assert_eq!(code(404, &json!({})), says(404, "model_not_found"));
        assert_eq!(code(503, &json!({})), says(502, "server_error"));
        assert_eq!(in_stream(&json!({"code": 429})).code, "rate_limit_exceeded");
        assert_eq!(in_stream(&json!("boom")).code, "server_error");
    }

    #[test]
    fn the_words_of_a_refused_credential_stay_here() {
        let error = json!({"message": "Incorrect API key provided: sk-secret"});
        assert!(!of(StatusCode::UNAUTHORIZED, &error).message.contains("sk-secret"));
    }

    #[test]
    fn retry_after_is_read_in_both_units() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "2".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(2)));
        headers.insert("retry-after-ms", "150".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_millis(150)));
    }
}
