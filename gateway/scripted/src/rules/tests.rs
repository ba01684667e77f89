//! Which rule answers, and which rule files are refused.
use super::*;
use serde_json::json;

fn rules(yaml: &str) -> Rules {
    Rules::parse(yaml).unwrap()
}

fn said(text: &str) -> View {
    View { last_user: Some(text.into()), turn: 1, ..View::default() }
}

fn after_tool(text: &str, output: &str) -> View {
    View { tool_output: Some(output.into()), ..said(text) }
}

fn chosen(rules: &Rules, view: &View) -> String {
    rules.choose(view).0.name.clone()
}

/// Tool name and arguments of the first call of the chosen rule.
fn call(rules: &Rules, view: &View) -> Option<(String, String)> {
    let (rule, captures) = rules.choose(view);
    rule.reply.steps.iter().find_map(|step| match step {
        Step::ToolCall { name, arguments } => {
            Some((name.clone(), arguments.render(Values { view, captures: &captures })))
        }
        Step::Delay(_) | Step::Gate(_) | Step::Text { .. } | Step::CutAfter(_) => None,
    })
}

fn problems(yaml: &str) -> Vec<String> {
    Rules::parse(yaml).unwrap_err().problems().to_vec()
}

const CONDITIONS: &str = r#"
rules:
  - {name: equals, when: {last_user: {equals: "stop"}}, reply: []}
  - {name: third, when: {turn: 3}, reply: []}
  - {name: output, when: {tool_output: {contains: "42"}}, reply: []}
  - {name: both, when: {last_user: {contains: "a"}, instructions: {regex: "^be"}}, reply: []}
  - {name: no tool, when: {last_user: {contains: "b"}, after_tool: false}, reply: []}
"#;

#[test]
fn the_first_rule_whose_conditions_all_hold_answers() {
    let rules = rules(CONDITIONS);
    let instructed = |text| View { instructions: "be kind".into(), ..said(text) };
    assert_eq!(chosen(&rules, &said("stop")), "equals");
    assert_eq!(chosen(&rules, &said("stop it")), "fallback");
    assert_eq!(chosen(&rules, &View { turn: 3, ..said("x") }), "third");
    assert_eq!(chosen(&rules, &after_tool("x", "it is 42")), "output");
    assert_eq!(chosen(&rules, &said("42")), "fallback");
    assert_eq!(chosen(&rules, &instructed("a")), "both");
    assert_eq!(chosen(&rules, &said("a")), "fallback");
    assert_eq!(chosen(&rules, &said("b")), "no tool");
    assert_eq!(chosen(&rules, &after_tool("b", "")), "fallback");
}

#[test]
fn named_groups_reach_texts_and_arguments() {
    let rules = rules(
        r#"
rules:
  - when: {last_user: {regex: 'read (?<path>\S+)'}, tool_output: {regex: '(?<grade>\d+)'}}
    reply:
      - tool_call: {name: f, arguments: {p: "{{capture.path}}", n: [1, "{{capture.grade}}"], b: true}}
  - when: {last_user: {contains: raw}}
    reply:
      - tool_call: {name: f, arguments: '{"p": "{{last_user}}'}
"#,
    );
    let (name, arguments) = call(&rules, &after_tool("read \"a\"", "it is 42")).unwrap();
    let arguments: serde_json::Value = serde_json::from_str(&arguments).unwrap();
    assert_eq!((name.as_str(), arguments), ("f", json!({"p": "\"a\"", "n": [1, "42"], "b": true})));
    assert_eq!(call(&rules, &said("raw")).unwrap().1, r#"{"p": "raw"#);
}

#[test]
fn gates_are_known_by_the_rules() {
    let rules = rules("rules: [{reply: [{gate: b}, {text: x}, {gate: a}, {gate: b}]}]");
    assert_eq!(rules.gate_names().into_iter().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn all_problems_are_reported_each_with_its_place() {
    let found = problems(
        r#"
rules:
  - when: {last_user: {regex: "("}, turn: 1}
    reply:
      - text: "{{now}}"
      - shout: x
      - error: {status: 200, code: c, message: m}
      - text: late
  - name: named
    when:
      last_user: {regex: "(?<a>.)"}
      tool_output: {regex: "(?<a>.)"}
    reply:
      - gate: "a b"
      - delay_ms: 600001
      - tool_call: {name: "", arguments: {x: "{{capture.b}}"}}
      - finish: stop
      - finish: length
      - finish: never
  - reply: [{text: x, gate: y}]
  - answer: []
  - when: {last_user: {like: x}}
    reply: []
"#,
    );
    let places: Vec<&str> =
        found.iter().map(|problem| problem.split_once(": ").unwrap().0).collect();
    let expected = [
        "rules[0].when.last_user",
        "rules[0].reply[0]",
        "rules[0].reply[1]",
        "rules[0].reply[2]", // text before it does not count: it did not parse
        "rules[1] (named)",
        "rules[1] (named).reply[0]",
        "rules[1] (named).reply[1]",
        "rules[1] (named).reply[2]",
        "rules[1] (named).reply[2]",
        "rules[1] (named).reply[4]",
        "rules[1] (named).reply[5]",
        "rules[2].reply[0]",
        "rules[3]",
        "rules[4].when.last_user",
    ];
    assert_eq!(places, expected, "{found:#?}");
}

#[test]
fn an_error_stands_alone_but_for_waits() {
    let error = "{error: {status: 503, code: c, message: m}}";
    let waits = rules(&format!("rules: [{{reply: [{{delay_ms: 1}}, {{gate: g}}, {error}]}}]"));
    let reply = waits.choose(&said("x")).0.reply.clone();
    assert_eq!(reply.error.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(problems(&format!("rules: [{{reply: [{{text: x}}, {error}]}}]")).len(), 1);
    assert_eq!(problems(&format!("rules: [{{reply: [{error}, {{text: x}}]}}]")).len(), 1);
}

#[test]
fn what_is_no_rule_file_is_refused() {
    for yaml in ["", "rules: 5", "rule: []", "rules: [", "rules: []\nrules: []"] {
        assert!(Rules::parse(yaml).is_err(), "{yaml}");
    }
    assert_eq!(chosen(&rules("rules: []"), &said("x")), "fallback");
}

#[test]
fn the_demo_rules_use_the_tools_and_answer_from_them() {
    let demo = Rules::demo().unwrap();
    let called = |text| {
        let (name, arguments) = call(&demo, &said(text)).unwrap();
        (name, serde_json::from_str::<serde_json::Value>(&arguments).unwrap())
    };
    assert_eq!(
        called("Please look up expense-policy."),
        ("skill_view".to_owned(), json!({"name": "expense-policy"}))
    );
    assert_eq!(called("List files"), ("list_files".to_owned(), json!({})));
    assert_eq!(
        called("read notes/today.md."),
        ("read_file".to_owned(), json!({"path": "notes/today.md"}))
    );
    for text in ["look up expense-policy", "list files", "read a.md"] {
        let view = after_tool(text, "the output");
        let (rule, captures) = demo.choose(&view);
        let values = Values { view: &view, captures: &captures };
        assert!(
            matches!(&rule.reply.steps[..], [Step::Text { text, .. }] if text.render(values).contains("the output"))
        );
    }
    let slow = demo.choose(&said("Tell me slowly")).0;
    assert!(matches!(&slow.reply.steps[..], [Step::Text { per_word, .. }] if !per_word.is_zero()));
}
