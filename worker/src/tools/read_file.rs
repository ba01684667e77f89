//! `read_file`: the text of a file of the workspace, by lines.

use super::{
    Declaration, Effect, OUTPUT_CAP, Scope, Tool, ToolError, arguments, list_files::stopped,
    output::page,
};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio_util::task::TaskTracker;

pub(crate) struct ReadFile {
    declaration: Declaration,
    tasks: TaskTracker,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl ReadFile {
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        let declaration = Declaration {
            name: "read_file",
            description: "Reads a text file of the workspace. A long file is shown in part, with \
                          a word on how to read on.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "A file inside the workspace.",
                    },
                    "offset": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The first line to show; 1 if absent.",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How many lines to show at most; all if absent.",
                    },
                },
                "required": ["path"],
                "additionalProperties": false,
            }),
            effect: Effect::ReadOnly,
            timeout: Duration::from_secs(10),
            output_cap: OUTPUT_CAP,
        };
        Self { declaration, tasks }
    }
}

impl Tool for ReadFile {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn run<'a>(
        &'a self,
        raw: &'a str,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let Arguments { path, offset, limit } = arguments(raw)?;
            let workspace = scope.workspace.clone();
            let cap = self.declaration.output_cap;
            let read = self.tasks.spawn_blocking(move || {
                let text = workspace.read(&path)?;
                if text.is_empty() {
                    return Ok("the file is empty".to_owned());
                }
                page(&text, offset, limit, cap)
            });
            read.await.map_err(|_| stopped())?
        })
    }
}
