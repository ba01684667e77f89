//! Rebuilds the crate when a migration changes: they are embedded.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "cargo:rerun-if-changed=../../migrations/gateway")?;
    writeln!(out, "cargo:rerun-if-changed=../../migrations/roles.sql")
}
