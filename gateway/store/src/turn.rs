//! An agent's turn in its transcript: where it stands, taking it over, and storing its outputs.

mod read;

use crate::{
    conversation::{Locked, Writer, advance, end_overtaken, lock, lock_for, root},
    error::{Error, Missing, Result, Tries},
    item::{NewItem, Spot, append},
    pool::Pool,
    reconcile::{closing, output_item, output_of},
};
use serde_json::Value;
use sqlx::PgConnection;
use std::collections::HashMap;
use turnwright_types::gateway::{CallOutput, OpenedTurn, Stored};

/// The state of the writer's turn. With `takeover` it first raises the fence, ends what an older
/// turn or a dead replica left generating, and closes the calls that older turns left open; a
/// response of this turn that is being generated goes on. Without, it only reads.
///
/// # Errors
/// When the fence is stale, the conversation is not the agent's, or the database fails.
pub async fn open_turn(pool: &Pool, writer: &Writer, takeover: bool) -> Result<OpenedTurn> {
    if !takeover {
        return look(pool, writer).await;
    }
    let mut tries = Tries::new();
    loop {
        let outcome = take_over(pool, writer).await;
        if !tries.again(&outcome).await {
            return outcome;
        }
    }
}

async fn look(pool: &Pool, writer: &Writer) -> Result<OpenedTurn> {
    let mut tx = pool.begin_with("begin isolation level repeatable read read only").await?;
    let Some(standing) = read::standing(&mut tx, writer.conversation.uuid()).await? else {
        // The first request of the conversation makes it.
        return Ok(read::nothing_yet());
    };
    standing.admit(writer)?;
    let opened = read::turn(&mut tx, &standing, writer.fence.turn_seq).await?;
    tx.commit().await?;
    Ok(opened)
}

async fn take_over(pool: &Pool, writer: &Writer) -> Result<OpenedTurn> {
    let mut tx = pool.begin().await?;
    let locked = lock_for(&mut tx, writer).await?;
    end_overtaken(&mut tx, locked.id, writer.fence.turn_seq).await?;
    let open = left_open(&mut tx, &locked, writer.fence.turn_seq).await?;
    let closings: Vec<NewItem> = open.iter().map(|id| closing(id)).collect();
    append_on_path(&mut tx, &locked, writer, &closings).await?;
    let standing =
        read::standing(&mut tx, locked.id).await?.ok_or(Error::Corrupt("conversation"))?;
    let opened = read::turn(&mut tx, &standing, writer.fence.turn_seq).await?;
    tx.commit().await?;
    Ok(opened)
}

/// Open calls of older turns. Only the newest response before this turn can have some: each
/// request closes what is open before it.
async fn left_open(c: &mut PgConnection, locked: &Locked, turn_seq: i64) -> Result<Vec<String>> {
    let calls = sqlx::query_scalar!(
        r#"select i.call_id as "call_id!"
             from (select r.branch, r.output_from, r.output_upto, r.status
                     from gateway.responses r
                    where r.conversation = $1 and r.turn_seq < $2
                    order by r.turn_seq desc, r.created_at desc limit 1) r
             join gateway.items i on i.branch = r.branch and i.seq >= r.output_from
                                 and i.seq < r.output_upto
            where r.status = 'completed' and i.type = 'function_call'
              and not exists (select from gateway.items o
                               where o.conversation = $1 and o.call_id = i.call_id
                                 and o.type = 'function_call_output')
            order by i.seq"#,
        locked.id,
        turn_seq,
    )
    .fetch_all(c)
    .await?;
    Ok(calls)
}

/// Stores outputs of the turn's calls; what is stored already stands.
///
/// # Errors
/// When the fence is stale, an output has no call or its call another output, or the database
/// fails.
pub async fn store_outputs(pool: &Pool, writer: &Writer, outputs: &[CallOutput]) -> Result<Stored> {
    let mut tries = Tries::new();
    loop {
        let outcome = store_once(pool, writer, outputs).await;
        if !tries.again(&outcome).await {
            return outcome;
        }
    }
}

async fn store_once(pool: &Pool, writer: &Writer, outputs: &[CallOutput]) -> Result<Stored> {
    let mut tx = pool.begin().await?;
    let missing = Error::NotFound(Missing::Conversation(writer.conversation));
    let locked = lock(&mut tx, writer.conversation.uuid()).await?.ok_or(missing)?;
    locked.admit(writer)?;
    let mut known = known_calls(&mut tx, &locked, outputs).await?;
    let mut fresh = Vec::with_capacity(outputs.len());
    for CallOutput { call_id, output } in outputs {
        let value = Value::from(output.as_str());
        match known.get_mut(call_id) {
            None => return Err(Error::OutputWithoutCall(call_id.clone())),
            Some(Some(stored)) if *stored == value => {}
            Some(Some(_)) => return Err(Error::SecondOutput(call_id.clone())),
            Some(open) => {
                *open = Some(value);
                fresh.push(output_item(call_id, output, Vec::new()));
            }
        }
    }
    let head = append_on_path(&mut tx, &locked, writer, &fresh).await?;
    tx.commit().await?;
    Ok(Stored { head })
}

/// The calls that `outputs` name and their stored outputs, on the conversation's path.
async fn known_calls(
    c: &mut PgConnection,
    locked: &Locked,
    outputs: &[CallOutput],
) -> Result<HashMap<String, Option<Value>>> {
    let ids: Vec<&str> = outputs.iter().map(|o| o.call_id.as_str()).collect();
    let rows = sqlx::query!(
        r#"select i.call_id as "call_id!", o.body as "output?"
             from gateway.items i
             join gateway.branches b on b.id = i.branch and b.parent is null
             left join gateway.items o on o.conversation = i.conversation
                   and o.call_id = i.call_id and o.type = 'function_call_output'
            where i.conversation = $1 and i.call_id = any ($2) and i.type = 'function_call'"#,
        locked.id,
        ids as _,
    )
    .fetch_all(c)
    .await?;
    Ok(rows.into_iter().map(|r| (r.call_id, r.output.as_deref().map(output_of))).collect())
}

/// Appends to the root branch under the writer's fence, which it raises; returns the head.
async fn append_on_path(
    c: &mut PgConnection,
    locked: &Locked,
    writer: &Writer,
    items: &[NewItem],
) -> Result<i64> {
    let branch = root(c, locked.id).await?;
    if items.is_empty() && locked.fence == writer.fence {
        return Ok(branch.head);
    }
    let spot = Spot {
        conversation: locked.id,
        branch: branch.id,
        first_seq: locked.last_seq + 1,
        response: None,
        fence: Some(writer.fence),
    };
    let end = append(c, &spot, items).await?;
    let head = if items.is_empty() { branch.head } else { end - 1 };
    advance(c, locked.id, branch.id, head, Some(writer.fence)).await?;
    Ok(head)
}
