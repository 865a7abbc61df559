use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

struct Stage {
    dir: tempfile::TempDir,
    files: Arc<Files>,
}

fn row(name: &str, path: &Path, write: bool) -> FileRoot {
    FileRoot { name: name.into(), path: path.display().to_string(), write }
}

/// `studio` is granted; its siblings `studio-b`, `outside` and `home` are not.
fn stage() -> Stage {
    let dir = tempfile::tempdir().unwrap();
    for name in ["studio/takes", "studio-b", "outside", "home"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    for name in ["studio/a.txt", "studio-b/x", "outside/secret", "home/config.toml"] {
        std::fs::write(dir.path().join(name), format!("content of {name}")).unwrap();
    }
    let files = Files::new(&dir.path().join("home"), None);
    assert_eq!(files.configure(&[row("studio", &dir.path().join("studio"), true)]), Vec::<String>::new());
    Stage { dir, files }
}

impl Stage {
    fn at(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside)
    }

    fn read(&self, path: &str) -> Result<String, FileError> {
        let slice = self.files.place(None, path)?.read(0, 1 << 20)?;
        Ok(String::from_utf8(slice.bytes).unwrap())
    }

    fn write(&self, path: &str, text: &str) -> Result<(), FileError> {
        let place = self.files.place(None, path)?;
        let before = place.present()?;
        place.replace(text.as_bytes(), before.as_ref(), true, "u")
    }
}

/// The negative control: adds a path to the root, compares the prefix as text, and then opens the
/// file. Most servers of this kind work like this.
fn naive_read(root: &Path, path: &str) -> Option<String> {
    let whole = root.join(path);
    whole.to_string_lossy().starts_with(&*root.to_string_lossy()).then(|| std::fs::read_to_string(whole).ok())?
}

#[test]
fn no_path_leaves_a_root() {
    let stage = stage();
    let root = std::fs::canonicalize(stage.at("studio")).unwrap();
    symlink(stage.at("outside/secret"), root.join("file-link")).unwrap();
    symlink(stage.at("outside"), root.join("dir-link")).unwrap();
    symlink("/proc/self/root", root.join("proc")).unwrap();
    symlink(stage.at("outside/new"), root.join("dangling")).unwrap();
    symlink("a.txt", root.join("within")).unwrap();

    let sibling = stage.at("studio-b/x").display().to_string();
    let outside = stage.at("outside/secret").display().to_string();
    let escapes = [
        "../outside/secret",
        "takes/../../outside/secret",
        &sibling,
        &outside,
        "file-link",
        "dir-link/secret",
        "proc/etc/passwd",
    ];
    for path in escapes {
        assert!(matches!(stage.read(path), Err(FileError::Outside { .. })), "{path}: {:?}", stage.read(path));
        assert!(stage.write(path, "owned").is_err(), "{path}");
    }
    assert!(matches!(stage.read("a\0.txt"), Err(FileError::BadPath { .. })));
    assert!(stage.write("dangling", "owned").is_err());
    assert!(!stage.at("outside/new").exists(), "a write through a dangling link created a file outside");
    assert_eq!(std::fs::read_to_string(stage.at("outside/secret")).unwrap(), "content of outside/secret");
    // A link to a target inside the root is allowed.
    assert_eq!(stage.read("within").unwrap(), "content of studio/a.txt");

    // Negative control: the naive version follows most of these paths out of the root.
    let out = escapes.iter().filter(|path| naive_read(&root, path).is_some()).count();
    assert!(out >= 5, "the naive version follows only {out} of {} paths out of the root", escapes.len());
}

/// A thread replaces a folder with a link out of the root, as fast as it can. No read may return
/// content from outside.
#[test]
fn a_link_swapped_in_while_we_look_leads_nowhere() {
    let stage = stage();
    let root = std::fs::canonicalize(stage.at("studio")).unwrap();
    std::fs::create_dir(root.join("real")).unwrap();
    std::fs::write(root.join("real/secret"), "inside").unwrap();
    symlink(stage.at("outside"), root.join("evil")).unwrap();
    std::fs::create_dir(root.join("spot")).unwrap();
    let (stop, spot, evil) = (AtomicBool::new(false), root.join("spot"), root.join("evil"));
    let naive = |path: &Path| {
        // The naive version checks first and opens later.
        let resolved = std::fs::canonicalize(path).ok()?;
        resolved.starts_with(&root).then(|| std::fs::read_to_string(path).ok())?
    };
    let (mut ours, mut theirs, mut reads) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let real = root.join("real");
            let _ = std::fs::remove_dir(&spot);
            while !stop.load(Ordering::Relaxed) {
                for what in [&real, &evil] {
                    let _ = std::fs::rename(what, &spot);
                    let _ = std::fs::rename(&spot, what);
                }
            }
        });
        // Repeat until the naive version has read from outside, at most 400 000 times.
        for round in 0..400_000 {
            let inside = "spot/secret";
            if let Ok(text) = stage.read(inside) {
                reads += 1;
                ours += usize::from(text.contains("outside"));
            }
            theirs += usize::from(naive(&root.join(inside)).is_some_and(|it| it.contains("outside")));
            if theirs > 0 && reads > 0 && round > 2000 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(ours, 0);
    assert!(theirs > 0, "the naive version never read from outside the root, so the race did not occur");
}

