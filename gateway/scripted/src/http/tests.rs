//! The service as its clients see it.
use super::*;
use axum::body::{Body, to_bytes};
use futures::StreamExt as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tower::ServiceExt as _;

struct Server {
    config: Config,
    router: Router,
    stop: CancellationToken,
    dir: TempDir,
}

impl Server {
    fn new(rules: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let token = Token::parse("secret").unwrap();
        let rules = Rules::parse(rules).unwrap();
        let config = Config::new(rules, dir.path().join("requests.jsonl"), token);
        let stop = CancellationToken::new();
        let router = router(&config, stop.clone()).unwrap();
        Self { config, router, stop, dir }
    }

    async fn send(&self, method: &str, path: &str, body: impl Into<Body>) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, "Bearer secret")
            .body(body.into())
            .unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn ask(&self, body: &Value) -> Response {
        self.send("POST", "/v1/chat/completions", body.to_string()).await
    }

    fn recorded(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("requests.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn request(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

fn streamed(text: &str) -> Value {
    let mut request = request(text);
    request["stream"] = true.into();
    request["stream_options"] = json!({"include_usage": true});
    request
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), MAX_BODY).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn json_of(response: Response) -> Value {
    serde_json::from_str(&text(response).await).unwrap()
}

/// The chunks of a stream, which must end with `[DONE]`.
fn chunks(stream: &str) -> Vec<Value> {
    let events = stream.strip_suffix("data: [DONE]\n\n").expect("the stream ends");
    let data = events.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

const REPLIES: &str = r#"
rules:
  - when: {last_user: {equals: call}}
    reply:
      - text: "wait "
      - tool_call: {name: read_file, arguments: {path: "a file with a long name"}}
      - tool_call: {name: list_files}
  - when: {last_user: {equals: busy}}
    reply: [{error: {status: 429, code: rate_limited, message: m, retry_after_s: 7}}]
  - when: {last_user: {equals: held}}
    reply: [{text: "before "}, {gate: g}, {text: after}]
  - when: {last_user: {equals: held busy}}
    reply: [{gate: g}, {error: {status: 503, code: away, message: m}}]
  - when: {last_user: {equals: cut}}
    reply: [{text: whole}, {cut_after_bytes: 10}, {text: lost}]
"#;

#[tokio::test]
async fn a_stream_starts_with_the_role_and_ends_with_the_usage() {
    let response = Server::new("rules: []").ask(&streamed("hello you")).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    let chunks = chunks(&text(response).await);
    let deltas: Vec<&Value> =
        chunks.iter().filter_map(|chunk| chunk["choices"].get(0)).map(|c| &c["delta"]).collect();
    let expected = [
        json!({"role": "assistant", "content": ""}),
        json!({"content": "You "}),
        json!({"content": "said: "}),
        json!({"content": "hello "}),
        json!({"content": "you"}),
        json!({}),
    ];
    assert_eq!(deltas, expected.iter().collect::<Vec<_>>());
    let [.., finish, usage] = &chunks[..] else { panic!("{chunks:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(5)));
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!((&chunk["id"], &chunk["model"]), (&finish["id"], &json!("m")));
        assert_eq!(chunk["usage"].is_object(), chunk == usage);
    }
}

#[tokio::test]
async fn streamed_and_whole_tool_calls_are_the_same() {
    let server = Server::new(REPLIES);
    let mut arguments = [String::new(), String::new()];
    let mut heads = Vec::new();
    let chunks = chunks(&text(server.ask(&streamed("call")).await).await);
    for chunk in &chunks {
        let call = &chunk["choices"][0]["delta"]["tool_calls"][0];
        let Some(index) = call["index"].as_u64() else { continue };
        let function = &call["function"];
        arguments[usize::try_from(index).unwrap()] += function["arguments"].as_str().unwrap();
        if call.get("id").is_some() {
            heads.push((call["type"].clone(), function["name"].clone()));
        }
    }
    let function = json!("function");
    let names = [json!("read_file"), json!("list_files")];
    assert_eq!(heads, names.clone().map(|name| (function.clone(), name)));
    assert_eq!(arguments, [r#"{"path":"a file with a long name"}"#, "{}"]);

    let whole = json_of(server.ask(&request("call")).await).await;
    let choice = &whole["choices"][0];
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "wait ");
    for (at, name) in names.iter().enumerate() {
        let call = &choice["message"]["tool_calls"][at]["function"];
        assert_eq!((&call["name"], call["arguments"].as_str()), (name, Some(&*arguments[at])));
    }
}

#[tokio::test]
async fn a_call_can_be_answered_with_the_id_it_was_given() {
    let server = Server::new(REPLIES);
    let mut request = request("call");
    let whole = json_of(server.ask(&request).await).await;
    let message = whole["choices"][0]["message"].clone();
    let history = request["messages"].as_array_mut().unwrap();
    history.push(message.clone());
    for call in message["tool_calls"].as_array().unwrap() {
        history.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "x"}));
    }
    assert_eq!(server.ask(&request).await.status(), StatusCode::OK);
    request["messages"].as_array_mut().unwrap().pop();
    let refused = server.ask(&request).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let error = json_of(refused).await["error"].clone();
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("invalid_history"), &json!("messages[1]"))
    );
    assert_eq!(server.recorded()[2]["body"], request, "refused requests are recorded too");
}

#[tokio::test]
async fn rules_answer_with_errors() {
    let response = Server::new(REPLIES).ask(&streamed("busy")).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    let error = json_of(response).await["error"].clone();
    assert_eq!(
        (&error["code"], &error["type"]),
        (&json!("rate_limited"), &json!("rate_limit_error"))
    );
}

