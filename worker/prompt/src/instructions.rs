//! The system prompt: four blocks, slow-changing first, each range of bytes with its source. What
//! differs from one message to the next has no place here, or the provider's cache is lost.

use crate::LAYOUT;
use crate::context::{Context, Document, DocumentSource, Tools, TurnFacts, Workspace};
use crate::digest::Sha256;
use crate::error::AssembleError;
use crate::manifest::InstructionPart;
use crate::runtime;
use crate::skills::{Catalogue, catalogue_budget};
use crate::trust::neutralise_closing;
use crate::zone::Zone;
use std::borrow::Cow;

/// What stands between two blocks.
pub(crate) const BETWEEN: &str = "\n\n";

/// A block of the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The core instructions.
    Core,
    /// SOUL, MISSION and DESIGN.
    Documents,
    /// The skills catalogue.
    Skills,
    /// Channel and runtime.
    Runtime,
}

impl BlockKind {
    /// Its stable name, the kind of its parts in the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Documents => "documents",
            Self::Skills => "skills",
            Self::Runtime => "runtime",
        }
    }
}

/// Where a block stands in `instructions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which it is.
    pub kind: BlockKind,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

/// What wrote a range of bytes.
pub(crate) struct Source {
    pub(crate) object: String,
    pub(crate) revision: Option<u64>,
}

impl Source {
    /// An object without a revision of its own.
    pub(crate) fn of(object: &str) -> Self {
        Self { object: object.to_owned(), revision: None }
    }

    /// The fixed text of this crate.
    pub(crate) fn layout() -> Self {
        Self { object: format!("layout/{LAYOUT}"), revision: None }
    }
}

/// The system prompt under construction.
pub(crate) struct Instructions {
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
    pub(crate) parts: Vec<InstructionPart>,
}

impl Instructions {
    fn with_capacity(bytes: usize, parts: usize) -> Self {
        Self {
            text: String::with_capacity(bytes),
            blocks: Vec::with_capacity(4),
            parts: Vec::with_capacity(parts),
        }
    }

    fn open(&mut self, kind: BlockKind) {
        if !self.text.is_empty() {
            self.text.push_str(BETWEEN);
        }
        let start = self.text.len();
        self.blocks.push(Block { kind, start, end: start });
    }

    /// Appends a part to the open block; an empty one leaves no trace.
    pub(crate) fn push(&mut self, text: &str, source: Source) {
        self.push_hashed(text, source, None);
    }

    /// The same, with the digest of `text` where it is known.
    fn push_hashed(&mut self, text: &str, source: Source, sha256: Option<Sha256>) {
        let Some(block) = self.blocks.last_mut() else { return };
        if text.is_empty() {
            return;
        }
        let start = self.text.len();
        self.text.push_str(text);
        block.end = self.text.len();
        self.parts.push(InstructionPart {
            end: block.end,
            kind: Cow::Borrowed(block.kind.as_str()),
            object: source.object,
            revision: source.revision,
            sha256: sha256.unwrap_or_else(|| Sha256::of(text)),
            start,
        });
    }
}

/// Writes the system prompt.
pub(crate) fn write(
    context: &Context,
    facts: &TurnFacts,
    workspace: &Workspace,
    tools: &Tools,
    zone: Zone,
) -> Result<Instructions, AssembleError> {
    let catalogue = Catalogue::render(&context.skills);
    catalogue.check(catalogue_budget(facts.model.window_tokens))?;
    let (base, base_source, base_sha256) = base(facts);
    let documents = documents(context);
    let text: usize = documents.iter().map(|(_, document)| document.text.len()).sum();
    let bytes = base.len() + text + catalogue.text.len() + workspace.path.len() + 2048;
    let mut out = Instructions::with_capacity(bytes, catalogue.lines.len() + 24);
    if !base.is_empty() {
        out.open(BlockKind::Core);
        out.push_hashed(base, base_source, base_sha256);
    }
    write_documents(&mut out, &documents);
    write_catalogue(&mut out, &catalogue);
    out.open(BlockKind::Runtime);
    runtime::write(&mut out, context, workspace, tools, zone);
    Ok(out)
}

/// The core instructions: the agent's own, else those the conversation began with, else the
/// model's.
fn base(facts: &TurnFacts) -> (&str, Source, Option<Sha256>) {
    if let Some(own) = &facts.base_override {
        let object = "base/override".to_owned();
        return (own.text.trim(), Source { object, revision: Some(own.revision) }, None);
    }
    if let Some(stored) = &facts.stored_base {
        let text = stored.text.trim();
        let whole = text.len() == stored.text.len();
        let sha256 = if whole { Sha256::parse(&stored.sha256) } else { None };
        return (text, Source::of("base/stored"), sha256);
    }
    let default = &facts.model.default_base_instructions;
    let object = format!("base/model:{}", facts.model.name);
    (default.text.trim(), Source { object, revision: Some(default.revision) }, None)
}

/// The documents that say something, with the names of their tags.
fn documents(context: &Context) -> Vec<(&'static str, &Document)> {
    let documents = &context.documents;
    let mut all = vec![
        ("soul", &documents.soul),
        ("mission", &documents.mission),
        ("design", &documents.design),
    ];
    all.retain(|(_, document)| !document.text.trim().is_empty());
    all
}

fn write_documents(out: &mut Instructions, documents: &[(&'static str, &Document)]) {
    for (at, (name, document)) in documents.iter().enumerate() {
        let between = if at == 0 { "" } else { BETWEEN };
        if at == 0 {
            out.open(BlockKind::Documents);
        }
        out.push(&format!("{between}<{name}>\n"), Source::layout());
        // The line end before the closing tag may be the document's own: then the range is the
        // whole document, and its digest is the one it is stored under.
        let raw = document.text.as_str();
        let body = raw.trim();
        let own_line_end = raw.strip_suffix('\n') == Some(body);
        let safe = neutralise_closing(if own_line_end { raw } else { body }, name);
        let sha256 = match &safe {
            Cow::Borrowed(text) if text.len() == raw.len() => Sha256::parse(&document.sha256),
            Cow::Borrowed(_) | Cow::Owned(_) => None,
        };
        let source = match document.source {
            DocumentSource::Agent { revision } => {
                Source { object: format!("document/{name}"), revision: Some(revision) }
            }
            DocumentSource::Template => Source::of(&format!("template/{name}")),
        };
        out.push_hashed(&safe, source, sha256);
        let line_end = if own_line_end { "" } else { "\n" };
        out.push(&format!("{line_end}</{name}>"), Source::layout());
    }
}

fn write_catalogue(out: &mut Instructions, catalogue: &Catalogue<'_>) {
    if catalogue.lines.is_empty() {
        return;
    }
    out.open(BlockKind::Skills);
    let (head, _) = catalogue.text.split_at(Catalogue::HEAD);
    out.push(head, Source::layout());
    let mut start = Catalogue::HEAD;
    for line in &catalogue.lines {
        let source = Source {
            object: format!("skill/{}", line.skill.name),
            revision: Some(line.skill.revision),
        };
        out.push(&catalogue.text[start..line.end], source);
        start = line.end;
    }
    out.push(&catalogue.text[start..], Source::layout());
}
