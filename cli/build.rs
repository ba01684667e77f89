//! Embeds the example agents and the demo rules, so that the command works from any folder.

use std::{
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("no manifest folder")?)
        .join("..");
    let agents = root.join("examples/agents");
    println!("cargo:rerun-if-changed={}", agents.display());
    let mut files = Vec::new();
    walk(&agents, Path::new(""), &mut files)?;
    files.sort();
    let mut code = String::from("/// Paths below the folder, and contents.\n");
    code.push_str("pub const AGENTS: &[(&str, &[u8])] = &[\n");
    for path in &files {
        let path = path.to_str().ok_or("a path of the example agents is not UTF-8")?;
        writeln!(
            code,
            "    ({path:?}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \
             \"/../examples/agents/\", {path:?}))),"
        )?;
    }
    code.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no output folder")?);
    fs::write(out.join("bundled.rs"), code)?;
    Ok(())
}

fn walk(folder: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let path = below.join(&name);
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
