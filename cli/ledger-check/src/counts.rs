//! How much was looked at.

use serde::Serialize;
use sqlx::PgConnection;

/// Rows per table of the snapshot that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// `control.revisions`.
    pub revisions: i64,
    /// `control.conversations`.
    pub conversations: i64,
    /// `control.signals`.
    pub signals: i64,
    /// `control.mailbox`.
    pub mailbox: i64,
    /// `control.turns`.
    pub turns: i64,
    /// `control.deliveries`.
    pub deliveries: i64,
    /// `gateway.conversations`.
    pub gateway_conversations: i64,
    /// `gateway.responses`.
    pub responses: i64,
    /// `gateway.items`.
    pub items: i64,
}

impl Counts {
    /// Table names and counts, in the order of declaration.
    #[must_use]
    pub const fn rows(&self) -> [(&'static str, i64); 9] {
        [
            ("control.revisions", self.revisions),
            ("control.conversations", self.conversations),
            ("control.signals", self.signals),
            ("control.mailbox", self.mailbox),
            ("control.turns", self.turns),
            ("control.deliveries", self.deliveries),
            ("gateway.conversations", self.gateway_conversations),
            ("gateway.responses", self.responses),
            ("gateway.items", self.items),
        ]
    }
}

pub(crate) async fn count(c: &mut PgConnection) -> Result<Counts, sqlx::Error> {
    sqlx::query_as!(
        Counts,
        r#"
        select (select count(*) from control.revisions) as "revisions!",
               (select count(*) from control.conversations) as "conversations!",
               (select count(*) from control.signals) as "signals!",
               (select count(*) from control.mailbox) as "mailbox!",
               (select count(*) from control.turns) as "turns!",
               (select count(*) from control.deliveries) as "deliveries!",
               (select count(*) from gateway.conversations) as "gateway_conversations!",
               (select count(*) from gateway.responses) as "responses!",
               (select count(*) from gateway.items) as "items!"
        "#
    )
    .fetch_one(c)
    .await
}
