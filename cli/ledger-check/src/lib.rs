//! Reads both schemas with the auditor's rights, in one snapshot, and names every promise that the
//! rows break. It writes nothing, repairs nothing and asks no service.

mod counts;
mod rule;
mod rules;

pub use counts::Counts;

use serde::Serialize;
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;

/// The only role that sees both schemas.
const AUDITOR: &str = "turnwright_auditor";

/// How long the whole check may take; a single statement gets half of it.
const LIMIT: Duration = Duration::from_secs(600);
const STATEMENT_LIMIT: &str = "300s";

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule's stable name, in kebab case.
    pub rule: &'static str,
    /// The row it was found at: an id, or a name.
    pub object: String,
    /// What is wrong there.
    pub detail: String,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rows that were looked at, per table.
    pub checked: Counts,
    /// The names of the rules that were applied, in order.
    pub rules: Vec<&'static str>,
    /// In the order of the rules; at most [`FINDINGS_MAX`] of each.
    pub violations: Vec<Violation>,
}

/// The most findings of one rule that a report lists.
pub const FINDINGS_MAX: usize = 500;

impl Report {
    /// Whether every promise holds.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Why the database could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL cannot be read.
    #[error("the database url is malformed; expected postgres://user:password@host:port/database")]
    Url(#[source] sqlx::Error),
    /// No connection with the auditor's rights.
    #[error(
        "cannot read the database as role {AUDITOR}; check that PostgreSQL runs, that the \
         migrations have run, and that the user of the url is a member of that role"
    )]
    Connect(#[source] sqlx::Error),
    /// A statement failed.
    #[error("cannot check `{what}`")]
    Read {
        /// The rule, or `counts`.
        what: &'static str,
        /// What PostgreSQL said.
        #[source]
        source: sqlx::Error,
    },
    /// It took too long.
    #[error("the check did not end within {} s; try again when the database is less busy", LIMIT.as_secs())]
    TooLate,
}

/// Checks every rule in one read-only snapshot of the database at `url`.
///
/// # Errors
/// When the database cannot be reached or read; a broken promise is no error but a violation.
pub async fn check(url: &str) -> Result<Report, Error> {
    let options: PgConnectOptions = url.parse().map_err(Error::Url)?;
    let options = options
        .application_name("turnwright-ledger-check")
        .options([("role", AUDITOR), ("statement_timeout", STATEMENT_LIMIT)]);
    tokio::time::timeout(LIMIT, run(&options)).await.map_err(|_| Error::TooLate)?
}

async fn run(options: &PgConnectOptions) -> Result<Report, Error> {
    let mut connection = PgConnection::connect_with(options).await.map_err(Error::Connect)?;
    let mut snapshot = connection
        .begin_with("begin isolation level repeatable read read only")
        .await
        .map_err(Error::Connect)?;
    let checked = counts::count(&mut snapshot)
        .await
        .map_err(|source| Error::Read { what: "counts", source })?;
    let mut violations = Vec::new();
    for rule in rules::all() {
        let found = (rule.find)(&mut snapshot)
            .await
            .map_err(|source| Error::Read { what: rule.name, source })?;
        violations.extend(found.into_iter().map(|f| rule.violation(f)));
    }
    let rules = rules::all().map(|rule| rule.name).collect();
    // Nothing was written: how the snapshot ends cannot matter any more.
    drop(snapshot);
    let _ = connection.close().await;
    Ok(Report { checked, rules, violations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_malformed_url_is_told_apart_from_an_absent_database() {
        assert!(matches!(check("not a url").await, Err(Error::Url(_))));
        let nobody_listens = "postgres://turnwright@127.0.0.1:1/turnwright";
        assert!(matches!(check(nobody_listens).await, Err(Error::Connect(_))));
    }

    #[test]
    fn rules_have_distinct_names_in_kebab_case() {
        let mut names: Vec<_> = rules::all().map(|rule| rule.name).collect();
        let kebab = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(names.iter().all(kebab), "{names:?}");
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
