//! Writes of one apply: the revision with its chain link, the ends of old rows, the new rows.
//! One statement per table, whatever the number of rows.

use super::{Change, Desired, Diff, rows::Table};
use crate::Error;
use serde_json::Value;
use sqlx::PgConnection;

/// Takes the revision: the counter, the record, the link. The chain is
/// `sha256(previous link or 32 zero bytes ‖ revision as 8 bytes ‖ changes as PostgreSQL prints them)`.
pub(super) async fn revision(
    db: &mut PgConnection,
    revision: i64,
    author: &str,
    reason: &str,
    changes: &[Change],
) -> Result<(), Error> {
    let changes =
        serde_json::to_value(changes).map_err(|e| Error::corrupt("configuration changes", e))?;
    sqlx::query!(
        r#"with counter as (update control.revision_counter set revision = $1)
           insert into control.revisions (revision, author, reason, changes, chain)
           select $1, $2, $3, $4, sha256(
             coalesce((select chain from control.revisions where revision = $1 - 1),
                      decode(repeat('00', 32), 'hex'))
             || int8send($1) || convert_to($4::jsonb::text, 'UTF8'))"#,
        revision,
        author,
        reason,
        changes
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ends the current rows of what is replaced or gone.
pub(super) async fn close(db: &mut PgConnection, revision: i64, diff: &Diff) -> Result<(), Error> {
    let closed: Vec<String> = diff.closed.keys().cloned().collect();
    sqlx::query!(
        r#"with
             a as (update control.agents set rev_to = $1
                    where rev_to is null and 'agent/' || slug = any($2)),
             d as (update control.documents set rev_to = $1
                    where rev_to is null and 'agent/' || agent || '/document/' || kind = any($2)),
             s as (update control.skills set rev_to = $1
                    where rev_to is null and 'agent/' || agent || '/skill/' || name = any($2)),
             t as (update control.settings set rev_to = $1
                    where rev_to is null
                      and case agent when '' then 'setting/' || key
                          else 'agent/' || agent || '/setting/' || key end = any($2)),
             m as (update control.models set rev_to = $1
                    where rev_to is null and 'model/' || name = any($2)),
             b as (update control.bindings set rev_to = $1
                    where rev_to is null and 'agent/' || agent || '/binding/' || id = any($2))
           insert into control.agent_revisions (agent, revision)
           select unnest($3::text[]), $1"#,
        revision,
        &closed,
        &diff.touched
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Begins the new rows.
pub(super) async fn insert(
    db: &mut PgConnection,
    revision: i64,
    desired: &Desired,
    diff: &Diff,
) -> Result<(), Error> {
    let of = |table| desired.opened(table, &diff.opened);
    blobs(db, desired, &of(Table::Skills)?).await?;
    sqlx::query!(
        "insert into control.agents (slug, display_name, title, rev_from)
         select slug, display_name, title, $1
           from jsonb_to_recordset($2) as r(slug text, display_name text, title text)",
        revision,
        of(Table::Agents)?
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into control.documents (agent, kind, body, sha256, rev_from)
         select agent, kind, body, sha256(convert_to(body, 'UTF8')), $1
           from jsonb_to_recordset($2) as r(agent text, kind text, body text)",
        revision,
        of(Table::Documents)?
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into control.skills (agent, name, category, description, tags, recall_only,
                                     enabled, frontmatter, files, rev_from)
         select agent, name, category, description, tags, recall_only, enabled, frontmatter,
                files, $1
           from jsonb_to_recordset($2) as r(agent text, name text, category text,
             description text, tags text[], recall_only boolean, enabled boolean,
             frontmatter jsonb, files jsonb)",
        revision,
        of(Table::Skills)?
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into control.settings (agent, key, value, rev_from)
         select agent, key, value, $1
           from jsonb_to_recordset($2) as r(agent text, key text, value jsonb)",
        revision,
        of(Table::Settings)?
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into control.models (name, provider, upstream_model, window_tokens,
                                     max_output_tokens, modalities, base_instructions, prices,
                                     rev_from)
         select name, provider, upstream_model, window_tokens, max_output_tokens, modalities,
                base_instructions, prices, $1
           from jsonb_to_recordset($2) as r(name text, provider text, upstream_model text,
             window_tokens integer, max_output_tokens integer, modalities text[],
             base_instructions text, prices jsonb)",
        revision,
        of(Table::Models)?
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into control.bindings (id, agent, adapter, account, unaddressed,
                                       max_message_bytes, rev_from)
         select id, agent, adapter, account, unaddressed, max_message_bytes, $1
           from jsonb_to_recordset($2) as r(id text, agent text, adapter text, account text,
             unaddressed text, max_message_bytes integer)",
        revision,
        of(Table::Bindings)?
    )
    .execute(&mut *db)
    .await?;
    Ok(())
}

/// Stores the contents that new skill rows refer to, once each.
async fn blobs(db: &mut PgConnection, desired: &Desired, skills: &Value) -> Result<(), Error> {
    let wanted = skills.as_array().into_iter().flatten();
    let files = wanted.filter_map(|s| s.get("files")?.as_object()).flat_map(|f| f.values());
    let mut contents: Vec<Vec<u8>> =
        files.filter_map(|h| desired.blobs.get(h.as_str()?)).cloned().collect();
    contents.sort_unstable();
    contents.dedup();
    sqlx::query!(
        "insert into control.blobs (sha256, content)
         select sha256(c), c from unnest($1::bytea[]) as c on conflict do nothing",
        &contents
    )
    .execute(db)
    .await?;
    Ok(())
}
