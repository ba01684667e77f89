//! Items: what a transcript is made of. Appended in one statement, read along a branch's path;
//! bodies are text and come back as they went in.

use crate::error::Result;
use sqlx::PgConnection;
use turnwright_types::{Fence, ResponseId, SignalId};
use uuid::Uuid;

/// An item to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// The gateway's id of it, from [`new_item_id`].
    pub id: String,
    /// `type` on the wire: `message`, `function_call`, `function_call_output`, `reasoning`, …
    pub kind: String,
    /// Of a message.
    pub role: Option<String>,
    /// Of a call and its output.
    pub call_id: Option<String>,
    /// The stored kind of each content part.
    pub kinds: Vec<String>,
    /// The signal whose text it carries.
    pub signal: Option<SignalId>,
    /// JSON, exactly as received or produced.
    pub body: String,
}

/// An item on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its place in the conversation, from 1; 0 for an item that is not stored.
    pub seq: i64,
    /// The gateway's id of it.
    pub id: String,
    /// `type` on the wire.
    pub kind: String,
    /// Of a message.
    pub role: Option<String>,
    /// Of a call and its output.
    pub call_id: Option<String>,
    /// The signal whose text it carries.
    pub signal: Option<SignalId>,
    /// The response that brought or produced it; outputs stored on their own have none.
    pub response: Option<ResponseId>,
    /// JSON, exactly as received or produced.
    pub body: String,
}

impl NewItem {
    /// The item as it stands on a path.
    #[must_use]
    pub fn placed(self, seq: i64, response: Option<ResponseId>) -> Item {
        Item {
            seq,
            id: self.id,
            kind: self.kind,
            role: self.role,
            call_id: self.call_id,
            signal: self.signal,
            response,
            body: self.body,
        }
    }
}

/// Makes an item id whose prefix tells the type.
#[must_use]
pub fn new_item_id(kind: &str) -> String {
    let prefix = match kind {
        "message" => "msg",
        "function_call" => "fc",
        "function_call_output" => "fco",
        "reasoning" => "rs",
        _ => "item",
    };
    format!("{prefix}_{}", Uuid::now_v7().simple())
}

/// Where items go and who writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) conversation: Uuid,
    pub(crate) branch: Uuid,
    /// The sequence number of the first of them.
    pub(crate) first_seq: i64,
    pub(crate) response: Option<Uuid>,
    pub(crate) fence: Option<Fence>,
}

/// Appends items in order and returns the sequence number after the last. Heads are the caller's.
pub(crate) async fn append(c: &mut PgConnection, at: &Spot, items: &[NewItem]) -> Result<i64> {
    if items.is_empty() {
        return Ok(at.first_seq);
    }
    let ids: Vec<&str> = items.iter().map(|i| i.id.as_str()).collect();
    let types: Vec<&str> = items.iter().map(|i| i.kind.as_str()).collect();
    let roles: Vec<Option<&str>> = items.iter().map(|i| i.role.as_deref()).collect();
    let call_ids: Vec<Option<&str>> = items.iter().map(|i| i.call_id.as_deref()).collect();
    // A list of lists cannot be unnested by one level, so each list travels as JSON text.
    let kinds: Vec<String> =
        items.iter().map(|i| serde_json::Value::from(i.kinds.as_slice()).to_string()).collect();
    let signals: Vec<Option<Uuid>> = items.iter().map(|i| i.signal.map(SignalId::uuid)).collect();
    let bodies: Vec<&str> = items.iter().map(|i| i.body.as_str()).collect();
    let done = sqlx::query!(
        r#"insert into gateway.items
             (branch, seq, conversation, id, type, role, call_id, kinds, signal, response,
              turn_seq, epoch, body)
           select $1::uuid, $2::bigint + u.n - 1, $3::uuid, u.id, u.type, u.role, u.call_id,
                  array(select e.kind from jsonb_array_elements_text(u.kinds::jsonb)
                          with ordinality as e (kind, n) order by e.n),
                  u.signal, $4::uuid, $5::bigint, $6::bigint, u.body
             from unnest($7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
                         $12::uuid[], $13::text[])
                    with ordinality as u (id, type, role, call_id, kinds, signal, body, n)
            order by u.n"#,
        at.branch,
        at.first_seq,
        at.conversation,
        at.response,
        at.fence.map(|f| f.turn_seq),
        at.fence.map(|f| f.epoch),
        ids as _,
        types as _,
        roles as _,
        call_ids as _,
        kinds as _,
        signals as _,
        bodies as _,
    )
    .execute(c)
    .await?;
    Ok(at.first_seq + i64::try_from(done.rows_affected()).unwrap_or(i64::MAX))
}

/// The items of a branch's path up to a sequence number, in order; one query.
pub(crate) async fn path(c: &mut PgConnection, branch: Uuid, upto: i64) -> Result<Vec<Item>> {
    // Lateral and not to be flattened: each segment is one range of the primary key, whatever the
    // planner believes about the number of segments.
    let rows = sqlx::query!(
        r#"select i.seq as "seq!", i.id as "id!", i.type as "kind!", i.role as "role?",
                  i.call_id as "call_id?", i.signal as "signal?", i.response as "response?",
                  i.body as "body!"
             from gateway.segments($1) s
            cross join lateral (
              select i.seq, i.id, i.type, i.role, i.call_id, i.signal, i.response, i.body
                from gateway.items i
               where i.branch = s.branch and i.seq <= least(s.upto, $2::bigint)
               order by i.seq offset 0) i
            order by i.seq"#,
        branch,
        upto,
    )
    .fetch_all(c)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Item {
            seq: row.seq,
            id: row.id,
            kind: row.kind,
            role: row.role,
            call_id: row.call_id,
            signal: row.signal.map(SignalId::from),
            response: row.response.map(ResponseId::from),
            body: row.body,
        })
        .collect())
}
