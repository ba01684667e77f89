//! Looking into an installation: what the provider was sent, what the ledger says.

use super::TestCluster;
use crate::eventually;
use serde_json::Value;
use std::time::Duration;

impl TestCluster {
    /// The bodies of all requests the provider got, in order.
    ///
    /// # Panics
    /// When the file is not what the scripted upstream writes.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.requests_file()).unwrap_or_default();
        // The last line may be in the making.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|l| {
                let line: Value = serde_json::from_str(l).expect("a line of JSON");
                line["body"].clone()
            })
            .collect()
    }

    /// The `instructions` of a request: its first system message.
    #[must_use]
    pub fn instructions(request: &Value) -> String {
        text_of(&request["messages"][0])
    }

    /// The texts of a request's user messages.
    #[must_use]
    pub fn user_texts(request: &Value) -> Vec<String> {
        let messages = request["messages"].as_array().into_iter().flatten();
        messages.filter(|m| m["role"] == "user").map(text_of).collect()
    }

    /// One value of one row.
    ///
    /// # Panics
    /// When the query fails or answers nothing.
    pub async fn value<T>(&self, sql: &str) -> T
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let client = self.database.owner().await;
        client.query_one(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
    }

    /// Waits until a count is at least so much.
    pub async fn until(&self, what: &str, sql: &str, least: i64) {
        let client = self.database.owner().await;
        eventually(what, Duration::from_secs(30), || async {
            let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
            let n: i64 = row.get(0);
            if n >= least { Ok(()) } else { Err(format!("{n} of {least}")) }
        })
        .await;
    }

    /// What the ledger check finds.
    ///
    /// # Panics
    /// When it cannot read the schemas.
    pub async fn violations(&self) -> Vec<turnwright_ledger_check::Violation> {
        let url = self.database.role_url("turnwright_auditor");
        turnwright_ledger_check::check(&url).await.expect("ledger check").violations
    }
}

/// A message's text, whether it is one string or parts.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(s) => s.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
