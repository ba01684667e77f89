//! Text from outside made safe to stand beside markers: nothing in it can close or forge one, and
//! each escape is visible and can be undone. It decides nothing about what a text means.

use std::borrow::Cow;

/// The longest name, label or reference from outside that a prompt shows, in bytes.
pub const LINE_MAX: usize = 256;

/// The longest path and list of hosts that a prompt shows, in bytes; Linux knows no longer path.
pub(crate) const PATH_MAX: usize = 4096;

/// The names of the tags that mark fragments and blocks, here or in what models have learnt: lower
/// case, in code point order. `<permissions instructions>` goes by its first word.
pub const MARKERS: [&str; 23] = [
    "apps_instructions",
    "collaboration_mode",
    "connectors_instructions",
    "design",
    "developer_instructions",
    "environment_context",
    "hook_context",
    "instructions",
    "mission",
    "model_switch",
    "permissions",
    "personality_spec",
    "plugins_instructions",
    "runtime_context",
    "skill",
    "skills_instructions",
    "soul",
    "subagent_notification",
    "token_budget",
    "turn_aborted",
    "turn_context",
    "user_instructions",
    "user_shell_command",
];

/// Longer than every name in [`MARKERS`].
const NAME_MAX: usize = 32;

const ELLIPSIS: char = '…';

/// Escapes each `<` that begins one of [`MARKERS`], opening or closing, in any case, also with
/// white space or invisible characters between, as `&lt;`; and the `#` of an
/// `AGENTS.md instructions` heading as `&#35;`. Where the text already holds such an escape, its
/// `&` becomes `&amp;`, so that [`restore`] gives the text back. All else is left as it is.
#[must_use]
pub fn neutralise(text: &str) -> Cow<'_, str> {
    if !may_mark(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 32);
    neutralise_into(&mut out, text);
    Cow::Owned(out)
}

/// Undoes [`neutralise`].
#[must_use]
pub fn restore(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    for (at, _) in text.match_indices('&') {
        let Some(escape) = read_escape(&text[at + 1..]) else { continue };
        let (plain, written) = match (escape.depth, escape.heading) {
            (0, false) => ('<', "&lt;"),
            (0, true) => ('#', "&#35;"),
            _ => ('&', "&amp;"),
        };
        out.push_str(&text[kept..at]);
        out.push(plain);
        kept = at + written.len();
    }
    out.push_str(&text[kept..]);
    out
}

/// Appends the neutralised text.
pub(crate) fn neutralise_into(out: &mut String, text: &str) {
    if !may_mark(text) {
        out.push_str(text);
        return;
    }
    let mut kept = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !is_mark(byte) {
            continue;
        }
        let tail = &text[at + 1..];
        let escape = match byte {
            b'<' if opens_marker(tail) => "&lt;",
            b'#' if opens_heading(tail) => "&#35;",
            b'&' if read_escape(tail).is_some() => "&amp;",
            _ => continue,
        };
        out.push_str(&text[kept..at]);
        out.push_str(escape);
        kept = at + 1;
    }
    out.push_str(&text[kept..]);
}

/// Escapes only the closing forms of the tag `name`: for text that operators wrote, which may hold
/// any other marker but must not end its own block.
pub(crate) fn neutralise_closing<'a>(text: &'a str, name: &str) -> Cow<'a, str> {
    let mut out = String::new();
    let mut kept = 0;
    for (at, _) in text.match_indices('<') {
        let closes = read_tag(&text[at + 1..])
            .is_some_and(|tag| tag.closing && tag.name() == name.as_bytes());
        if closes {
            out.push_str(&text[kept..at]);
            out.push_str("&lt;");
            kept = at + 1;
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// Appends a value from outside on one line: white space and control characters collapse to one
/// space, characters that only mislead the eye go, what is over `max` bytes ends in `…`, and the
/// rest is neutralised.
pub(crate) fn push_line(out: &mut String, value: &str, max: usize) {
    neutralise_into(out, &one_line(value, max));
}

/// Appends `name: value` as a line of its own; a blank value leaves no line.
pub(crate) fn push_fact(out: &mut String, name: &str, value: &str, max: usize) {
    let value = one_line(value, max);
    if value.is_empty() {
        return;
    }
    out.push_str(name);
    out.push_str(": ");
    neutralise_into(out, &value);
    out.push('\n');
}

/// The value on one line of at most `max` bytes, cut between characters.
pub(crate) fn one_line(value: &str, max: usize) -> Cow<'_, str> {
    if value.len() <= max && is_plain_line(value) {
        return Cow::Borrowed(value);
    }
    let mut line = String::with_capacity(value.len().min(max));
    let mut gap = false;
    for c in value.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        if misleads(c) {
            continue;
        }
        let space = gap && !line.is_empty();
        if line.len() + usize::from(space) + c.len_utf8() > max {
            shorten(&mut line, max);
            break;
        }
        if space {
            line.push(' ');
        }
        line.push(c);
        gap = false;
    }
    Cow::Owned(line)
}

