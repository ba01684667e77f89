//! The arguments of a scripted tool call: JSON whose strings are templates, or raw text that need not be JSON.
use super::template::{Template, TemplateError, Values};
use serde_json::{Map, Value};

/// Arguments before the request is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arguments {
    Raw(Template),
    Json(Node),
}

/// JSON with templates for strings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Fixed(Value),
    Text(Template),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Arguments {
    /// A string is raw text, nothing is the empty object, anything else is JSON.
    pub(crate) fn parse(value: Value) -> Result<Self, TemplateError> {
        match value {
            Value::Null => Ok(Self::Json(Node::Object(Vec::new()))),
            Value::String(text) => Template::parse(&text).map(Self::Raw),
            other => Node::parse(other).map(Self::Json),
        }
    }

    pub(crate) fn render(&self, values: Values<'_>) -> String {
        match self {
            Self::Raw(template) => template.render(values),
            Self::Json(node) => node.render(values).to_string(),
        }
    }

    /// The captures that the arguments quote.
    pub(crate) fn captures(&self) -> Vec<&str> {
        let mut names = Vec::new();
        match self {
            Self::Raw(template) => names.extend(template.captures()),
            Self::Json(node) => node.collect_captures(&mut names),
        }
        names
    }
}

impl Node {
    fn parse(value: Value) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(&text)?),
            Value::Array(items) => {
                Self::List(items.into_iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let field = |(name, value)| Self::parse(value).map(|node| (name, node));
                Self::Object(fields.into_iter().map(field).collect::<Result<_, _>>()?)
            }
            fixed @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Self::Fixed(fixed),
        })
    }

    fn render(&self, values: Values<'_>) -> Value {
        match self {
            Self::Fixed(value) => value.clone(),
            Self::Text(template) => Value::String(template.render(values)),
            Self::List(items) => items.iter().map(|item| item.render(values)).collect(),
            Self::Object(fields) => {
                let field = |(name, node): &(String, Self)| (name.clone(), node.render(values));
                Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
            }
        }
    }

    fn collect_captures<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(template) => names.extend(template.captures()),
            Self::List(items) => items.iter().for_each(|item| item.collect_captures(names)),
            Self::Object(fields) => {
                fields.iter().for_each(|(_, node)| node.collect_captures(names));
            }
        }
    }
}
