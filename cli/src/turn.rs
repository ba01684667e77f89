//! `turnwright turn`: lists turns, finds the one that is meant, and tells its story.

use crate::{Connection, Error, Format, Out, control, gateway, story::Story, table::Table};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use turnwright_proto::{
    convert,
    v1::{GetTurnRequest, GetTurnResponse, ListTurnsRequest, TurnSummary},
};
use turnwright_types::TurnId;

/// The most turns that one list answers.
const PAGE_MAX: i32 = 500;

/// Which turn is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnRef {
    /// The newest one.
    Latest,
    /// The one with this id.
    Id(TurnId),
    /// One by its place in its conversation.
    Numbered {
        /// The conversation's key.
        key: String,
        /// The turn's number there, from 1.
        seq: i64,
    },
}

impl TurnRef {
    /// Reads `latest`, a turn id, or `KEY#NUMBER`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(raw: &str) -> Result<Self, Error> {
        if raw == "latest" {
            return Ok(Self::Latest);
        }
        if let Ok(id) = TurnId::parse(raw) {
            return Ok(Self::Id(id));
        }
        let numbered = raw.rsplit_once('#').and_then(|(key, seq)| {
            let seq = seq.parse().ok().filter(|seq| *seq > 0)?;
            (!key.is_empty()).then(|| Self::Numbered { key: key.to_owned(), seq })
        });
        numbered.ok_or_else(|| {
            Error::setup(format!(
                "`{raw}` names no turn; expected a turn id, `latest`, or CONVERSATION_KEY#NUMBER"
            ))
        })
    }
}

/// A turn as it is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnView {
    /// Its id.
    pub turn_id: String,
    /// Its agent.
    pub agent: String,
    /// Its conversation.
    pub conversation_id: String,
    /// The conversation's key.
    pub conversation_key: String,
    /// Its place there.
    pub turn_seq: i64,
    /// Where it stands.
    pub state: String,
    /// What started it.
    pub kind: String,
    /// The revision it is pinned to; 0 before its first claim.
    pub revision: i64,
    /// Its own failures.
    pub attempts: i32,
    /// Leases lost while it ran.
    pub crashes: i32,
    /// The newest epoch.
    pub epoch: i64,
    /// When it was made.
    pub created_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it ended so.
    pub reason: String,
}

impl From<TurnSummary> for TurnView {
    fn from(t: TurnSummary) -> Self {
        Self {
            created_at: convert::time("created_at", t.created_at).ok(),
            ended_at: convert::time("ended_at", t.ended_at).ok(),
            turn_id: t.turn_id,
            agent: t.agent,
            conversation_id: t.conversation_id,
            conversation_key: t.conversation_key,
            turn_seq: t.turn_seq,
            state: t.state,
            kind: t.kind,
            revision: t.revision,
            attempts: t.attempts,
            crashes: t.crashes,
            epoch: t.epoch,
            reason: t.reason,
        }
    }
}

/// Lists turns, newest first.
///
/// # Errors
/// When the control plane does not answer or refuses.
pub async fn list(
    connection: &Connection,
    agent: Option<&str>,
    limit: i32,
    out: &mut Out,
) -> Result<(), Error> {
    let agent = agent.unwrap_or_default().to_owned();
    let request = ListTurnsRequest { agent, page_size: limit, ..Default::default() };
    let turns = listed(connection, request).await?;
    if out.format() == Format::Json {
        return out.json(&serde_json::json!({ "turns": turns }));
    }
    let mut table = Table::new(&["TURN", "CONVERSATION", "STATE", "REVISION", "STARTED", "TOOK"]);
    for turn in turns {
        let took = turn.created_at.zip(turn.ended_at).map(|(from, to)| {
            let ms = (to - from).num_milliseconds();
            format!("{ms} ms")
        });
        let state = match (turn.reason.as_str(), turn.crashes + turn.attempts) {
            ("", 0) => turn.state,
            ("", again) => format!("{} (tried {} times)", turn.state, again + 1),
            (reason, _) => format!("{} ({reason})", turn.state),
        };
        table.push([
            turn.turn_id,
            format!("{}#{}", turn.conversation_key, turn.turn_seq),
            state,
            turn.revision.to_string(),
            turn.created_at.map(clock).unwrap_or_default(),
            took.unwrap_or_default(),
        ]);
    }
    if table.is_empty() {
        return out.line("no turns");
    }
    out.table(&table)
}

async fn listed(
    connection: &Connection,
    request: ListTurnsRequest,
) -> Result<Vec<TurnView>, Error> {
    let mut admin = control::admin(connection).await?;
    let answer = admin.list_turns(request).await.map_err(|s| control::refused(&s))?;
    Ok(answer.into_inner().turns.into_iter().map(Into::into).collect())
}

