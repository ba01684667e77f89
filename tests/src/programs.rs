//! The programs of this build, for tests that kill real processes.

use std::path::PathBuf;

/// A program beside this test's own, built by `bin/test` before the tests run.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let me = std::env::current_exe().expect("own path");
    let folder = me.ancestors().find(|p| p.join(name).is_file());
    let folder = folder.unwrap_or_else(|| {
        panic!("{name} is not built: run `cargo build --workspace --bins`, or bin/test, which does")
    });
    folder.join(name)
}

/// The root of the repository.
///
/// # Panics
/// When the crate lies elsewhere.
#[must_use]
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in it").to_owned()
}
