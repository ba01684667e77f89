//! The `turnwright` command: arguments and environment in, exit code out. It must hold no logic of
//! its own.

use std::process::ExitCode;
use turnwright_kit::config::Env;

// One thread: `dev` starts its children from it, and a child that follows its parent's end follows
// the thread that started it.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    turnwright::main(std::env::args_os(), &Env::process()).await
}
