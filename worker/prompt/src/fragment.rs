//! Fragments: marked pieces of context with a role, merged into one message per role. History is
//! classified by the stored kind of each part, never by matching its text.

use crate::manifest::InputPart;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The kind of the part that holds what a person wrote.
pub const KIND_USER_TEXT: &str = "user_text";

/// Who a message of the input speaks as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The installation.
    Developer,
    /// A person, or facts about their message.
    User,
}

impl Role {
    /// Its name in the Responses API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Developer => "developer",
            Self::User => "user",
        }
    }
}

/// A message to append to the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputMessage {
    /// Who it speaks as.
    pub role: Role,
    /// Its parts, in order; never empty.
    pub content: Vec<ContentPart>,
    /// The signal whose text it carries.
    pub signal_id: Option<String>,
}

/// One content part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentPart {
    /// What it is: a fragment's kind or [`KIND_USER_TEXT`]; stored with the part.
    pub kind: Cow<'static, str>,
    /// Its text.
    pub text: String,
}

/// A marked piece of context.
pub trait ContextFragment {
    /// Who it speaks as.
    fn role(&self) -> Role;
    /// Its stable name, stored with the part.
    fn kind(&self) -> &'static str;
    /// What it is made from, as the manifest names it.
    fn object(&self) -> String;
    /// The texts that open and close it.
    fn markers(&self) -> (&'static str, &'static str);
    /// Appends what stands between the markers, its line ends included.
    fn write_body(&self, out: &mut String);

    /// The whole text: opening marker, body, closing marker, and nothing between them.
    fn render(&self) -> String {
        let (start, end) = self.markers();
        let mut text = String::with_capacity(512);
        text.push_str(start);
        self.write_body(&mut text);
        text.push_str(end);
        text
    }

    /// The content part that carries it.
    fn part(&self) -> ContentPart {
        ContentPart { kind: Cow::Borrowed(self.kind()), text: self.render() }
    }
}

/// Messages under construction, with the source of each part.
#[derive(Default)]
pub(crate) struct Messages {
    pub(crate) messages: Vec<InputMessage>,
    pub(crate) parts: Vec<InputPart>,
}

impl Messages {
    /// Appends one message per role, developer first, one part per fragment in the given order.
    pub(crate) fn push_fragments(&mut self, fragments: &[&dyn ContextFragment]) {
        for role in [Role::Developer, Role::User] {
            let mut content = Vec::new();
            for fragment in fragments.iter().filter(|fragment| fragment.role() == role) {
                content.push((fragment.part(), fragment.object()));
            }
            if !content.is_empty() {
                self.push(role, content, None);
            }
        }
    }

    /// Appends one message whose parts come with their objects.
    pub(crate) fn push(
        &mut self,
        role: Role,
        content: Vec<(ContentPart, String)>,
        signal_id: Option<String>,
    ) {
        let message = self.messages.len();
        let mut texts = Vec::with_capacity(content.len());
        for (at, (part, object)) in content.into_iter().enumerate() {
            self.parts.push(InputPart::of(message, at, &part, object));
            texts.push(part);
        }
        self.messages.push(InputMessage { role, content: texts, signal_id });
    }
}
