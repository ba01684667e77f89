//! Decides what of a request's input is new in its conversation, and closes calls that would make
//! the transcript unsendable. Pure; the database's triggers hold the same rules.

use crate::{
    error::{Error, Result},
    item::{Item, NewItem, new_item_id},
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The stored output of a call that was never answered.
pub const UNFINISHED_CALL: &str = "This call was not finished: its outcome is unknown. It may or \
    may not have happened; check before you repeat it.";

const CALL: &str = "function_call";
const OUTPUT: &str = "function_call_output";

#[derive(Deserialize)]
struct OutputBody {
    #[serde(default)]
    output: Value,
}

/// What an output item says, for comparison; `null` when it says nothing.
pub(crate) fn output_of(body: &str) -> Value {
    serde_json::from_str::<OutputBody>(body).map_or(Value::Null, |b| b.output)
}

/// An output item for `call_id`.
pub(crate) fn output_item(call_id: &str, output: &str, kinds: Vec<String>) -> NewItem {
    let body = serde_json::json!({ "type": OUTPUT, "call_id": call_id, "output": output });
    NewItem {
        id: new_item_id(OUTPUT),
        kind: OUTPUT.to_owned(),
        role: None,
        call_id: Some(call_id.to_owned()),
        kinds,
        signal: None,
        body: body.to_string(),
    }
}

/// The output item that closes an unanswered call.
pub(crate) fn closing(call_id: &str) -> NewItem {
    output_item(call_id, UNFINISHED_CALL, vec!["synthetic".to_owned()])
}

/// The calls seen so far, in order, and their outputs.
#[derive(Default)]
struct Calls {
    order: Vec<String>,
    outputs: HashMap<String, Option<Value>>,
}

impl Calls {
    fn of(path: &[Item]) -> Self {
        let mut calls = Self::default();
        for item in path {
            let Some(id) = &item.call_id else { continue };
            match item.kind.as_str() {
                CALL => calls.open(id),
                OUTPUT => {
                    calls.outputs.insert(id.clone(), Some(output_of(&item.body)));
                }
                _ => {}
            }
        }
        calls
    }

    fn open(&mut self, id: &str) {
        self.order.push(id.to_owned());
        self.outputs.insert(id.to_owned(), None);
    }

    fn unanswered(&self) -> Vec<String> {
        let open = |id: &&String| matches!(self.outputs.get(*id), Some(None));
        self.order.iter().filter(open).cloned().collect()
    }

    /// Takes one input item; whether it is new.
    fn take(&mut self, item: &NewItem) -> Result<bool> {
        let Some(id) = &item.call_id else { return Ok(true) };
        match (item.kind.as_str(), self.outputs.get_mut(id)) {
            (CALL, Some(_)) => Err(Error::CallRepeated(id.clone())),
            (CALL, None) => {
                self.open(id);
                Ok(true)
            }
            (OUTPUT, None) => Err(Error::OutputWithoutCall(id.clone())),
            (OUTPUT, Some(stored)) => {
                let output = output_of(&item.body);
                match stored {
                    None => {
                        *stored = Some(output);
                        Ok(true)
                    }
                    Some(known) if *known == output => Ok(false),
                    Some(_) => Err(Error::SecondOutput(id.clone())),
                }
            }
            _ => Ok(true),
        }
    }
}

/// The items to append to `path` for `input`, in order: closings of calls that the path left open
/// and the input does not answer, then what of the input is not stored yet, then closings of the
/// input's own open calls.
///
/// # Errors
/// When an output has no call or another one stored, or a call id or signal stands twice.
pub fn reconcile(path: &[Item], input: Vec<NewItem>) -> Result<Vec<NewItem>> {
    let mut calls = Calls::of(path);
    let left_open: HashSet<String> = calls.unanswered().into_iter().collect();
    let stored: HashSet<_> = path.iter().filter_map(|i| i.signal).collect();
    let mut carried = HashSet::new();
    let mut fresh = Vec::with_capacity(input.len());
    for item in input {
        if let Some(signal) = item.signal {
            if !carried.insert(signal) {
                return Err(Error::SignalRepeated);
            }
            if stored.contains(&signal) {
                continue;
            }
        }
        if calls.take(&item)? {
            fresh.push(item);
        }
    }
    let (before, after): (Vec<_>, Vec<_>) =
        calls.unanswered().into_iter().partition(|id| left_open.contains(id));
    let close = |ids: Vec<String>| ids.into_iter().map(|id| closing(&id));
    Ok(close(before).chain(fresh).chain(close(after)).collect())
}

#[cfg(test)]
mod tests;
