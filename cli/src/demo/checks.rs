//! What must hold after the conversation of a demo, judged from what the parts of the installation
//! stored. Pure; it asks nobody and prints nothing.

use crate::{
    demo::conversation::{Line, replies_to},
    prompt::{manifest, messages},
    story::{Story, of_type, text_of},
    turn::TurnView,
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use turnwright_adapters::api::{By, Message};
use turnwright_ledger_check::Report;
use turnwright_types::{
    Sha256,
    gateway::{PromptRequest, TurnPrompt},
};

/// Something that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its stable name.
    pub name: &'static str,
    /// Whether it holds.
    pub held: bool,
    /// Whether it must; what depends on the mood of a model is only observed.
    pub required: bool,
    /// What was found.
    pub detail: String,
}

impl Check {
    /// Whether it does not stand in the way.
    #[must_use]
    pub const fn passes(&self) -> bool {
        self.held || !self.required
    }
}

/// What is judged.
pub struct Evidence<'a> {
    /// The messages that were sent, in order.
    pub lines: &'a [Line],
    /// What the console stored.
    pub stored: &'a [Message],
    /// The turns of the conversation, in order.
    pub turns: &'a [TurnView],
    /// Their stories.
    pub stories: &'a [Story],
    /// What they sent to the model.
    pub prompts: &'a [TurnPrompt],
    /// What the ledger check found.
    pub report: &'a Report,
    /// Whether the scripted provider answered, which does as its rules say.
    pub scripted: bool,
}

/// Judges everything.
#[must_use]
pub fn check(e: &Evidence<'_>) -> Vec<Check> {
    let must = |name, found: Result<String, String>| one(name, true, found);
    vec![
        must("every message got one whole reply", replied(e)),
        must("replies came in the order of their messages", in_order(e)),
        one("the first message was answered with a tool", e.scripted, tool_used(e)),
        one("the third message came while the second was answered", e.scripted, overlapped(e)),
        must("the third message became a turn of its own", next_turn(e)),
        must("each message is in one user item and in no instructions", placed(e)),
        must("every byte of every prompt has its source", traced(e)),
        must("every turn is completed", completed(e)),
        must("the ledger holds", ledger(e)),
    ]
}

fn one(name: &'static str, required: bool, found: Result<String, String>) -> Check {
    let held = found.is_ok();
    Check { name, held, required, detail: found.unwrap_or_else(|why| why) }
}

fn replied(e: &Evidence<'_>) -> Result<String, String> {
    let mut messages = 0;
    for (at, line) in e.lines.iter().enumerate() {
        let no = at + 1;
        let key = line.event_key().ok_or_else(|| format!("message {no} was not sent"))?;
        let mut places: Vec<(i32, i32)> = replies_to(e.stored, key).filter_map(place).collect();
        places.sort_unstable();
        let chunks = places.first().map_or(0, |(_, chunks)| *chunks);
        if chunks == 0 || !places.iter().copied().eq((0..chunks).map(|n| (n, chunks))) {
            return Err(format!("message {no} got {} of {chunks} reply messages", places.len()));
        }
        messages += places.len();
    }
    Ok(format!("{} replies in {messages} messages", e.lines.len()))
}

fn place(message: &Message) -> Option<(i32, i32)> {
    match &message.by {
        By::Agent(agent) => Some((agent.ordinal, agent.chunks)),
        By::User(_) => None,
    }
}

fn in_order(e: &Evidence<'_>) -> Result<String, String> {
    let keys = e.lines.iter().filter_map(Line::event_key);
    let indexes: Vec<u64> =
        keys.flat_map(|key| replies_to(e.stored, key).map(|message| message.index)).collect();
    if indexes.is_empty() {
        return Err("no reply is stored".to_owned());
    }
    if indexes.is_sorted() { Ok(format!("at {indexes:?}")) } else { Err(format!("at {indexes:?}")) }
}

fn tool_used(e: &Evidence<'_>) -> Result<String, String> {
    let requests = e.prompts.first().map(|p| p.requests.as_slice()).unwrap_or_default();
    let calls = requests.iter().flat_map(|r| of_type(&r.output, "function_call"));
    let outputs = requests.iter().flat_map(|r| of_type(&r.input, "function_call_output"));
    let outputs: Vec<&str> = outputs.filter_map(|o| o.get("call_id")?.as_str()).collect();
    let mut names = Vec::new();
    for call in calls {
        let id = text_of(call.get("call_id"));
        let answered = outputs.iter().filter(|output| **output == id).count();
        let name = text_of(call.get("name"));
        if answered != 1 {
            return Err(format!("the call of {name} has {answered} outputs"));
        }
        names.push(name);
    }
    if names.is_empty() { Err("no tool was called".to_owned()) } else { Ok(names.join(", ")) }
}

