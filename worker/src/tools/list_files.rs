//! `list_files`: what there is in a folder of the workspace.

use super::{
    Declaration, Effect, OUTPUT_CAP, Scope, Tool, ToolError, arguments,
    workspace::{Entry, EntryKind},
};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::{fmt::Write as _, time::Duration};
use tokio_util::task::TaskTracker;

pub(crate) struct ListFiles {
    declaration: Declaration,
    tasks: TaskTracker,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: Option<String>,
}

impl ListFiles {
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        let declaration = Declaration {
            name: "list_files",
            description: "Lists a folder of the workspace by name. Folders end in `/`, symbolic \
                          links in `@`; files come with their size in bytes.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "A folder of the workspace; all of it if absent.",
                    },
                },
                "required": [],
                "additionalProperties": false,
            }),
            effect: Effect::ReadOnly,
            timeout: Duration::from_secs(10),
            output_cap: OUTPUT_CAP,
        };
        Self { declaration, tasks }
    }
}

impl Tool for ListFiles {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn run<'a>(
        &'a self,
        raw: &'a str,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let path = arguments::<Arguments>(raw)?.path.unwrap_or_default();
            let workspace = scope.workspace.clone();
            let listed = self.tasks.spawn_blocking(move || workspace.list(&path)).await;
            let (entries, total) = listed.map_err(|_| stopped())??;
            Ok(render(&entries, total))
        })
    }
}

/// A listing that came to no end: a defect, or the process is stopping.
pub(super) fn stopped() -> ToolError {
    ToolError::Unavailable("the workspace could not be read to the end".to_owned())
}

fn render(entries: &[Entry], total: usize) -> String {
    if entries.is_empty() {
        return "the folder is empty".to_owned();
    }
    let mut text = String::new();
    for Entry { name, kind } in entries {
        // Writing to a string cannot fail.
        let _ = match kind {
            EntryKind::Folder => writeln!(text, "{name}/"),
            EntryKind::File(bytes) => writeln!(text, "{name}  {bytes}"),
            EntryKind::Link => writeln!(text, "{name}@"),
            EntryKind::Other => writeln!(text, "{name}  (not a file)"),
        };
    }
    if total > entries.len() {
        let _ = writeln!(text, "[{} of {total} entries are not shown]", total - entries.len());
    }
    text
}
