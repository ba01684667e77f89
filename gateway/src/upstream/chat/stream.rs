//! The stream of a Chat Completions answer as deltas. A chunk is read for what it says; what a
//! provider adds of its own is passed over.

use crate::{
    problem::Problem,
    upstream::{Delta, Stop, Usage, refusal},
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    delta: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct ChatUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// What one event of the stream said beside its deltas.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    /// There is more to come.
    More,
    /// Nothing comes after this.
    Done,
}

/// Reads a stream, event by event.
#[derive(Debug, Default)]
pub(crate) struct ChatStream {
    /// Calls begun so far, with the number and the id the provider gave them; their place here is
    /// their place in the answer.
    begun: Vec<(Option<usize>, Option<String>)>,
}

impl ChatStream {
    /// Reads the data of one event and hands its deltas on.
    ///
    /// # Errors
    /// When the provider reports a failure or says something that is no chunk.
    pub(crate) fn event(
        &mut self,
        data: &[u8],
        mut each: impl FnMut(Delta),
    ) -> Result<Said, Problem> {
        if data == b"[DONE]" {
            return Ok(Said::Done);
        }
        let chunk: Chunk = serde_json::from_slice(data).map_err(|e| {
            tracing::warn!(error = %e, bytes = data.len(), "a chunk of the provider is not readable");
            refusal::unreadable()
        })?;
        if let Some(error) = chunk.error {
            return Err(refusal::in_stream(&error));
        }
        // More than one answer is never asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.content(delta, &mut each);
            }
            if let Some(reason) = choice.finish_reason {
                each(Delta::Stop(stop(&reason)));
            }
        }
        if let Some(usage) = chunk.usage {
            each(Delta::Usage(usage.into()));
        }
        Ok(Said::More)
    }

    fn content(&mut self, delta: Content, each: &mut impl FnMut(Delta)) {
        for text in [delta.content, delta.refusal].into_iter().flatten() {
            if !text.is_empty() {
                each(Delta::Text(text));
            }
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            let (name, arguments) = match piece.function {
                Some(function) => (function.name, function.arguments),
                None => (None, None),
            };
            let id = piece.id.filter(|id| !id.is_empty());
            let named = name.as_ref().is_some_and(|name| !name.is_empty());
            let index = self.place(piece.index, id, named);
            each(Delta::Call {
                index,
                name: name.unwrap_or_default(),
                arguments: arguments.unwrap_or_default(),
            });
        }
    }

    /// The place of the call that a piece belongs to. Providers differ: some number no calls, some
    /// give every call the number 0 and an id of its own, some a fresh id to every piece.
    fn place(&mut self, number: Option<usize>, id: Option<String>, named: bool) -> usize {
        let known = self.begun.iter().rposition(|(at, known)| match (number, &id) {
            (Some(_), Some(id)) => {
                *at == number && (!named || known.as_ref().is_none_or(|known| known == id))
            }
            (Some(_), None) => *at == number,
            (None, Some(id)) => known.as_ref() == Some(id),
            (None, None) => true,
        });
        known.unwrap_or_else(|| {
            self.begun.push((number, id));
            self.begun.len() - 1
        })
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "stop" | "tool_calls" | "function_call" => Stop::End,
        "length" => Stop::OutputLimit,
        "content_filter" => Stop::Filter,
        // What a provider gave up (`abort`, `error`) is not complete.
        _ => Stop::GaveUp,
    }
}

