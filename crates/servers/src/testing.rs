//! What the tests of both servers need: the real programs of this machine.

use std::path::Path;

use crate::{Binaries, Search};

/// Fails with the command to run where a program is missing; nothing is skipped.
pub(crate) fn binaries() -> Binaries {
    let set_up = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/venv");
    let tools_dir = std::env::var_os("TURNWRIGHT_TOOLS_DIR").map_or(set_up, Into::into);
    let search =
        Search { path: std::env::var_os("PATH"), tools_dir: Some(tools_dir), ..Search::default() };
    Binaries::locate(&search).unwrap_or_else(|error| panic!("{error}"))
}
