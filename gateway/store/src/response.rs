//! Reads of stored responses. Each is one statement, so one snapshot.

use crate::{
    error::{Error, Missing, Result},
    item::{Item, path},
    pool::Pool,
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use turnwright_types::{GatewayConversationId, ResponseId};

/// A response as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredResponse {
    /// Its id.
    pub id: ResponseId,
    /// The conversation it is in.
    pub conversation: GatewayConversationId,
    /// Whether that is an agent's.
    pub fenced: bool,
    /// The head of its branch, or where its branch was left if it did not complete.
    pub head: i64,
    /// The response it continues.
    pub previous: Option<ResponseId>,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub status: String,
    /// The model asked for.
    pub model: String,
    /// The exact instructions.
    pub instructions: Option<String>,
    /// The other request parameters.
    pub parameters: Value,
    /// Token usage as the provider told it.
    pub usage: Option<Value>,
    /// Why it failed or is incomplete.
    pub error: Option<Value>,
    /// When it was stored, before the provider was called.
    pub created_at: DateTime<Utc>,
    /// When its end was stored.
    pub ended_at: Option<DateTime<Utc>>,
    /// The bodies of what it produced, in order.
    pub output: Vec<String>,
}

/// Reads a response with its output.
///
/// # Errors
/// When it does not exist or the database fails.
pub async fn get_response(pool: &Pool, id: ResponseId) -> Result<StoredResponse> {
    let row = sqlx::query!(
        r#"select r.conversation, c.fenced, b.head, p.head as "parent_head?",
                  r.previous, r.status, r.model, t.content as "instructions?", r.parameters,
                  r.usage, r.error, r.created_at, r.ended_at,
                  array(select i.body from gateway.items i
                         where i.branch = r.branch and i.seq >= r.output_from
                           and i.seq < r.output_upto order by i.seq) as "output!: Vec<String>"
             from gateway.responses r
             join gateway.conversations c on c.id = r.conversation
             join gateway.branches b on b.id = r.branch
             left join gateway.branches p on p.id = b.parent
             left join gateway.blobs t on t.sha256 = r.instructions
            where r.id = $1"#,
        id.uuid()
    )
    .fetch_optional(pool)
    .await?
    .ok_or(Error::NotFound(Missing::Response(id)))?;
    // An agent's path is its root branch; a response that did not complete may lie beside it.
    let head = if row.fenced { row.parent_head.unwrap_or(row.head) } else { row.head };
    Ok(StoredResponse {
        id,
        conversation: row.conversation.into(),
        fenced: row.fenced,
        head,
        previous: row.previous.map(ResponseId::from),
        status: row.status,
        model: row.model,
        instructions: row.instructions,
        parameters: row.parameters,
        usage: row.usage,
        error: row.error,
        created_at: row.created_at,
        ended_at: row.ended_at,
        output: row.output,
    })
}

/// The items one request added to its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputItems {
    /// The conversation they are in.
    pub conversation: GatewayConversationId,
    /// Item ids and bodies, in order.
    pub items: Vec<(String, String)>,
}

/// Reads the items that the request of a response added.
///
/// # Errors
/// When the response does not exist or the database fails.
pub async fn response_input_items(pool: &Pool, id: ResponseId) -> Result<InputItems> {
    let row = sqlx::query!(
        r#"select r.conversation, added.ids as "ids!: Vec<String>",
                  added.bodies as "bodies!: Vec<String>"
             from gateway.responses r
            cross join lateral (
              select coalesce(array_agg(i.id order by i.seq), '{}') as ids,
                     coalesce(array_agg(i.body order by i.seq), '{}') as bodies
                from gateway.segments(r.branch) s
               cross join lateral (
                 select i.seq, i.id, i.body from gateway.items i
                  where i.branch = s.branch and i.seq <= s.upto
                    and i.seq >= r.input_from and i.seq < r.output_from
                  order by i.seq offset 0) i) added
            where r.id = $1"#,
        id.uuid()
    )
    .fetch_optional(pool)
    .await?
    .ok_or(Error::NotFound(Missing::Response(id)))?;
    let items = row.ids.into_iter().zip(row.bodies).collect();
    Ok(InputItems { conversation: row.conversation.into(), items })
}

/// The path up to and including a response's output, to continue from it without storing.
///
/// # Errors
/// When it does not exist or is being generated, or the database fails.
pub async fn path_of(pool: &Pool, id: ResponseId) -> Result<Vec<Item>> {
    let mut connection = pool.acquire().await?;
    let row = sqlx::query!(
        r#"select r.status, r.branch, coalesce(r.output_upto, r.output_from) - 1 as "end!"
             from gateway.responses r where r.id = $1"#,
        id.uuid()
    )
    .fetch_optional(&mut *connection)
    .await?
    .ok_or(Error::NotFound(Missing::Response(id)))?;
    if row.status == "in_progress" {
        return Err(Error::PreviousInProgress);
    }
    path(&mut connection, row.branch, row.end).await
}
