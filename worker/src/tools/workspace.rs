//! The folder a conversation's tools read. The kernel keeps every path below it: `openat2` resolves
//! beneath the folder and refuses `..`, absolute paths and symbolic links that lead out.

use super::ToolError;
use rustix::{
    fd::{AsFd as _, OwnedFd},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};
use turnwright_types::ConversationId;

/// The largest file that is read, in bytes.
const FILE_MAX: u64 = 4 << 20;
/// The most entries of a folder that are told.
const ENTRIES_MAX: usize = 1000;

/// The folder of all workspaces.
#[derive(Clone, Debug)]
pub(crate) struct Workspaces {
    root: PathBuf,
}

impl Workspaces {
    /// Makes the folder if it is absent and makes sure that paths can be confined here.
    pub(crate) fn prepare(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        let folder = open_folder(&root)?;
        match beneath(&folder, "..", OFlags::DIRECTORY) {
            Err(Errno::XDEV) => Ok(Self { root }),
            Err(e) => Err(e.into()),
            Ok(_) => Err(io::Error::other("the system lets paths leave a folder")),
        }
    }

    /// The workspace of a conversation, made if it is absent.
    pub(crate) fn open(&self, conversation: ConversationId) -> io::Result<Workspace> {
        let path = self.root.join(conversation.to_string());
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            Ok(()) | Err(_) => Ok(Workspace { folder: open_folder(&path)?, path }),
        }
    }
}

/// A conversation's folder, held open: what is beneath is decided by the folder, not by its name.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: OwnedFd,
    path: PathBuf,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: EntryKind,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryKind {
    Folder,
    /// With its size in bytes.
    File(u64),
    Link,
    Other,
}

impl Workspace {
    /// The absolute path, as the prompt tells it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The text of a file.
    pub(crate) fn read(&self, path: &str) -> Result<String, ToolError> {
        // Without NONBLOCK a pipe would wait for a writer.
        let file = self.resolve(path, OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let kind = fstat(&file).map_err(|e| refused(path, e))?;
        match FileType::from_raw_mode(kind.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => {
                return Err(refusal(path, "is a folder; list it with `list_files`"));
            }
            _ => return Err(refusal(path, "is not a regular file")),
        }
        let mut bytes = Vec::new();
        let read = File::from(file).take(FILE_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|e| refusal(path, &format!("cannot be read: {e}")))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_MAX {
            return Err(refusal(path, &format!("is larger than {FILE_MAX} bytes")));
        }
        let size = bytes.len();
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(text),
            Ok(_) | Err(_) => Err(refusal(path, &format!("is binary ({size} bytes), not text"))),
        }
    }

