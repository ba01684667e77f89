//! What was sent for one turn, rebuilt from the rows that were committed before each request.

use crate::{
    error::{Error, Missing, Result},
    pool::Pool,
};
use serde_json::Value;
use std::collections::HashMap;
use turnwright_types::{
    AgentSlug, Fence, GatewayConversationId, Sha256,
    gateway::{PromptRequest, TurnPrompt},
};
use uuid::Uuid;

/// The input and output items of one response.
#[derive(Default)]
struct Items {
    input: Vec<Value>,
    output: Vec<Value>,
}

/// Reads every request of a turn, in order.
///
/// # Errors
/// When the turn sent nothing, a stored value is not readable, or the database fails.
pub async fn turn_prompt(
    pool: &Pool,
    conversation: GatewayConversationId,
    turn_seq: i64,
) -> Result<TurnPrompt> {
    let mut tx = pool.begin_with("begin isolation level repeatable read read only").await?;
    let rows = sqlx::query!(
        r#"select r.id, r.request_no as "request_no!", r.epoch as "epoch!", r.status, r.model,
                  t.content as "instructions?", r.instructions as "hash?", r.manifest, r.usage,
                  r.upstream_sha256, r.created_at, r.first_content_at, r.ended_at, r.error,
                  c.agent
             from gateway.responses r
             join gateway.conversations c on c.id = r.conversation
             left join gateway.blobs t on t.sha256 = r.instructions
            where r.conversation = $1 and r.turn_seq = $2
            order by r.created_at"#,
        conversation.uuid(),
        turn_seq,
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut items = items(&mut tx, conversation, turn_seq).await?;
    tx.commit().await?;
    let Some(first) = rows.first() else {
        return Err(Error::NotFound(Missing::Turn(conversation, turn_seq)));
    };
    let agent = first.agent.clone().map(AgentSlug::parse).transpose();
    let agent = agent.map_err(|_| Error::Corrupt("agent name"))?;
    let mut requests = Vec::with_capacity(rows.len());
    for row in rows {
        let Items { input, output } = items.remove(&row.id).unwrap_or_default();
        let instructions = row.instructions.unwrap_or_default();
        requests.push(PromptRequest {
            response_id: row.id.into(),
            request_no: row.request_no,
            fence: Fence { turn_seq, epoch: row.epoch },
            status: row.status,
            model: row.model,
            instructions_sha256: match row.hash {
                Some(raw) => hash(&raw)?,
                None => Sha256::of(&instructions),
            },
            instructions,
            input,
            output,
            manifest: row.manifest.unwrap_or_default(),
            usage: row.usage,
            upstream_sha256: row.upstream_sha256.as_deref().map(hash).transpose()?,
            created_at: row.created_at,
            first_content_at: row.first_content_at,
            ended_at: row.ended_at,
            error: row.error.as_ref().map(reason),
        });
    }
    Ok(TurnPrompt { agent, requests })
}

async fn items(
    c: &mut sqlx::PgConnection,
    conversation: GatewayConversationId,
    turn_seq: i64,
) -> Result<HashMap<Uuid, Items>> {
    let rows = sqlx::query!(
        r#"select r.id as "response!", i.seq < r.output_from as "is_input!", i.body as "body!"
             from gateway.responses r
            cross join lateral gateway.segments(r.branch) s
            cross join lateral (
              select i.seq, i.body from gateway.items i
               where i.branch = s.branch and i.seq <= s.upto and i.seq >= r.input_from
                 and i.seq < coalesce(r.output_upto, r.output_from)
               order by i.seq offset 0) i
            where r.conversation = $1 and r.turn_seq = $2
            order by i.seq"#,
        conversation.uuid(),
        turn_seq,
    )
    .fetch_all(c)
    .await?;
    let mut items: HashMap<Uuid, Items> = HashMap::new();
    for row in rows {
        let body = serde_json::from_str(&row.body).map_err(|_| Error::Corrupt("item"))?;
        let of = items.entry(row.response).or_default();
        if row.is_input { of.input.push(body) } else { of.output.push(body) }
    }
    Ok(items)
}

fn hash(raw: &[u8]) -> Result<Sha256> {
    Sha256::from_bytes(raw).ok_or(Error::Corrupt("hash"))
}

/// `code: message` of a stored error.
fn reason(error: &Value) -> String {
    let part = |key| error.get(key).and_then(Value::as_str);
    match (part("code"), part("message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(only), None) | (None, Some(only)) => only.to_owned(),
        (None, None) => error.to_string(),
    }
}
