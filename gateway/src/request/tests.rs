use super::*;
use serde_json::json;
use turnwright_types::SignalId;

fn parse(body: &Value) -> Result<CreateResponse, Problem> {
    CreateResponse::parse(body.to_string().as_bytes())
}

fn refused(body: &Value) -> (String, Option<String>) {
    let problem = parse(body).unwrap_err();
    (problem.code, problem.param)
}

#[test]
fn a_text_is_one_user_message_and_defaults_are_the_apis() {
    let request = parse(&json!({"model": "m", "input": "hi\n\"there\""})).unwrap();
    assert!(request.store && !request.stream);
    assert_eq!(request.continues, Continues::Nothing);
    let body: Value = serde_json::from_str(&request.input[0].body).unwrap();
    assert_eq!(body["content"][0]["text"], "hi\n\"there\"");
    assert_eq!(request.input[0].role.as_deref(), Some("user"));
}

#[test]
fn items_keep_their_bytes_and_lose_only_the_extension() {
    let signal = SignalId::new();
    let plain = r#"{ "role":"user","content": [{"type":"input_text","text":"\u00e4" , "x":1.0}] }"#;
    let tagged = format!(
        r#"{{"type":"message","role":"user","content":"x","turnwright":{{"signal_id":"{signal}","kinds":["user"]}},"extra":1e3}}"#
    );
    let odd = r#"{"type":"never_seen","call_id":"k","data":[1,  2]}"#;
    let body = format!(
        r#"{{"model":"m","input":[{plain},{tagged},{odd}],"turnwright":{{"request_no":1,"head":0,
            "manifest":{{}},"baseline":{{}},"base_instructions":"b"}}}}"#
    );
    let request = CreateResponse::parse(body.as_bytes()).unwrap();
    assert_eq!(request.input[0].body, plain);
    assert_eq!(request.input[0].kind, "message");
    let expected = r#"{"type":"message","role":"user","content":"x","extra":1e3}"#;
    assert_eq!(request.input[1].body, expected);
    assert_eq!(request.input[1].signal, Some(signal));
    assert_eq!(request.input[1].kinds, ["user"]);
    assert_eq!(request.input[2].body, odd);
    assert_eq!(request.input[2].call_id, None);
    assert_eq!(request.extension.unwrap().base_instructions, "b");
}

#[test]
fn what_is_wrong_is_named() {
    let with = |name: &str, value: Value| {
        let mut body = json!({"model": "m", "input": "x"});
        body[name] = value;
        refused(&body)
    };
    let says = |code: &str, param: &str| (code.to_owned(), Some(param.to_owned()));
    assert_eq!(with("best_of", json!(1)), says("unknown_parameter", "best_of"));
    assert_eq!(with("background", json!(true)), says("unsupported_parameter", "background"));
    assert_eq!(with("truncation", json!("auto")), says("unsupported_parameter", "truncation"));
    assert_eq!(with("temperature", json!(3)), says("invalid_value", "temperature"));
    assert_eq!(with("stream", json!("yes")), says("invalid_value", "stream"));
    assert_eq!(
        with("tools", json!([{"type": "web_search"}])),
        says("unsupported_parameter", "tools[0]")
    );
    assert_eq!(with("tool_choice", json!({"type": "x"})), says("invalid_value", "tool_choice"));
    assert_eq!(with("input", json!([{"role": "user"}])), says("invalid_value", "input[0].content"));
    let half = json!([{"type": "function_call_output", "output": "x"}]);
    assert_eq!(with("input", half), says("invalid_value", "input[0].call_id"));
    assert_eq!(with("model", json!(null)), says("missing_required_parameter", "model"));
    assert_eq!(with("input", json!(null)), says("missing_required_parameter", "input"));
    let unknown = with("previous_response_id", json!("resp_x"));
    assert_eq!(unknown, says("previous_response_not_found", "previous_response_id"));
    let signal =
        json!([{"role": "user", "content": "x", "turnwright": {"signal_id": SignalId::new()}}]);
    assert_eq!(with("input", signal), says("unknown_parameter", "input[0].turnwright.signal_id"));
    assert_eq!(CreateResponse::parse(b"{").unwrap_err().code, "invalid_json");
    assert_eq!(CreateResponse::parse(b"\xff").unwrap_err().code, "invalid_json");
}

#[test]
fn two_pasts_are_one_too_many_and_either_may_come_without_input() {
    let (response, conversation) = (ResponseId::new(), GatewayConversationId::new());
    let both =
        json!({"model": "m", "previous_response_id": response, "conversation": conversation});
    assert_eq!(refused(&both).1.as_deref(), Some("conversation"));
    let after = parse(&json!({"model": "m", "previous_response_id": format!("resp_{response}")}));
    assert_eq!(after.unwrap().continues, Continues::Response(response));
    let end = json!({"model": "m", "conversation": {"id": format!("conv_{conversation}")}});
    assert_eq!(parse(&end).unwrap().continues, Continues::Conversation(conversation));
}

#[test]
fn parameters_survive_being_stored() {
    let request = parse(&json!({
        "model": "m", "input": "x", "background": false, "include": ["reasoning.encrypted_content"],
        "user": "u", "prompt_cache_key": "k", "top_logprobs": 0, "truncation": "disabled",
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "s", "schema": {}, "strict": true}},
        "reasoning": {"effort": "low"}, "metadata": {"a": "b"}, "max_output_tokens": 100,
        "temperature": 0.5, "parallel_tool_calls": false,
    }))
    .unwrap();
    let stored = serde_json::to_value(&request.parameters).unwrap();
    assert_eq!(serde_json::from_value::<Parameters>(stored).unwrap(), request.parameters);
    assert_eq!(request.parameters.max_output_tokens, Some(100));
    assert!(matches!(request.parameters.tool_choice, Some(ToolChoice::Function { .. })));
}
