//! Commands that a person allowed: a program, fixed words, and typed slots. There is no shell, no
//! search path and no wildcard.
//!
//! A slot fills exactly one word, and no value begins with `-`: a program must never interpret a
//! value as an option. Not here: running a command, and checking that a path is below its root
//! (`conductor-hosts`).

use crate::digest::Digest;
use crate::named_enum::named_enum;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One allowed command.
#[derive(Clone, Debug)]
pub struct Template {
    /// The name of the command in calls and messages.
    pub name: String,
    /// The absolute path of the program.
    pub program: String,
    /// The digest of the program file. If the file has another digest, it is not run.
    pub digest: Option<Digest>,
    /// Arguments of the program, in order.
    pub words: Vec<Word>,
    /// The name of the root used as the working directory; absent for `/`.
    pub cwd: Option<String>,
    /// Whether the command needs an approval.
    pub effect: CommandEffect,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// The program is killed after this many milliseconds.
    pub timeout_ms: u64,
    /// The slots, by name.
    pub slots: BTreeMap<String, Slot>,
}

named_enum! {
    /// Whether a command needs an approval.
    pub enum CommandEffect {
        /// The command runs without an approval.
        Read = "read",
        /// The command needs an approval, unless a rule for one mapping allows it.
        Write = "write",
    }
}

/// One argument of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A fixed text.
    Fixed(String),
    /// The value of the slot with this name.
    Slot(String),
}

/// The type of a value that the caller provides.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum Slot {
    /// A whole number within these bounds.
    Integer { min: i64, max: i64 },
    /// One of these texts.
    Enum(Vec<String>),
    /// A path below the file root of this name.
    Path { root: String },
    /// A text that matches the pattern as a whole.
    Text { pattern: Regex },
}

/// One word of a command line that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The text of the word.
    Text(String),
    /// A path that must still be resolved below its root.
    Path {
        /// Name of the file root.
        root: String,
        /// Path below the root.
        path: String,
    },
}

/// The reason why a command is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum CommandError {
    #[error("there is no command \"{asked}\"; there are: {known}")]
    Unknown { asked: String, known: String },
    #[error("no command is allowed")]
    NoneAllowed,
    #[error("no allowed command matches these words")]
    NoFit,
    #[error("\"{slot}\" is missing")]
    Missing { slot: String },
    #[error("\"{slot}\" is not a slot of \"{command}\"")]
    NoSuchSlot { command: String, slot: String },
    #[error("\"{slot}\" {why}")]
    Value { slot: String, why: String },
}

const LONGEST_VALUE: usize = 4096;

