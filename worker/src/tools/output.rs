//! Cuts an output to its cap: head and tail stay, between them stands what was left out and how to
//! read on. Pure; never cuts inside a character.

use super::ToolError;
use std::ops::Range;

/// Room for the sentence between head and tail, in bytes.
const NOTICE: usize = 256;

/// What of `text` is left out so that head, notice and tail fit into `limit` bytes.
fn left_out(text: &str, limit: usize) -> Option<Range<usize>> {
    if text.len() <= limit {
        return None;
    }
    let room = limit.saturating_sub(NOTICE);
    // What comes first says more than what comes last.
    let tail = room / 3;
    let start = text.floor_char_boundary(room - tail);
    Some(start..text.ceil_char_boundary(text.len() - tail))
}

/// `text`, at most `limit` bytes long. `read_on` says how to get what is left out; it is given the
/// range.
pub(crate) fn cap(
    text: String,
    limit: usize,
    read_on: impl FnOnce(&Range<usize>) -> String,
) -> String {
    let Some(cut) = left_out(&text, limit) else { return text };
    let mut notice = format!(
        "\n\n[{} of {} bytes are left out here; {}]\n\n",
        cut.len(),
        text.len(),
        read_on(&cut)
    );
    notice.truncate(notice.floor_char_boundary(NOTICE.min(limit)));
    format!("{}{notice}{}", &text[..cut.start], &text[cut.end..])
}

/// The lines of `text` from `offset` (the first is 1), at most `lines` of them, at most `limit`
/// bytes, with a word on how to read what does not fit.
pub(crate) fn page(
    text: &str,
    offset: Option<usize>,
    lines: Option<usize>,
    limit: usize,
) -> Result<String, ToolError> {
    let total = text.split_inclusive('\n').count();
    let first = offset.unwrap_or(1).max(1);
    if first > total.max(1) {
        return Err(ToolError::Refused(format!("there are only {total} lines")));
    }
    let start = bytes_of(text, first - 1);
    let shown = lines.unwrap_or(usize::MAX).min(total.saturating_sub(first - 1));
    let page = &text[start..start + bytes_of(&text[start..], shown)];
    let last = first - 1 + shown;
    let rest = if last < total {
        format!("\n[lines {first} to {last} of {total}; read on with offset {}]", last + 1)
    } else {
        String::new()
    };
    let body = cap(page.to_owned(), limit.saturating_sub(rest.len()), |cut| {
        let line = first + page[..cut.start].matches('\n').count();
        if line > first {
            format!("read on with offset {line}")
        } else {
            format!("line {line} alone is longer than can be shown")
        }
    });
    Ok(body + &rest)
}

/// The length of the first `lines` lines.
fn bytes_of(text: &str, lines: usize) -> usize {
    text.split_inclusive('\n').take(lines).map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cut_output_fits_and_keeps_head_and_tail(
            text in "\\PC{0,900}",
            limit in 300..1200_usize,
            word in "\\PC{0,200}",
        ) {
            let out = cap(text.clone(), limit, |_| word);
            prop_assert!(out.len() <= limit);
            if text.len() <= limit {
                prop_assert_eq!(out, text);
            } else {
                let cut = left_out(&text, limit).unwrap();
                let (head, tail) = (&text[..cut.start], &text[cut.end..]);
                prop_assert!(out.starts_with(head) && out.ends_with(tail));
                // Nothing is left out that had room.
                prop_assert!(head.len() + tail.len() + 8 + NOTICE >= limit);
                let whole = format!("[{} of {} bytes", cut.len(), text.len());
                prop_assert!(out.contains(&whole));
            }
        }

        #[test]
        fn pages_follow_each_other_without_a_gap(
            text in "([a-zä]{0,20}\n){0,40}[a-z]{0,5}",
            lines in 1..9_usize,
        ) {
            let total = text.split_inclusive('\n').count();
            let mut whole = String::new();
            let mut at = 1;
            while at <= total {
                let page = page(&text, Some(at), Some(lines), 4096).unwrap();
                let read = bytes_of(&text[bytes_of(&text, at - 1)..], lines);
                whole.push_str(&page[..read]);
                at += lines;
                let says_more = page.len() > read;
                prop_assert_eq!(says_more, at <= total);
                if says_more {
                    let next = format!("offset {at}]");
                    prop_assert!(page.ends_with(&next));
                }
            }
            prop_assert_eq!(whole, text);
        }
    }

    #[test]
    fn a_long_text_says_with_which_line_to_read_on() {
        let text: String = (1..=2000).map(|n| format!("line {n}\n")).collect();
        let out = page(&text, None, None, 4096).unwrap();
        assert!(out.len() <= 4096);
        let next: usize = out
            .split_once("read on with offset ")
            .and_then(|(_, rest)| rest.split_once(']'))
            .and_then(|(n, _)| n.parse().ok())
            .unwrap();
        // The line it names is the one whose head is shown last.
        let head = out.split_once("\n\n[").unwrap().0;
        assert!(head.contains(&format!("line {}\n", next - 1)));
        assert!(!head.contains(&format!("line {}\n", next + 1)));
        let more = page(&text, Some(next), None, 4096).unwrap();
        assert!(more.starts_with(&format!("line {next}\n")));
        assert!(page(&text, Some(2001), None, 4096).is_err());
        assert_eq!(page("", None, None, 4096).unwrap(), "");
    }
}
