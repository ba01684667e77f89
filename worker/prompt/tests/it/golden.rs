//! What a model reads, byte for byte. `UPDATE_GOLDEN=1` writes the files anew; read the difference
//! before you keep it: it is what every running conversation will see.

use crate::sample::{context, facts, prompt, signal};
use std::fs;
use std::path::Path;
use turnwright_prompt::{Baseline, InputMessage, render_margin};

#[expect(clippy::disallowed_methods, reason = "a switch of this test, not configuration")]
fn updating() -> bool {
    std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1")
}

fn compare(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if updating() {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{name} differs; UPDATE_GOLDEN=1 writes it anew");
}

fn show(input: &[InputMessage]) -> String {
    let mut out = String::new();
    for message in input {
        let signal = message.signal_id.as_deref().unwrap_or("no signal");
        out.push_str(&format!("=== {} message, {signal}\n", message.role.as_str()));
        for part in &message.content {
            out.push_str(&format!("--- {}\n{}\n", part.kind, part.text));
        }
    }
    out
}

#[test]
fn the_first_turn() {
    let prompt = prompt(&context(), &facts(), &Baseline::default());
    compare("first_turn.instructions.txt", &format!("{}\n", prompt.instructions));
    compare("first_turn.input.txt", &show(&prompt.input));
    let margin = render_margin(&prompt.instructions, &prompt.input, &prompt.manifest, 26);
    compare("first_turn.margin.txt", &margin);
}

#[test]
fn the_next_day_tells_only_the_date() {
    let first = prompt(&context(), &facts(), &Baseline::default());
    let mut facts = facts();
    facts.now = "2026-09-01T22:00:00Z".parse().unwrap();
    facts.signals = vec![signal("s-3", "Jane Doe", "Is it done?")];
    let second = prompt(&context(), &facts, &first.baseline);
    assert_eq!(second.instructions, first.instructions);
    compare("next_day.input.txt", &show(&second.input));
}
