//! Reads request bodies: at most so many bytes, and not for ever.

use crate::problem::Problem;
use axum::{body::Body, extract::Request};
use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio_stream::StreamExt as _;

/// The most of a request body, in bytes.
const MOST: usize = 16 * 1024 * 1024;
/// How long a client may take to send one.
const PATIENCE: Duration = Duration::from_secs(30);

/// A whole body.
pub(super) async fn read(request: Request) -> Result<Bytes, Problem> {
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > MOST) {
        return Err(too_large());
    }
    let Ok(body) = tokio::time::timeout(PATIENCE, collect(request.into_body())).await else {
        let message = "the body did not arrive in time";
        return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message));
    };
    body
}

async fn collect(body: Body) -> Result<Bytes, Problem> {
    let mut pieces = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut only: Option<Bytes> = None;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| {
            let message = "the body ended before its end";
            Problem::new(StatusCode::BAD_REQUEST, "incomplete_body", message)
        })?;
        // Most bodies come in one piece, which is then taken as it is.
        match only.take() {
            None if whole.is_empty() => only = Some(piece),
            earlier => {
                whole.extend_from_slice(&earlier.unwrap_or_default());
                whole.extend_from_slice(&piece);
            }
        }
        if whole.len() > MOST || only.as_ref().is_some_and(|piece| piece.len() > MOST) {
            return Err(too_large());
        }
    }
    Ok(only.unwrap_or_else(|| whole.freeze()))
}

/// A whole body as JSON.
pub(super) async fn json<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    serde_json::from_slice(&read(request).await?).map_err(|e| {
        let message = format!("the body is not usable: {e}");
        Problem::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    })
}

fn too_large() -> Problem {
    let message = format!("the body is larger than {MOST} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pieces: Vec<Vec<u8>>) -> Request {
        let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
        Request::new(Body::from_stream(tokio_stream::iter(pieces)))
    }

    #[tokio::test]
    async fn a_body_is_whole_however_it_comes() {
        for pieces in
            [vec![], vec![b"ab".to_vec()], vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]]
        {
            let expected = pieces.concat();
            assert_eq!(read(request(pieces)).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let piece = vec![b' '; MOST / 2 + 1];
        let refused = read(request(vec![piece.clone(), piece])).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let endless = tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let refused = read(Request::new(Body::from_stream(endless))).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
    }
}