/// Programs that execute their arguments, or pass them to another program that executes them.
/// Examples are shells, wrappers that start programs, editors with a shell, build tools, loaders,
/// schedulers, players that open pipes, and clients that send data to other machines. None of them
/// may have a `text` slot.
const CARRIERS: &[&str] = &[
    // Shells, interpreters and similar programs.
    "ash awk bash bc bpython bun csh d8 dash dc deno elixir erl expect fish gawk ghci gp groovy guile hermes iex",
    "ipython irb java js jsc julia jupyter kotlin ksh lua luajit lualatex luatex m4 matlab mawk maxima micropython",
    "mksh mono mono-sgen nawk node ocaml octave octave-cli osascript perl php pwsh pypy pypy3 python python2 python3",
    "qjs quickjs r rhino rscript ruby runghc sage scala scilab sed sh tclsh tcsh ts-node tsx wish zsh",
    // Programs that start other programs.
    "anacron at atd batch busybox bwrap byobu capsh catchsegv cgexec chroot chrt cron crontab ctr dbus-launch",
    "dbus-run-session doas docker dtach entr env fakechroot fakeroot find firejail flatpak flock fswatch gdb",
    "gdbserver initctl ionice kubectl launchctl lldb login logrotate ltrace lxc lxc-attach nerdctl newgrp nice nix",
    "nix-env nix-shell nohup nsenter numactl parallel perf pkexec podman prlimit proot qemu rlwrap rr run-parts run0",
    "runuser screen script service setarch setpriv setsid sg shortcuts snap start-stop-daemon stdbuf strace su sudo",
    "systemctl systemd-cat systemd-inhibit systemd-nspawn systemd-run taskset time timeout tmux ts tshark unbuffer",
    "unshare valgrind watch watchexec wine wine64 xargs zellij",
    // Loaders and linkers.
    "box64 ld ld.lld ld.so ldconfig",
    // Editors, pagers and terminals that can start a shell.
    "alacritty bat ed editor emacs emacsclient ex foot fzf gnome-terminal gvim helix hx jed joe kak kitty konsole",
    "less man mg micro more most nano ne nvim pager pico rofi rview rvim rxvt sensible-editor terminal urxvt vi view",
    "vim vimdiff wezterm xterm",
    // Build tools, compilers and package managers.
    "ansible ansible-playbook ant apk apt apt-get as bazel bmake brew bundle c++ cabal cargo cc clang clang++ cmake",
    "composer conda corepack dnf dotnet dpkg emerge esbuild faust g++ gcc gem ghc gmake go gradle guix helm just lein",
    "make meson mix mvn ninja nox npm npx opam pacman patch pip pip3 pipx pnpm poetry port puppet pytest rake rpm",
    "rustc rustup salt sbt scons stack task tcc terraform tox uv uvx vagrant vite webpack yarn yum zypper",
    // Music and media programs that run scripts, open pipes or load code.
    "ardour avconv bitwig carla chuck convert csound cvlc ecasound ffmpeg ffplay ffprobe ghostscript gimp gnuplot gs",
    "gst-launch inkscape latex libreoffice lilypond magick mogrify mplayer mpv mscore musescore pd pdflatex pdsend",
    "play purr-data reaper rec sclang scsynth soffice sonic-pi sox soxi supercollider tex tidal timidity vlc xelatex",
    // Programs that pass data to another program, service or machine.
    "aria2c busctl curl darcs dbus-send defaults dialog dmenu fossil ftp gdbus gh gio git gnome-open gpg gpg2 hg http",
    "httpie jj kde-open lftp mail mailx mosh mutt nc ncat nmap open openssl rclone rlogin rsh rsync scp sendmail",
    "sensible-browser sftp socat ssh ssh-add ssh-agent ssh-copy-id ssh-keygen svn sxhkd tcpdump telnet wget whiptail",
    "wmctrl xdg-email xdg-open xdotool xh ydotool zenity",
    // Databases and archivers that can execute commands.
    "7z 7za ar bzip2 clickhouse cpio dd duckdb mariadb mongo mongosh mount mysql pax psql redis-cli sort split sqlite",
    "sqlite3 sqlplus tar unrar unzip xz zip",
    // Windows programs.
    "bitsadmin certutil cmd cmstp conhost control cscript explorer extexport forfiles hh ieexec infdefaultinstall",
    "installutil msbuild msdt mshta msiexec mmc net netsh odbcconf pcalua pcwrun powershell powershell_ise",
    "presentationhost psexec reg regasm regedit regsvcs regsvr32 rundll32 runas sc schtasks scriptrunner start",
    "taskeng verclsid wmic wscript wsl wt xwizard",
];

