//! Reads `[tools]` and `[secrets]`: the files, commands, databases and hosts that tools may use.
//! All are empty by default.
//!
//! Not here: opening folders, databases and connections, and checking whether a program exists.

use super::absolute::{self, goes_up, is_absolute};
use super::form::{Form, alias, boolean, filled, named, opaque, set, text, whole};
use super::reader::{CommandLine, Reader, Start};
use super::section::{self, row, section, table, unique_rows};
use super::tree::Node;
use crate::command::{CommandEffect, Slot, Template, Word, by_app, by_argv, is_carrier, last_part};
use crate::named_enum::named_enum;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The section `[tools]`.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// The key `roots` of `[tools.filesystem]`.
    pub roots: Vec<FileRoot>,
    /// The rows of `[[tools.shell.commands]]`.
    pub commands: Vec<Template>,
    /// The sections `[tools.database.<name>]` by name, in the order of the file.
    pub databases: Vec<(String, Database)>,
    /// The section `[tools.web]`.
    pub web: Web,
    /// The section as written in the file. An approval becomes stale when this value changes.
    pub written: Value,
}

impl PartialEq for Tools {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

section! {
    /// Files that tools may use.
    pub(crate) struct Filesystem {
        /// Folders that file tools may use.
        roots: Vec<FileRoot> = Vec::new(), unique_rows(64, "name", "root");
    }
}

row! {
    /// A folder that file tools may use.
    #[derive(Eq)]
    pub struct FileRoot {
        /// Name that calls use.
        name: String, alias(), "\"studio\"";
        /// An absolute path, or a path in the user's home directory with `~/`.
        path: String, text(1..=4096).ruled(absolute_or_home), "\"~/Music/Studio\"";
        /// Whether files may be changed.
        write: bool = false, boolean(), "true";
    }
}

row! {
    /// A database that tools may query.
    #[derive(Eq)]
    pub struct Database {
        /// Address of the database: `sqlite:` and a path, or a `postgres:` URL without a password.
        place as "url": DatabasePlace, opaque(url), "\"sqlite:~/sets.db\"";
        /// Name of the secret that contains the password, as `secret:NAME`.
        password: Option<String> = None, filled().ruled(secret_name).maybe(), "\"secret:sets-db\"";
        /// Maximum number of rows that one statement may change.
        max_rows_affected: u64 = MOST_ROWS_AFFECTED, whole(1..=1_000_000_000), "100";
    }
}

/// The address of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum DatabasePlace {
    /// A file; the path is absolute or starts with `~/`.
    Sqlite { file: String },
    /// A URL without a password.
    Postgres { url: String },
}

/// Default of `max_rows_affected`.
pub const MOST_ROWS_AFFECTED: u64 = 1000;

section! {
    /// Hosts that tools may fetch from.
    #[derive(Eq)]
    pub struct Web {
        /// Hosts that are fetched without an approval. An entry `host:port` also allows a private
        /// address.
        allow_hosts: Vec<String> = Vec::new(), set(text(1..=253).ruled(host), 0..=256), "[\"api.example.org\"]";
        /// Hosts that may be fetched without TLS.
        http_hosts: Vec<String> = Vec::new(), set(text(1..=253).ruled(host), 0..=256), "[\"127.0.0.1:8080\"]";
        /// Longest duration of a request, in milliseconds.
        timeout_ms: u64 = 10_000, whole(1..=600_000), "5000";
    }
}

section! {
    /// Stored secrets.
    pub(crate) struct Secrets {
        /// Where the encryption key is stored. `credential`: in a systemd credential.
        /// `passphrase`: derived from a passphrase that a person types. `file`: in a file in
        /// Conductor's home.
        key: KeyRung = KeyRung::Keychain, named(), "\"passphrase\"";
    }
}

