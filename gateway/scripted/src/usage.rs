//! Counts tokens, and how much of a prompt earlier requests had already sent. It must not look inside the text.
use parking_lot::Mutex;
use std::collections::VecDeque;

/// A token is four bytes here; the last one may be short.
const BYTES_PER_TOKEN: usize = 4;
/// Cached prefixes count in whole blocks of this many tokens.
const BLOCK_TOKENS: usize = 128;
const BLOCK_BYTES: usize = BLOCK_TOKENS * BYTES_PER_TOKEN;
/// How many earlier requests are remembered …
const REMEMBERED: usize = 64;
/// … and how many bytes they may take together; the newest one is always kept.
const REMEMBERED_BYTES: usize = 32 * 1024 * 1024;

/// Tokens in `bytes` bytes of text.
pub(crate) fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// What a prompt counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromptTokens {
    pub(crate) total: usize,
    pub(crate) cached: usize,
}

/// The prompts of the latest requests.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    earlier: Mutex<Earlier>,
}

#[derive(Debug, Default)]
struct Earlier {
    prompts: VecDeque<Prompt>,
    bytes: usize,
}

#[derive(Debug)]
struct Prompt {
    model: Box<str>,
    text: String,
}

impl Prefixes {
    /// Counts `text` against earlier prompts to the same model, then remembers it.
    pub(crate) fn observe(&self, model: &str, text: String) -> PromptTokens {
        let total = tokens(text.len());
        let mut earlier = self.earlier.lock();
        let mut blocks = 0;
        // Newest first: within a conversation the newest shares most, and shorter ones are then passed over unread.
        for prompt in earlier.prompts.iter().rev().filter(|prompt| *prompt.model == *model) {
            if shares_block(prompt.text.as_bytes(), text.as_bytes(), blocks) {
                blocks = blocks.max(shared_blocks(prompt.text.as_bytes(), text.as_bytes()));
            }
        }
        earlier.remember(Prompt { model: model.into(), text });
        PromptTokens { total, cached: blocks * BLOCK_TOKENS }
    }
}

impl Earlier {
    fn remember(&mut self, prompt: Prompt) {
        self.bytes += prompt.text.len();
        self.prompts.push_back(prompt);
        while self.prompts.len() > 1
            && (self.prompts.len() > REMEMBERED || self.bytes > REMEMBERED_BYTES)
        {
            let oldest = self.prompts.pop_front();
            self.bytes -= oldest.map_or(0, |prompt| prompt.text.len());
        }
    }
}

/// Whether both have whole, equal blocks at place `at`.
fn shares_block(a: &[u8], b: &[u8], at: usize) -> bool {
    let block = at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES;
    a.get(block.clone()).is_some_and(|of_a| b.get(block) == Some(of_a))
}

fn shared_blocks(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK_BYTES).zip(b.chunks_exact(BLOCK_BYTES));
    blocks.take_while(|(of_a, of_b)| of_a == of_b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule in its own words: longest common prefix in bytes, then tokens, then whole blocks.
    fn by_bytes(earlier: &[String], text: &str) -> usize {
        let common = |a: &String| a.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        earlier.iter().map(common).max().unwrap_or(0) / 4 / 128 * 128
    }

    proptest! {
        #[test]
        fn cached_tokens_are_the_longest_common_prefix_in_whole_blocks(
            prompts in proptest::collection::vec(
                proptest::collection::vec((0_u8..3, 1_usize..400), 0..8), 1..20),
        ) {
            let prefixes = Prefixes::default();
            let mut earlier = Vec::new();
            for pieces in prompts {
                let text: String = pieces
                    .into_iter()
                    .map(|(kind, length)| ["a", "b", "c"][usize::from(kind)].repeat(length * 3))
                    .collect();
                let counted = prefixes.observe("m", text.clone());
                prop_assert_eq!(counted.total, text.len().div_ceil(4));
                prop_assert_eq!(counted.cached, by_bytes(&earlier, &text));
                prop_assert!(counted.cached <= counted.total);
                earlier.push(text);
            }
        }
    }

    #[test]
    fn a_prompt_is_cached_for_its_own_model_only() {
        let prefixes = Prefixes::default();
        let text = "x".repeat(1300);
        assert_eq!(prefixes.observe("m", text.clone()), PromptTokens { total: 325, cached: 0 });
        assert_eq!(prefixes.observe("n", text.clone()).cached, 0);
        assert_eq!(prefixes.observe("m", text).cached, 256);
    }

    #[test]
    fn only_the_latest_requests_are_remembered() {
        let prefixes = Prefixes::default();
        let text = "x".repeat(BLOCK_BYTES);
        prefixes.observe("m", text.clone());
        for n in 0..REMEMBERED {
            prefixes.observe("m", format!("{n}"));
        }
        assert_eq!(prefixes.observe("m", text.clone()).cached, 0);
        assert_eq!(prefixes.observe("m", text).cached, BLOCK_TOKENS);
    }

    #[test]
    fn remembered_prompts_are_bounded_in_bytes() {
        let prefixes = Prefixes::default();
        for _ in 0..5 {
            prefixes.observe("m", "x".repeat(REMEMBERED_BYTES / 2));
        }
        assert!(prefixes.earlier.lock().bytes <= REMEMBERED_BYTES);
        prefixes.observe("m", "x".repeat(REMEMBERED_BYTES + 1));
        assert_eq!(prefixes.earlier.lock().prompts.len(), 1);
    }
}