/// The name of the file at the end of a path, as Unix or as Windows writes it.
pub(crate) fn last_part(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// Whether a program executes its arguments. Version numbers and `.exe` are ignored: `python3.11`
/// is treated as `python`, and `cmd.exe` as `cmd`. A batch file always counts, because `cmd`
/// executes its arguments. A short file name on Windows, such as `PROGRA~1`, always counts, because
/// it can mean any program.
pub fn is_carrier(program: &str) -> bool {
    // Windows ignores dots and spaces at the end.
    let name = last_part(program).trim_end_matches([' ', '.']).to_ascii_lowercase();
    let is_batch = name.ends_with(".bat") || name.ends_with(".cmd");
    let is_short = name.split_once('~').is_some_and(|(_, it)| it.starts_with(|it: char| it.is_ascii_digit()));
    if is_batch || is_short {
        return true;
    }
    let name = name.strip_suffix(".exe").or_else(|| name.strip_suffix(".com")).unwrap_or(&name);
    let plain = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.' || it == '-');
    let is_listed = |name: &str| CARRIERS.iter().flat_map(|it| it.split(' ')).any(|it| it == name);
    // Names such as `ld-linux-x86-64.so.2`, `pd-l2ork` and `x86_64-linux-gnu-gcc-12` match too.
    let is_family = name.starts_with("ld-") || name.starts_with("pd-");
    is_family || [name, plain].iter().any(|it| is_listed(it.rsplit_once("-gnu-").map_or(*it, |(_, it)| it)))
}

impl Template {
    /// Fills the slots with these values and returns the words of the command.
    pub fn fill(&self, values: &Map<String, Value>) -> Result<Vec<Ready>, CommandError> {
        if let Some(slot) = values.keys().find(|it| !self.slots.contains_key(*it)) {
            return Err(CommandError::NoSuchSlot { command: self.name.clone(), slot: slot.clone() });
        }
        self.words
            .iter()
            .map(|word| match word {
                Word::Fixed(text) => Ok(Ready::Text(text.clone())),
                Word::Slot(name) => {
                    let value = values.get(name).ok_or_else(|| CommandError::Missing { slot: name.clone() })?;
                    self.ready(name, value)
                }
            })
            .collect()
    }

    /// The values of the slots in `words`, the arguments of a matching command line.
    pub fn values(&self, words: &[String]) -> Map<String, Value> {
        let slots = self.words.iter().zip(words).filter_map(|(word, given)| match word {
            Word::Fixed(_) => None,
            Word::Slot(name) => Some((name.clone(), Value::from(given.clone()))),
        });
        slots.collect()
    }

    /// Checks the value of a slot. An integer may be given as a string, because the words of a
    /// command line in a mapping are strings.
    fn ready(&self, name: &str, value: &Value) -> Result<Ready, CommandError> {
        let wrong = |why: &str| CommandError::Value { slot: name.to_owned(), why: why.to_owned() };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(wrong("must be a text or a whole number"));
            }
        };
        if text.contains(['\0', '\n', '\r']) {
            return Err(wrong("must not contain a line break or NUL"));
        }
        if text.len() > LONGEST_VALUE {
            return Err(wrong("is too long"));
        }
        let slot = self.slots.get(name).ok_or_else(|| wrong("is not a slot"))?;
        // A negative number is refused even within its bounds: the program could interpret it as an
        // option.
        if let Slot::Integer { min, max } = slot {
            let number: i64 = text.parse().map_err(|_| wrong("must be a whole number"))?;
            if !(*min..=*max).contains(&number) {
                return Err(wrong(&format!("must be from {min} to {max}")));
            }
            return if number < 0 {
                Err(wrong("must not be negative: the program could interpret it as an option"))
            } else {
                Ok(Ready::Text(number.to_string()))
            };
        }
        if text.starts_with('-') {
            return Err(wrong("must not begin with `-`: the program would interpret it as an option"));
        }
        match slot {
            Slot::Enum(words) if words.contains(&text) => Ok(Ready::Text(text)),
            Slot::Enum(words) => Err(wrong(&format!("must be one of {}", words.join(", ")))),
            Slot::Path { root } => Ok(Ready::Path { root: root.clone(), path: text }),
            Slot::Text { pattern } if pattern.is_match(&text) => Ok(Ready::Text(text)),
            Slot::Text { pattern } => Err(wrong(&format!("must match the pattern {}", pattern.as_str()))),
            Slot::Integer { .. } => Err(wrong("is not a whole number")),
        }
    }

    /// Matches a command line with this template and returns its words. `None` if it does not
    /// match.
    fn fit(&self, argv: &[String]) -> Option<Vec<Ready>> {
        let (first, rest) = argv.split_first()?;
        let named = *first == self.name || *first == self.program || first == last_part(&self.program);
        if !named || rest.len() != self.words.len() {
            return None;
        }
        let words = self.words.iter().zip(rest).map(|(word, given)| match word {
            Word::Fixed(text) => (text == given).then(|| Ready::Text(text.clone())),
            Word::Slot(name) => self.ready(name, &Value::String(given.clone())).ok(),
        });
        words.collect()
    }
}

/// Returns the template with this name, and its words with these values in the slots.
pub fn by_name<'t>(
    templates: &'t [Template],
    name: &str,
    values: &Map<String, Value>,
) -> Result<(&'t Template, Vec<Ready>), CommandError> {
    let found = templates.iter().find(|it| it.name == name).ok_or_else(|| {
        if templates.is_empty() {
            return CommandError::NoneAllowed;
        }
        let known = templates.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        CommandError::Unknown { asked: name.to_owned(), known }
    })?;
    Ok((found, found.fill(values)?))
}

/// Returns the template that starts an app: the template with the name `app`, or else the template
/// whose program is `app`. The template must have no slots.
pub fn by_app<'t>(templates: &'t [Template], app: &str) -> Result<(&'t Template, Vec<Ready>), CommandError> {
    let of_program = || templates.iter().find(|it| it.program == app);
    let name = templates.iter().find(|it| it.name == app).or_else(of_program).map_or(app, |it| it.name.as_str());
    by_name(templates, name, &Map::new())
}

