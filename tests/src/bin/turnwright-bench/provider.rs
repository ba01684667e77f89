//! The model provider of the bench: an OpenAI-compatible upstream in this process, so that a
//! message's publishing and its arrival here are read from one clock. It answers whatever it is
//! asked with the same short text, and at once unless it was told to hold an answer.

use anyhow::Context as _;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
    serve::ListenerExt as _,
};
use futures::{StreamExt as _, future::ready, stream};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::HashMap,
    convert::Infallible,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use turnwright_kit::{
    OnExit, Supervisor,
    auth::{bearer, new_token},
};

/// The largest request, in bytes.
const REQUEST_MAX: usize = 32 << 20;
/// No answer is held longer.
const HOLD_LIMIT: Duration = Duration::from_secs(50);

/// The beginning of every answer.
const BEGIN: &str = concat!(
    r#"data: {"id":"bench","object":"chat.completion.chunk","created":0,"model":"bench","#,
    r#""choices":[{"index":0,"delta":{"role":"assistant","content":"All"}}]}"#,
    "\n\n"
);
/// The rest of every answer.
const REST: &str = concat!(
    r#"data: {"id":"bench","object":"chat.completion.chunk","created":0,"model":"bench","#,
    r#""choices":[{"index":0,"delta":{"content":" noted."},"finish_reason":"stop"}]}"#,
    "\n\n",
    r#"data: {"id":"bench","object":"chat.completion.chunk","created":0,"model":"bench","#,
    r#""choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#,
    "\n\ndata: [DONE]\n\n"
);

/// Marks one message, so that it is known again in a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nonce(String);

impl Nonce {
    const PREFIX: &str = "nonce-";
    const LEN: usize = Self::PREFIX.len() + 32;

    /// A new one.
    pub fn new() -> Self {
        Self(format!("{}{}", Self::PREFIX, hex::encode(rand::random::<[u8; 16]>())))
    }

    /// The one in the last user message of a request.
    fn of_request(body: &[u8]) -> Option<Self> {
        let request: Request<'_> = serde_json::from_slice(body).ok()?;
        let last = request.messages.iter().rev().find(|message| message.role == "user")?;
        let text = last.content?.get();
        let at = text.rfind(Self::PREFIX)?;
        text.get(at..at + Self::LEN).map(|nonce| Self(nonce.to_owned()))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// When a request arrived: its head and its whole body.
pub type Arrival = oneshot::Receiver<Instant>;

/// Holds the rest of an answer until it is opened or dropped.
#[derive(Debug)]
pub struct Gate(oneshot::Sender<()>);

impl Gate {
    /// Lets the answer go on.
    pub fn open(self) {
        // Whoever asked may be gone.
        let _ = self.0.send(());
    }
}

/// A message whose request is waited for.
#[derive(Debug)]
struct Expected {
    arrived: oneshot::Sender<Instant>,
    gate: Option<oneshot::Receiver<()>>,
}

#[derive(Debug)]
struct Shared {
    key: String,
    expected: Mutex<HashMap<Nonce, Expected>>,
}

/// The provider.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Provider {
    /// Listens on a free port.
    ///
    /// # Errors
    /// When there is none.
    pub async fn start(sup: &Supervisor) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.context("cannot listen on 127.0.0.1 for the model provider")?;
        let address = listener.local_addr().context("the listener has no address")?;
        let listener = listener.tap_io(|io| {
            // Without it only the times are worse.
            let _ = io.set_nodelay(true);
        });
        let shared = Arc::new(Shared { key: new_token(), expected: Mutex::default() });
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(DefaultBodyLimit::max(REQUEST_MAX))
            .with_state(shared.clone());
        sup.spawn("provider", OnExit::StopProcess, |stop| async move {
            axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
            Ok(())
        });
        Ok(Self { address, shared })
    }

    /// The base URL, up to and with `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What clients must present.
    pub fn key(&self) -> &str {
        &self.shared.key
    }

    /// Waits for the request whose last user message holds `nonce`; it is answered at once.
    pub fn expect(&self, nonce: &Nonce) -> Arrival {
        self.await_request(nonce, None)
    }

    /// As [`Provider::expect`], with an answer that begins and then waits for the gate.
    pub fn hold(&self, nonce: &Nonce) -> (Arrival, Gate) {
        let (open, gate) = oneshot::channel();
        (self.await_request(nonce, Some(gate)), Gate(open))
    }

    fn await_request(&self, nonce: &Nonce, gate: Option<oneshot::Receiver<()>>) -> Arrival {
        let (arrived, arrival) = oneshot::channel();
        self.shared.expected.lock().insert(nonce.clone(), Expected { arrived, gate });
        arrival
    }
}

async fn complete(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let now = Instant::now();
    if bearer(&headers) != Some(shared.key.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let expected = Nonce::of_request(&body).and_then(|nonce| shared.expected.lock().remove(&nonce));
    let gate = expected.and_then(|Expected { arrived, gate }| {
        // Whoever waited may have given up.
        let _ = arrived.send(now);
        gate
    });
    let body = match gate {
        None => Body::from(format!("{BEGIN}{REST}")),
        Some(gate) => {
            let begin = ready(Ok::<_, Infallible>(Bytes::from_static(BEGIN.as_bytes())));
            let rest = async move {
                // Opened, dropped or too late: the answer goes on.
                let _ = timeout(HOLD_LIMIT, gate).await;
                Ok::<_, Infallible>(Bytes::from_static(REST.as_bytes()))
            };
            Body::from_stream(stream::once(begin).chain(stream::once(rest)))
        }
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_nonce_is_that_of_the_last_user_message() {
        let (old, new) = (Nonce::new(), Nonce::new());
        let mut request = json!({ "model": "m", "messages": [
            { "role": "system", "content": "rules" },
            { "role": "user", "content": format!("say {old}") },
            { "role": "assistant", "content": null },
            { "role": "user", "content": [{ "type": "text", "text": "who" },
                                          { "type": "text", "text": format!("say {new}.") }] },
            { "role": "assistant", "content": format!("{old}") },
        ] });
        let found = |request: &Value| Nonce::of_request(request.to_string().as_bytes());
        assert_eq!(found(&request), Some(new));
        request["messages"][3]["content"] = json!("no mark");
        assert_eq!(found(&request), None);
        assert_eq!(Nonce::of_request(b"{"), None);
    }

    #[test]
    fn an_answer_is_a_stream_of_chunks_that_ends() {
        let answer = format!("{BEGIN}{REST}");
        let data: Vec<&str> =
            answer.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        let (last, chunks) = data.split_last().unwrap();
        assert_eq!(*last, "[DONE]");
        let chunks: Vec<Value> = chunks.iter().map(|c| serde_json::from_str(c).unwrap()).collect();
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "stop");
        assert_eq!(chunks.len(), 3);
    }
}