    /// The entries of a folder by name, and how many there are.
    pub(crate) fn list(&self, path: &str) -> Result<(Vec<Entry>, usize), ToolError> {
        let folder = self.resolve(path, OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        let dir = Dir::read_from(&folder).map_err(|e| refused(path, e))?;
        for entry in dir {
            let entry = entry.map_err(|e| refused(path, e))?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            // An entry that is gone meanwhile is none.
            let Ok(stat) = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => EntryKind::Folder,
                FileType::RegularFile => EntryKind::File(u64::try_from(stat.st_size).unwrap_or(0)),
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Other,
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(Entry { name, kind });
        }
        entries.sort_unstable();
        let total = entries.len();
        entries.truncate(ENTRIES_MAX);
        Ok((entries, total))
    }

    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, ToolError> {
        // The prompt tells the absolute path, so models use it; what is beneath is still checked.
        let inside = Path::new(path).strip_prefix(&self.path).ok();
        let relative = inside.and_then(Path::to_str).unwrap_or(path);
        let relative = if relative.is_empty() { "." } else { relative };
        beneath(&self.folder, relative, flags).map_err(|e| refused(path, e))
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn beneath(folder: &OwnedFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // The kernel asks to try again when a folder is renamed while it resolves `..`.
    let mut tries = 8;
    loop {
        match openat2(folder.as_fd(), path, flags, Mode::empty(), rules) {
            Err(Errno::AGAIN) if tries > 0 => tries -= 1,
            end => return end,
        }
    }
}

fn refusal(path: &str, why: &str) -> ToolError {
    ToolError::Refused(format!("`{path}` {why}"))
}

fn refused(path: &str, error: Errno) -> ToolError {
    let why = match error {
        Errno::XDEV => "lies outside the workspace; only paths inside it can be read",
        Errno::NOENT => "does not exist; see what there is with `list_files`",
        Errno::NOTDIR => "is not a folder",
        Errno::LOOP => "is a symbolic link that cannot be followed",
        Errno::ACCESS | Errno::PERM => "may not be read",
        Errno::NAMETOOLONG | Errno::INVAL => "is not a usable path",
        _ => return refusal(path, &format!("cannot be opened: {error}")),
    };
    refusal(path, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    /// A workspace with a secret beside it and links that lead to the secret.
    fn place() -> (tempfile::TempDir, Workspace) {
        let root = tempfile::tempdir().unwrap();
        let workspace =
            Workspaces::prepare(root.path()).unwrap().open(ConversationId::new()).unwrap();
        fs::write(root.path().join("secret"), "s3cret").unwrap();
        let inside = workspace.path().to_owned();
        fs::create_dir(inside.join("sub")).unwrap();
        fs::write(inside.join("sub/a.txt"), "inside").unwrap();
        symlink("../secret", inside.join("up")).unwrap();
        symlink(root.path().join("secret"), inside.join("absolute")).unwrap();
        symlink("..", inside.join("parent")).unwrap();
        symlink("/proc/self/root", inside.join("magic")).unwrap();
        symlink("sub/a.txt", inside.join("good")).unwrap();
        (root, workspace)
    }

    #[test]
    fn what_is_inside_is_read() {
        let (_root, workspace) = place();
        let absolute = workspace.path().join("sub/a.txt");
        for path in ["sub/a.txt", "./sub/../sub/a.txt", "good", absolute.to_str().unwrap()] {
            assert_eq!(workspace.read(path).unwrap(), "inside", "{path}");
        }
    }

    #[test]
    fn no_path_leads_out() {
        let (root, workspace) = place();
        let secret = root.path().join("secret");
        let through = workspace.path().join("../secret");
        for path in [
            "../secret",
            "sub/../../secret",
            "up",
            "absolute",
            "parent/secret",
            "magic/etc/hostname",
            "/etc/hostname",
            "/proc/self/environ",
            secret.to_str().unwrap(),
            through.to_str().unwrap(),
        ] {
            assert!(workspace.read(path).is_err(), "{path}");
        }
        for path in ["..", "/", "parent", "sub/../..", "magic"] {
            assert!(workspace.list(path).is_err(), "{path}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_made_up_path_leads_out(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(".."), Just("."), Just(""), Just("sub"), Just("parent"), Just("up"),
                    Just("absolute"), Just("magic"), Just("secret"), Just("tmp"),
                ],
                1..8,
            ),
        ) {
            let (_root, workspace) = place();
            let read = workspace.read(&parts.join("/"));
            prop_assert!(read.is_err() || read.is_ok_and(|text| text == "inside"));
        }
    }

    #[test]
    fn only_text_of_regular_files_is_read() {
        let (_root, workspace) = place();
        fs::write(workspace.path().join("nul"), "a\0b").unwrap();
        fs::write(workspace.path().join("latin"), b"caf\xe9").unwrap();
        File::create(workspace.path().join("big")).unwrap().set_len(FILE_MAX + 1).unwrap();
        for path in ["nul", "latin", "big", "sub", "absent", "sub/a.txt/b", "a\0b"] {
            assert!(matches!(workspace.read(path), Err(ToolError::Refused(_))), "{path:?}");
        }
    }

    #[test]
    fn a_folder_is_listed_by_name() {
        let (_root, workspace) = place();
        let (entries, total) = workspace.list("").unwrap();
        let names: Vec<_> = entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["absolute", "good", "magic", "parent", "sub", "up"]);
        assert_eq!(
            (total, entries[1].kind, entries[4].kind),
            (6, EntryKind::Link, EntryKind::Folder)
        );
        let inside = workspace.list("sub").unwrap().0;
        assert_eq!(inside, [Entry { name: "a.txt".into(), kind: EntryKind::File(6) }]);
    }

    #[test]
    fn a_workspace_is_kept_for_the_next_turn() {
        let root = tempfile::tempdir().unwrap();
        let (all, id) = (Workspaces::prepare(root.path()).unwrap(), ConversationId::new());
        fs::write(all.open(id).unwrap().path().join("a"), "1").unwrap();
        assert_eq!(all.open(id).unwrap().read("a").unwrap(), "1");
    }
}