/// The first template that matches a whole command line.
pub fn by_argv<'t>(templates: &'t [Template], argv: &[String]) -> Result<(&'t Template, Vec<Ready>), CommandError> {
    if templates.is_empty() {
        return Err(CommandError::NoneAllowed);
    }
    templates.iter().find_map(|it| it.fit(argv).map(|words| (it, words))).ok_or(CommandError::NoFit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn git() -> Template {
        let slots = [
            ("count".to_owned(), Slot::Integer { min: 1, max: 200 }),
            ("path".to_owned(), Slot::Path { root: "studio".into() }),
            ("kind".to_owned(), Slot::Enum(vec!["a".into(), "b".into()])),
            ("word".to_owned(), Slot::Text { pattern: Regex::new("^(?:[a-z=./:@ -]+)$").unwrap() }),
        ];
        let slot = |it: &str| Word::Slot(it.to_owned());
        let fixed = |it: &str| Word::Fixed(it.to_owned());
        Template {
            name: "git-log".into(),
            program: "/usr/bin/git".into(),
            digest: None,
            words: vec![fixed("log"), slot("count"), slot("kind"), slot("word"), fixed("--"), slot("path")],
            cwd: None,
            effect: CommandEffect::Read,
            env: BTreeMap::new(),
            timeout_ms: 1000,
            slots: slots.into_iter().collect(),
        }
    }

    fn good() -> Map<String, Value> {
        json!({"count": 3, "kind": "a", "word": "x", "path": "p"}).as_object().unwrap().clone()
    }

    #[test]
    fn values_fill_one_word_each() {
        let words = git().fill(&good()).unwrap();
        let text = |it: &str| Ready::Text(it.into());
        let path = Ready::Path { root: "studio".into(), path: "p".into() };
        assert_eq!(words, [text("log"), text("3"), text("a"), text("x"), text("--"), path]);
        for (slot, bad) in [
            ("count", json!(0)),
            ("count", json!(201)),
            ("count", json!("3; rm")),
            ("count", json!(1.5)),
            ("kind", json!("c")),
            ("kind", json!(["a"])),
            ("word", json!("A")),
            ("word", json!("x\ny")),
            ("path", json!("a\0b")),
            ("more", json!("x")),
        ] {
            let mut values = good();
            values.insert(slot.into(), bad.clone());
            assert!(git().fill(&values).is_err(), "{slot} = {bad}");
        }
        let mut values = good();
        values.remove("path");
        assert_eq!(git().fill(&values), Err(CommandError::Missing { slot: "path".into() }));
    }

    /// Options that make known programs run another program. The tests use each option as the value
    /// of every slot, and as a word of a command line before and after `--`.
    pub const OPTIONS: [&str; 60] = [
        "-c",
        "-c core.sshCommand=id",
        "-ccore.pager=id",
        "--upload-pack=id",
        "--upload-pack",
        "-u",
        "--receive-pack=id",
        "--exec=id",
        "--ext-diff",
        "--textconv",
        "--output=/tmp/x",
        "-o/tmp/x",
        "-oProxyCommand=id",
        "-oPermitLocalCommand=yes",
        "-oLocalCommand=id",
        "-F/tmp/config",
        "-E",
        "--to-command=id",
        "--use-compress-program=id",
        "-I id",
        "--checkpoint=1",
        "--checkpoint-action=exec=id",
        "-exec",
        "-execdir",
        "-ok",
        "-delete",
        "-fprintf",
        "--rsh=id",
        "-e id",
        "-e",
        "--rsync-path=id",
        "--config=/tmp/x",
        "-K/tmp/x",
        "-T id",
        "--open-files-in-pager=id",
        "-O id",
        "--no-index",
        "--git-dir=/tmp",
        "--work-tree=/",
        "--namespace=x",
        "-C /",
        "-P",
        "--paginate",
        "--eval=id",
        "--load=/tmp/x",
        "-r",
        "--require=x",
        "-S",
        "-i",
        "--in-place",
        "--file=/etc/passwd",
        "-f/etc/passwd",
        "--data=@/etc/passwd",
        "-d@/etc/passwd",
        "--dereference",
        "--",
        "-",
        "--help",
        "-x",
        "---",
    ];

    #[test]
    fn no_value_is_taken_for_an_option() {
        let naive = |argv: &[&str]| argv.first() == Some(&"git") && argv.get(1) == Some(&"log");
        for option in OPTIONS {
            for slot in ["count", "kind", "word", "path"] {
                let mut values = good();
                values.insert(slot.into(), json!(option));
                assert!(git().fill(&values).is_err(), "{slot} = {option}");
            }
            let argv: Vec<String> = ["git", "log", "3", "a", option, "--", "p"].map(String::from).into();
            assert_eq!(by_argv(&[git()], &argv).map(|_| ()), Err(CommandError::NoFit), "{option}");
            let argv: Vec<String> = ["git", "log", "3", "a", "x", "--", option].map(String::from).into();
            assert_eq!(by_argv(&[git()], &argv).map(|_| ()), Err(CommandError::NoFit), "{option}");
            // Negative control: `naive` checks only the first words and accepts every option.
            assert!(naive(&["git", "log", option]), "{option}");
        }
    }

    #[test]
    fn a_command_line_fits_by_name_program_or_last_part_and_by_length() {
        let line = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        for first in ["git-log", "/usr/bin/git", "git"] {
            assert!(by_argv(&[git()], &line(&[first, "log", "3", "a", "x", "--", "p"])).is_ok(), "{first}");
        }
        for bad in [
            &["/tmp/git", "log", "3", "a", "x", "--", "p"][..],
            &["git", "push", "3", "a", "x", "--", "p"],
            &["git", "log", "3", "a", "x", "--"],
            &["git", "log", "3", "a", "x", "--", "p", "q"],
            &["git;id"],
            &[],
        ] {
            assert!(by_argv(&[git()], &line(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(by_argv(&[], &line(&["git"])).map(|_| ()), Err(CommandError::NoneAllowed));
    }

    #[test]
    fn carriers_are_known_by_any_spelling() {
        for program in [
            "/bin/sh",
            "/usr/bin/python3.11",
            "/opt/x/PERL",
            "/usr/bin/env",
            "/bin/busybox",
            "/usr/bin/lua5.4",
            "/usr/bin/sox",
            "/usr/bin/ffmpeg",
            "/usr/bin/pd",
            "/usr/bin/csound",
            "/usr/bin/sclang",
            "/usr/bin/npm",
            "/usr/bin/npx",
            "/usr/bin/pip3.12",
            "/usr/bin/cargo",
            "/usr/local/go/bin/go",
            "/usr/bin/git",
            "/usr/bin/crontab",
            "/usr/bin/at",
            "/usr/bin/systemctl",
            "/usr/bin/xdg-open",
            "/usr/bin/nvim",
            "/usr/bin/bwrap",
            "/lib64/ld-linux-x86-64.so.2",
            "/lib/ld-musl-x86_64.so.1",
            "/usr/bin/gcc-12",
            "/usr/bin/x86_64-linux-gnu-gcc-12",
            "/usr/bin/pd-l2ork",
            "/usr/bin/emacsclient",
            "/usr/bin/chrt",
            "/usr/bin/gst-launch-1.0",
            r"C:\Windows\System32\cmd.exe",
            r"C:\Windows\System32\CMD",
            r"C:\Windows\System32\cmd.exe. ",
            "C:/Windows/System32/WindowsPowerShell/v1.0/PowerShell.exe",
            r"C:\Windows\System32\rundll32.exe",
            r"C:\Python312\python3.12.exe",
            r"C:\Program Files\Git\bin\git.exe",
            r"C:\tools\build.BAT",
            r"C:\tools\build.cmd ",
            r"C:\WINDOW~1\POWERS~1.EXE",
            r"C:\more.com",
        ] {
            assert!(is_carrier(program), "{program}");
        }
        for program in [
            "/usr/bin/aplaymidi",
            "/usr/bin/amixer",
            "/usr/bin/date",
            "/usr/bin/goatcounter",
            "/usr/bin/padsp",
            r"C:\Tools\sendmidi.exe",
            r"C:\cmd.exe\aplaymidi.exe",
        ] {
            assert!(!is_carrier(program), "{program}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_given_the_number_of_words_stays_and_none_becomes_an_option(
            count in any::<i64>(), word in ".{0,20}", path in ".{0,20}", kind in "[a-c-]{0,2}",
        ) {
            let values = json!({"count": count, "word": word, "path": path, "kind": kind});
            if let Ok(words) = git().fill(values.as_object().unwrap()) {
                prop_assert_eq!(words.len(), 6);
                for (index, ready) in words.iter().enumerate() {
                    let text = match ready { Ready::Text(text) => text, Ready::Path { path, .. } => path };
                    prop_assert!(index == 4 || !text.starts_with('-'), "{:?}", text);
                    prop_assert!(!text.contains(['\0', '\n']));
                }
            }
        }
    }
}
