//! Rule files, from YAML to checked rules. It goes on after a problem, so that one reading reports all of them.
use super::{
    Arguments, ErrorReply, FinishReason, Matcher, Reply, Rule, Step, Template, When,
    template::TemplateError,
};
use axum::http::StatusCode;
use regex::Regex;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Display, time::Duration};

/// No step waits longer than this.
const LONGEST_DELAY: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    rules: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    name: Option<String>,
    when: Option<Value>,
    reply: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWhen {
    last_user: Option<Value>,
    tool_output: Option<Value>,
    instructions: Option<Value>,
    after_tool: Option<bool>,
    turn: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawMatcher {
    Contains(String),
    Equals(String),
    Regex(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawStep {
    DelayMs(u64),
    Gate(String),
    Text(String),
    TextPaced(RawPaced),
    ToolCall(RawCall),
    Error(RawError),
    CutAfterBytes(usize),
    Finish(FinishReason),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPaced {
    text: String,
    per_word_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawError {
    status: u16,
    code: String,
    message: String,
    retry_after_s: Option<u64>,
}

/// The rules in order, or all problems.
pub(super) fn parse(yaml: &str) -> Result<Vec<Rule>, Vec<String>> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let file: RawFile = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| vec![format!("not a rule file: {error}")])?;
    let mut problems = Problems::default();
    let rules: Vec<Rule> = file
        .rules
        .into_iter()
        .enumerate()
        .filter_map(|(at, value)| problems.rule(at, value))
        .collect();
    if problems.found.is_empty() { Ok(rules) } else { Err(problems.found) }
}

/// Collects problems with their places.
#[derive(Default)]
struct Problems {
    found: Vec<String>,
}

impl Problems {
    fn add(&mut self, place: &str, problem: &dyn Display) {
        self.found.push(format!("{place}: {problem}"));
    }

    fn shape<T: DeserializeOwned>(&mut self, place: &str, value: Value) -> Option<T> {
        serde_json::from_value(value).map_err(|error| self.add(place, &error)).ok()
    }

    fn rule(&mut self, at: usize, value: Value) -> Option<Rule> {
        let mut place = format!("rules[{at}]");
        let raw: RawRule = self.shape(&place, value)?;
        let name = raw.name.unwrap_or_else(|| place.clone());
        if name != place {
            place = format!("{place} ({name})");
        }
        let when = match raw.when {
            Some(value) => self.when(&format!("{place}.when"), value),
            None => When::default(),
        };
        let captures = self.captures(&place, &when);
        let reply = self.reply(&place, raw.reply, &captures);
        Some(Rule { name, when, reply })
    }

    fn when(&mut self, place: &str, value: Value) -> When {
        let raw: RawWhen = self.shape(place, value).unwrap_or_default();
        let mut matcher = |key: &str, value: Option<Value>| {
            value.and_then(|value| self.matcher(&format!("{place}.{key}"), value))
        };
        When {
            last_user: matcher("last_user", raw.last_user),
            tool_output: matcher("tool_output", raw.tool_output),
            instructions: matcher("instructions", raw.instructions),
            after_tool: raw.after_tool,
            turn: raw.turn,
        }
    }

    fn matcher(&mut self, place: &str, value: Value) -> Option<Matcher> {
        match self.shape(place, value)? {
            RawMatcher::Contains(part) => Some(Matcher::Contains(part)),
            RawMatcher::Equals(whole) => Some(Matcher::Equals(whole)),
            RawMatcher::Regex(regex) => {
                Regex::new(&regex).map(Matcher::Regex).map_err(|error| self.add(place, &error)).ok()
            }
        }
    }

    fn captures(&mut self, place: &str, when: &When) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for name in when.matchers().flat_map(Matcher::capture_names) {
            if !names.insert(name.to_owned()) {
                self.add(place, &format_args!("two expressions have a group named `{name}`"));
            }
        }
        names
    }

    fn reply(&mut self, place: &str, raw: Vec<Value>, captures: &BTreeSet<String>) -> Reply {
        let mut reply = Reply::default();
        for (at, value) in raw.into_iter().enumerate() {
            let place = format!("{place}.reply[{at}]");
            if reply.error.is_some() {
                self.add(&place, &"nothing can follow an error");
            }
            let Some(step) = self.shape::<RawStep>(&place, value) else { continue };
            match step {
                RawStep::Error(raw) => reply.error = self.error(&place, raw, &reply),
                RawStep::Finish(reason) => {
                    if reply.finish.replace(reason).is_some() {
                        self.add(&place, &"the finish reason is set twice");
                    }
                }
                step => {
                    let step = self.step(&place, step, captures);
                    reply.steps.extend(step);
                }
            }
        }
        reply
    }

    /// A step other than `error` and `finish`, which the whole reply holds.
    fn step(&mut self, place: &str, raw: RawStep, captures: &BTreeSet<String>) -> Option<Step> {
        match raw {
            RawStep::DelayMs(ms) => Some(Step::Delay(self.delay(place, ms))),
            RawStep::Gate(name) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                if name.is_empty() || !name.chars().all(fits) {
                    self.add(place, &"a gate's name is letters, digits, `-`, `_` and `.`");
                }
                Some(Step::Gate(name))
            }
            RawStep::Text(text) => self.text(place, &text, 0, captures),
            RawStep::TextPaced(raw) => self.text(place, &raw.text, raw.per_word_ms, captures),
            RawStep::ToolCall(raw) => {
                if raw.name.is_empty() {
                    self.add(place, &"a tool call needs the name of a tool");
                }
                let arguments = self.template(place, Arguments::parse(raw.arguments))?;
                self.quoted(place, arguments.captures(), captures);
                Some(Step::ToolCall { name: raw.name, arguments })
            }
            RawStep::CutAfterBytes(bytes) => Some(Step::CutAfter(bytes)),
            RawStep::Error(_) | RawStep::Finish(_) => None,
        }
    }

    fn text(
        &mut self,
        place: &str,
        text: &str,
        per_word_ms: u64,
        captures: &BTreeSet<String>,
    ) -> Option<Step> {
        let text = self.template(place, Template::parse(text))?;
        self.quoted(place, text.captures(), captures);
        Some(Step::Text { text, per_word: self.delay(place, per_word_ms) })
    }

    fn template<T>(&mut self, place: &str, parsed: Result<T, TemplateError>) -> Option<T> {
        parsed.map_err(|error| self.add(place, &error)).ok()
    }

    fn quoted<'a>(
        &mut self,
        place: &str,
        names: impl IntoIterator<Item = &'a str>,
        captures: &BTreeSet<String>,
    ) {
        for name in names.into_iter().filter(|name| !captures.contains(*name)) {
            self.add(place, &format_args!("no expression of this rule has a group named `{name}`"));
        }
    }

    fn delay(&mut self, place: &str, ms: u64) -> Duration {
        let delay = Duration::from_millis(ms);
        if delay > LONGEST_DELAY {
            self.add(place, &format_args!("a delay is at most {} ms", LONGEST_DELAY.as_millis()));
        }
        delay
    }

    fn error(&mut self, place: &str, raw: RawError, before: &Reply) -> Option<ErrorReply> {
        let waits = |step: &Step| matches!(step, Step::Delay(_) | Step::Gate(_));
        if before.finish.is_some() || !before.steps.iter().all(waits) {
            self.add(place, &"only delays and gates can stand before an error");
        }
        let status = StatusCode::from_u16(raw.status)
            .ok()
            .filter(|status| status.is_client_error() || status.is_server_error());
        let Some(status) = status else {
            self.add(place, &"the status of an error is 400 to 599");
            return None;
        };
        let RawError { code, message, retry_after_s, .. } = raw;
        Some(ErrorReply { status, code, message, retry_after_s })
    }
}