#[test]
fn a_root_is_never_the_home_nor_around_it() {
    let stage = stage();
    std::fs::create_dir(stage.at("home/inner")).unwrap();
    symlink(stage.at("home"), stage.at("alias")).unwrap();
    for bad in ["home", "home/inner", ".", "alias", "nowhere"] {
        let faults = stage.files.configure(&[row("bad", &stage.at(bad), true)]);
        assert_eq!(faults.len(), 1, "{bad}: {faults:?}");
        assert!(stage.files.roots().is_empty(), "{bad}");
    }
    assert!(matches!(stage.read("a.txt"), Err(FileError::NoRoots)));
}

#[test]
fn a_write_is_whole_keeps_the_mode_and_notices_another_writer() {
    let stage = stage();
    std::fs::set_permissions(stage.at("studio/a.txt"), std::fs::Permissions::from_mode(0o640)).unwrap();
    stage.write("a.txt", "new").unwrap();
    assert_eq!(std::fs::metadata(stage.at("studio/a.txt")).unwrap().permissions().mode() & 0o777, 0o640);
    stage.write("x/y/z.txt", "deep").unwrap();
    assert_eq!(stage.read("x/y/z.txt").unwrap(), "deep");

    let place = stage.files.place(None, "a.txt").unwrap();
    let before = place.present().unwrap();
    std::fs::write(stage.at("studio/a.txt"), "another program").unwrap();
    let late = place.replace(b"mine", before.as_ref(), false, "u");
    assert!(matches!(late, Err(FileError::Changed { .. })), "{late:?}");
    assert_eq!(stage.read("a.txt").unwrap(), "another program");
    let names: Vec<_> = std::fs::read_dir(stage.at("studio")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!names.iter().any(|it| it.to_string_lossy().ends_with(".new")), "{names:?}");
}

#[test]
fn reading_only_means_reading_only_and_pipes_are_no_files() {
    let stage = stage();
    stage.files.configure(&[row("studio", &stage.at("studio"), false)]);
    assert!(matches!(stage.write("a.txt", "x"), Err(FileError::ReadOnly { .. })));
    let pipe = stage.at("studio/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(matches!(stage.read("pipe"), Err(FileError::WrongKind { .. })));
    assert!(matches!(stage.read("takes"), Err(FileError::WrongKind { .. })));
    assert!(matches!(stage.read("none"), Err(FileError::Missing { .. })));
}

#[test]
fn lists_go_on_behind_their_cursor() {
    let stage = stage();
    for n in 0..1005 {
        std::fs::write(stage.at(&format!("studio/takes/{n:04}")), "").unwrap();
    }
    std::fs::write(stage.at("studio/z"), "").unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let place = stage.files.place(None, "").unwrap();
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = place.list(8, cursor.as_deref(), &cancel).unwrap();
        names.extend(page.entries.into_iter().map(|it| it.name));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names.len(), 1005 + 3, "a name is missing, or is listed twice");
    assert_eq!((names[0].as_str(), names.last().unwrap().as_str()), ("a.txt", "z"));
    assert!(names.windows(2).all(|pair| Path::new(&pair[0]) < Path::new(&pair[1])));
}

#[test]
fn globs_stay_within_a_name() {
    let fits = |glob: &str, path: &str| find::glob(glob).unwrap().is_match(path);
    assert!(fits("*.pd", "a.pd") && fits("*.pd", "x/a.pd") && fits("x/*.pd", "x/a.pd") && fits("**/a.pd", "a.pd"));
    assert!(fits("x/**/a.pd", "x/y/z/a.pd") && fits("t?ke", "take") && fits("a+b", "a+b"));
    assert!(!fits("x/*.pd", "x/y/a.pd") && !fits("*.pd", "a.pdx") && !fits("a+b", "aab") && !fits("x/*", "y/a"));
}
