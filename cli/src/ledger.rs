//! `turnwright ledger check`: what was checked, and every promise that is broken, by name.

use crate::{Connection, Error, Format, Out, table::Table};
use turnwright_ledger_check::{Report, check as check_ledger};

/// Checks the ledger and prints what came of it.
///
/// # Errors
/// [`Error::Unmet`] when a promise is broken; otherwise when the database cannot be read.
pub async fn check(connection: &Connection, out: &mut Out) -> Result<(), Error> {
    let report = read(connection).await?;
    match out.format() {
        Format::Json => out.json(&report)?,
        Format::Table => print(&report, out)?,
    }
    if report.is_clean() { Ok(()) } else { Err(Error::Unmet) }
}

/// Checks the ledger.
///
/// # Errors
/// When the database cannot be read.
pub async fn read(connection: &Connection) -> Result<Report, Error> {
    check_ledger(&connection.database)
        .await
        .map_err(|e| Error::setup("the ledger was not checked").because(e))
}

/// Prints a report for people.
///
/// # Errors
/// When it cannot be written.
pub fn print(report: &Report, out: &mut Out) -> Result<(), Error> {
    let mut checked = Table::new(&["TABLE", "ROWS"]);
    for (table, rows) in report.checked.rows() {
        checked.push([table.to_owned(), rows.to_string()]);
    }
    out.table(&checked)?;
    let (rules, broken) = (report.rules.len(), report.violations.len());
    if report.is_clean() {
        return out.line(format_args!("\n{rules} rules hold"));
    }
    let mut violations = Table::new(&["RULE", "OBJECT", "DETAIL"]);
    for violation in &report.violations {
        violations.push([
            violation.rule.to_owned(),
            violation.object.clone(),
            violation.detail.clone(),
        ]);
    }
    out.line("")?;
    out.table(&violations)?;
    out.line(format_args!("\n{broken} violations of {rules} rules"))
}