/// Makes room for the ellipsis and appends it.
fn shorten(line: &mut String, max: usize) {
    let room = max.saturating_sub(ELLIPSIS.len_utf8());
    while line.len() > room {
        line.pop();
    }
    line.truncate(line.trim_end().len());
    line.push(ELLIPSIS);
}

/// Printable ASCII with single spaces inside: nothing to collapse.
fn is_plain_line(value: &str) -> bool {
    let mut before = b' ';
    for byte in value.bytes() {
        if !(b' '..=b'~').contains(&byte) || (byte == b' ' && before == b' ') {
            return false;
        }
        before = byte;
    }
    before != b' ' || value.is_empty()
}

const fn is_mark(byte: u8) -> bool {
    matches!(byte, b'<' | b'#' | b'&')
}

// Counting instead of stopping at the first hit lets the compiler compare many bytes at once;
// nearly every text has none.
fn may_mark(text: &str) -> bool {
    text.bytes().filter(|byte| is_mark(*byte)).count() > 0
}

/// Characters that reorder or hide text, or carry letters nobody sees. Joiners stay: scripts and
/// emoji need them.
pub(crate) const fn misleads(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Characters that a reader of a tag does not see.
fn is_invisible(c: char) -> bool {
    misleads(c)
        || matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
        || (c.is_control() && !c.is_whitespace())
}

/// What stands after a `<`, read as a tag.
struct Tag {
    closing: bool,
    name: [u8; NAME_MAX],
    len: usize,
}

impl Tag {
    fn name(&self) -> &[u8] {
        &self.name[..self.len]
    }
}

fn read_tag(tail: &str) -> Option<Tag> {
    let mut tag = Tag { closing: false, name: [0; NAME_MAX], len: 0 };
    for c in tail.chars() {
        if is_invisible(c) || (tag.len == 0 && c.is_whitespace()) {
            continue;
        }
        if tag.len == 0 && c == '/' {
            tag.closing = true;
            continue;
        }
        if !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.' | ':') {
            break;
        }
        *tag.name.get_mut(tag.len)? = u8::try_from(c.to_ascii_lowercase()).ok()?;
        tag.len += 1;
    }
    (tag.len > 0).then_some(tag)
}

fn opens_marker(tail: &str) -> bool {
    read_tag(tail)
        .is_some_and(|tag| MARKERS.binary_search_by(|m| m.as_bytes().cmp(tag.name())).is_ok())
}

/// Whether what stands after a `#` makes it the heading that AGENTS.md text starts with.
fn opens_heading(tail: &str) -> bool {
    let Some(rest) = strip_ignoring_case(tail.trim_start(), "agents.md") else { return false };
    let word = rest.trim_start();
    word.len() < rest.len() && strip_ignoring_case(word, "instructions").is_some()
}

fn strip_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// An escape of a marker, read from behind its `&`.
struct Escape {
    /// How often its `&` was escaped in turn.
    depth: usize,
    /// Whether it stands for the `#` of a heading.
    heading: bool,
}

fn read_escape(tail: &str) -> Option<Escape> {
    let (mut rest, mut depth) = (tail, 0);
    while let Some(after) = rest.strip_prefix("amp;") {
        (rest, depth) = (after, depth + 1);
    }
    if rest.strip_prefix("lt;").is_some_and(opens_marker) {
        return Some(Escape { depth, heading: false });
    }
    rest.strip_prefix("#35;").is_some_and(opens_heading).then_some(Escape { depth, heading: true })
}

#[cfg(test)]
mod tests;
