//! Single rules: which base counts, what is refused, what is left out.

use crate::sample::{context, document, facts, prompt, skill, tools, workspace};
use turnwright_prompt::{
    AssembleError, BaseText, Baseline, BlockKind, DocumentSource, LAYOUT, Prompt, Section, Sha256,
    StoredBase, assemble, catalogue_size, check_catalogue, render_margin,
};

fn first_source(prompt: &Prompt) -> (&str, Option<u64>) {
    let part = prompt.manifest.instructions.first().unwrap();
    (&part.object, part.revision)
}

#[test]
fn the_override_outranks_the_stored_base_and_that_the_default() {
    let mut facts = facts();
    let default = prompt(&context(), &facts, &Baseline::default());
    assert_eq!(first_source(&default), ("base/model:gpt-demo", Some(3)));
    let text = "As it was.".to_owned();
    facts.stored_base = Some(StoredBase { sha256: Sha256::of(&text).to_string(), text });
    let stored = prompt(&context(), &facts, &Baseline::default());
    assert_eq!(first_source(&stored), ("base/stored", None));
    assert_eq!(stored.block(BlockKind::Core), Some("As it was."));
    facts.base_override = Some(BaseText { text: " As ordered.\n".into(), revision: 8 });
    let own = prompt(&context(), &facts, &Baseline::default());
    assert_eq!(first_source(&own), ("base/override", Some(8)));
    assert_eq!(own.block(BlockKind::Core), Some("As ordered."));
    assert_eq!(stored.block(BlockKind::Documents), own.block(BlockKind::Documents));
}

#[test]
fn empty_blocks_are_left_out() {
    let (mut context, mut facts) = (context(), facts());
    for blank in
        [&mut context.documents.soul, &mut context.documents.mission, &mut context.documents.design]
    {
        *blank = document(" \n", DocumentSource::Template);
    }
    context.skills.clear();
    facts.base_override = Some(BaseText { text: String::new(), revision: 1 });
    facts.signals.clear();
    let prompt = prompt(&context, &facts, &Baseline::default());
    assert_eq!(prompt.blocks.iter().map(|b| b.kind).collect::<Vec<_>>(), [BlockKind::Runtime]);
    assert_eq!(prompt.block(BlockKind::Runtime), Some(prompt.instructions.as_str()));
    assert_eq!(prompt.manifest.verify(&prompt.instructions, &prompt.input), Ok(()));
}

#[test]
fn a_catalogue_over_budget_is_refused_alike_at_write_time_and_in_assembly() {
    let mut context = context();
    context.skills = (0..20).map(|n| skill("c", &format!("skill-{n:02}"), "does it", n)).collect();
    let needed = catalogue_size(&context.skills);
    let mut facts = facts();
    facts.model.window_tokens = Some(u32::try_from(needed).unwrap() * 100 / 8 - 13);
    let Err(refused) = assemble(&context, &facts, &Baseline::default(), &workspace(), &tools())
    else {
        panic!("it was accepted")
    };
    let Err(again) = check_catalogue(&context.skills, facts.model.window_tokens) else {
        panic!("it was accepted")
    };
    assert_eq!(refused.to_string(), again.to_string());
    assert!(matches!(
        refused,
        AssembleError::SkillsOverBudget { needed: bytes, skills, .. }
            if bytes == needed && skills.last().is_some_and(|name| name == "skill-19")
    ));
    facts.model.window_tokens = None;
    let fits = prompt(&context, &facts, &Baseline::default());
    assert_eq!(fits.block(BlockKind::Skills).map(str::len), Some(needed));
}

#[test]
fn a_baseline_of_another_layout_is_refused() {
    let baseline = Baseline { layout: LAYOUT + 1, environment: Section::Absent };
    assert!(matches!(
        assemble(&context(), &facts(), &baseline, &workspace(), &tools()),
        Err(AssembleError::UnsupportedLayout { found, supported: LAYOUT }) if found == LAYOUT + 1
    ));
}

#[test]
fn a_message_without_text_keeps_its_facts() {
    let mut facts = facts();
    facts.signals[0].text = "\n".into();
    let prompt = prompt(&context(), &facts, &Baseline::default());
    let parts: Vec<usize> = prompt.input.iter().map(|message| message.content.len()).collect();
    assert_eq!(parts, [1, 1, 2]);
    assert_eq!(prompt.manifest.verify(&prompt.instructions, &prompt.input), Ok(()));
}

#[test]
fn a_margin_moves_no_cursor() {
    let mut facts = facts();
    facts.signals[0].text = "\u{1b}[2Jgone\u{202e}".into();
    let prompt = prompt(&context(), &facts, &Baseline::default());
    for width in [0, 1, 8, 40] {
        let page = render_margin(&prompt.instructions, &prompt.input, &prompt.manifest, width);
        assert!(!page.contains(['\u{1b}', '\u{202e}']));
        assert!(page.contains("\\u{1b}[2Jgone\\u{202e}"));
        let bar = |line: &str| line.chars().position(|c| c == '│');
        assert!(page.lines().all(|line| bar(line) == Some(width + 1)));
    }
}
