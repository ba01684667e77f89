//! What a folder must be, and that every problem is told at once.

use super::{Draft, SourceFile, parse};

fn folder(files: &[(&str, &str)]) -> Draft {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| SourceFile {
            path: (*path).to_owned(),
            content: Ok(text.as_bytes().to_vec()),
        })
        .collect();
    parse(&files)
}

const AGENT: (&str, &str) = ("a/agent.yaml", "slug: a\ndisplay_name: A\n");
const SKILL: &str = "---\nname: s\ndescription: what\n---\nbody\n";

fn places(draft: &Draft) -> Vec<&str> {
    draft.problems.iter().filter_map(|p| p.split(": ").next()).collect()
}

#[test]
fn a_small_agent_is_whole() {
    let d = folder(&[
        AGENT,
        ("a/SOUL.md", "s"),
        ("a/skills/s/SKILL.md", SKILL),
        ("a/skills/s/x/y.txt", "z"),
    ]);
    assert_eq!(d.problems, Vec::<String>::new());
    assert_eq!(d.desired.agents.len(), 1);
    assert_eq!(d.desired.bindings[0].id, "console-a");
    assert_eq!(d.desired.skills[0].files.len(), 2);
    assert_eq!(d.desired.blobs.len(), 2);
    // MISSION and DESIGN are missing, which is no problem and is said.
    assert_eq!(d.notes.len(), 2);
}

#[test]
fn every_problem_of_every_file_is_told_at_once() {
    let mut files: Vec<SourceFile> = [
        (
            "a/agent.yaml",
            "slug: a\ndisplay_name: A\nsettings:\n  ai_agent.max_iterations: many\n  nope: 1\n",
        ),
        ("a/skills/s/SKILL.md", "no frontmatter"),
        (
            "a/skills/t/SKILL.md",
            "---\nname: other\ndescription: d\nbrain-recall-only: perhaps\n---\n",
        ),
        ("b/agent.yaml", "slug: [\n"),
        ("models.yaml", "models:\n  - name: m\n    provider: none\n    upstream_model: u\n"),
        ("settings.yaml", "system.timezone: Mars/Olympus\n"),
    ]
    .into_iter()
    .map(|(p, t)| SourceFile { path: p.into(), content: Ok(t.as_bytes().to_vec()) })
    .collect();
    files.push(SourceFile { path: "a/SOUL.md".into(), content: Err("permission denied".into()) });
    let d = parse(&files);
    let places = places(&d);
    for expected in [
        "a/SOUL.md",
        "a/agent.yaml",
        "a/skills/s/SKILL.md:1",
        "a/skills/t/SKILL.md",
        "models.yaml",
        "settings.yaml",
    ] {
        assert!(places.contains(&expected), "{expected} in {places:?}");
    }
    assert!(places.iter().any(|p| p.starts_with("b/agent.yaml")), "{places:?}");
    assert_eq!(places.iter().filter(|p| **p == "a/agent.yaml").count(), 2);
    assert_eq!(places.iter().filter(|p| **p == "a/skills/t/SKILL.md").count(), 2);
}

#[test]
fn a_yaml_error_names_its_line() {
    let d =
        folder(&[AGENT, ("a/skills/s/SKILL.md", "---\nname: s\ndescription: d\ntags: [x\n---\n")]);
    assert!(d.problems[0].starts_with("a/skills/s/SKILL.md:"), "{:?}", d.problems);
}

#[test]
fn paths_stay_in_the_folder() {
    for path in ["../x", "a/../b", "/etc/x", "a//b"] {
        assert_eq!(folder(&[AGENT, (path, "")]).problems.len(), 1, "{path}");
    }
}

#[test]
fn a_global_setting_is_refused_in_an_agent() {
    let d =
        folder(&[("a/agent.yaml", "slug: a\ndisplay_name: A\nsettings: {system.timezone: UTC}\n")]);
    assert_eq!(places(&d), ["a/agent.yaml"]);
}