impl From<ChatUsage> for Usage {
    fn from(usage: ChatUsage) -> Self {
        Self {
            input: usage.prompt_tokens,
            cached: usage.prompt_tokens_details.and_then(|d| d.cached_tokens).unwrap_or(0),
            output: usage.completion_tokens,
            reasoning: usage
                .completion_tokens_details
                .and_then(|d| d.reasoning_tokens)
                .unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[&str]) -> (Vec<Delta>, Result<Said, Problem>) {
        let (mut stream, mut deltas) = (ChatStream::default(), Vec::new());
        let mut last = Ok(Said::More);
        for event in events {
            last = stream.event(event.as_bytes(), |delta| deltas.push(delta));
        }
        (deltas, last)
    }

    fn calls(events: &[&str]) -> Vec<(usize, String)> {
        let mut out: Vec<(usize, String)> = Vec::new();
        for delta in read(events).0 {
            let Delta::Call { index, arguments, .. } = delta else { continue };
            match out.iter_mut().find(|(at, _)| *at == index) {
                Some((_, whole)) => whole.push_str(&arguments),
                None => out.push((index, arguments)),
            }
        }
        out
    }

    #[test]
    fn calls_are_told_apart_however_a_provider_numbers_them() {
        let one = |fields: &str| {
            format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{{fields}}}]}}}}]}}"#)
        };
        let two = [(0, "{\"a\":1}".to_owned()), (1, "{\"b\":2}".to_owned())];
        for pieces in [
            // as OpenAI
            [
                r#""index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":"}"#,
                r#""index":0,"function":{"arguments":"1}"}"#,
                r#""index":1,"id":"y","function":{"name":"g","arguments":"{\"b\":2}"}"#,
            ],
            // one number for all
            [
                r#""index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}"#,
                r#""index":0,"id":"y","function":{"name":"g","arguments":"{\"b\":"}"#,
                r#""index":0,"function":{"arguments":"2}"}"#,
            ],
            // no numbers, and empty ids in later pieces
            [
                r#""id":"x","function":{"name":"f","arguments":"{\"a\":"}"#,
                r#""id":"","function":{"arguments":"1}"}"#,
                r#""id":"y","function":{"name":"g","arguments":"{\"b\":2}"}"#,
            ],
        ] {
            let events: Vec<String> = pieces.iter().map(|p| one(p)).collect();
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            assert_eq!(calls(&events), two, "{pieces:?}");
        }
        // a fresh id to every piece
        let fresh = [
            r#""index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":"}"#,
            r#""index":0,"id":"z","function":{"arguments":"1}"}"#,
        ];
        let fresh: Vec<String> = fresh.iter().map(|p| one(p)).collect();
        let fresh: Vec<&str> = fresh.iter().map(String::as_str).collect();
        assert_eq!(calls(&fresh), two[..1]);
    }

    #[test]
    fn text_calls_usage_and_the_end_are_read() {
        let (deltas, last) = read(&[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"Hi"}},{"index":1,"delta":{"content":"no"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            "[DONE]",
        ]);
        let call = |name: &str, arguments: &str| Delta::Call {
            index: 0,
            name: name.into(),
            arguments: arguments.into(),
        };
        let usage = Usage { input: 9, cached: 4, output: 2, reasoning: 0 };
        let expected = [
            Delta::Text("Hi".into()),
            call("f", ""),
            call("", "{}"),
            Delta::Stop(Stop::End),
            Delta::Usage(usage),
        ];
        assert_eq!(deltas, expected);
        assert_eq!(last, Ok(Said::Done));
    }

    #[test]
    fn calls_without_numbers_are_told_apart_by_their_ids() {
        let piece = |id: &str, arguments: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{{id}"function":{{"arguments":"{arguments}"}}}}]}}}}]}}"#
            )
        };
        let events = [piece(r#""id":"a","#, "1"), piece("", "2"), piece(r#""id":"b","#, "3")];
        let (deltas, _) = read(&events.each_ref().map(String::as_str));
        let places: Vec<_> = deltas
            .iter()
            .filter_map(|d| match d {
                Delta::Call { index, arguments, .. } => Some((*index, arguments.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(places, [(0, "1"), (0, "2"), (1, "3")]);
    }

    #[test]
    fn a_reported_failure_and_an_unreadable_chunk_are_errors() {
        let (_, failed) = read(&[r#"{"error":{"message":"boom","code":"rate_limit_exceeded"}}"#]);
        assert_eq!(failed.unwrap_err().code, "rate_limit_exceeded");
        assert_eq!(read(&["{"]).1.unwrap_err().code, "server_error");
    }
}
