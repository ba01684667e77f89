use super::*;
use axum::{Router, body::Body, response::IntoResponse, routing::post};
use http::{HeaderMap, StatusCode};
use std::io;
use tokio_stream::StreamExt as _;

const HELLO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

/// A provider that answers every request with `answer`.
async fn provider<R>(answer: impl Fn(HeaderMap) -> R + Clone + Send + Sync + 'static) -> Model
where
    R: IntoResponse + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handler = move |headers: HeaderMap| {
        let response = answer(headers).into_response();
        async move { response }
    };
    let app = Router::new().route("/chat/completions", post(handler));
    #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
    tokio::spawn(async move { axum::serve(listener, app).await });
    Model {
        name: "m".into(),
        provider: "p".into(),
        upstream_model: "m-1".into(),
        url: format!("http://{address}/chat/completions"),
        api_key: Some("secret".into()),
        max_output_tokens: None,
        images: false,
    }
}

fn upstream(idle: Duration) -> Upstream {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Upstream::new(Patience { idle, ..Patience::default() }).unwrap()
}

fn stream(pieces: Vec<Result<&'static str, io::Error>>) -> impl IntoResponse {
    // A pause before a failure lets the server send what came before it.
    let paced = tokio_stream::iter(pieces).then(|piece| async move {
        if piece.is_err() {
            tokio::task::yield_now().await;
        }
        piece
    });
    let body = Body::from_stream(paced);
    ([(header::CONTENT_TYPE, "text/event-stream")], body)
}

async fn all(mut answer: Answer) -> (Vec<Delta>, Next) {
    let mut deltas = Vec::new();
    loop {
        match answer.next().await {
            Next::Delta(delta) => deltas.push(delta),
            end => return (deltas, end),
        }
    }
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_with_the_providers_key() {
    let model = provider(|headers| {
        let key = headers.get(header::AUTHORIZATION).map(|v| v.as_bytes().to_vec());
        let pieces = if key.as_deref() == Some(b"Bearer secret") {
            vec![Ok(HELLO), Ok(END), Ok("data: [DONE]\n\n")]
        } else {
            vec![]
        };
        stream(pieces)
    })
    .await;
    let answer = upstream(Duration::from_secs(5)).send(&model, Bytes::from_static(b"{}")).await;
    let (deltas, end) = all(answer.unwrap()).await;
    assert_eq!(deltas, [Delta::Text("hello".into()), Delta::Stop(Stop::End)]);
    assert!(matches!(end, Next::Over));
}

#[tokio::test]
async fn a_broken_connection_is_a_cut_even_after_the_last_word() {
    let model = provider(|_| {
        stream(vec![Ok(HELLO), Ok(END), Err(io::ErrorKind::ConnectionAborted.into())])
    })
    .await;
    let answer = upstream(Duration::from_secs(5)).send(&model, Bytes::new()).await;
    assert!(matches!(all(answer.unwrap()).await.1, Next::Cut));
}

#[tokio::test]
async fn a_silent_stream_is_cut() {
    let model = provider(|_| {
        let pieces = tokio_stream::once(Ok::<_, io::Error>(HELLO)).chain(tokio_stream::pending());
        ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces))
    })
    .await;
    let answer = upstream(Duration::from_millis(50)).send(&model, Bytes::new()).await;
    assert!(matches!(all(answer.unwrap()).await.1, Next::Cut));
}

#[tokio::test]
async fn a_refusal_carries_its_meaning_and_when_to_come_back() {
    let model = provider(|_| {
        let body = r#"{"error":{"message":"slow down","code":"rate_limited"}}"#;
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3")], body)
    })
    .await;
    let refused = upstream(Duration::from_secs(5)).send(&model, Bytes::new()).await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.message.as_str()),
        ("rate_limit_exceeded", "slow down")
    );
    assert_eq!(refused.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn a_provider_that_is_away_or_does_not_stream_is_a_server_error() {
    let mut model = provider(|_| "{}").await;
    let upstream = upstream(Duration::from_secs(5));
    let refused = upstream.send(&model, Bytes::new()).await.unwrap_err();
    assert_eq!(refused.code, "server_error");
    model.url = "http://127.0.0.1:9/".into();
    assert_eq!(upstream.send(&model, Bytes::new()).await.unwrap_err().code, "server_error");
}