/// The turns of one conversation, in order; at most 500, the newest.
///
/// # Errors
/// When the control plane does not answer or refuses.
pub async fn of_conversation(
    connection: &Connection,
    conversation_id: &str,
) -> Result<Vec<TurnView>, Error> {
    let conversation_id = conversation_id.to_owned();
    let request = ListTurnsRequest { conversation_id, page_size: PAGE_MAX, ..Default::default() };
    let mut turns = listed(connection, request).await?;
    turns.sort_by_key(|t| t.turn_seq);
    Ok(turns)
}

/// Reads the turn that is meant.
///
/// # Errors
/// When there is none, or the control plane does not answer or refuses.
pub async fn find(connection: &Connection, raw: &str) -> Result<GetTurnResponse, Error> {
    let turn_id = match TurnRef::parse(raw)? {
        TurnRef::Id(id) => id.to_string(),
        TurnRef::Latest => {
            let request = ListTurnsRequest { page_size: 1, ..Default::default() };
            let newest = listed(connection, request).await?;
            let newest = newest.into_iter().next();
            newest.ok_or_else(|| Error::failed("there are no turns yet"))?.turn_id
        }
        TurnRef::Numbered { key, seq } => numbered(connection, &key, seq).await?,
    };
    get(connection, &turn_id).await
}

/// Reads one turn by its id.
///
/// # Errors
/// When it does not exist, or the control plane does not answer or refuses.
pub async fn get(connection: &Connection, turn_id: &str) -> Result<GetTurnResponse, Error> {
    let mut admin = control::admin(connection).await?;
    let answer = admin.get_turn(GetTurnRequest { turn_id: turn_id.to_owned() }).await;
    Ok(answer.map_err(|s| control::refused(&s))?.into_inner())
}

async fn numbered(connection: &Connection, key: &str, turn_seq: i64) -> Result<String, Error> {
    let conversation_key = key.to_owned();
    let request =
        ListTurnsRequest { conversation_key, turn_seq, page_size: 1, ..Default::default() };
    let found = listed(connection, request).await?.into_iter().next();
    let found = found.ok_or_else(|| {
        Error::failed(format!(
            "there is no turn {turn_seq} in a conversation `{key}`; see `turnwright turn list`"
        ))
    })?;
    Ok(found.turn_id)
}

/// Tells the story of a turn.
///
/// # Errors
/// When there is no such turn, or a service does not answer or refuses.
pub async fn show(connection: &Connection, raw: &str, out: &mut Out) -> Result<(), Error> {
    let turn = find(connection, raw).await?;
    let story = read_story(connection, turn).await?;
    match out.format() {
        Format::Json => out.json(&story),
        Format::Table => print(&story, out),
    }
}

/// The story of a turn, with what the gateway knows of it.
///
/// # Errors
/// When the gateway does not answer or refuses.
pub async fn read_story(connection: &Connection, turn: GetTurnResponse) -> Result<Story, Error> {
    let seq = turn.turn.as_ref().map_or(0, |t| t.turn_seq);
    let prompt = gateway::prompt(connection, &turn.gateway_conversation_id, seq).await?;
    Ok(Story::merge(turn, &prompt))
}

/// Prints a story for people.
///
/// # Errors
/// When it cannot be written.
pub fn print(story: &Story, out: &mut Out) -> Result<(), Error> {
    if let Some(turn) = &story.turn {
        out.line(format_args!(
            "turn {} · {}#{} · {}",
            turn.turn_id, turn.conversation_key, turn.turn_seq, turn.state
        ))?;
        out.line(format_args!(
            "revision {} ({}) · epoch {} · {} failures, {} crashes · trace {}",
            turn.revision,
            story.revision_reason,
            turn.epoch,
            turn.attempts,
            turn.crashes,
            if story.trace_id.is_empty() { "none" } else { story.trace_id.as_str() },
        ))?;
    }
    let mut table = Table::new(&["MS", "TIME", "BY", "STEP", "DETAIL"]);
    for event in &story.events {
        table.push([
            format!("{:+.1}", event.offset_ms),
            clock(event.at),
            event.by.to_owned(),
            event.step.clone(),
            event.detail.clone(),
        ]);
    }
    out.line("")?;
    out.table(&table)?;
    for delivery in &story.deliveries {
        out.line(format_args!("\ndelivery {} · {}", delivery.delivery_id, delivery.state))?;
        out.outside(&delivery.text)?;
        out.line("")?;
    }
    Ok(())
}

fn clock(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_named_in_three_ways() {
        assert_eq!(TurnRef::parse("latest").unwrap(), TurnRef::Latest);
        let id = TurnId::new();
        assert_eq!(TurnRef::parse(&id.to_string()).unwrap(), TurnRef::Id(id));
        let key = "console-maren/a#b".to_owned();
        assert_eq!(
            TurnRef::parse("console-maren/a#b#12").unwrap(),
            TurnRef::Numbered { key, seq: 12 }
        );
        for wrong in ["", "#1", "a#0", "a#-1", "a#x", "nonsense"] {
            assert_eq!(TurnRef::parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
