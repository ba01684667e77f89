//! The only crate that speaks SQL on schema `control`. One function is one use case is one
//! transaction, with its begin and commit in sight; every transaction of a conversation first
//! locks the conversation's row.

mod admission;
mod claim;
mod config;
mod context;
mod delivery;
mod due;
mod error;
mod finish;
mod lane;
mod lease;
mod migrate;
pub mod plan;
mod story;

pub use admission::{Admitted, Ignored, NewSignal};
pub use claim::{BatchRow, Claim, ClaimOutcome, NotClaimed};
pub use config::{
    AgentRow, Applied, BindingRow, Change, Desired, DocumentRow, ModelRow, SettingRow, SkillRow,
    agent_view::{AgentOverview, AgentState},
};
pub use context::{ContextRow, ContextStore, OriginRow, SkillFile};
pub use delivery::{BindingInfo, DeliveryMessage, Receipt, Settled};
pub use due::QueuedTurn;
pub use error::Error;
pub use finish::{Ended, Finished, TurnEnd};
pub use lane::RETRY_LIMIT;
pub use lease::{Reaped, RenewedTurn};
pub use migrate::migrate;
pub use story::{DeliveryRow, QuarantineRow, StoryRow, TurnFilter, TurnRow};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::{str::FromStr as _, time::Duration};

/// The transactional side of the schema. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: sqlx::PgPool,
}

/// What every session is told, so that no frozen client keeps a lock and no statement runs away.
pub(crate) const SESSION: [(&str, &str); 4] = [
    ("idle_in_transaction_session_timeout", "2000"),
    ("lock_timeout", "5000"),
    ("statement_timeout", "15000"),
    ("tcp_user_timeout", "10000"),
];

impl Store {
    /// Opens a pool of at most `max_connections` sessions; waits for the first one.
    ///
    /// # Errors
    /// When the URL is malformed or PostgreSQL does not answer within five seconds.
    pub async fn connect(url: &str, max_connections: u32) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)
            .map_err(Error::from)?
            .application_name("turnwright-control-plane")
            .options(SESSION);
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(Duration::from_secs(5))
            .connect_with(options)
            .await?;
        Ok(Self { pool })
    }

    /// Whether PostgreSQL answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query_scalar!("select 1 as \"one!\"").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// The newest revision.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn revision(&self) -> Result<i64, Error> {
        Ok(sqlx::query_scalar!("select revision from control.revision_counter")
            .fetch_one(&self.pool)
            .await?)
    }

    /// Ends every session.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