named_enum! {
    /// Where the encryption key of the secrets is stored. Conductor never changes this choice by
    /// itself.
    #[derive(Default)]
    pub enum KeyRung {
        /// The key is stored in the system's keychain.
        #[default]
        Keychain = "keychain",
        /// The key is stored in a systemd credential.
        Credential = "credential",
        /// The key is derived from a passphrase that a person types.
        Passphrase = "passphrase",
        /// The key is stored in a file in Conductor's home.
        File = "file",
    }
}

pub(crate) fn tools<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Tools> {
    let mut f = r.table(node)?;
    let roots = f.over(r, "filesystem", Filesystem::default(), &table()).roots;
    let commands = f.or_default(r, "shell", |r, it| shell(r, it, &roots));
    let databases = f.or_default(r, "database", databases);
    let web = f.over(r, "web", Web::default(), &table());
    f.finish(r);
    Some(Tools { roots, commands, databases, web, written: node.to_json() })
}

fn absolute_or_home<'t>(r: &mut Reader<'t>, node: &'t Node, path: String) -> Option<String> {
    let platform = r.surroundings.platform;
    if is_absolute(&path, platform) || path.starts_with("~/") {
        return Some(path);
    }
    let help = format!("begin it with {} or `~/`", absolute::beginning(platform));
    r.reject(node, format!("\"{path}\" is not an absolute path"), help)
}

/// Warns about a `Shell` or `Launch` action that matches no template. Such an action would be
/// refused when a person presses its pad.
pub(super) fn judge_command(r: &mut Reader<'_>, line: CommandLine, templates: &[Template]) {
    let (is_allowed, argv) = match line.start.clone() {
        Start::Line(argv) => (by_argv(templates, &argv).is_ok(), argv),
        Start::App(app) => (by_app(templates, &app).is_ok(), vec![app]),
    };
    if is_allowed {
        return;
    }
    let mut words = argv.iter();
    let program = words.next().map(String::as_str).unwrap_or_default();
    let name: String = last_part(program).chars().take(64).collect();
    let platform = r.surroundings.platform;
    let path = if is_absolute(program, platform) { program.to_owned() } else { absolute::program(&name, platform) };
    let args: Vec<String> = words.map(|it| toml_text(it)).collect();
    let known: Vec<String> = templates.iter().map(|it| format!("\"{}\"", it.name)).collect();
    let message = match known.as_slice() {
        [] => "no command is allowed, so this action is refused".to_owned(),
        known => format!("this matches none of the allowed commands ({}), so this action is refused", known.join(", ")),
    };
    let help = format!(
        "allow it: [[tools.shell.commands]] with name = {}, program = {} and args = [{}]",
        toml_text(&name),
        toml_text(&path),
        args.join(", ")
    );
    r.warn_of_command(line, message, help);
}

fn toml_text(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

fn shell<'t>(r: &mut Reader<'t>, node: &'t Node, roots: &[FileRoot]) -> Option<Vec<Template>> {
    let mut f = r.table(node)?;
    let mut seen = BTreeSet::new();
    let commands =
        f.or_default(r, "commands", |r, it| r.list_of(it, 0, 256, |r, item| command(r, item, roots, &mut seen)));
    f.finish(r);
    Some(commands)
}

