//! Assembles the prompt of a turn: a pure function from context to bytes. It reads no clock, no
//! file and no map order, so the same input gives the same bytes on every host; every byte of the
//! result is traced to its source by the manifest.

mod baseline;
mod context;
mod digest;
mod environment;
mod error;
mod fragment;
mod input;
mod instructions;
mod manifest;
mod margin;
mod runtime;
mod skills;
mod trust;
mod turn_context;
mod zone;

pub use baseline::{Baseline, EnvironmentValues, Section};
pub use context::{
    Addressed, AgentProfile, BaseText, ChannelKind, Context, Document, DocumentSource, Documents,
    Filesystem, ModelProfile, Network, OriginChannel, SignalText, Skill, Speaker, StoredBase,
    Tools, TurnFacts, Workspace,
};
pub use digest::Sha256;
pub use error::AssembleError;
pub use fragment::{ContentPart, ContextFragment, InputMessage, KIND_USER_TEXT, Role};
pub use instructions::{Block, BlockKind};
pub use manifest::{InputPart, InstructionPart, Manifest, Mismatch};
pub use margin::render_margin;
pub use skills::{DESCRIPTION_MAX, catalogue_budget, catalogue_size, check_catalogue};
pub use trust::{LINE_MAX, MARKERS, neutralise, restore};

use zone::Zone;

/// The number of the text layout this crate writes. It rises whenever the same input would give
/// other bytes, and it is stored in the baseline.
pub const LAYOUT: u32 = 1;

/// What one model request of a turn says, and where each byte of it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The system prompt, slow-changing text first.
    pub instructions: String,
    /// SHA-256 of `instructions`, in lower-case hexadecimal.
    pub instructions_sha256: String,
    /// The blocks of `instructions`, in order.
    pub blocks: Vec<Block>,
    /// What is appended to the conversation, in order.
    pub input: Vec<InputMessage>,
    /// The sources of `instructions` and `input`.
    pub manifest: Manifest,
    /// What the conversation has been told once `input` is stored; to be stored with it.
    pub baseline: Baseline,
}

impl Prompt {
    /// The text of one block; `None` when it was empty and left out.
    #[must_use]
    pub fn block(&self, kind: BlockKind) -> Option<&str> {
        let block = self.blocks.iter().find(|block| block.kind == kind)?;
        self.instructions.get(block.start..block.end)
    }
}

/// Assembles the first request of a turn.
///
/// `baseline` is what the conversation was told before: [`Baseline::default`] for a new or
/// compacted one, [`Baseline::unknown`] when the record of it is lost.
///
/// # Errors
/// When the skills catalogue is over its budget, or the baseline was written by a layout that this
/// crate does not support.
pub fn assemble(
    context: &Context,
    facts: &TurnFacts,
    baseline: &Baseline,
    workspace: &Workspace,
    tools: &Tools,
) -> Result<Prompt, AssembleError> {
    if baseline.layout != LAYOUT {
        return Err(AssembleError::UnsupportedLayout { found: baseline.layout, supported: LAYOUT });
    }
    let zone = Zone::named(&context.timezone);
    let written = instructions::write(context, facts, workspace, tools, zone)?;
    let input = input::write(facts, baseline, workspace, zone);
    let manifest = Manifest::seal(written.parts, input.parts)?;
    Ok(Prompt {
        instructions_sha256: Sha256::of(&written.text).to_string(),
        instructions: written.text,
        blocks: written.blocks,
        input: input.messages,
        manifest,
        baseline: input.baseline,
    })
}
