//! The prompt manifest: the map from the bytes of one request to their sources, sealed by hash. It
//! is stored with the response and can be checked against the bytes at any time.

use crate::LAYOUT;
use crate::digest::Sha256;
use crate::error::AssembleError;
use crate::fragment::{ContentPart, InputMessage};
use crate::instructions::BETWEEN;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The sources of one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The parts of the input, in order.
    pub input: Vec<InputPart>,
    /// The parts of `instructions`, in order; without gaps but for the blank lines between blocks.
    pub instructions: Vec<InstructionPart>,
    /// The layout that wrote the text.
    pub layout: u32,
    /// SHA-256 of the canonical JSON (RFC 8785) of the object of the other fields.
    pub sha256: Sha256,
}

// The fields of these structures are declared in alphabetical order: as `serde_json` writes them,
// they are canonical.

/// A range of `instructions` and what wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionPart {
    /// The byte after its last.
    pub end: usize,
    /// The block it belongs to: `core`, `documents`, `skills`, `runtime`.
    pub kind: Cow<'static, str>,
    /// Its source: `base/override`, `base/stored`, `base/model:<name>`, `document/<name>`,
    /// `template/<name>`, `skill/<name>`, `agent/<slug>`, `channel`, `setting/system.timezone`,
    /// `conversation/<id>`, `workspace`, `tools`, or `layout/<n>` for the assembler's fixed text.
    pub object: String,
    /// The revision of the source, if it has one.
    pub revision: Option<u64>,
    /// SHA-256 of the range.
    pub sha256: Sha256,
    /// Its first byte.
    pub start: usize,
}

/// A content part of the input and what wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPart {
    /// Its length.
    pub bytes: usize,
    /// The stored kind of the part.
    pub kind: Cow<'static, str>,
    /// The message it belongs to, from 0.
    pub message: usize,
    /// Its source: `environment`, or `signal/<id>`.
    pub object: String,
    /// Its place in the message, from 0.
    pub part: usize,
    /// The revision of the source, if it has one.
    pub revision: Option<u64>,
    /// SHA-256 of its text.
    pub sha256: Sha256,
}

impl InputPart {
    /// Describes a part.
    pub(crate) fn of(message: usize, part: usize, content: &ContentPart, object: String) -> Self {
        Self {
            bytes: content.text.len(),
            kind: content.kind.clone(),
            message,
            object,
            part,
            revision: None,
            sha256: Sha256::of(&content.text),
        }
    }

    fn describes(&self, content: &ContentPart) -> bool {
        self.bytes == content.text.len()
            && self.kind == content.kind
            && self.sha256 == Sha256::of(&content.text)
    }
}

/// Why a manifest does not describe a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It was changed after it was sealed.
    #[error("the manifest is not as it was sealed")]
    Seal,
    /// A range holds other bytes than its source wrote.
    #[error("bytes {start} to {end} of the instructions are not what `{object}` wrote")]
    Range {
        /// The source it names.
        object: String,
        /// The first byte.
        start: usize,
        /// The byte after the last.
        end: usize,
    },
    /// Bytes belong to no part, or to two.
    #[error("the parts of the instructions do not join at byte {at}")]
    Untraced {
        /// Where the part before ends.
        at: usize,
    },
    /// An input part differs, is missing or is not described.
    #[error("part {part} of input message {message} is not what the manifest describes")]
    Input {
        /// The message, from 0.
        message: usize,
        /// The part, from 0.
        part: usize,
    },
}

/// What the seal covers.
#[derive(Serialize)]
struct Sealed<'a> {
    input: &'a [InputPart],
    instructions: &'a [InstructionPart],
    layout: u32,
}

impl Manifest {
    /// Seals the parts of a request.
    pub(crate) fn seal(
        instructions: Vec<InstructionPart>,
        input: Vec<InputPart>,
    ) -> Result<Self, AssembleError> {
        let sha256 = seal(&input, &instructions, LAYOUT).map_err(AssembleError::Seal)?;
        Ok(Self { input, instructions, layout: LAYOUT, sha256 })
    }

    /// Checks that the manifest is as it was sealed and describes exactly these bytes.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self, instructions: &str, input: &[InputMessage]) -> Result<(), Mismatch> {
        let seal =
            seal(&self.input, &self.instructions, self.layout).map_err(|_| Mismatch::Seal)?;
        if seal != self.sha256 {
            return Err(Mismatch::Seal);
        }
        self.verify_instructions(instructions)?;
        self.verify_input(input)
    }

    fn verify_instructions(&self, text: &str) -> Result<(), Mismatch> {
        let mut at = 0;
        for part in &self.instructions {
            let gap = text.get(at..part.start);
            if gap != Some("") && (at == 0 || gap != Some(BETWEEN)) {
                return Err(Mismatch::Untraced { at });
            }
            let same = text.get(part.start..part.end).is_some_and(|t| Sha256::of(t) == part.sha256);
            if !same {
                let (start, end) = (part.start, part.end);
                return Err(Mismatch::Range { object: part.object.clone(), start, end });
            }
            at = part.end;
        }
        if at == text.len() { Ok(()) } else { Err(Mismatch::Untraced { at }) }
    }

    fn verify_input(&self, input: &[InputMessage]) -> Result<(), Mismatch> {
        let mut described = self.input.iter();
        for (message, content) in input.iter().enumerate() {
            for (part, content) in content.content.iter().enumerate() {
                let same = described.next().is_some_and(|it| {
                    (it.message, it.part) == (message, part) && it.describes(content)
                });
                if !same {
                    return Err(Mismatch::Input { message, part });
                }
            }
        }
        match described.next() {
            None => Ok(()),
            Some(it) => Err(Mismatch::Input { message: it.message, part: it.part }),
        }
    }

    /// The part of `instructions` that wrote the byte at `at`.
    pub(crate) fn instruction_at(&self, at: usize) -> Option<&InstructionPart> {
        let first = self.instructions.partition_point(|part| part.end <= at);
        self.instructions.get(first).filter(|part| part.start <= at)
    }

    /// The description of an input part.
    pub(crate) fn input_at(&self, message: usize, part: usize) -> Option<&InputPart> {
        self.input.iter().find(|it| (it.message, it.part) == (message, part))
    }
}

fn seal(
    input: &[InputPart],
    instructions: &[InstructionPart],
    layout: u32,
) -> Result<Sha256, serde_json::Error> {
    let mut json = Vec::with_capacity(256 * (input.len() + instructions.len() + 1));
    serde_json::to_writer(&mut json, &Sealed { input, instructions, layout })?;
    Ok(Sha256::of(json))
}