fn command<'t>(
    r: &mut Reader<'t>,
    node: &'t Node,
    roots: &[FileRoot],
    seen: &mut BTreeSet<String>,
) -> Option<Template> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let name = f.need(r, "name", |r, it| r.unique_alias(it, seen, "command"));
    let program = f.need(r, "program", |r, it| {
        let program = r.text(it, 1, 4096)?;
        let platform = r.surroundings.platform;
        if is_absolute(&program, platform) && !goes_up(&program) && !program.contains('\0') {
            return Some(program);
        }
        let example = absolute::program("git", platform);
        let help = format!("write the full path, such as \"{example}\"; no search path is used");
        r.reject(it, format!("\"{program}\" is not an absolute path"), help)
    });
    let digest = f.opt(r, "digest", |r, it| r.digest(it, None));
    let slots =
        f.or_default(r, "slots", |r, it| r.map_of(it, |r, entry| slot(r, &entry.node, roots, program.as_deref())));
    let words = f.or_default(r, "args", |r, it| r.list_of(it, 0, 256, |r, item| word(r, item, &slots)));
    for unused in slots.keys().filter(|name| !words.contains(&Word::Slot((*name).clone()))) {
        let place = node.get("slots").and_then(|it| it.get(unused)).and_then(|it| it.place.clone());
        r.rule_help(
            &place,
            format!("no argument uses the slot \"{unused}\""),
            format!("put \"{{{unused}}}\" into args"),
        );
    }
    let cwd = f.opt(r, "cwd", |r, it| root_name(r, it, roots));
    let effect = f.or(r, "effect", CommandEffect::Write, Reader::named);
    let env = f.or_default(r, "env", |r, it| r.map_of(it, |r, entry| r.text(&entry.node, 0, 4096)));
    let timeout_ms = f.or(r, "timeout_ms", 30_000, |r, it| r.whole(it, 1, 600_000));
    f.finish(r);
    let template = Template { name: name?, program: program?, digest, words, cwd, effect, env, timeout_ms, slots };
    (r.errors() == before).then_some(template)
}

/// Reads an argument, which is either fixed text or exactly one slot.
fn word<'t>(r: &mut Reader<'t>, node: &'t Node, slots: &BTreeMap<String, Slot>) -> Option<Word> {
    let text = r.text(node, 0, 4096)?;
    let Some(name) = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')) else {
        if text.contains(['{', '}']) {
            let help = "write the slot as a separate argument".to_owned();
            return r.reject(node, "a slot must be a whole argument".to_owned(), help);
        }
        return Some(Word::Fixed(text));
    };
    if !slots.contains_key(name) {
        return r.reject(node, format!("there is no slot \"{name}\""), format!("add slots.{name} = {{ type = … }}"));
    }
    Some(Word::Slot(name.to_owned()))
}

fn root_name<'t>(r: &mut Reader<'t>, node: &'t Node, roots: &[FileRoot]) -> Option<String> {
    let name = r.filled(node)?;
    if roots.iter().any(|it| it.name == name) {
        return Some(name);
    }
    let help = "roots are defined in [tools.filesystem]".to_owned();
    r.reject(node, format!("there is no root \"{name}\""), help)
}

pub(crate) fn slot<'t>(r: &mut Reader<'t>, node: &'t Node, roots: &[FileRoot], program: Option<&str>) -> Option<Slot> {
    r.define("Slot")?;
    let mut f = r.table(node)?;
    let slot = match f.tag(r, "type", &["integer", "enum", "path", "text"])? {
        "integer" => {
            let min = f.need(r, "min", |r, it| r.whole(it, i64::MIN, i64::MAX));
            let max = f.need(r, "max", |r, it| r.whole(it, i64::MIN, i64::MAX));
            min.zip(max).map(|(min, max)| Slot::Integer { min, max })
        }
        "enum" => f.need(r, "values", |r, it| r.set(it, 1, 256, |r, it| r.text(it, 1, 256))).map(Slot::Enum),
        "path" => f.need(r, "root", |r, it| root_name(r, it, roots)).map(|root| Slot::Path { root }),
        _ => {
            let place = f.place.clone();
            let pattern = f.need(r, "pattern", |r, it| {
                let text = r.text(it, 1, 1024)?;
                // Anchor the pattern at both ends. An unanchored pattern would allow any text
                // around its match.
                let pattern = Regex::new(&format!("^(?:{text})$")).ok();
                if pattern.is_none() {
                    r.rule(
                        &it.place,
                        format!("\"{text}\" is not a pattern (look-around and back-references are not supported)"),
                    );
                }
                pattern
            });
            if let Some(program) = program.filter(|it| is_carrier(it)) {
                let help = "use a slot of type enum, or a program that does not execute its arguments".to_owned();
                r.rule_help(
                    &place,
                    format!("{program} can execute its arguments as commands, so it must not have a text slot"),
                    help,
                );
            }
            pattern.map(|pattern| Slot::Text { pattern })
        }
    };
    f.finish(r);
    slot
}