/// The turn that took up a message.
fn turn_of<'a>(e: &'a Evidence<'_>, line: usize) -> Result<(usize, &'a TurnView), String> {
    let id = e.lines.get(line).and_then(|l| l.reply.as_ref()?.turn_id());
    let id = id.ok_or_else(|| format!("no turn took up message {}", line + 1))?;
    let found = e.turns.iter().enumerate().find(|(_, turn)| turn.turn_id == id);
    found.ok_or_else(|| format!("turn {id} is not listed"))
}

fn step(story: &Story, name: &str) -> Option<DateTime<Utc>> {
    story.events.iter().find(|event| event.step == name).map(|event| event.at)
}

fn overlapped(e: &Evidence<'_>) -> Result<String, String> {
    let ((second, _), (third, _)) = (turn_of(e, 1)?, turn_of(e, 2)?);
    let missing = |what: &str| format!("no turn tells when it was {what}");
    let story = |at: usize| e.stories.get(at).ok_or_else(|| missing("run"));
    let claimed = step(story(second)?, "claimed").ok_or_else(|| missing("claimed"))?;
    let ended = step(story(second)?, "ended").ok_or_else(|| missing("ended"))?;
    let admitted = step(story(third)?, "admitted").ok_or_else(|| missing("admitted"))?;
    let ms = |at: DateTime<Utc>| (at - claimed).num_milliseconds();
    let found = format!("admitted at {} ms of {} ms", ms(admitted), ms(ended));
    if claimed <= admitted && admitted < ended { Ok(found) } else { Err(found) }
}

fn next_turn(e: &Evidence<'_>) -> Result<String, String> {
    let ((_, second), (_, third)) = (turn_of(e, 1)?, turn_of(e, 2)?);
    let found = format!("turns {} and {}", second.turn_seq, third.turn_seq);
    if third.turn_seq == second.turn_seq + 1 { Ok(found) } else { Err(found) }
}

fn requests<'a>(e: &'a Evidence<'_>) -> impl Iterator<Item = &'a PromptRequest> {
    e.prompts.iter().flat_map(|prompt| &prompt.requests)
}

fn placed(e: &Evidence<'_>) -> Result<String, String> {
    for (at, line) in e.lines.iter().enumerate() {
        let no = at + 1;
        if requests(e).any(|r| r.instructions.contains(&line.nonce)) {
            return Err(format!("message {no} stands in instructions"));
        }
        let items = requests(e).flat_map(|r| &r.input).filter(|item| item.get("role").is_some());
        let holding = items.filter(|item| item.to_string().contains(&line.nonce));
        let roles: Vec<String> = holding.map(|item| text_of(item.get("role"))).collect();
        if roles != ["user"] {
            return Err(format!("message {no} stands in {} items: {roles:?}", roles.len()));
        }
    }
    Ok(format!("{} messages", e.lines.len()))
}

fn traced(e: &Evidence<'_>) -> Result<String, String> {
    let mut bytes = 0;
    for prompt in e.prompts {
        for (at, request) in prompt.requests.iter().enumerate() {
            let no = request.request_no;
            if Sha256::of(&request.instructions) != request.instructions_sha256 {
                return Err(format!("instructions of request {no} do not match their hash"));
            }
            let same = prompt.requests.first().map(|first| first.instructions_sha256);
            if same != Some(request.instructions_sha256) {
                return Err(format!("instructions changed within a turn, at request {no}"));
            }
            if at == 0 {
                let manifest = manifest(request);
                let manifest = manifest.ok_or_else(|| format!("request {no} has no manifest"))?;
                let input = messages(request, Some(&manifest));
                manifest
                    .verify(&request.instructions, &input)
                    .map_err(|why| format!("request {no}: {why}"))?;
            }
            bytes += request.instructions.len();
        }
    }
    if bytes == 0 { Err("nothing was sent".to_owned()) } else { Ok(format!("{bytes} bytes")) }
}

fn completed(e: &Evidence<'_>) -> Result<String, String> {
    let states: Vec<String> =
        e.turns.iter().map(|turn| format!("{} {}", turn.turn_seq, turn.state)).collect();
    let all = !e.turns.is_empty() && e.turns.iter().all(|turn| turn.state == "completed");
    if all { Ok(states.join(", ")) } else { Err(states.join(", ")) }
}

fn ledger(e: &Evidence<'_>) -> Result<String, String> {
    match e.report.violations.first() {
        None => Ok(format!("{} rules", e.report.rules.len())),
        Some(first) => Err(format!(
            "{} violations, first {}: {} {}",
            e.report.violations.len(),
            first.rule,
            first.object,
            first.detail
        )),
    }
}

#[cfg(test)]
mod tests;
