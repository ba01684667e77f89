//! The turn context: who speaks, to whom and when, in front of the person's text and in the same
//! message. Every value is from outside and stands on a line of its own.

use crate::context::SignalText;
use crate::fragment::{ContextFragment, Role};
use crate::trust::{LINE_MAX, push_fact};
use crate::zone::Zone;

/// The facts of one signal.
pub(crate) struct TurnContext<'a> {
    pub(crate) signal: &'a SignalText,
    pub(crate) zone: Zone,
}

impl ContextFragment for TurnContext<'_> {
    fn role(&self) -> Role {
        Role::User
    }

    fn kind(&self) -> &'static str {
        "turn_context"
    }

    fn object(&self) -> String {
        format!("signal/{}", self.signal.signal_id)
    }

    fn markers(&self) -> (&'static str, &'static str) {
        ("<turn_context>", "</turn_context>")
    }

    fn write_body(&self, out: &mut String) {
        let sent_at =
            format!("{} {}", self.zone.minute(self.signal.occurred_at), self.zone.label());
        out.push('\n');
        push_fact(out, "speaker", &self.signal.speaker.display_name, LINE_MAX);
        push_fact(out, "speaker_id", &self.signal.speaker.external_id, LINE_MAX);
        push_fact(out, "addressed", self.signal.addressed.as_str(), LINE_MAX);
        push_fact(out, "sent_at", &sent_at, LINE_MAX);
        if let Some(reply_to) = &self.signal.reply_to {
            push_fact(out, "reply_to", reply_to, LINE_MAX);
        }
    }
}
