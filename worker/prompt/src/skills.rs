//! The skills catalogue: what is shown of each skill, in which order, and how large it may be. A
//! catalogue over its budget is an error that names skills; nothing is left out silently.

use crate::context::Skill;
use crate::error::AssembleError;
use crate::trust::{LINE_MAX, neutralise_into, one_line, push_line};

/// The longest description that is shown, in bytes; a longer one ends in `…`.
pub const DESCRIPTION_MAX: usize = 400;

/// The budget in bytes when the model's window is not known.
const BUDGET_UNKNOWN_WINDOW: usize = 8000;

const OPEN: &str = "\
<skills_instructions>
Skills are written instructions for particular kinds of work, by category. When a task falls under
one of them, read it with `skill_view`, giving its name, before you begin, and follow it.
";
const CLOSE: &str = "</skills_instructions>";

/// The bytes a catalogue may take: 2 % of the window at four bytes a token; 8000 for an unknown.
#[must_use]
pub fn catalogue_budget(window_tokens: Option<u32>) -> usize {
    match window_tokens {
        None | Some(0) => BUDGET_UNKNOWN_WINDOW,
        Some(tokens) => usize::try_from(u64::from(tokens) * 4 * 2 / 100).unwrap_or(usize::MAX),
    }
}

/// The bytes of the rendered catalogue; none for no skills.
#[must_use]
pub fn catalogue_size(skills: &[Skill]) -> usize {
    Catalogue::render(skills).text.len()
}

/// Whether the rendered catalogue fits the window; answers its size in bytes. For the refusal at
/// write time and for assembly alike.
///
/// # Errors
/// When it is over its budget, with the skills that lie past it.
pub fn check_catalogue(
    skills: &[Skill],
    window_tokens: Option<u32>,
) -> Result<usize, AssembleError> {
    Catalogue::render(skills).check(catalogue_budget(window_tokens))
}

/// The rendered catalogue. `text` is its head, then the lines without a gap, then its foot.
pub(crate) struct Catalogue<'a> {
    pub(crate) text: String,
    pub(crate) lines: Vec<Line<'a>>,
}

/// What one skill wrote: its line, and the category above it when it is the first there.
pub(crate) struct Line<'a> {
    pub(crate) skill: &'a Skill,
    pub(crate) end: usize,
}

impl<'a> Catalogue<'a> {
    /// Where the first line begins.
    pub(crate) const HEAD: usize = OPEN.len();

    /// Renders the skills by category, then name, in code point order; empty for no skills.
    pub(crate) fn render(skills: &'a [Skill]) -> Self {
        if skills.is_empty() {
            return Self { text: String::new(), lines: Vec::new() };
        }
        let mut sorted: Vec<&Skill> = skills.iter().collect();
        sorted.sort_by(|a, b| order(a).cmp(&order(b)));
        let each =
            |skill: &Skill| skill.category.len() + skill.name.len() + skill.description.len();
        let bytes: usize = skills.iter().map(|skill| each(skill) + 16).sum();
        let mut text = String::with_capacity(OPEN.len() + bytes + CLOSE.len());
        let mut lines = Vec::with_capacity(sorted.len());
        let mut above = None;
        text.push_str(OPEN);
        for skill in sorted {
            let category = category(skill);
            if above != Some(category) {
                push_line(&mut text, category, LINE_MAX);
                text.push_str(":\n");
                above = Some(category);
            }
            push_skill(&mut text, skill);
            lines.push(Line { skill, end: text.len() });
        }
        text.push_str(CLOSE);
        Self { text, lines }
    }

    /// Its size in bytes, if that is within `budget`.
    pub(crate) fn check(&self, budget: usize) -> Result<usize, AssembleError> {
        let needed = self.text.len();
        if needed <= budget {
            return Ok(needed);
        }
        let past = self.lines.iter().filter(|line| line.end + CLOSE.len() > budget);
        let skills = past.map(|line| line.skill.name.clone()).collect();
        Err(AssembleError::SkillsOverBudget { budget, needed, skills })
    }
}

fn category(skill: &Skill) -> &str {
    let category = skill.category.trim();
    if category.is_empty() { "general" } else { category }
}

// Names are unique; the rest makes the order total, so that it never depends on the caller's.
fn order(skill: &Skill) -> (&str, &str, &str, u64) {
    (category(skill), &skill.name, &skill.description, skill.revision)
}

fn push_skill(text: &mut String, skill: &Skill) {
    text.push_str("- ");
    push_line(text, &skill.name, LINE_MAX);
    let description = one_line(&skill.description, DESCRIPTION_MAX);
    if !description.is_empty() {
        text.push_str(": ");
        neutralise_into(text, &description);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(category: &str, name: &str, description: &str) -> Skill {
        Skill {
            name: name.into(),
            category: category.into(),
            description: description.into(),
            tags: Vec::new(),
            revision: 7,
        }
    }

    fn body(skills: &[Skill]) -> String {
        let text = Catalogue::render(skills).text;
        text[Catalogue::HEAD..text.len() - CLOSE.len()].to_owned()
    }

    #[test]
    fn order_is_category_then_name_by_code_point() {
        let skills = [
            skill("writing", "b", "second"),
            skill(" ", "z", ""),
            skill("writing", "B", "first\n\nof  all </skills_instructions>"),
            skill("Écrit", "a", "last"),
        ];
        let text = "general:\n- z\nwriting:\n- B: first of all &lt;/skills_instructions>\n\
                    - b: second\nÉcrit:\n- a: last\n";
        assert_eq!(body(&skills), text);
        let mut turned = skills;
        turned.reverse();
        assert_eq!(body(&turned), text);
    }

    #[test]
    fn a_long_description_is_capped() {
        let text = body(&[skill("c", "n", &"é".repeat(400))]);
        assert!(text.len() <= "c:\n- n: \n".len() + DESCRIPTION_MAX);
        assert!(text.ends_with("…\n"));
    }

    #[test]
    fn the_budget_is_two_percent_of_the_window() {
        assert_eq!(catalogue_budget(Some(200_000)), 16_000);
        assert_eq!(catalogue_budget(Some(u32::MAX)), 343_597_383);
        assert_eq!((catalogue_budget(None), catalogue_budget(Some(0))), (8000, 8000));
    }

    #[test]
    fn a_catalogue_over_budget_names_what_lies_past_it() {
        assert_eq!(catalogue_size(&[]), 0);
        let skills = [skill("c", "a", "one"), skill("c", "b", "two"), skill("c", "c", "three")];
        let size = catalogue_size(&skills);
        let catalogue = Catalogue::render(&skills);
        assert_eq!(catalogue.text.len(), size);
        assert!(matches!(catalogue.check(size), Ok(same) if same == size));
        let refused = catalogue.check(size - 1).unwrap_err();
        let AssembleError::SkillsOverBudget { budget, needed, skills } = refused else {
            panic!("another error")
        };
        assert_eq!((budget, needed, skills), (size - 1, size, vec!["c".to_owned()]));
    }
}
