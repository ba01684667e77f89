//! Input items. Their text is kept as it came, fields and types nobody here knows included; only
//! the gateway's own extension is taken out.

use crate::{json_object::Fields, problem::Problem};
use serde::de::DeserializeOwned;
use serde_json::{json, value::RawValue};
use turnwright_gateway_store::{NewItem, new_item_id};
use turnwright_types::gateway::{FIELD, ItemExtension};

/// Parses `input`: a text, a list of items, or `null`.
pub(super) fn parse(raw: &RawValue) -> Result<Option<Vec<NewItem>>, Problem> {
    let text = raw.get();
    if text == "null" {
        return Ok(None);
    }
    if text.starts_with('"') {
        let text: String = serde_json::from_str(text)
            .map_err(|e| Problem::invalid("input", format!("`input`: {e}")))?;
        return Ok(Some(vec![user_message(&text)]));
    }
    let items: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|_| Problem::invalid("input", "expected a text or a list of items"))?;
    items
        .into_iter()
        .enumerate()
        .map(|(at, item)| Reader { at }.item(item))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn user_message(text: &str) -> NewItem {
    let content = [json!({ "type": "input_text", "text": text })];
    let body = json!({ "type": "message", "role": "user", "content": content });
    NewItem {
        id: new_item_id("message"),
        kind: "message".to_owned(),
        role: Some("user".to_owned()),
        call_id: None,
        kinds: Vec::new(),
        signal: None,
        body: body.to_string(),
    }
}

/// Reads one item, and says which one is wrong.
struct Reader {
    at: usize,
}

impl Reader {
    fn item(&self, raw: &RawValue) -> Result<NewItem, Problem> {
        let fields = Fields::parse(raw.get())
            .map_err(|e| Problem::invalid(self.param(""), format!("not an item: {e}")))?;
        let kind = match self.field::<String>(&fields, "type")? {
            Some(kind) => kind,
            // The short form of a message.
            None if fields.get("role").is_some() => "message".to_owned(),
            None => return Err(Problem::invalid(self.param(".type"), "an item needs a `type`")),
        };
        let extension: ItemExtension = self.field(&fields, FIELD)?.unwrap_or_default();
        let mut role = None;
        let mut call_id = None;
        match kind.as_str() {
            "message" => role = Some(self.message(&fields)?),
            "function_call" => {
                self.required::<String>(&fields, "name")?;
                self.required::<String>(&fields, "arguments")?;
                call_id = Some(self.required(&fields, "call_id")?);
            }
            "function_call_output" => {
                self.text_or_list(&fields, "output")?;
                call_id = Some(self.required(&fields, "call_id")?);
            }
            "item_reference" => {
                let message = "item references are not offered; continue with \
                    `previous_response_id` or `conversation`";
                return Err(Problem::not_offered(self.param(""), message));
            }
            _ => {}
        }
        let body = match fields.get(FIELD) {
            Some(_) => fields.without(FIELD),
            None => raw.get().to_owned(),
        };
        Ok(NewItem {
            id: new_item_id(&kind),
            kind,
            role,
            call_id,
            kinds: extension.kinds,
            signal: extension.signal_id,
            body,
        })
    }

    fn message(&self, fields: &Fields<'_>) -> Result<String, Problem> {
        let role: String = self.required(fields, "role")?;
        if !matches!(role.as_str(), "user" | "assistant" | "system" | "developer") {
            let message = "expected `user`, `assistant`, `system` or `developer`";
            return Err(Problem::invalid(self.param(".role"), message));
        }
        self.text_or_list(fields, "content")?;
        Ok(role)
    }

    fn text_or_list(&self, fields: &Fields<'_>, name: &str) -> Result<(), Problem> {
        let first = fields.get(name).and_then(|raw| raw.get().bytes().next());
        if matches!(first, Some(b'"' | b'[')) {
            return Ok(());
        }
        Err(Problem::invalid(self.param(&format!(".{name}")), "expected a text or a list of parts"))
    }

    fn required<T: DeserializeOwned>(&self, fields: &Fields<'_>, name: &str) -> Result<T, Problem> {
        self.field(fields, name)?.ok_or_else(|| {
            Problem::invalid(self.param(&format!(".{name}")), format!("`{name}` is required"))
        })
    }

    fn field<T: DeserializeOwned>(
        &self,
        fields: &Fields<'_>,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(raw) = fields.get(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|e| {
            Problem::invalid(self.param(&format!(".{name}")), format!("`{name}`: {e}"))
        })
    }

    fn param(&self, field: &str) -> String {
        format!("input[{}]{field}", self.at)
    }
}
