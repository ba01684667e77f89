//! Texts of rules that quote the request, like `{{last_user}}`. A quoted text is never read as a template again.
use super::Captures;
use crate::request::View;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// A parsed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `cap` is the most characters that are quoted.
    Quote {
        source: Source,
        cap: Option<usize>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    LastUser,
    ToolOutput,
    InstructionsSha256,
    Capture(String),
}

/// Why a text is no template.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("`{{{{` is not closed by `}}}}`")]
    Open,
    #[error(
        "`{0}` cannot be quoted: use last_user, tool_output, instructions_sha256 or capture.NAME"
    )]
    Unknown(String),
    #[error("`{0}` is no number of characters")]
    Cap(String),
}

/// What templates quote from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) view: &'a View,
    pub(crate) captures: &'a Captures,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once(OPEN) {
            let (quote, after) = after.split_once(CLOSE).ok_or(TemplateError::Open)?;
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            parts.push(Part::quote(quote)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// What the built-in last rule says.
    pub(crate) fn echo() -> Self {
        let said = Part::Literal("You said: ".to_owned());
        Self { parts: vec![said, Part::Quote { source: Source::LastUser, cap: None }] }
    }

    /// The captures that it quotes.
    pub(crate) fn captures(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Quote { source: Source::Capture(name), .. } => Some(name.as_str()),
            Part::Quote { .. } | Part::Literal(_) => None,
        })
    }

    pub(crate) fn render(&self, values: Values<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Quote { source, cap } => {
                    let quoted = source.read(values);
                    let end = cap.and_then(|cap| quoted.char_indices().nth(cap));
                    text.push_str(&quoted[..end.map_or(quoted.len(), |(end, _)| end)]);
                }
            }
        }
        text
    }
}

impl Part {
    fn quote(text: &str) -> Result<Self, TemplateError> {
        let (name, cap) = match text.split_once(':') {
            None => (text.trim(), None),
            Some((name, cap)) => {
                let cap = cap.trim();
                let chars = cap.parse().map_err(|_| TemplateError::Cap(cap.to_owned()))?;
                (name.trim(), Some(chars))
            }
        };
        let source = match name {
            "last_user" => Source::LastUser,
            "tool_output" => Source::ToolOutput,
            "instructions_sha256" => Source::InstructionsSha256,
            _ => match name.strip_prefix("capture.") {
                Some(capture) => Source::Capture(capture.to_owned()),
                None => return Err(TemplateError::Unknown(name.to_owned())),
            },
        };
        Ok(Self::Quote { source, cap })
    }
}

impl Source {
    fn read<'a>(&self, values: Values<'a>) -> Cow<'a, str> {
        let view = values.view;
        match self {
            Self::LastUser => view.last_user.as_deref().unwrap_or_default().into(),
            Self::ToolOutput => view.tool_output.as_deref().unwrap_or_default().into(),
            Self::InstructionsSha256 => {
                hex::encode(Sha256::digest(view.instructions.as_bytes())).into()
            }
            Self::Capture(name) => values.captures.get(name).map_or("", String::as_str).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendered(text: &str) -> String {
        let view = View {
            last_user: Some("hi {{tool_output}}".into()),
            tool_output: Some("größer".into()),
            instructions: "abc".into(),
            turn: 1,
        };
        let captures = Captures::from([("who".to_owned(), "me".to_owned())]);
        Template::parse(text).unwrap().render(Values { view: &view, captures: &captures })
    }

    #[test]
    fn quotes_are_replaced_once_and_capped_in_characters() {
        assert_eq!(rendered("<{{ last_user }}>"), "<hi {{tool_output}}>");
        assert_eq!(rendered("{{tool_output:3}}|{{tool_output:99}}"), "grö|größer");
        assert_eq!(rendered("{{capture.who}}{{capture.nobody}}"), "me");
        assert_eq!(
            rendered("{{instructions_sha256}}"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn what_cannot_be_quoted_is_refused() {
        assert_eq!(Template::parse("a {{last_user"), Err(TemplateError::Open));
        assert_eq!(Template::parse("{{now}}"), Err(TemplateError::Unknown("now".into())));
        assert_eq!(Template::parse("{{last_user:x}}"), Err(TemplateError::Cap("x".into())));
    }

    proptest! {
        #[test]
        fn text_without_quotes_stays_as_it_is(text in "[^{]{0,40}") {
            prop_assert_eq!(rendered(&text), text);
        }
    }
}
