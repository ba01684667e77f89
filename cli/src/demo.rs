//! `turnwright demo`: starts an installation, holds a short conversation through the console,
//! shows what can be seen of it, and checks it. Everything it prints comes from that run.

pub mod checks;
pub mod conversation;
pub mod stage;

use crate::{
    Connection, Error, Format, Out, agent,
    args::{DemoArgs, Global},
    chat::console,
    gateway, ledger, prompt,
    story::Story,
    table::Table,
    turn::{self, TurnView},
};
use checks::{Check, Evidence, check};
use conversation::{Line, Talk};
use serde_json::json;
use stage::Stage;
use std::{io, path::Path};
use turnwright_kit::{config::Env, signals};
use turnwright_ledger_check::Report;
use turnwright_types::gateway::TurnPrompt;

/// Columns of the margin beside the prompt.
const MARGIN: usize = 34;

/// Runs the demo.
///
/// # Errors
/// [`Error::Unmet`] when a check does not hold; otherwise when the installation does not start.
pub async fn run(args: &DemoArgs, global: &Global, env: &Env, out: &mut Out) -> Result<(), Error> {
    let stop =
        signals::termination().map_err(|e| Error::setup("cannot listen for signals").because(e))?;
    let mut stage = Stage::set(args, global, env)?;
    let played = tokio::select! {
        played = play(args, &mut stage, out) => played,
        () = stop => Err(Error::setup("stopped before the end")),
    };
    stage.clear().await;
    played
}

async fn play(args: &DemoArgs, stage: &mut Stage, out: &mut Out) -> Result<(), Error> {
    let mut nowhere = Out::to(Box::new(io::sink()), Format::Table);
    let as_json = out.format() == Format::Json;
    let outcome = {
        let show = if as_json { &mut nowhere } else { &mut *out };
        show.line(format_args!("data folder  {}", stage.data().display()))?;
        let connection = stage.ready().await?;
        let scripted = args.agents.provider_url.is_none()
            && connection.pids.contains_key(crate::dev::services::SCRIPTED);
        perform(&connection, scripted, show).await?
    };
    let json = outcome.json(stage.data());
    if as_json {
        out.json(&json)?;
    } else {
        outcome.print(out)?;
        let data = stage.data().display();
        out.line(format_args!("open it again with `turnwright dev --data {data}`"))?;
    }
    if let Some(file) = &args.json {
        save(&json, file)?;
    }
    if outcome.checks.iter().all(Check::passes) { Ok(()) } else { Err(Error::Unmet) }
}

fn save(json: &serde_json::Value, file: &Path) -> Result<(), Error> {
    let shown = file.display();
    let mut text = serde_json::to_string_pretty(json)
        .map_err(|e| Error::setup(format!("cannot write {shown}")).because(e))?;
    text.push('\n');
    std::fs::write(file, text).map_err(|e| Error::setup(format!("cannot write {shown}")).because(e))
}

/// What came of the conversation.
struct Outcome {
    checks: Vec<Check>,
    lines: Vec<Line>,
    turns: Vec<TurnView>,
}

impl Outcome {
    fn json(&self, data: &Path) -> serde_json::Value {
        let replies: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "message": line.text,
                    "event_key": line.event_key(),
                    "turn_id": line.reply.as_ref().and_then(|r| r.turn_id()),
                    "text": line.reply.as_ref().map(|r| r.text()),
                })
            })
            .collect();
        json!({ "checks": self.checks, "turns": self.turns, "replies": replies, "data": data })
    }

    fn print(&self, out: &mut Out) -> Result<(), Error> {
        let mut table = Table::new(&["", "CHECK", "FOUND"]);
        for check in &self.checks {
            let mark = match (check.held, check.required) {
                (true, _) => "ok",
                (false, true) => "FAILED",
                (false, false) => "not seen",
            };
            table.push([mark.to_owned(), check.name.to_owned(), check.detail.clone()]);
        }
        title("checks", out)?;
        out.table(&table)
    }
}

fn title(text: &str, out: &mut Out) -> Result<(), Error> {
    out.line(format_args!("\n── {text} ──\n"))
}

/// The conversation and all that is read of it afterwards.
async fn perform(connection: &Connection, scripted: bool, out: &mut Out) -> Result<Outcome, Error> {
    let client = console::client(connection)?;
    let agent = first_agent(connection, &client).await?;
    title(&format!("a conversation with {}", agent.name), out)?;
    let talk = Talk::hold(&client, agent, out).await?;

    let seen = Seen::read(connection, &talk).await?;
    if let Some(request) = seen.prompts.first().and_then(|p| p.requests.first()) {
        title("the prompt of the first turn, with the source of each part", out)?;
        out.text(&prompt::render(request, MARGIN))?;
    }
    if let Some(story) = seen.stories.get(1).or_else(|| seen.stories.first()) {
        title("the story of a turn", out)?;
        turn::print(story, out)?;
    }
    title("the ledger", out)?;
    ledger::print(&seen.report, out)?;
    let evidence = Evidence {
        lines: &talk.lines,
        stored: &talk.stored,
        turns: &seen.turns,
        stories: &seen.stories,
        prompts: &seen.prompts,
        report: &seen.report,
        scripted,
    };
    Ok(Outcome { checks: check(&evidence), lines: talk.lines, turns: seen.turns })
}

/// The first agent by its slug, with a skill that can be looked up.
async fn first_agent(
    connection: &Connection,
    client: &turnwright_adapters::Client,
) -> Result<conversation::Partner, Error> {
    let mut agents = console::agents(client).await?;
    agents.sort_by(|a, b| a.agent.cmp(&b.agent));
    let first = agents.into_iter().next();
    let first = first.ok_or_else(|| Error::setup("there is no agent to talk to"))?;
    let slug = first.agent.to_string();
    let known = agent::get(connection, &slug).await?;
    let mut skills = known.skills.into_iter().filter(|s| s.enabled && !s.recall_only);
    Ok(conversation::Partner { slug, name: first.name, skill: skills.next().map(|s| s.name) })
}

/// What control plane, gateway and database say of the conversation.
struct Seen {
    turns: Vec<TurnView>,
    stories: Vec<Story>,
    prompts: Vec<TurnPrompt>,
    report: Report,
}

impl Seen {
    async fn read(connection: &Connection, talk: &Talk) -> Result<Self, Error> {
        let known = talk.lines.iter().find_map(|line| line.reply.as_ref()?.turn_id());
        let mut turns = Vec::new();
        if let Some(id) = known {
            let one = turn::get(connection, id).await?.turn.unwrap_or_default();
            turns = turn::of_conversation(connection, &one.conversation_id).await?;
        }
        let (mut stories, mut prompts) = (Vec::new(), Vec::new());
        // Three turns: one question each is few enough.
        for known in &turns {
            let ledger = turn::get(connection, &known.turn_id).await?;
            let of = &ledger.gateway_conversation_id;
            let prompt = gateway::prompt(connection, of, known.turn_seq).await?;
            stories.push(Story::merge(ledger, &prompt));
            prompts.push(prompt);
        }
        let report = ledger::read(connection).await?;
        Ok(Self { turns, stories, prompts, report })
    }
}
