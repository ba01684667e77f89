//! `turnwright agent`: which agents there are, and what one is made of.

use crate::{Connection, Error, Format, Out, control, table::Table};
use serde_json::json;
use turnwright_proto::v1::{AgentSummary, GetAgentRequest, GetAgentResponse, ListAgentsRequest};

/// Lists agents.
///
/// # Errors
/// When the control plane does not answer or refuses.
pub async fn list(connection: &Connection, out: &mut Out) -> Result<(), Error> {
    let mut admin = control::admin(connection).await?;
    let answer = admin.list_agents(ListAgentsRequest {}).await;
    let answer = answer.map_err(|s| control::refused(&s))?.into_inner();
    if out.format() == Format::Json {
        let agents: Vec<_> = answer.agents.iter().map(summary).collect();
        return out.json(&json!({ "agents": agents, "revision": answer.revision }));
    }
    let mut table = Table::new(&["AGENT", "NAME", "TITLE", "MODEL", "SKILLS", "REVISION"]);
    for agent in answer.agents {
        table.push([
            agent.slug,
            agent.display_name,
            agent.title,
            agent.model,
            agent.skills.to_string(),
            agent.effective_revision.to_string(),
        ]);
    }
    if table.is_empty() {
        return out.line("no agents; apply a folder with `turnwright apply -f DIR`");
    }
    out.table(&table)
}

/// Shows one agent.
///
/// # Errors
/// When it does not exist, or the control plane does not answer or refuses.
pub async fn show(connection: &Connection, slug: &str, out: &mut Out) -> Result<(), Error> {
    let agent = get(connection, slug).await?;
    match out.format() {
        Format::Json => out.json(&view(&agent)),
        Format::Table => print(&agent, out),
    }
}

/// Reads one agent.
///
/// # Errors
/// As [`show`].
pub async fn get(connection: &Connection, slug: &str) -> Result<GetAgentResponse, Error> {
    let mut admin = control::admin(connection).await?;
    let answer = admin.get_agent(GetAgentRequest { slug: slug.to_owned() }).await;
    Ok(answer.map_err(|s| control::refused(&s))?.into_inner())
}

fn summary(agent: &AgentSummary) -> serde_json::Value {
    json!({
        "slug": agent.slug,
        "display_name": agent.display_name,
        "title": agent.title,
        "model": agent.model,
        "skills": agent.skills,
        "effective_revision": agent.effective_revision,
    })
}

fn view(answer: &GetAgentResponse) -> serde_json::Value {
    let documents = answer.documents.iter().map(
        |d| json!({ "kind": d.kind, "sha256": d.sha256, "bytes": d.bytes, "revision": d.revision }),
    );
    let skills = answer.skills.iter().map(|s| {
        json!({
            "name": s.name,
            "category": s.category,
            "description": s.description,
            "recall_only": s.recall_only,
            "enabled": s.enabled,
            "revision": s.revision,
        })
    });
    let settings = answer.settings.iter().map(|s| {
        json!({
            "key": s.key,
            "value": value(&s.value_json),
            "source": s.source,
            "revision": s.revision,
        })
    });
    json!({
        "agent": answer.agent.as_ref().map(summary),
        "documents": documents.collect::<Vec<_>>(),
        "skills": skills.collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
        "bindings": answer.bindings,
    })
}

/// A setting's value; text that is no JSON stays text.
fn value(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap_or_else(|_| json.into())
}

fn print(answer: &GetAgentResponse, out: &mut Out) -> Result<(), Error> {
    if let Some(agent) = &answer.agent {
        let mut table = Table::new(&["AGENT", &agent.slug]);
        table.push(["name".to_owned(), agent.display_name.clone()]);
        table.push(["title".to_owned(), agent.title.clone()]);
        table.push(["model".to_owned(), agent.model.clone()]);
        table.push(["revision".to_owned(), agent.effective_revision.to_string()]);
        table.push(["bindings".to_owned(), answer.bindings.join(", ")]);
        out.table(&table)?;
    }
    let mut documents = Table::new(&["DOCUMENT", "BYTES", "REVISION", "SHA256"]);
    for d in &answer.documents {
        let revision = if d.revision == 0 { "template".into() } else { d.revision.to_string() };
        documents.push([d.kind.clone(), d.bytes.to_string(), revision, d.sha256.clone()]);
    }
    let mut skills = Table::new(&["SKILL", "CATEGORY", "REVISION", "STATE", "DESCRIPTION"]);
    for s in &answer.skills {
        let state = match (s.enabled, s.recall_only) {
            (false, _) => "disabled",
            (true, true) => "recall only",
            (true, false) => "enabled",
        };
        skills.push([
            s.name.clone(),
            s.category.clone(),
            s.revision.to_string(),
            state.to_owned(),
            s.description.clone(),
        ]);
    }
    let mut settings = Table::new(&["SETTING", "VALUE", "SOURCE", "REVISION"]);
    for s in &answer.settings {
        settings.push([
            s.key.clone(),
            s.value_json.clone(),
            s.source.clone(),
            s.revision.to_string(),
        ]);
    }
    for table in [documents, skills, settings] {
        if !table.is_empty() {
            out.line("")?;
            out.table(&table)?;
        }
    }
    Ok(())
}
