//! Why a prompt could not be assembled.

/// Why a prompt could not be assembled. None of these goes away by trying again.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The rendered catalogue is larger than the model's window allows.
    #[error(
        "the skills catalogue needs {needed} bytes and {budget} are allowed; shorten descriptions \
         or disable skills; past the limit: {}", .skills.join(", ")
    )]
    SkillsOverBudget {
        /// The bytes allowed.
        budget: usize,
        /// The bytes of the rendered catalogue.
        needed: usize,
        /// The skills whose lines lie past the limit, in catalogue order; never empty.
        skills: Vec<String>,
    },
    /// The baseline was written by a newer or a retired layout.
    #[error("baseline has layout {found}, this worker supports {supported}; use a matching worker")]
    UnsupportedLayout {
        /// The layout of the baseline.
        found: u32,
        /// The layout of this crate.
        supported: u32,
    },
    /// The manifest could not be written as JSON.
    #[error("cannot seal the prompt manifest")]
    Seal(#[source] serde_json::Error),
}
