//! What outside text can look like, and what must come of it.

use super::*;
use proptest::prelude::*;

/// Finds markers another way than the code does: on the lowered text, by plain comparison.
fn markers_in(text: &str) -> usize {
    let lower = text.to_ascii_lowercase();
    let tags = lower.match_indices('<').filter(|(at, _)| {
        let rest = lower[at + 1..].trim_start();
        let rest = rest.strip_prefix('/').unwrap_or(rest).trim_start();
        MARKERS.iter().any(|marker| {
            rest.strip_prefix(marker).is_some_and(|after| {
                after.chars().next().is_none_or(|c| matches!(c, '>' | '/') || c.is_whitespace())
            })
        })
    });
    tags.count() + lower.matches("# agents.md instructions").count()
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            "<", "</", "< / ", ">", "/", " ", "\n", "soul", "Turn_Context", "ENVIRONMENT_CONTEXT",
            "skills_instructions", "permissions instructions", "&", "&lt;", "amp;", "lt;", "#35;",
            "&#35;", "#", " AGENTS.md instructions", "\u{200b}", "\u{202e}", "é", "😀",
        ]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_marker_survives_and_the_text_comes_back(text in hostile()) {
        let safe = neutralise(&text);
        prop_assert_eq!(markers_in(&safe), 0);
        prop_assert_eq!(restore(&safe), text);
    }

    #[test]
    fn a_text_without_markers_is_left_alone(text in "(<[xyz]|[a-z ]|&[xyz]|#[0-9]|[>;/]){0,20}") {
        prop_assert_eq!(neutralise(&text), text.as_str());
    }

    #[test]
    fn a_line_is_one_line_within_its_cap(value in hostile(), max in 8_usize..64) {
        let line = one_line(&value, max);
        prop_assert!(line.len() <= max);
        prop_assert!(!line.contains(char::is_control) && !line.contains("  "));
        prop_assert_eq!(line.trim(), &*line);
        prop_assert_eq!(one_line(&line, max), &*line);
    }

    #[test]
    fn a_document_cannot_end_its_own_block(text in hostile()) {
        let text = text.replace("ENVIRONMENT_CONTEXT", "soul");
        let safe = neutralise_closing(&text, "soul");
        let lower = safe.to_ascii_lowercase().replace(char::is_whitespace, "");
        prop_assert!(!lower.contains("</soul>"));
    }
}

#[test]
fn the_markers_are_in_order_and_fit() {
    assert!(MARKERS.is_sorted());
    assert!(MARKERS.iter().all(|m| m.len() < NAME_MAX && m.to_ascii_lowercase() == **m));
}

#[test]
fn each_form_of_a_marker_is_escaped_and_nothing_else() {
    for (text, safe) in [
        ("</turn_context>", "&lt;/turn_context>"),
        ("< /\tTurn_Context >", "&lt; /\tTurn_Context >"),
        ("<\u{200b}turn\u{200d}_context>", "&lt;\u{200b}turn\u{200d}_context>"),
        ("<permissions instructions>", "&lt;permissions instructions>"),
        ("<soul", "&lt;soul"),
        ("&lt;soul>", "&amp;lt;soul>"),
        ("# agents.MD  Instructions for /", "&#35; agents.MD  Instructions for /"),
        ("if a <b && c < d { &x } // # AGENTS.md", "if a <b && c < d { &x } // # AGENTS.md"),
        ("<souls> <soul-mate> <x:soul> &lt;b> &amp;", "<souls> <soul-mate> <x:soul> &lt;b> &amp;"),
    ] {
        assert_eq!(neutralise(text), safe);
        assert_eq!(restore(safe), text);
    }
}

#[test]
fn a_document_keeps_all_but_its_own_closing_tag() {
    let text = "<soul> </mission> < / SOUL\n> <environment_context>";
    assert_eq!(
        neutralise_closing(text, "soul"),
        "<soul> </mission> &lt; / SOUL\n> <environment_context>"
    );
    assert!(matches!(neutralise_closing(text, "design"), Cow::Borrowed(_)));
}

#[test]
fn a_long_name_is_cut_between_characters() {
    let line = one_line(&"é".repeat(200), LINE_MAX).into_owned();
    assert!(line.len() <= LINE_MAX && line.ends_with('…'));
    assert_eq!(line.chars().filter(|c| *c == 'é').count(), 126);
    assert_eq!(one_line("  a \r\n\t b\u{202e}c\u{0} ", LINE_MAX), "a bc");
    assert_eq!(one_line("👩\u{200d}💻", LINE_MAX), "👩\u{200d}💻");
}
