//! The rules: which one answers a request, and with which steps. It must not know HTTP beyond a status code.
mod arguments;
mod parse;
mod template;
#[cfg(test)]
mod tests;

pub(crate) use arguments::Arguments;
pub(crate) use template::{Template, Values};

use crate::request::View;
use axum::http::StatusCode;
use regex::Regex;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The rules that answer when no file is given.
const DEMO: &str = include_str!("../rules/demo.yaml");

/// What the named groups of a rule's expressions matched.
pub(crate) type Captures = BTreeMap<String, String>;

/// An ordered list of rules; a built-in last one echoes the user.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    fallback: Rule,
}

/// Everything that is wrong with a rule file.
#[derive(Debug, thiserror::Error)]
#[error("rule file has {} problem(s):\n  {}", .problems.len(), .problems.join("\n  "))]
pub struct RulesError {
    problems: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    when: When,
    pub(crate) reply: Reply,
}

/// The conditions of a rule; an absent one always holds.
#[derive(Clone, Debug, Default)]
struct When {
    last_user: Option<Matcher>,
    tool_output: Option<Matcher>,
    instructions: Option<Matcher>,
    after_tool: Option<bool>,
    turn: Option<usize>,
}

#[derive(Clone, Debug)]
enum Matcher {
    Contains(String),
    Equals(String),
    Regex(Regex),
}

/// What a rule answers with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) steps: Vec<Step>,
    /// Ends the steps with an HTTP error instead of a message; the steps are then waits only.
    pub(crate) error: Option<ErrorReply>,
    /// The finish reason, if the rule sets it.
    pub(crate) finish: Option<FinishReason>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Delay(Duration),
    Gate(String),
    /// `per_word` is the wait before each word.
    Text {
        text: Template,
        per_word: Duration,
    },
    ToolCall {
        name: String,
        arguments: Arguments,
    },
    CutAfter(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReply {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) retry_after_s: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

impl Rules {
    /// Reads a rule file (YAML).
    ///
    /// # Errors
    /// [`RulesError`] with all problems, not just the first.
    pub fn parse(yaml: &str) -> Result<Self, RulesError> {
        let rules = parse::parse(yaml).map_err(|problems| RulesError { problems })?;
        let steps = vec![Step::Text { text: Template::echo(), per_word: Duration::ZERO }];
        let reply = Reply { steps, ..Reply::default() };
        let fallback = Rule { name: "fallback".to_owned(), when: When::default(), reply };
        Ok(Self { rules, fallback })
    }

    /// The shipped demo rules.
    ///
    /// # Errors
    /// None in practice: a test parses the file.
    pub fn demo() -> Result<Self, RulesError> {
        Self::parse(DEMO)
    }

    /// The names of all gates that the rules wait at.
    pub fn gate_names(&self) -> BTreeSet<String> {
        let steps = self.rules.iter().flat_map(|rule| &rule.reply.steps);
        let gate =
            |step: &Step| if let Step::Gate(name) = step { Some(name.clone()) } else { None };
        steps.filter_map(gate).collect()
    }

    /// The first rule that matches, and what its expressions captured.
    pub(crate) fn choose(&self, view: &View) -> (&Rule, Captures) {
        let first = self.rules.iter().find_map(|rule| Some((rule, rule.when.matches(view)?)));
        first.unwrap_or_else(|| (&self.fallback, Captures::new()))
    }
}

impl RulesError {
    /// One text for each problem, starting with its place.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl When {
    /// What the expressions captured, or `None` if a condition does not hold.
    fn matches(&self, view: &View) -> Option<Captures> {
        let texts = [
            (&self.last_user, view.last_user.as_deref()),
            (&self.tool_output, view.tool_output.as_deref()),
            (&self.instructions, Some(view.instructions.as_str())),
        ];
        let mut captures = Captures::new();
        let holds = self.after_tool.is_none_or(|after| after == view.tool_output.is_some())
            && self.turn.is_none_or(|turn| turn == view.turn)
            && texts.into_iter().all(|(matcher, text)| match (matcher, text) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(matcher), Some(text)) => matcher.matches(text, &mut captures),
            });
        holds.then_some(captures)
    }

    fn matchers(&self) -> impl Iterator<Item = &Matcher> {
        [&self.last_user, &self.tool_output, &self.instructions].into_iter().flatten()
    }
}

impl Matcher {
    fn matches(&self, text: &str, captures: &mut Captures) -> bool {
        match self {
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Equals(whole) => text == whole,
            Self::Regex(regex) => {
                let Some(found) = regex.captures(text) else { return false };
                let group =
                    |name: &str| Some((name.to_owned(), found.name(name)?.as_str().to_owned()));
                captures.extend(regex.capture_names().flatten().filter_map(group));
                true
            }
        }
    }

    /// The names that templates of the rule may quote.
    fn capture_names(&self) -> impl Iterator<Item = &str> {
        let regex = if let Self::Regex(regex) = self { Some(regex) } else { None };
        regex.into_iter().flat_map(|regex| regex.capture_names().flatten())
    }
}

impl FinishReason {
    /// As the wire spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}
