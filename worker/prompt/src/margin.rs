//! A prompt printed for people, with a left margin that names the source and revision of each part.
//! What could move a terminal's cursor or reorder its text is printed as an escape.

use crate::fragment::InputMessage;
use crate::manifest::Manifest;
use crate::trust::misleads;
use std::borrow::Cow;

/// Prints `instructions`, then the messages of `input`, beside a margin of `width` columns. A label
/// stands on the first line of its part; one that is too long is cut. Bytes that the manifest does
/// not describe have an empty margin.
#[must_use]
pub fn render_margin(
    instructions: &str,
    input: &[InputMessage],
    manifest: &Manifest,
    width: usize,
) -> String {
    let texts = input.iter().flat_map(|message| &message.content).map(|part| part.text.len());
    let bytes = instructions.len() + texts.sum::<usize>();
    let mut page = Page { out: String::with_capacity(bytes * 2), width, shown: String::new() };
    let mut at = 0;
    for line in instructions.split('\n') {
        let part = manifest.instruction_at(at);
        page.line(&part.map(|it| label(&it.object, it.revision)).unwrap_or_default(), line);
        at += line.len() + 1;
    }
    for (at, message) in input.iter().enumerate() {
        page.line("", "");
        page.line(&format!("input {at}"), &format!("── {} ──", message.role.as_str()));
        for (place, part) in message.content.iter().enumerate() {
            let source = manifest.input_at(at, place);
            let source = source.map(|it| label(&it.object, it.revision)).unwrap_or_default();
            page.shown.clear();
            for line in part.text.split('\n') {
                page.line(&source, line);
            }
        }
    }
    page.out
}

fn label(object: &str, revision: Option<u64>) -> String {
    match revision {
        Some(revision) => format!("{object} r{revision}"),
        None => object.to_owned(),
    }
}

struct Page {
    out: String,
    width: usize,
    /// The label printed last; an unlabelled line does not end its part.
    shown: String,
}

impl Page {
    fn line(&mut self, label: &str, text: &str) {
        let label = if label == self.shown { "" } else { label };
        let clipped = clip(label, self.width);
        self.push_visible(&clipped);
        let used = clipped.chars().count();
        self.out.extend(std::iter::repeat_n(' ', self.width.saturating_sub(used)));
        self.out.push_str(" │");
        if !text.is_empty() {
            self.out.push(' ');
            self.push_visible(text);
        }
        self.out.push('\n');
        if !label.is_empty() {
            label.clone_into(&mut self.shown);
        }
    }

    fn push_visible(&mut self, text: &str) {
        for c in text.chars() {
            if (c.is_control() && c != '\t') || misleads(c) {
                self.out.extend(c.escape_unicode());
            } else {
                self.out.push(c);
            }
        }
    }
}

/// The label in at most `width` characters.
fn clip(label: &str, width: usize) -> Cow<'_, str> {
    if label.chars().count() <= width {
        return Cow::Borrowed(label);
    }
    let mut kept: String = label.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        kept.push('…');
    }
    Cow::Owned(kept)
}
