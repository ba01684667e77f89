//! Plays a plan beat by beat, with its delays and gates. It starts no task: who drops it ends it.
use crate::{
    Gates,
    plan::{Act, Plan},
};
use std::{collections::VecDeque, time::Duration};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

/// How long a request waits at a gate before it fails.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Characters of arguments in one piece.
const PIECE_CHARS: usize = 24;

/// A running reply.
#[derive(Debug)]
pub(crate) struct Play {
    acts: VecDeque<Act>,
    finish: &'static str,
    output_bytes: usize,
    gates: Gates,
    stop: CancellationToken,
    /// The request's place among those in flight, held until the reply is over or given up.
    _slot: OwnedSemaphorePermit,
}

/// One thing that the model does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    Text(String),
    CallStart {
        index: usize,
        id: String,
        name: String,
    },
    CallArguments {
        index: usize,
        piece: String,
    },
    /// The connection ends after this many more bytes of the body.
    CutAfter(usize),
}

/// Why a reply ends before its time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Interrupted {
    #[error("the server is stopping")]
    Stopping,
    #[error("gate `{0}` was not opened in time")]
    Gate(String),
}

impl Play {
    pub(crate) fn new(
        plan: Plan,
        gates: Gates,
        stop: CancellationToken,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        let Plan { acts, finish } = plan;
        Self { acts, finish: finish.as_str(), output_bytes: 0, gates, stop, _slot: slot }
    }

    /// How the message ends, as the wire spells it.
    pub(crate) fn finish(&self) -> &'static str {
        self.finish
    }

    /// Bytes of text, tool names and arguments so far.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// The next beat; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Beat>, Interrupted> {
        loop {
            let Some(act) = self.acts.front_mut() else { return Ok(None) };
            match act {
                Act::Words { text, at, per_word } => {
                    let per_word = *per_word;
                    if let Some(word) = next_word(text, at) {
                        if !per_word.is_zero() {
                            self.pause(per_word).await?;
                        }
                        self.output_bytes += word.len();
                        return Ok(Some(Beat::Text(word)));
                    }
                }
                Act::Arguments { index, text, at } => {
                    if let Some(piece) = next_piece(text, at) {
                        self.output_bytes += piece.len();
                        return Ok(Some(Beat::CallArguments { index: *index, piece }));
                    }
                }
                Act::Delay(_) | Act::Gate(_) | Act::Call { .. } | Act::CutAfter(_) => {}
            }
            // Nothing is left of texts here; the other acts happen once.
            match self.acts.pop_front() {
                Some(Act::Delay(delay)) => self.pause(delay).await?,
                Some(Act::Gate(name)) => self.pass(name).await?,
                Some(Act::Call { index, id, name }) => {
                    self.output_bytes += name.len();
                    return Ok(Some(Beat::CallStart { index, id, name }));
                }
                Some(Act::CutAfter(bytes)) => return Ok(Some(Beat::CutAfter(bytes))),
                Some(Act::Words { .. } | Act::Arguments { .. }) | None => {}
            }
        }
    }

    async fn pause(&self, delay: Duration) -> Result<(), Interrupted> {
        tokio::select! {
            () = self.stop.cancelled() => Err(Interrupted::Stopping),
            () = tokio::time::sleep(delay) => Ok(()),
        }
    }

    async fn pass(&self, gate: String) -> Result<(), Interrupted> {
        let passed = tokio::select! {
            () = self.stop.cancelled() => return Err(Interrupted::Stopping),
            passed = tokio::time::timeout(LONGEST_WAIT, self.gates.pass(&gate)) => passed,
        };
        passed.map_err(|_| Interrupted::Gate(gate))
    }
}

/// The word at byte `at` with the white space after it, or `None` at the end.
fn next_word(text: &str, at: &mut usize) -> Option<String> {
    let rest = text.get(*at..).filter(|rest| !rest.is_empty())?;
    let next = |from: usize, space: bool| {
        rest[from..].find(|c: char| c.is_whitespace() == space).map_or(rest.len(), |i| from + i)
    };
    let end = next(next(next(0, false), true), false);
    *at += end;
    Some(rest[..end].to_owned())
}

/// The next piece from byte `at` on, or `None` at the end.
fn next_piece(text: &str, at: &mut usize) -> Option<String> {
    let rest = text.get(*at..).filter(|rest| !rest.is_empty())?;
    let end = rest.char_indices().nth(PIECE_CHARS).map_or(rest.len(), |(end, _)| end);
    *at += end;
    Some(rest[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str, next: fn(&str, &mut usize) -> Option<String>) -> Vec<String> {
        let mut at = 0;
        std::iter::from_fn(|| next(text, &mut at)).collect()
    }

    #[test]
    fn words_keep_the_white_space_after_them() {
        assert_eq!(all(" a  b\nc ", next_word), [" a  ", "b\n", "c "]);
        assert_eq!(all("  ", next_word), ["  "]);
        assert!(all("", next_word).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_empty_in_pieces(text in "\\PC{0,80}|[ \\n]{0,5}(ä [\\n ]{0,2}){0,9}") {
            for next in [next_word, next_piece] {
                let pieces = all(&text, next);
                prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
                prop_assert_eq!(pieces.concat(), text.as_str());
            }
        }
    }
}
