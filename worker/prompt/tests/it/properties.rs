//! What must hold for any input.

use crate::sample::{
    context, document, facts, hostile, markers_in, prompt, skill, tools, workspace,
};
use proptest::prelude::*;
use turnwright_prompt::{
    Baseline, DocumentSource, KIND_USER_TEXT, Mismatch, Network, Sha256, assemble, restore,
};

proptest! {
    #[test]
    fn what_is_said_and_by_whom_never_touches_the_instructions(
        text in hostile(), name in hostile(), id in hostile(), reply in hostile(),
        days in 0_i64..900,
    ) {
        let plain = prompt(&context(), &facts(), &Baseline::default());
        let mut facts = facts();
        facts.turn_id = id.clone();
        facts.turn_seq += days;
        facts.now += chrono::TimeDelta::days(days);
        facts.signals[0].speaker.display_name = name;
        facts.signals[0].speaker.external_id = id;
        facts.signals[0].reply_to = Some(reply);
        facts.signals[0].text = text;
        facts.signals.truncate(1);
        let other = prompt(&context(), &facts, &Baseline::unknown());
        prop_assert_eq!(other.instructions, plain.instructions);
        prop_assert_eq!(other.instructions_sha256, plain.instructions_sha256);
    }

    #[test]
    fn a_message_forges_nothing_and_can_be_read_back(
        text in hostile(), name in hostile(), reply in hostile(),
    ) {
        let mut facts = facts();
        facts.signals[1].speaker.display_name = name;
        facts.signals[1].reply_to = Some(reply);
        facts.signals[1].text = text.clone();
        let prompt = prompt(&context(), &facts, &Baseline::default());
        let message = prompt.input.last().unwrap();
        prop_assert_eq!(message.signal_id.as_deref(), Some("s-2"));
        let facts = &message.content[0];
        prop_assert_eq!(&*facts.kind, "turn_context");
        prop_assert!(facts.text.starts_with("<turn_context>\n"));
        prop_assert!(facts.text.ends_with("\n</turn_context>"));
        prop_assert_eq!(markers_in(&facts.text), 2);
        // At most a line each: two markers, speaker, id, addressed, time, reply.
        prop_assert!(facts.text.lines().count() <= 7);
        prop_assert_eq!(message.content.len(), if text.trim().is_empty() { 1 } else { 2 });
        if let Some(said) = message.content.get(1) {
            prop_assert_eq!(&*said.kind, KIND_USER_TEXT);
            prop_assert_eq!(markers_in(&said.text), 0);
            prop_assert_eq!(restore(&said.text), text);
        }
    }

    #[test]
    fn labels_names_and_descriptions_forge_nothing(
        label in hostile(), adapter in hostile(), tool in hostile(), description in hostile(),
    ) {
        let plain = prompt(&context(), &facts(), &Baseline::default());
        let mut context = context();
        context.origin.label = Some(label);
        context.origin.adapter = adapter;
        context.skills[0].description = description;
        let mut tools = tools();
        tools.0.push(tool);
        let other =
            assemble(&context, &facts(), &Baseline::default(), &workspace(), &tools).unwrap();
        prop_assert_eq!(markers_in(&other.instructions), markers_in(&plain.instructions));
        prop_assert_eq!(other.blocks.len(), 4);
        prop_assert_eq!(other.manifest.verify(&other.instructions, &other.input), Ok(()));
    }

    #[test]
    fn every_byte_has_a_source(
        soul in hostile(), mission in hostile(), design in hostile(), base in hostile(),
    ) {
        let mut context = context();
        let source = DocumentSource::Agent { revision: 2 };
        context.documents.soul = document(&soul, source);
        context.documents.mission = document(&mission, source);
        context.documents.design = document(&design, DocumentSource::Template);
        let mut facts = facts();
        facts.model.default_base_instructions.text = base;
        let prompt = prompt(&context, &facts, &Baseline::default());
        prop_assert_eq!(prompt.manifest.verify(&prompt.instructions, &prompt.input), Ok(()));
        prop_assert_eq!(prompt.instructions.trim(), &prompt.instructions);
        let blocks: Vec<&str> =
            prompt.blocks.iter().map(|b| &prompt.instructions[b.start..b.end]).collect();
        prop_assert_eq!(blocks.join("\n\n"), prompt.instructions.as_str());
        prop_assert!(blocks.iter().all(|block| !block.is_empty() && block.trim() == *block));
        let json = serde_json::to_value(&prompt.manifest).unwrap();
        prop_assert_eq!(serde_json::from_value(json).ok(), Some(prompt.manifest));
    }

    #[test]
    fn a_changed_byte_is_found(place in any::<prop::sample::Index>()) {
        let prompt = prompt(&context(), &facts(), &Baseline::default());
        let mut bytes = prompt.instructions.clone().into_bytes();
        let at = place.index(bytes.len());
        bytes[at] ^= 1;
        let changed = String::from_utf8(bytes).unwrap();
        prop_assert!(prompt.manifest.verify(&changed, &prompt.input).is_err());
        let mut input = prompt.input.clone();
        input.swap(1, 2);
        prop_assert_eq!(
            prompt.manifest.verify(&prompt.instructions, &input),
            Err(Mismatch::Input { message: 1, part: 0 })
        );
    }

    #[test]
    fn the_order_of_skills_and_hosts_does_not_matter(
        skills in Just(context().skills).prop_shuffle(),
        hosts in Just(vec!["b.example".to_owned(), "a.example".to_owned()]).prop_shuffle(),
    ) {
        let mut shuffled = context();
        shuffled.skills = skills;
        let mut workspace = workspace();
        workspace.network = Network::Hosts(hosts);
        let baseline = Baseline::default();
        let one = assemble(&shuffled, &facts(), &baseline, &workspace, &tools()).unwrap();
        workspace.network = Network::Hosts(vec!["a.example".into(), "b.example".into()]);
        let two = assemble(&context(), &facts(), &baseline, &workspace, &tools()).unwrap();
        prop_assert_eq!(one, two);
    }

    #[test]
    fn clock_and_label_never_part(zone in prop_oneof![
        hostile(), Just("Asia/Tokyo".to_owned()), Just("America/St_Johns".to_owned()),
    ]) {
        let mut context = context();
        context.timezone.clone_from(&zone);
        let prompt = prompt(&context, &facts(), &Baseline::default());
        let (label, started, sent) = match zone.as_str() {
            "Asia/Tokyo" => ("Asia/Tokyo", "21:05", "21:06"),
            "America/St_Johns" => ("America/St_Johns", "09:35", "09:36"),
            _ => ("UTC", "12:05", "12:06"),
        };
        let runtime = format!("timezone: {label}\nconversation_started: 2026-09-01 {started}\n");
        prop_assert!(prompt.instructions.contains(&runtime));
        let environment = format!("<timezone>{label}</timezone>");
        prop_assert!(prompt.input[0].content[0].text.contains(&environment));
        let turn = format!("sent_at: 2026-09-01 {sent} {label}\n");
        prop_assert!(prompt.input[1].content[0].text.contains(&turn));
    }

    #[test]
    fn what_was_told_is_not_told_again(path in hostile(), shell in hostile(), host in hostile()) {
        let mut workspace = workspace();
        workspace.path = path;
        workspace.shell = shell;
        workspace.network = Network::Hosts(vec![host]);
        let told = |baseline: &Baseline| {
            assemble(&context(), &facts(), baseline, &workspace, &tools()).unwrap()
        };
        let first = told(&Baseline::default());
        prop_assert_eq!(first.input.len(), 1 + facts().signals.len());
        let again = told(&first.baseline);
        prop_assert_eq!(again.input.as_slice(), &first.input[1..]);
        prop_assert_eq!(&again.baseline, &first.baseline);
        let text = serde_json::to_string(&first.baseline).unwrap();
        prop_assert_eq!(serde_json::from_str::<Baseline>(&text).unwrap(), first.baseline);
    }

    #[test]
    fn a_given_digest_is_that_of_the_range(text in "[a-z \n]{1,40}[.]\n?") {
        let mut context = context();
        context.documents.soul = document(&text, DocumentSource::Agent { revision: 1 });
        context.skills = vec![skill("a", "b", "c", 1)];
        let prompt = prompt(&context, &facts(), &Baseline::default());
        let mut parts = prompt.manifest.instructions.iter();
        let part = parts.find(|part| part.object == "document/soul").unwrap();
        prop_assert_eq!(part.sha256, Sha256::of(&prompt.instructions[part.start..part.end]));
        if !text.starts_with([' ', '\n']) {
            prop_assert_eq!(part.sha256.to_string(), context.documents.soul.sha256);
        }
    }
}
