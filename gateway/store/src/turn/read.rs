//! Reads where a turn stands. Three statements; the caller gives them one snapshot or one lock.

use crate::{
    conversation::{Branch, Writer},
    error::{Error, Result},
    reconcile::output_of,
};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgConnection;
use turnwright_types::{
    Fence, SignalId,
    gateway::{LastResponse, OpenedTurn, StoredCall},
};
use uuid::Uuid;

/// A conversation as it stands, not locked.
pub(super) struct Standing {
    conversation: Uuid,
    fenced: bool,
    agent: Option<String>,
    fence: Fence,
    root: Branch,
}

impl Standing {
    pub(super) fn admit(&self, writer: &Writer) -> Result<()> {
        if !self.fenced || self.agent.as_deref() != Some(writer.agent.as_str()) {
            return Err(Error::NotTheAgents);
        }
        if writer.fence < self.fence { Err(Error::FenceStale) } else { Ok(()) }
    }
}

pub(super) async fn standing(c: &mut PgConnection, conversation: Uuid) -> Result<Option<Standing>> {
    let row = sqlx::query!(
        "select c.fenced, c.agent, c.turn_seq, c.epoch, b.id as root, b.head
           from gateway.conversations c
           join gateway.branches b on b.conversation = c.id and b.parent is null
          where c.id = $1",
        conversation
    )
    .fetch_optional(c)
    .await?;
    Ok(row.map(|r| Standing {
        conversation,
        fenced: r.fenced,
        agent: r.agent,
        fence: Fence { turn_seq: r.turn_seq, epoch: r.epoch },
        root: Branch { id: r.root, head: r.head },
    }))
}

/// A turn of a conversation that does not exist yet.
pub(super) const fn nothing_yet() -> OpenedTurn {
    OpenedTurn {
        head: 0,
        baseline: None,
        base_instructions: None,
        instructions: None,
        requests: 0,
        iterations: 0,
        stored_signals: Vec::new(),
        last: None,
    }
}

pub(super) async fn turn(c: &mut PgConnection, at: &Standing, turn_seq: i64) -> Result<OpenedTurn> {
    // What ended before its provider answered in full is tried again and uses no iteration; what
    // the output limit or a filter cut does.
    let row = sqlx::query!(
        r#"select
             (select r.baseline from gateway.responses r where r.conversation = $1
               order by r.turn_seq desc, r.created_at desc limit 1) as "baseline?",
             (select t.content from gateway.responses r
                join gateway.blobs t on t.sha256 = r.base_instructions
               where r.conversation = $1
               order by r.turn_seq, r.created_at limit 1) as "base_instructions?",
             (select t.content from gateway.responses r
                join gateway.blobs t on t.sha256 = r.instructions
               where r.conversation = $1 and r.turn_seq = $2
               order by r.created_at limit 1) as "instructions?",
             (select count(*) from gateway.responses r
               where r.conversation = $1 and r.turn_seq = $2) as "requests!",
             (select count(*) from gateway.responses r
               where r.conversation = $1 and r.turn_seq = $2
                 and (r.status in ('completed', 'in_progress')
                      or (r.status = 'incomplete' and r.error ->> 'code'
                            in ('max_output_tokens', 'content_filter')))) as "iterations!",
             array(select i.signal from gateway.items i
                    where i.branch = $3 and i.signal is not null and i.turn_seq = $2
                      and i.seq >= (select min(r.input_from) from gateway.responses r
                                     where r.conversation = $1 and r.turn_seq = $2)
                    order by i.seq) as "signals!: Vec<Uuid>""#,
        at.conversation,
        turn_seq,
        at.root.id,
    )
    .fetch_one(&mut *c)
    .await?;
    let last = last(c, at, turn_seq).await?;
    Ok(OpenedTurn {
        head: at.root.head,
        baseline: row.baseline,
        base_instructions: row.base_instructions,
        instructions: row.instructions,
        requests: i32::try_from(row.requests).unwrap_or(i32::MAX),
        iterations: i32::try_from(row.iterations).unwrap_or(i32::MAX),
        stored_signals: row.signals.into_iter().map(SignalId::from).collect(),
        last,
    })
}

/// The turn's newest response with its text, and its calls and their outputs if it completed:
/// calls of one that did not are never to be run.
async fn last(c: &mut PgConnection, at: &Standing, turn_seq: i64) -> Result<Option<LastResponse>> {
    let rows = sqlx::query!(
        r#"select r.id as "id!", r.request_no as "request_no!", r.status as "status!",
                  i.type as "kind?", i.call_id as "call_id?", i.body as "body?",
                  o.body as "output?"
             from (select r.id, r.request_no, r.status, r.branch, r.output_from, r.output_upto
                     from gateway.responses r
                    where r.conversation = $1 and r.turn_seq = $2
                    order by r.created_at desc limit 1) r
             left join gateway.items i on i.branch = r.branch and i.seq >= r.output_from
                                      and i.seq < r.output_upto
             left join gateway.items o on o.conversation = $1 and o.call_id = i.call_id
                                      and o.type = 'function_call_output'
                                      and i.type = 'function_call'
            order by i.seq"#,
        at.conversation,
        turn_seq,
    )
    .fetch_all(c)
    .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let mut last = LastResponse {
        id: first.id.into(),
        request_no: first.request_no,
        status: first.status.clone(),
        text: String::new(),
        calls: Vec::new(),
    };
    for row in rows {
        let (Some(kind), Some(body)) = (row.kind, row.body) else { continue };
        match (kind.as_str(), row.call_id) {
            ("message", _) => last.text.push_str(&text_of(&body)?),
            ("function_call", Some(call_id)) if last.status == "completed" => {
                let call: CallBody =
                    serde_json::from_str(&body).map_err(|_| Error::Corrupt("function call"))?;
                let output = row.output.as_deref().map(output_of).map(as_text);
                last.calls.push(StoredCall {
                    call_id,
                    name: call.name,
                    arguments: call.arguments,
                    output,
                });
            }
            _ => {}
        }
    }
    Ok(Some(last))
}

#[derive(Deserialize)]
struct CallBody {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct MessageBody {
    content: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<String>,
}

/// The text parts of a produced message, joined.
fn text_of(body: &str) -> Result<String> {
    let message: MessageBody =
        serde_json::from_str(body).map_err(|_| Error::Corrupt("output message"))?;
    Ok(message.content.into_iter().filter_map(|part| part.text).collect())
}

fn as_text(output: Value) -> String {
    match output {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_message_is_its_text_parts_joined() {
        let body = r#"{"type":"message","content":[{"type":"output_text","text":"a\n"},
            {"type":"refusal","refusal":"no"},{"type":"output_text","text":"b"}]}"#;
        assert_eq!(text_of(body).unwrap(), "a\nb");
        assert!(text_of("{}").is_err());
    }

    #[test]
    fn an_output_that_is_no_string_is_told_as_json() {
        assert_eq!(as_text(Value::from("x")), "x");
        assert_eq!(
            as_text(serde_json::json!([{"type": "input_text"}])),
            r#"[{"type":"input_text"}]"#
        );
    }
}
