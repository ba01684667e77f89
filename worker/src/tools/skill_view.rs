//! `skill_view`: a file of a skill at the turn's revision, through the broker. Skills that stand in
//! no catalogue are read by their name too; whether a skill may be read is the broker's decision.

use super::{
    Declaration, Effect, OUTPUT_CAP, Scope, Tool, ToolError, arguments,
    output::{cap, page},
};
use crate::control::{CallError, ControlPlane};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use turnwright_kit::{Class, Classify as _};
use turnwright_proto::v1;

/// Room for the list of a skill's other files, in bytes.
const FILES_CAP: usize = 2 << 10;

pub(crate) struct SkillView {
    declaration: Declaration,
    control: ControlPlane,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    name: String,
    path: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl SkillView {
    pub(crate) fn new(control: ControlPlane) -> Self {
        let declaration = Declaration {
            name: "skill_view",
            description: "Reads a skill: its instructions, or one of its files.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "description": "The skill's name.",
                    },
                    "path": {
                        "type": "string",
                        "description": "A file of the skill; its instructions if absent.",
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
                "required": ["name"],
                "additionalProperties": false,
            }),
            effect: Effect::ReadOnly,
            timeout: Duration::from_secs(15),
            output_cap: OUTPUT_CAP,
        };
        Self { declaration, control }
    }
}

impl Tool for SkillView {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn run<'a>(
        &'a self,
        raw: &'a str,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let Arguments { name, path, offset, limit } = arguments(raw)?;
            let whole = path.as_ref().is_none_or(String::is_empty);
            let request = v1::GetSkillRequest {
                conversation_id: scope.conversation.to_string(),
                revision: scope.revision,
                name,
                path: path.unwrap_or_default(),
            };
            let skill = self.control.skill(request).await.map_err(|e| refusal(&e))?;
            let size = skill.content.len();
            let text = std::str::from_utf8(&skill.content).ok().filter(|t| !t.contains('\0'));
            let Some(text) = text else {
                let (name, path) = (&skill.name, &skill.path);
                return Err(ToolError::Refused(format!(
                    "`{path}` of skill `{name}` is binary ({size} bytes), not text"
                )));
            };
            let files = if whole { others(&skill.files) } else { String::new() };
            let page = page(text, offset, limit, self.declaration.output_cap - files.len())?;
            Ok(page + &files)
        })
    }
}

fn refusal(error: &CallError) -> ToolError {
    match error.class() {
        Class::NotFound | Class::Invalid | Class::Forbidden | Class::Conflict => {
            ToolError::Refused(error.message.clone())
        }
        Class::Unauthenticated
        | Class::Exhausted
        | Class::Timeout
        | Class::Unavailable
        | Class::Internal => ToolError::Unavailable("the skill cannot be read now".to_owned()),
    }
}

/// A word on the files beside the instructions.
fn others(files: &[String]) -> String {
    if files.len() < 2 {
        return String::new();
    }
    let list = format!("\n\n[files of this skill, to be read by `path`: {}]", files.join(", "));
    cap(list, FILES_CAP, |_| "there are more files".to_owned())
}
