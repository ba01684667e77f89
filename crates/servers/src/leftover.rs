//! Ends the server that an earlier run of ours left in a data folder when it was killed. Must only
//! be called by the folder's owner: then whatever server runs in it is an orphan.

use std::{fs, os::unix::ffi::OsStrExt, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::ServerError;

const GENTLE_LIMIT: Duration = Duration::from_secs(10);
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Waits until no `program` runs in `folder`: those that `leads` says are in charge get the
/// `gentle` signal, and after some seconds all get SIGKILL. Without `/proc` nothing is found; a
/// server's own lock file then keeps a second one out.
pub(crate) async fn end(
    server: &'static str,
    program: &Path,
    folder: &Path,
    leads: impl Fn(Pid) -> bool,
    gentle: Signal,
) -> Result<(), ServerError> {
    let found = running(program, folder);
    if found.is_empty() {
        return Ok(());
    }
    tracing::warn!(server, folder = %folder.display(), "ending a server that was left behind");
    // A process that is gone by now is what we want, so errors of `kill` are none.
    for pid in found.into_iter().filter(|pid| leads(*pid)) {
        let _ = kill_process(pid, gentle);
    }
    if gone(program, folder, GENTLE_LIMIT).await.is_ok() {
        return Ok(());
    }
    for pid in running(program, folder) {
        let _ = kill_process(pid, Signal::KILL);
    }
    gone(program, folder, KILL_LIMIT)
        .await
        .map_err(|pid| ServerError::NotStopped { server, pid: pid.as_raw_pid().unsigned_abs() })
}

/// Returns a process that is still there after `limit`.
async fn gone(program: &Path, folder: &Path, limit: Duration) -> Result<(), Pid> {
    let end = Instant::now() + limit;
    loop {
        match running(program, folder).first() {
            None => return Ok(()),
            Some(pid) if Instant::now() > end => return Err(*pid),
            Some(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The processes called `program` that work in `folder` or were told to by an argument. The dead
/// that nobody has reaped yet have neither folder nor arguments.
fn running(program: &Path, folder: &Path) -> Vec<Pid> {
    let name = program.file_name().unwrap_or_default().as_bytes();
    // The system keeps the first 15 bytes.
    let name = &name[..name.len().min(15)];
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok().and_then(Pid::from_raw)?;
        let process = entry.path();
        let called = fs::read(process.join("comm")).ok()?;
        (called.trim_ascii_end() == name).then_some((pid, process))
    });
    let here = processes.filter(|(_, process)| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
            || fs::read(process.join("cmdline")).is_ok_and(|words| {
                words.split(|byte| *byte == 0).any(|word| word == folder.as_os_str().as_bytes())
            })
    });
    here.map(|(pid, _)| pid).collect()
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command, time::Duration};

    use rustix::process::{Pid, Signal, test_kill_process};
    use tokio::{task::yield_now, time::timeout};

    use super::{end, running};
    use crate::child::Child;

    #[tokio::test]
    async fn only_the_program_in_the_folder_is_ended() {
        let (root, sleep) = (tempfile::tempdir().unwrap(), Path::new("/bin/sleep"));
        let folder = root.path().canonicalize().unwrap();
        let sleeper = |dir: &Path| {
            let mut command = Command::new("sleep");
            command.arg("600").current_dir(dir);
            Child::spawn("sleep", command, Signal::KILL).unwrap()
        };
        let (here, elsewhere) = (sleeper(&folder), sleeper(Path::new("/")));
        // The system names a process a moment after it exists.
        let named = async {
            while running(sleep, &folder) != [here.pid()] {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), named).await.unwrap();
        assert!(running(Path::new("slee"), &folder).is_empty());

        end("test", Path::new("other"), &folder, |_| true, Signal::TERM).await.unwrap();
        test_kill_process(here.pid()).unwrap();
        let leads = |pid: Pid| pid == here.pid();
        end("test", sleep, &folder, leads, Signal::TERM).await.unwrap();
        assert!(running(sleep, &folder).is_empty());
        test_kill_process(elsewhere.pid()).unwrap();
    }
}
