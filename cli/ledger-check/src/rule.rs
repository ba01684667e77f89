//! What a rule is: a name and one statement that finds the rows that break it.

use crate::Violation;
use sqlx::PgConnection;
use std::pin::Pin;

/// A row that breaks a rule.
pub(crate) struct Finding {
    pub(crate) object: String,
    pub(crate) detail: String,
}

/// The findings, once the statement has run.
pub(crate) type Findings<'c> =
    Pin<Box<dyn Future<Output = Result<Vec<Finding>, sqlx::Error>> + Send + 'c>>;

/// One promise that can be read from the rows.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) find: for<'c> fn(&'c mut PgConnection) -> Findings<'c>,
}

impl Rule {
    pub(crate) fn violation(&self, found: Finding) -> Violation {
        Violation { rule: self.name, object: found.object, detail: found.detail }
    }
}

/// Declares a rule as a constant: its name and the statement, which answers `object` and `detail`
/// of each row that breaks it. The statement is checked against the schema when it is compiled.
macro_rules! rule {
    ($(#[$doc:meta])* $rule:ident, $name:literal, $sql:tt) => {
        $(#[$doc])*
        const $rule: $crate::rule::Rule = {
            fn find(c: &mut sqlx::PgConnection) -> $crate::rule::Findings<'_> {
                // The limit is FINDINGS_MAX: one defect may break a promise in every row.
                Box::pin(
                    sqlx::query_as!($crate::rule::Finding, $sql + " limit 500").fetch_all(c),
                )
            }
            $crate::rule::Rule { name: $name, find }
        };
    };
}
pub(crate) use rule;
