//! The data folder of a private server, owned by one process at a time. The system lets go of the
//! ownership when that process dies, however it dies, so a server that still runs in an unowned
//! folder is known to be an orphan.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::ServerError;

/// A former owner may still be on its way out.
const CLAIM_LIMIT: Duration = Duration::from_secs(1);

/// A folder that nobody else may start a server in while this value lives.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folders above `path`, but not `path` itself, and takes ownership by locking a
    /// file beside it.
    pub(crate) async fn claim(path: &Path) -> Result<Self, ServerError> {
        let path = settle(path)?;
        let lock_file = sibling(&path, ".lock");
        let mut options = OpenOptions::new();
        let lock = options
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_file)
            .map_err(ServerError::file("open", &lock_file))?;
        let end = Instant::now() + CLAIM_LIMIT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: lock }),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(ServerError::FolderInUse { folder: path });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(ServerError::file("lock", &lock_file)(error));
                }
            }
        }
    }

    /// Absolute and free of links, as the system names it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path beside the folder, for what must not be in it.
    pub(crate) fn sibling(&self, suffix: &str) -> PathBuf {
        sibling(&self.path, suffix)
    }
}

/// Having nothing to remove is fine.
pub(crate) fn if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn settle(path: &Path) -> Result<PathBuf, ServerError> {
    let resolve = |path: &Path| path.canonicalize().map_err(ServerError::file("resolve", path));
    if path.exists() {
        return resolve(path);
    }
    let absolute = std::path::absolute(path).map_err(ServerError::file("resolve", path))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        let wanted = "the path of a folder that can be made";
        return Err(ServerError::Option { option: "data_dir", wanted });
    };
    fs::create_dir_all(parent).map_err(ServerError::file("create", parent))?;
    Ok(resolve(parent)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::DataFolder;
    use crate::ServerError;

    #[tokio::test]
    async fn a_folder_has_one_owner_whatever_it_is_called() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("link")).unwrap();
        let one = DataFolder::claim(&root.path().join("new/data")).await.unwrap();
        let other = DataFolder::claim(&root.path().join("link/new/data")).await;
        assert!(matches!(other, Err(ServerError::FolderInUse { .. })));
        drop(one);
        DataFolder::claim(&root.path().join("link/new/data")).await.unwrap();
    }
}
