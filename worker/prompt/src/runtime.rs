//! The last block of `instructions`: who the agent is here, where it was opened and with what it
//! works. Only what is frozen for the conversation or changes with the worker's offer; never the
//! current time, the sender or anything of a message.

use crate::context::{Context, Tools, Workspace};
use crate::instructions::{Instructions, Source};
use crate::trust::{LINE_MAX, PATH_MAX, push_fact, push_line};
use crate::zone::Zone;

/// Writes the lines of the block, each with its own source.
pub(crate) fn write(
    out: &mut Instructions,
    context: &Context,
    workspace: &Workspace,
    tools: &Tools,
    zone: Zone,
) {
    out.push("<runtime_context>\n", Source::layout());
    let agent = Source {
        object: format!("agent/{}", context.agent.slug),
        revision: Some(context.effective_revision),
    };
    out.push(&agent_lines(context), agent);
    out.push(&channel_lines(context), Source::of("channel"));
    out.push(&fact("timezone", zone.label()), Source::of("setting/system.timezone"));
    let started = fact("conversation_started", &zone.minute(context.started_at));
    out.push(&started, Source::of(&format!("conversation/{}", context.conversation_id)));
    let mut path = String::new();
    push_fact(&mut path, "workspace", &workspace.path, PATH_MAX);
    out.push(&path, Source::of("workspace"));
    out.push(&tool_line(tools), Source::of("tools"));
    out.push("</runtime_context>", Source::layout());
}

fn fact(name: &str, value: &str) -> String {
    let mut line = String::new();
    push_fact(&mut line, name, value, LINE_MAX);
    line
}

fn agent_lines(context: &Context) -> String {
    let agent = &context.agent;
    let mut lines = String::new();
    push_fact(&mut lines, "agent", &agent.display_name, LINE_MAX);
    if lines.is_empty() {
        push_fact(&mut lines, "agent", &agent.slug, LINE_MAX);
    }
    push_fact(&mut lines, "agent_title", &agent.title, LINE_MAX);
    lines
}

fn channel_lines(context: &Context) -> String {
    let origin = &context.origin;
    let mut lines = fact("channel", &format!("{} {}", origin.adapter, origin.kind.as_str()));
    if let Some(label) = &origin.label {
        push_fact(&mut lines, "channel_label", label, LINE_MAX);
    }
    lines
}

fn tool_line(tools: &Tools) -> String {
    let mut line = String::from("tools: ");
    for (at, name) in tools.0.iter().enumerate() {
        if at > 0 {
            line.push_str(", ");
        }
        push_line(&mut line, name, LINE_MAX);
    }
    if tools.0.is_empty() {
        line.push_str("none");
    }
    line.push('\n');
    line
}
