//! Skills: a folder with a `SKILL.md` (YAML frontmatter and Markdown) and its files. One broken
//! skill never hides another's problems.

use super::{Draft, Files, yaml};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use turnwright_control_store::SkillRow;
use turnwright_types::{Sha256, SkillName};

/// The longest description, in bytes.
const DESCRIPTION_BYTES: usize = 1024;
/// The largest SKILL.md, in bytes.
const SKILL_BYTES: usize = 256 << 10;
/// Files of one skill.
const SKILL_FILES: usize = 256;

/// Reads every skill below `skills/`.
pub(super) fn parse_all(folder: &str, owner: &str, files: &Files<'_>, draft: &mut Draft) {
    let below =
        files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("skills/")?, *bytes)));
    let mut skills: BTreeMap<&str, Files<'_>> = BTreeMap::new();
    for (path, bytes) in below {
        match path.split_once('/') {
            Some((name, file)) => {
                skills.entry(name).or_default().insert(file, bytes);
            }
            None => draft.problem(
                format!("{folder}/skills/{path}"),
                "a skill is a folder: expected skills/<name>/SKILL.md",
            ),
        }
    }
    let unreadable: BTreeSet<String> = draft.problems.iter().cloned().collect();
    for (name, files) in skills {
        let place = format!("{folder}/skills/{name}/SKILL.md");
        if !files.contains_key("SKILL.md") {
            if !unreadable.iter().any(|p| p.starts_with(&place)) {
                draft.problem(place, "is missing");
            }
            continue;
        }
        match parse(&place, name, owner, &files) {
            Ok(skill) => {
                for bytes in files.values() {
                    let hash = Sha256::of(bytes).to_string();
                    draft.desired.blobs.entry(hash).or_insert_with(|| bytes.to_vec());
                }
                draft.desired.skills.push(skill);
            }
            Err(problems) => draft.problems.extend(problems),
        }
    }
}

fn parse(
    place: &str,
    folder: &str,
    owner: &str,
    files: &Files<'_>,
) -> Result<SkillRow, Vec<String>> {
    let one = |why: String| vec![format!("{place}{why}")];
    let bytes = files.get("SKILL.md").copied().unwrap_or_default();
    if bytes.len() > SKILL_BYTES {
        return Err(one(format!(": larger than {SKILL_BYTES} bytes")));
    }
    if files.len() > SKILL_FILES {
        return Err(one(format!(": the skill has more than {SKILL_FILES} files")));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| one(": not UTF-8".to_owned()))?;
    let front = frontmatter(text).map_err(|why| one(format!(":1: {why}")))?;
    // One line up: the frontmatter begins after the first `---`.
    let map: BTreeMap<String, Value> = yaml::read(front.as_bytes()).map_err(|e| {
        let line = e.line.strip_prefix(':').and_then(|l| l.parse::<u64>().ok());
        one(format!("{}: {}", line.map(|l| format!(":{}", l + 1)).unwrap_or_default(), e.text))
    })?;
    let mut problems = Vec::new();
    let row = fields(place, folder, owner, &map, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let hashes = files.iter().map(|(p, b)| ((*p).to_owned(), Sha256::of(b).to_string())).collect();
    let frontmatter = serde_json::json!(map);
    Ok(SkillRow { files: hashes, frontmatter, ..row })
}

/// The YAML between the first two `---` lines.
fn frontmatter(text: &str) -> Result<&str, &'static str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text
        .strip_prefix("---\n")
        .or_else(|| text.strip_prefix("---\r\n"))
        .ok_or("expected YAML frontmatter between two `---` lines at the start")?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok(&rest[..at]);
        }
        at += line.len();
    }
    Err("the frontmatter is not closed by a `---` line")
}

fn fields(
    place: &str,
    folder: &str,
    owner: &str,
    map: &BTreeMap<String, Value>,
    problems: &mut Vec<String>,
) -> SkillRow {
    let mut problem = |why: String| problems.push(format!("{place}: {why}"));
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    if name != folder {
        problem(format!("name must be the folder's, `{folder}`; found `{name}`"));
    } else if let Err(e) = SkillName::parse(name) {
        problem(e.to_string());
    }
    let description = text("description").unwrap_or_default().trim();
    if description.is_empty() || description.len() > DESCRIPTION_BYTES {
        problem(format!("description must be text of 1 to {DESCRIPTION_BYTES} bytes"));
    }
    let category = match map.get("category") {
        None => "general",
        Some(Value::String(c)) if !c.trim().is_empty() && c.len() <= 64 => c.trim(),
        Some(_) => {
            problem("category must be text of 1 to 64 bytes".to_owned());
            ""
        }
    };
    let tags = match map.get("tags") {
        None => Vec::new(),
        Some(Value::Array(tags)) if tags.iter().all(Value::is_string) && tags.len() <= 32 => {
            tags.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(_) => {
            problem("tags must be a list of at most 32 words".to_owned());
            Vec::new()
        }
    };
    let mut flag = |key: &str, default: bool| match map.get(key) {
        None => default,
        Some(Value::Bool(b)) => *b,
        Some(other) => {
            problem(format!("{key} must be true or false, found {other}"));
            default
        }
    };
    let enabled = flag("default_enabled", true);
    let recall_only = flag("brain-recall-only", false);
    SkillRow {
        agent: owner.to_owned(),
        name: name.to_owned(),
        category: category.to_owned(),
        description: description.to_owned(),
        tags,
        recall_only,
        enabled,
        frontmatter: Value::Null,
        files: BTreeMap::new(),
    }
}
