use super::*;
use secrecy::ExposeSecret as _;
use turnwright_kit::config::ConfigError;

fn read(text: &str, vars: &[(&str, &str)]) -> Result<Models, Vec<String>> {
    let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let mut env = Env::of(vars);
    let models = Models::parse("models.yaml", text, &mut env);
    env.finish(models).map_err(|ConfigError(problems)| problems)
}

const GOOD: &str = "\
providers:
  - name: local
    kind: chat_completions
    base_url: ${HOST}/v1/
    api_key_env: KEY
models:
  - name: small
    provider: local
    upstream_model: small-1
    window_tokens: 128000
    max_output_tokens: 4096
    modalities: [text, image]
    prices: {input_per_mtok_usd: \"0\"}
    base_instructions: |
      You are $5 cheaper.
";

#[test]
fn a_model_is_reached_at_its_providers_url_with_its_key() {
    let models = read(GOOD, &[("HOST", "http://127.0.0.1:1"), ("KEY", "k")]).unwrap();
    let model = models.get("small").unwrap();
    assert_eq!(model.url, "http://127.0.0.1:1/v1/chat/completions");
    assert_eq!(model.upstream_model, "small-1");
    assert_eq!(model.api_key.as_ref().unwrap().expose_secret(), "k");
    assert!(model.images);
    assert!(models.get("large").is_none());
    assert!(!format!("{model:?}").contains("\"k\""));
}

#[test]
fn missing_variables_are_named_at_their_line() {
    let problems = read(GOOD, &[]).unwrap_err();
    assert!(problems[0].starts_with("models.yaml:4:") && problems[0].contains("HOST"));
    let problems = read(GOOD, &[("HOST", "http://h")]).unwrap_err();
    assert!(problems[0].starts_with("models.yaml:5:") && problems[0].contains("KEY"));
}

#[test]
fn every_problem_is_told_at_once() {
    let text = "\
providers:
  - {name: a, kind: telepathy, base_url: 'http://a'}
  - {name: b, kind: chat_completions, base_url: 'ftp://b'}
  - {name: c, kind: chat_completions, base_url: 'http://c'}
models:
  - {name: one, provider: nobody}
  - {name: two, provider: c, modalities: [smell]}
  - {name: two, provider: c}
";
    let problems = read(text, &[]).unwrap_err();
    let lines: Vec<_> = problems.iter().filter_map(|p| p.split(':').nth(1)).collect();
    assert_eq!(lines, ["2", "3", "6", "7", "8"]);
}

#[test]
fn an_unknown_key_is_an_error_with_its_line() {
    let text = "providers: []\nmodels:\n  - name: x\n    provider: y\n    colour: red\n";
    let problems = read(text, &[]).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("models.yaml:5:"), "{problems:?}");
}

#[test]
fn the_shipped_example_is_usable() {
    let text = include_str!("../../../examples/agents/models.yaml");
    let vars = [("TURNWRIGHT_SCRIPTED_URL", "http://h/v1"), ("TURNWRIGHT_SCRIPTED_TOKEN", "t")];
    assert!(read(text, &vars).unwrap().get("scripted").is_some());
}