fn databases<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<(String, Database)>> {
    r.entries_of(node, |r, entry| Some((entry.key.clone(), section::entry().read(r, &entry.node)?)))
}

fn url<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<DatabasePlace> {
    let text = r.text(node, 1, 4096)?;
    if let Some(file) = text.strip_prefix("sqlite:") {
        let platform = r.surroundings.platform;
        if is_absolute(file, platform) || file.starts_with("~/") {
            return Some(DatabasePlace::Sqlite { file: file.to_owned() });
        }
        let help = format!("begin the file with {} or `~/`", absolute::beginning(platform));
        return r.reject(node, format!("\"{file}\" is not an absolute path"), help);
    }
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        let help = "write \"sqlite:/folder/file.db\" or \"postgres://user@host/database\"".to_owned();
        return r.reject(node, "this is not the address of a supported database".to_owned(), help);
    };
    let user = rest.split_once('@').map(|(user, _)| user);
    if user.is_some_and(|it| it.contains(':')) || text.contains("password=") {
        let help = "store it with `conductor secrets set NAME` and write password = \"secret:NAME\"".to_owned();
        return r.reject(node, "a password must not be in this file".to_owned(), help);
    }
    Some(DatabasePlace::Postgres { url: text })
}

/// Accepts only `secret:NAME`. A password or secret in plain text is a fault.
pub(super) fn secret_name<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    if let Some(name) = text.strip_prefix("secret:").filter(|it| !it.is_empty()) {
        return Some(name.to_owned());
    }
    let help = "store it with `conductor secrets set NAME` and write \"secret:NAME\"".to_owned();
    r.reject(node, "a password or secret must not be in this file".to_owned(), help)
}

fn host<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    let fits = text.bytes().all(|it| it.is_ascii_alphanumeric() || b".-_:[]".contains(&it));
    if fits && !text.contains("//") {
        return Some(text.to_ascii_lowercase());
    }
    let help = "write a name such as \"api.example.org\", or a name and a port; there are no wildcards".to_owned();
    r.reject(node, format!("\"{text}\" is not a host"), help)
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    const WHOLE: &str = r#"
[secrets]
key = "file"

[tools.filesystem]
roots = [{ name = "studio", path = "~/Music/Studio", write = true }, { name = "scratch", path = "/tmp/s" }]

[[tools.shell.commands]]
name = "git-log"
program = "/usr/bin/git"
args = ["log", "-n", "{count}", "--", "{path}"]
cwd = "studio"
effect = "read"
timeout_ms = 1000
env = { GIT_PAGER = "cat" }
slots.count = { type = "integer", min = 1, max = 200 }
slots.path = { type = "path", root = "studio" }

[tools.database.sets]
url = "postgres://studio@127.0.0.1/sets"
password = "secret:sets-db"
max_rows_affected = 5

[tools.database.notes]
url = "sqlite:/tmp/n.db"

