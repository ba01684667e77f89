use super::*;
use turnwright_types::ResponseId;

fn model(images: bool) -> Model {
    Model {
        name: "m".into(),
        provider: "p".into(),
        upstream_model: "m-1".into(),
        url: "http://h".into(),
        api_key: None,
        max_output_tokens: Some(50),
        images,
    }
}

struct Path(Vec<Item>);

impl Path {
    fn push(mut self, response: Option<ResponseId>, body: &Value) -> Self {
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        self.0.push(Item {
            seq: i64::try_from(self.0.len()).unwrap() + 1,
            id: "i".into(),
            kind: text("type").unwrap_or_else(|| "message".into()),
            role: text("role"),
            call_id: text("call_id"),
            signal: None,
            response,
            body: body.to_string(),
        });
        self
    }
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{\"a\":1}"})
}

fn output(id: &str, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

fn said(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn messages(instructions: Option<&str>, path: &Path, images: bool) -> Value {
    let body = body(&model(images), instructions, &path.0, &Parameters::default()).unwrap();
    serde_json::from_slice::<Value>(&body).unwrap()["messages"].take()
}

#[test]
fn a_whole_turn_maps_to_messages() {
    let response = Some(ResponseId::new());
    let path = Path(Vec::new())
        .push(None, &json!({"role": "developer", "content": "rules"}))
        .push(None, &json!({"role": "user", "content": [
            {"type": "input_text", "text": "context"}, {"type": "input_text", "text": "question"}]}))
        .push(response, &said("I look."))
        .push(response, &call("a"))
        .push(response, &call("b"))
        .push(None, &output("b", "2"))
        .push(None, &output("a", "1"))
        .push(Some(ResponseId::new()), &said("Done."));
    let tool_call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
    let expected = json!([
        {"role": "system", "content": "be kind"},
        {"role": "system", "content": "rules"},
        {"role": "user", "content": [
            {"type": "text", "text": "context"}, {"type": "text", "text": "question"}]},
        {"role": "assistant", "content": "I look.", "tool_calls": [tool_call("a"), tool_call("b")]},
        {"role": "tool", "content": "1", "tool_call_id": "a"},
        {"role": "tool", "content": "2", "tool_call_id": "b"},
        {"role": "assistant", "content": "Done."},
    ]);
    assert_eq!(messages(Some("be kind"), &path, false), expected);
}

#[test]
fn calls_of_different_responses_are_different_messages() {
    let path = Path(Vec::new())
        .push(Some(ResponseId::new()), &call("a"))
        .push(None, &output("a", "1"))
        .push(Some(ResponseId::new()), &call("b"))
        .push(None, &output("b", "2"));
    let roles: Vec<_> = messages(None, &path, false)
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["role"].clone(), m["content"].clone()))
        .collect();
    let expected = [
        ("assistant", json!(null)),
        ("tool", json!("1")),
        ("assistant", json!(null)),
        ("tool", json!("2")),
    ];
    assert_eq!(roles, expected.map(|(role, content)| (json!(role), content)));
}

#[test]
fn an_unanswered_call_is_still_sendable() {
    let path = Path(Vec::new())
        .push(None, &call("a"))
        .push(None, &json!({"role": "user", "content": "x"}));
    let sent = messages(None, &path, false);
    assert_eq!(sent[1]["role"], "tool");
    assert_eq!(sent[1]["content"], turnwright_gateway_store::UNFINISHED_CALL);
    assert_eq!(sent[2]["role"], "user");
}

#[test]
fn texts_keep_their_escapes_and_unknown_items_are_left_out() {
    let mut path = Path(Vec::new()).push(None, &json!({"type": "reasoning", "summary": []}));
    path = path.push(None, &json!({"role": "user", "content": "x"}));
    path.0[1].body =
        r#"{"role":"user","content":[{"type":"input_text","text":"\u00e4\/b"}]}"#.into();
    let sent = body(&model(false), None, &path.0, &Parameters::default()).unwrap();
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.contains(r#"[{"role":"user","content":"\u00e4\/b"}]"#), "{sent}");
}

#[test]
fn an_image_is_shown_to_a_model_that_sees_and_named_to_one_that_does_not() {
    let image = json!({"type": "input_image", "image_url": "data:x", "detail": "low"});
    let path = Path(Vec::new()).push(None, &json!({"role": "user", "content": [image]}));
    let seen = json!([{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]);
    assert_eq!(messages(None, &path, true)[0]["content"], seen);
    let told = messages(None, &path, false)[0]["content"].as_str().unwrap().to_owned();
    assert!(told.contains("input_image"));
}

#[test]
fn parameters_map_and_the_limit_is_the_models() {
    let parameters: Parameters = serde_json::from_value(json!({
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "f"}, "max_output_tokens": 100,
        "parallel_tool_calls": false, "temperature": 0.5, "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": true}},
    }))
    .unwrap();
    let path = Path(Vec::new()).push(None, &json!({"role": "user", "content": "x"}));
    let sent = body(&model(false), None, &path.0, &parameters).unwrap();
    let expected = json!({
        "model": "m-1",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function":
            {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": false,
        "max_tokens": 50,
        "temperature": 0.5,
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": true}},
        "reasoning_effort": "low",
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), expected);
    let nothing = body(&model(false), None, &[], &Parameters::default()).unwrap_err();
    assert_eq!(nothing.code, "invalid_prompt");
}