#[tokio::test]
async fn a_longer_history_is_cached_up_to_where_it_grew() {
    let server = Server::new("rules: []");
    let mut request = request(&"x".repeat(1000));
    let first = json_of(server.ask(&request).await).await;
    let message = first["choices"][0]["message"].clone();
    request["messages"]
        .as_array_mut()
        .unwrap()
        .extend([message, json!({"role": "user", "content": "y"})]);
    let second = json_of(server.ask(&request).await).await;
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    assert_eq!((cached(&first), cached(&second)), (json!(0), json!(256)));
}

#[tokio::test]
async fn a_gate_holds_a_reply_until_it_is_opened_over_http() {
    let server = Server::new(REPLIES);
    let response = server.ask(&streamed("held")).await;
    let gates = server.config.gates();
    let opener = async {
        gates.until_waiting("g", 1..).await.unwrap();
        let listed = json_of(server.send("GET", "/gates", "").await).await;
        assert_eq!(listed, json!({"gates": [{"name": "g", "open": false, "waiting": 1}]}));
        let opened = server.send("POST", "/gates/g/open", "").await;
        assert_eq!(opened.status(), StatusCode::NO_CONTENT);
    };
    let (stream, ()) = tokio::join!(text(response), opener);
    assert!(stream.contains(r#""content":"after""#), "{stream}");
    let unknown = server.send("POST", "/gates/h/open", "").await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_error_waits_for_its_gate() {
    let server = Server::new(REPLIES);
    let gates = server.config.gates();
    let opener = async {
        gates.until_waiting("g", 1..).await.unwrap();
        gates.open("g").unwrap();
    };
    let question = streamed("held busy");
    let (response, ()) = tokio::join!(server.ask(&question), opener);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_reply() {
    let server = Server::new(REPLIES);
    let gates = server.config.gates();
    let mut body = server.ask(&streamed("held")).await.into_body().into_data_stream();
    let read = async { while body.next().await.is_some() {} };
    tokio::select! {
        () = read => panic!("the gate is closed"),
        held = gates.until_waiting("g", 1..) => held.unwrap(),
    }
    drop(body);
    gates.until_waiting("g", ..1).await.unwrap();
}

#[tokio::test]
async fn a_stop_breaks_replies_off() {
    let server = Server::new(REPLIES);
    let gates = server.config.gates();
    let body = server.ask(&streamed("held")).await.into_body();
    let stopper = async {
        gates.until_waiting("g", 1..).await.unwrap();
        server.stop.cancel();
    };
    let (end, ()) = tokio::join!(to_bytes(body, MAX_BODY), stopper);
    assert!(end.is_err());
    let refused = server.ask(&request("held")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn nobody_is_let_in_without_the_token() {
    let server = Server::new("rules: []");
    for (path, token, status) in [
        ("/healthz", None, StatusCode::OK),
        ("/v1/models", None, StatusCode::UNAUTHORIZED),
        ("/v1/models", Some("Bearer wrong"), StatusCode::UNAUTHORIZED),
        ("/v1/models", Some("Basic secret"), StatusCode::UNAUTHORIZED),
        ("/v1/models", Some("bearer secret"), StatusCode::OK),
        ("/nowhere", None, StatusCode::UNAUTHORIZED),
        ("/nowhere", Some("Bearer secret"), StatusCode::NOT_FOUND),
    ] {
        let mut request = Request::builder().uri(path);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = server.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{path} {token:?}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_recorded() {
    let server = Server::new("rules: []");
    for (body, status, code) in [
        ("{".to_owned(), StatusCode::BAD_REQUEST, "invalid_json"),
        (json!({"model": "m"}).to_string(), StatusCode::BAD_REQUEST, "invalid_request"),
        (
            json!({"model": "m", "messages": []}).to_string(),
            StatusCode::BAD_REQUEST,
            "invalid_history",
        ),
        ("x".repeat(MAX_BODY + 1), StatusCode::PAYLOAD_TOO_LARGE, "unreadable_body"),
    ] {
        let response = server.send("POST", "/v1/chat/completions", body).await;
        assert_eq!(response.status(), status, "{code}");
        assert_eq!(json_of(response).await["error"]["code"], code);
    }
    let recorded = server.recorded();
    assert_eq!(recorded.len(), 3, "a body that was never read whole is not recorded");
    assert_eq!(recorded[0]["malformed"], "{");
}

/// Sends `question` over a real connection and returns all that comes back until it ends.
async fn over_tcp(server: &Server, question: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = crate::serve(server.config.clone(), listener, server.stop.clone());
    let asked = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        let body = question.to_string();
        let length = body.len();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer secret";
        let message = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        client.write_all(message.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        server.stop.cancel();
        String::from_utf8(answer).unwrap()
    };
    let (end, answer) = tokio::join!(served, asked);
    end.unwrap();
    answer
}

#[tokio::test]
async fn a_cut_drops_the_connection_after_every_byte_before_it() {
    let answer = over_tcp(&Server::new(REPLIES), &streamed("cut")).await;
    assert!(answer.contains(r#""content":"whole""#), "{answer}");
    assert!(answer.ends_with("\r\nA\r\ndata: {\"id\r\n"), "ten bytes more: {answer}");

    let answer = over_tcp(&Server::new(REPLIES), &request("cut")).await;
    assert!(answer.ends_with("\r\nA\r\n{\"id\":\"cha\r\n"), "ten bytes in all: {answer}");
}