[tools.web]
allow_hosts = ["API.example.org", "127.0.0.1:8080"]
http_hosts = ["127.0.0.1:8080"]
timeout_ms = 5000
"#;

    #[test]
    fn every_key_is_read() {
        let loaded = load(WHOLE);
        assert_eq!(loaded.diagnostics, []);
        let config = loaded.config.unwrap();
        let tools = config.tools;
        assert_eq!(config.secrets, KeyRung::File);
        assert_eq!((tools.roots[0].write, tools.roots[1].write), (true, false));
        let command = &tools.commands[0];
        assert_eq!(
            (command.cwd.as_deref(), command.effect, command.timeout_ms),
            (Some("studio"), CommandEffect::Read, 1000)
        );
        assert_eq!(command.env.get("GIT_PAGER").map(String::as_str), Some("cat"));
        assert_eq!(tools.databases[1].1.password.as_deref(), None);
        assert_eq!(
            (tools.databases[0].1.password.as_deref(), tools.databases[0].1.max_rows_affected),
            (Some("sets-db"), 5)
        );
        assert_eq!(tools.web.allow_hosts, ["api.example.org", "127.0.0.1:8080"]);
        assert_eq!(tools.web.timeout_ms, 5000);
    }

    #[test]
    fn everything_is_empty_until_it_is_written() {
        let tools = load("").config.unwrap().tools;
        assert!(tools.roots.is_empty() && tools.commands.is_empty() && tools.databases.is_empty());
        assert!(tools.web.allow_hosts.is_empty());
    }

    #[test]
    fn one_faulty_row_disables_that_row_alone_and_says_how_to_mend_it() {
        let faulty = [
            ("program = \"/usr/bin/git\"", "program = \"git\"", "not an absolute path"),
            ("\"{count}\"", "\"-n{count}\"", "a slot must be a whole argument"),
            ("\"{count}\"", "\"{counts}\"", "there is no slot"),
            ("cwd = \"studio\"", "cwd = \"attic\"", "there is no root"),
            ("password = \"secret:sets-db\"", "password = \"hunter2\"", "must not be in this file"),
            ("studio@127.0.0.1", "studio:pw@127.0.0.1", "must not be in this file"),
            ("path = \"/tmp/s\"", "path = \"tmp\"", "not an absolute path"),
            ("name = \"scratch\"", "name = \"studio\"", "already a root"),
            ("\"API.example.org\"", "\"*\"", "not a host"),
            (
                "slots.path = { type = \"path\", root = \"studio\" }",
                "slots.path = { type = \"text\", pattern = \"(?=x)\" }",
                "not a pattern",
            ),
        ];
        for (from, to, wanted) in faulty {
            let text = WHOLE.replacen(from, to, 1);
            let loaded = load(&text);
            assert!(loaded.diagnostics.iter().any(|it| it.message.contains(wanted)), "{to}: {:?}", loaded.diagnostics);
            assert!(loaded.config.is_some(), "{to}");
        }
        let text = WHOLE.replace("/usr/bin/git", "/bin/sh").replace(
            "slots.path = { type = \"path\", root = \"studio\" }",
            "slots.path = { type = \"text\", pattern = \"[a-z]+\" }",
        );
        let loaded = load(&text);
        assert!(
            loaded.diagnostics.iter().any(|it| it.message.contains("must not have a text slot")),
            "{:?}",
            loaded.diagnostics
        );
        assert!(loaded.config.unwrap().tools.commands.is_empty());
    }

    #[test]
    fn a_windows_studio_names_its_drives() {
        use crate::config::{Platform, Surroundings, load_with};
        let text = WHOLE
            .replace("/usr/bin/git", r"C:\\Program Files\\Git\\bin\\git.exe")
            .replace("\"/tmp/s\"", r"'D:\Räume 日本'")
            .replace("sqlite:/tmp/n.db", "sqlite:C:/Studio/n.db")
            + "\n[audit]\ncopy_to = 'E:\\audit'\n";
        let on = |platform| load_with(&text, &Surroundings { platform: Some(platform), ..Surroundings::default() });
        let loaded = on(Platform::Windows);
        assert_eq!(loaded.diagnostics, []);
        let config = loaded.config.unwrap();
        assert_eq!(config.tools.roots[1].path, r"D:\Räume 日本");
        assert_eq!(config.tools.commands[0].program, r"C:\Program Files\Git\bin\git.exe");
        assert_eq!(config.audit.copy_to.as_deref(), Some(r"E:\audit"));
        let elsewhere = on(Platform::Linux).diagnostics;
        assert_eq!(
            elsewhere.iter().filter(|it| it.message.contains("is not an absolute path")).count(),
            4,
            "{elsewhere:?}"
        );
        // On Windows, a Unix path is not absolute: it depends on the current drive.
        let unix = load_with(WHOLE, &Surroundings { platform: Some(Platform::Windows), ..Surroundings::default() });
        let refused = unix.diagnostics.iter().filter(|it| it.message.contains("is not an absolute path"));
        assert_eq!(refused.count(), 3, "{:?}", unix.diagnostics);
    }
}
