//! A message that a user posts, checked as a whole.

use crate::api::{Conversation, MAX_SENDER_BYTES, MAX_TEXT_BYTES, PostMessage, Sender};
use turnwright_types::{AgentSlug, EventKey, Invalid};
use uuid::Uuid;

/// A message that can become a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// To whom.
    pub agent: AgentSlug,
    /// Where.
    pub conversation: Conversation,
    /// What.
    pub text: String,
    /// By whom.
    pub sender: Sender,
    /// Names it.
    pub event_key: EventKey,
}

impl TryFrom<PostMessage> for Incoming {
    type Error = Invalid;

    fn try_from(raw: PostMessage) -> Result<Self, Invalid> {
        let sender = raw.sender.unwrap_or_default();
        label("sender.id", &sender.id)?;
        if !sender.display_name.is_empty() {
            label("sender.display_name", &sender.display_name)?;
        }
        Ok(Self {
            agent: AgentSlug::parse(raw.agent)?,
            conversation: raw
                .conversation
                .map_or_else(|| Ok(Conversation::default()), Conversation::parse)?,
            text: text(raw.text)?,
            sender,
            event_key: EventKey::parse(
                raw.event_key.unwrap_or_else(|| Uuid::now_v7().to_string()),
            )?,
        })
    }
}

fn text(raw: String) -> Result<String, Invalid> {
    if raw.is_empty() || raw.len() > MAX_TEXT_BYTES {
        return Err(Invalid::new("text", format!("must hold 1 to {MAX_TEXT_BYTES} bytes")));
    }
    if raw.contains('\0') {
        return Err(Invalid::new("text", "must not hold U+0000"));
    }
    Ok(raw)
}

fn label(field: &'static str, raw: &str) -> Result<(), Invalid> {
    if raw.is_empty() || raw.len() > MAX_SENDER_BYTES || raw.chars().any(char::is_control) {
        let why = format!("must hold 1 to {MAX_SENDER_BYTES} bytes and no control characters");
        return Err(Invalid::new(field, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut PostMessage)) -> &'static str {
        let mut message = PostMessage::new("maren", "hi");
        change(&mut message);
        Incoming::try_from(message).unwrap_err().field
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let raw = PostMessage { event_key: None, ..PostMessage::new("maren", "hi") };
        let message = Incoming::try_from(raw).unwrap();
        assert_eq!(message.conversation.as_str(), "main");
        assert_eq!(message.sender, Sender::default());
    }

    #[test]
    fn a_refusal_names_the_field() {
        assert_eq!(refused(|m| m.agent = "Not A Slug".to_owned()), "agent");
        assert_eq!(refused(|m| m.conversation = Some("a/b".to_owned())), "conversation");
        assert_eq!(refused(|m| m.text = String::new()), "text");
        assert_eq!(refused(|m| m.text = "a".repeat(MAX_TEXT_BYTES + 1)), "text");
        assert_eq!(refused(|m| m.text = "a\0b".to_owned()), "text");
        assert_eq!(refused(|m| m.event_key = Some(String::new())), "event_key");
        let nobody = Sender { id: String::new(), display_name: String::new() };
        assert_eq!(refused(|m| m.sender = Some(nobody)), "sender.id");
    }

    #[test]
    fn the_longest_text_is_accepted() {
        assert!(Incoming::try_from(PostMessage::new("maren", "a".repeat(MAX_TEXT_BYTES))).is_ok());
    }
}
