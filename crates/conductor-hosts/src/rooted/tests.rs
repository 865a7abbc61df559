use super::*;
use std::os::unix::fs::symlink;

#[test]
fn no_link_leads_out_of_a_root() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("in")).unwrap();
    std::fs::write(folder.path().join("secret"), "s").unwrap();
    std::fs::write(root.join("in/a"), "a").unwrap();
    symlink("../secret", root.join("file")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("in", root.join("within")).unwrap();
    let handle = open_root(&root).unwrap();
    assert!(open_file(&handle, Path::new("in/a")).is_ok());
    assert!(open_file(&handle, Path::new("within/a")).is_ok());
    for bad in ["file", "up/secret", "up", "../secret", "/etc/passwd"] {
        let opened = open_file(&handle, Path::new(bad));
        assert!(matches!(opened, Err(RootedError::Outside)), "{bad}: {opened:?}");
        assert!(real_path(&handle, Path::new(bad)).is_err(), "{bad}");
    }
    // `walk` follows no link, not even one to a target inside the root.
    assert!(walk(&root, Path::new("in")).is_ok());
    for bad in ["up", "within"] {
        let walked = walk(&root, Path::new(bad)).map_err(|(_, error)| error);
        assert!(matches!(walked, Err(RootedError::Outside | RootedError::NotAFolder)), "{bad}: {walked:?}");
    }
    for bad in ["up/new", "up", "file"] {
        assert!(make_folders(&handle, Path::new(bad)).is_err(), "{bad}");
    }
    // Negative control: an ordinary open follows both links.
    assert!(std::fs::read(root.join("file")).is_ok() && std::fs::read(root.join("up/secret")).is_ok());
}

#[test]
fn nothing_blocks_on_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let root = open_root(folder.path()).unwrap();
    assert!(matches!(open_file(&root, Path::new("pipe")), Err(RootedError::WrongKind(Kind::Other))));
    assert!(matches!(open_entry(&root, OsStr::new("pipe")), Err(RootedError::WrongKind(Kind::Other))));
    assert_eq!(real_path(&root, Path::new("pipe")).unwrap(), canonical(&pipe));
    assert_eq!(Kind::of(&RootedFile::new(root, "pipe").metadata().unwrap()), Kind::Other);
}

#[test]
fn a_temporary_file_of_another_writer_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".a.u.new"), "theirs").unwrap();
    let file = RootedFile::new(open_root(folder.path()).unwrap(), "a");
    assert!(matches!(file.replace(b"x", 0o600, "u", &mut |_| Ok(())), Err(RootedError::Exists)));
    assert_eq!(std::fs::read(folder.path().join(".a.u.new")).unwrap(), b"theirs");
}
