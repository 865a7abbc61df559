//! `conductor audit`: list, tail, verify, accept-rollback, export and hash. The commands read the
//! log files directly, so they need no daemon. If a daemon runs, a log is accepted by the daemon.
//!
//! Not here: reading the head of the log from a running daemon, and the check for a person. The
//! results of both are in [`Context`].

mod compare;
mod export_plain;
mod lines;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::progress::{Progress, Unit};
use clap::{Args, Subcommand, ValueEnum};
use conductor_core::audit::line;
use conductor_core::audit::memory::Remembered;
use conductor_core::audit::verify::{Anchors, Fault, Report, Seen, Verdict, Verifier};
use conductor_core::audit::{Head, InputHasher, KeyId};
use conductor_core::cluster::witness::{Compared, Witness};
use conductor_core::error::AuditResult;
use conductor_core::principal::Principal;
use conductor_core::text::escape;
use conductor_core::timestamp::Timestamp;
use ed25519_dalek::{SigningKey, VerifyingKey};
use notify::{RecursiveMode, Watcher as _};
use serde_json::{Value, json};

use conductor_gateway::audit_log::files::{Disk, Files};
use conductor_gateway::audit_log::keys;
use conductor_gateway::audit_log::layout::Layout;
use conductor_gateway::audit_log::lines::{self as lines_of_log, Filter, Lines, segment_paths, within};
use conductor_gateway::audit_log::{accept, walk};
use conductor_hosts::system::{Clock, Ids};
pub use lines::Tail;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// The interval at which a file system without change notifications is polled.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Subcommand)]
pub enum AuditCommand {
    /// Show records, oldest first.
    List(ListArgs),
    /// Show the last records; with --follow, also show new records as they are written.
    Tail(TailArgs),
    /// Check that no record was changed, removed or added.
    ///
    /// This command detects, even after a restart of the daemon: a changed, removed or added
    /// record; a missing or shortened log, segment or checkpoint file; a log that was rolled back
    /// to an earlier state, as long as state/, the OS keychain or the second copy ([audit] copy_to)
    /// still has a later checkpoint.
    ///
    /// It does not detect: the removal of records after the last checkpoint (at most 60 s or 256
    /// records); a rollback of audit/, state/, the keychain entry and the second copy together;
    /// changes by a program that can read the signing key (secrets/audit.key), unless a second copy
    /// already has the records. Store that copy where this user cannot write, and compare it with
    /// --against.
    ///
    /// With --witness, the log is compared with the records that the NATS server of [cluster]
    /// stored. This detects a missing, shortened, rolled back or replaced log even if the log, its
    /// checkpoints and all keys of this rig were replaced together.
    ///
    /// Exit codes: 0 INTACT, 10 BROKEN, 11 TRUNCATED, 12 FORKED, 13 MISSING, 14 TORN, 1 the log
    /// could not be read, 2 usage error.
    Verify(VerifyArgs),
    /// Accept a log that is missing, shortened or changed, and continue it.
    ///
    /// The daemon serves no tool until the log is accepted. Check the damage with `audit verify`
    /// first. The log continues in a new segment; its first record names the accepted damage and
    /// the person. Existing records are not changed, and lost records are not restored. Only a
    /// person at a terminal can do this.
    AcceptRollback,
    /// Write records to a file or to stdout.
    Export(ExportArgs),
    /// Print the input_hash that these arguments have in this log.
    Hash {
        /// Arguments of a call, as JSON.
        json: String,
    },
}

#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Name of a tool, or a prefix that ends in *.
    #[arg(long)]
    pub tool: Option<String>,
    /// Name of a principal, or a prefix that ends in *.
    #[arg(long)]
    pub principal: Option<String>,
    /// Result of the call: ok, error, rejected, denied, timeout, circuit_open, rate_limited,
    /// invalid, pending or cancelled.
    #[arg(long)]
    pub result: Option<AuditResult>,
    /// A day or UTC time, such as 2026-01-02 or 2026-01-02T03:04:05Z.
    #[arg(long)]
    pub since: Option<Timestamp>,
    /// The same form as --since.
    #[arg(long)]
    pub until: Option<Timestamp>,
    /// Show at most this many of the newest records.
    #[arg(short, long, default_value_t = 50)]
    pub number: usize,
}

#[derive(Debug, Clone, Default, Args)]
pub struct TailArgs {
    /// Show this many records first.
    #[arg(short, long, default_value_t = 10)]
    pub number: usize,
    /// Show new records until interrupted.
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub struct VerifyArgs {
    /// Compare with a second copy: a folder of segments, or a jsonl export.
    #[arg(long, value_name = "PATH")]
    pub against: Option<PathBuf>,
    /// Compare with the witness on the NATS server: the one in [cluster], or the one given here.
    #[arg(long, value_name = "SERVER", num_args = 0..=1, default_missing_value = "")]
    pub witness: Option<String>,
    /// Name of the rig in the witness; without this option, the one in [cluster]
    #[arg(long, value_name = "NAME", requires = "witness")]
    pub rig: Option<String>,
    /// File with the key for the server; without this option, the one in [cluster]
    #[arg(long, value_name = "FILE", requires = "witness")]
    pub credentials: Option<PathBuf>,
    /// After the report, do the same as audit accept-rollback.
    #[arg(long)]
    pub accept: bool,
}

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    pub format: Format,
    /// A day or UTC time, such as 2026-01-02 or 2026-01-02T03:04:05Z.
    #[arg(long)]
    pub since: Option<Timestamp>,
    /// The same form as --since.
    #[arg(long)]
    pub until: Option<Timestamp>,
    /// Write to this new file instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The lines as they are in the log, with valid hashes.
    Jsonl,
    /// One JSON array.
    Json,
    /// One entry per call: id, timestamp, tool, inputHash, result, durationMs, user, sessionId,
    /// prev, hash.
    Seed,
}

/// The program that records the acceptance of a damaged log.
#[derive(Clone, Copy)]
pub enum Acceptor<'a> {
    /// The running daemon, which itself checks that a person accepts. The function returns the
    /// person and the `seq` at which the log continues.
    Daemon(&'a dyn Fn() -> Result<(String, u64), String>),
    /// This command, if no daemon runs. The principal is the person at the terminal. The function
    /// stores the new checkpoint line in the keychain.
    Here(&'a Principal, &'a dyn Fn(&str)),
    /// No program: accepting is refused for this reason.
    Refused(&'a str),
}

/// The inputs of a command that do not come from the files.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub home: &'a Path,
    /// The end of the log, as reported by the running daemon before the files are read.
    pub head: Option<Head>,
    /// Checkpoints that are stored in other places, read before the files.
    pub remembered: &'a [Remembered],
    /// Why the keychain cannot be read, if the configuration uses it.
    pub keychain_error: Option<&'a str>,
    pub copy_to: Option<&'a Path>,
    /// The content of the witness, and the name of its server.
    pub witness: Option<&'a (Witness, String)>,
    pub acceptor: Acceptor<'a>,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn Ids,
    pub json: bool,
    /// Whether to show the progress on stderr.
    pub progress: bool,
}

impl Context<'_> {
    /// A progress bar for work that reads every byte of the log.
    fn progress(&self, what: &'static str) -> Progress<'_> {
        let layout = Layout::of(self.home);
        let segments =
            if self.progress { segment_paths(&Disk, &layout.audit).unwrap_or_default() } else { VecDeque::new() };
        let total = segments.iter().filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum();
        Progress::new(what, total, Unit::Bytes, self.clock, self.progress)
    }
}

/// The size of a line in the log, with its newline.
fn line_size(line: &[u8]) -> u64 {
    line.len() as u64 + 1
}

/// Runs a command and returns its exit code. `tail --follow` ends when its output is closed.
pub fn run(command: &AuditCommand, context: &Context<'_>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let done = match command {
        AuditCommand::List(args) => list(args, context, out),
        AuditCommand::Tail(args) => tail(args, context, out),
        AuditCommand::Verify(args) => verify(args, context, out),
        AuditCommand::AcceptRollback => verify(&VerifyArgs { accept: true, ..VerifyArgs::default() }, context, out),
        AuditCommand::Export(args) => export(args, context, out),
        AuditCommand::Hash { json } => hash(json, context, out),
    };
    match done {
        Ok(code) => code,
        Err(Failure { code, message }) => {
            // A closed stderr does not change the exit code.
            let _ = writeln!(err, "{}", escape(&message));
            code
        }
    }
}

struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn new(message: impl ToString) -> Self {
        Self { code: FAILED, message: message.to_string() }
    }

    fn usage(message: impl ToString) -> Self {
        Self { code: USAGE, message: message.to_string() }
    }

    fn read(what: &Path, error: &io::Error) -> Self {
        Self::new(format_args!("{}: {error}", what.display()))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}

impl From<keys::KeyError> for Failure {
    fn from(error: keys::KeyError) -> Self {
        Self::new(error)
    }
}

type Done = Result<u8, Failure>;

fn own_lines(context: &Context<'_>) -> Result<Lines, Failure> {
    let layout = Layout::of(context.home);
    let paths = segment_paths(&Disk, &layout.audit).map_err(|error| Failure::read(&layout.audit, &error))?;
    if paths.is_empty() {
        return Err(Failure::new(format_args!("there is no audit log in {}", layout.audit.display())));
    }
    Ok(Lines::over(paths))
}

fn list(args: &ListArgs, context: &Context<'_>, out: &mut dyn Write) -> Done {
    for record in newest(args, context)? {
        show(&record, context.json, out)?;
    }
    Ok(0)
}

/// The newest records that pass the filter, oldest first.
fn newest(args: &ListArgs, context: &Context<'_>) -> Result<VecDeque<Value>, Failure> {
    own_lines(context)?;
    let ListArgs { tool, principal, result, since, until, number } = args.clone();
    let filter = Filter { tool, principal, result, since, until, ..Filter::default() };
    Ok(lines_of_log::newest(context.home, &filter, number)?)
}

fn tail(args: &TailArgs, context: &Context<'_>, out: &mut dyn Write) -> Done {
    // Start to follow before the records are read, so that no record is missed between the two
    // steps. A record that both steps find is shown once.
    let following = args.follow.then(|| Follow::start(context.home)).transpose()?;
    let records = newest(&ListArgs { number: args.number, ..ListArgs::default() }, context)?;
    for record in &records {
        show(record, context.json, out)?;
    }
    let Some(mut follow) = following else { return Ok(0) };
    follow.tail.skip_through(records.back().and_then(|it| it["seq"].as_u64()));
    loop {
        out.flush()?;
        follow.wait();
        match follow.tail.poll(context.json, out) {
            // A closed pipe is not a failure: `conductor audit tail -f | head` succeeds.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            shown => shown?,
        }
    }
}

/// The end of the log, and a watcher that reports changes.
struct Follow {
    tail: Tail,
    news: mpsc::Receiver<()>,
    /// Dropping the watcher ends the notifications.
    _watcher: notify::RecommendedWatcher,
}

impl Follow {
    fn start(home: &Path) -> Result<Self, Failure> {
        let layout = Layout::of(home);
        let (sender, news) = mpsc::channel();
        let notify_change = move |event: notify::Result<notify::Event>| {
            // Ignore accesses, because our own reads must not cause another read.
            if event.is_ok_and(|event| !event.kind.is_access()) {
                let _ = sender.send(());
            }
        };
        let failed = |error: notify::Error| Failure::new(error);
        let mut watcher = notify::recommended_watcher(notify_change).map_err(failed)?;
        watcher.watch(&layout.audit, RecursiveMode::NonRecursive).map_err(failed)?;
        Ok(Self { tail: Tail::at_end(home)?, news, _watcher: watcher })
    }

    fn wait(&self) {
        // The timeout is for file systems that do not report changes.
        let _ = self.news.recv_timeout(LOOK_AGAIN);
        while self.news.try_recv().is_ok() {}
    }
}

/// Writes one record as one line. Text in it is escaped, so that it cannot break or colour the
/// line.
pub(crate) fn show(record: &Value, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return writeln!(out, "{record}");
    }
    let text = |key: &str| record.get(key).and_then(Value::as_str).map(escape);
    let mut line = format!(
        "{:>6} {}",
        record.get("seq").and_then(Value::as_u64).unwrap_or_default(),
        text("ts").unwrap_or_default()
    );
    for key in ["phase", "principal", "tool", "result", "code", "event"] {
        if let Some(word) = text(key) {
            line.push(' ');
            line.push_str(&word);
        }
    }
    if let Some(ms) = record.get("duration_ms").and_then(Value::as_u64) {
        line.push_str(&format!(" {ms} ms"));
    }
    if let Some(detail) =
        record.get("detail").filter(|detail| detail.as_object().is_none_or(|members| !members.is_empty()))
    {
        line.push(' ');
        line.push_str(&escape(&detail.to_string()));
    }
    writeln!(out, "{line}")
}

/// Verifies the log for the console. Returns the same object as `audit verify --json`.
pub(crate) fn verdict(
    home: &Path,
    head: Option<Head>,
    remembered: &[Remembered],
    keychain_error: Option<&str>,
) -> Result<Value, String> {
    let (report, held) = checked(home, head, remembered, &mut |_| {}).map_err(|failure| failure.message)?;
    Ok(to_json(&report, &held, remembered, keychain_error))
}

/// Checks every record. Returns the report, and where the signing key is stored.
fn checked(
    home: &Path,
    head: Option<Head>,
    remembered: &[Remembered],
    seen: &mut dyn FnMut(&Seen<'_>),
) -> Result<(Report, String), Failure> {
    let layout = Layout::of(home);
    let (key, held, key_fault) = verifying_key(&layout)?;
    if key.is_none() && remembered.is_empty() && layout.segments(&Disk)?.is_empty() {
        return Err(Failure::new(format_args!("there is no audit log in {}", layout.home.display())));
    }
    let mut walk = || walk::verify(&Disk, &layout, key.as_ref(), head, remembered, seen);
    let mut report = walk()?;
    // A line that a running daemon is writing looks torn, so check again before reporting it.
    for _ in 0..2 {
        if report.verdict == Verdict::Torn {
            report = walk()?;
        }
    }
    if let Some(fault) = key_fault {
        report.add(fault);
    }
    Ok((report, held))
}

fn verify(args: &VerifyArgs, context: &Context<'_>, out: &mut dyn Write) -> Done {
    let layout = Layout::of(context.home);
    let progress = context.progress("checking the log");
    let checked = checked(context.home, context.head, context.remembered, &mut |it| progress.add(line_size(it.line)));
    drop(progress);
    let (mut report, held) = match (checked, context.witness) {
        (Ok(checked), _) => checked,
        // The log is missing. The comparison with the witness shows whether a log existed before.
        (Err(_), Some(_)) if layout.segments(&Disk)?.is_empty() => {
            (Verifier::new(Anchors::default()).finish(), "missing".to_owned())
        }
        (Err(failure), _) => return Err(failure),
    };
    let witnessed = context.witness.map(|(witness, _)| against_witness(&layout, witness, &report)).transpose()?;
    for fault in witnessed.iter().flat_map(|it| &it.faults) {
        report.add(fault.clone());
    }
    let mut copy_note = None;
    if let Some(path) = &args.against {
        let compared = compare::compare(&Disk, &layout.audit, path).map_err(|error| Failure::read(path, &error))?;
        copy_note = Some(compared.note);
        if let Some(fault) = compared.fault {
            report.add(fault);
        }
    }
    if context.json {
        let mut value = to_json(&report, &held, context.remembered, context.keychain_error);
        if let (Some(it), Some((_, server))) = (&witnessed, context.witness) {
            value["witness"] = json!({
                "server": server, "records": it.records, "checkpoints": it.checkpoints, "equal": it.equal,
                "duplicates": it.duplicates, "unpublished": it.unpublished, "last_seq": it.last,
            });
        }
        writeln!(out, "{value}")?;
    } else {
        print_report(&report, &held, copy_note.as_deref(), out)?;
        if let (Some(it), Some((_, server))) = (&witnessed, context.witness) {
            let Compared { records, checkpoints, equal, unpublished, .. } = it;
            writeln!(
                out,
                "witness on {}: {records} records and {checkpoints} checkpoints, {equal} equal hashes; \
                 {unpublished} later records are not published yet",
                escape(server)
            )?;
        }
        writeln!(out, "{}", rollback_note(context))?;
    }
    if args.accept {
        return accept_damage(&report, context, out);
    }
    Ok(report.verdict.exit_code())
}

/// Compares every valid record of the log with the witness.
fn against_witness(layout: &Layout, witness: &Witness, report: &Report) -> Result<Compared, Failure> {
    let mut comparison = witness.clone().compare();
    let mut lines = Lines::over(segment_paths(&Disk, &layout.audit)?);
    while let Some(line) = lines.next_line(&Disk)? {
        // Damaged lines are already reported.
        let Ok((links, hash)) = line::read(&line) else { break };
        comparison.line(links.seq, hash, &line);
    }
    Ok(comparison.finish(report.end()))
}

/// Names the places that store the last checkpoint, and the rollback that cannot be detected.
fn rollback_note(context: &Context<'_>) -> String {
    let places: Vec<String> = context.remembered.iter().map(|it| it.place.to_string()).collect();
    let places = if places.is_empty() { "no other place".to_owned() } else { places.join(" and ") };
    let silent =
        context.keychain_error.map(|why| format!(" (not in the keychain: {})", escape(why))).unwrap_or_default();
    format!(
        "the last checkpoint is stored in {places}{silent}; a rollback of the log, its checkpoints and {} together cannot be detected",
        if context.remembered.is_empty() { "the keys" } else { "these places" }
    )
}

/// The public key, and where the secret key is stored. If the secret key can be read, the public
/// key must match it. This detects a replacement of both the checkpoints and the public key.
fn verifying_key(layout: &Layout) -> Result<(Option<VerifyingKey>, String, Option<Fault>), Failure> {
    let public = keys::public_key(&Disk, layout)?;
    let secret: Option<[u8; 32]> =
        Disk.read_at(&layout.signing_key(), 0, 33).ok().and_then(|bytes| bytes.try_into().ok());
    let own = secret.map(|bytes| SigningKey::from_bytes(&bytes).verifying_key());
    let mismatch = || {
        Fault::new(
            Verdict::Forked,
            0,
            "the public key of secrets/audit.key in state/audit.pub",
            "the public key of another secret key",
        )
    };
    match (own, public) {
        (Some(own), public) => {
            let fault = public.filter(|public| *public != own).map(|_| mismatch());
            Ok((Some(own), format!("secrets/audit.key, {}", KeyId::of(&own)), fault))
        }
        (None, Some(public)) => Ok((Some(public), format!("not readable here, {}", KeyId::of(&public)), None)),
        (None, None) => Ok((None, "missing".to_owned(), None)),
    }
}

fn print_report(report: &Report, held: &str, copy_note: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let plural = |n: u64, word: &str| {
        if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
    };
    let size = format!("{} in {}", plural(report.records, "record"), plural(u64::from(report.segments), "segment"));
    writeln!(out, "{}: {size}", report.verdict)?;
    for fault in &report.faults {
        writeln!(out, "  {}", escape(&fault.to_string()))?;
    }
    for accepted in &report.accepted {
        for fault in &accepted.faults {
            writeln!(out, "  accepted at seq {}: {}", accepted.seq, escape(&fault.to_string()))?;
        }
    }
    if let Some((segment, seq)) = report.begins_at {
        writeln!(out, "the log begins at segment {segment}, seq {seq}; earlier records were removed by retention")?;
    }
    if let Some(note) = copy_note {
        writeln!(out, "{}", escape(note))?;
    }
    let through = report.anchored_through.map_or_else(|| "nothing".to_owned(), |seq| format!("seq {seq}"));
    let later =
        if report.unanchored == 1 { "1 later record is" } else { &format!("{} later records are", report.unanchored) };
    writeln!(out, "signed through {through} (signing key: {held}); {later} not signed yet")
}

fn to_json(report: &Report, held: &str, remembered: &[Remembered], keychain_error: Option<&str>) -> Value {
    let fault = |fault: &Fault| json!({"verdict": fault.verdict.as_str(), "seq": fault.seq, "expected": fault.expected, "found": fault.found});
    json!({
        "verdict": report.verdict.as_str(),
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
        "accepted": report.accepted.iter().map(|accepted| json!({
            "seq": accepted.seq, "faults": accepted.faults.iter().map(fault).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "records": report.records,
        "segments": report.segments,
        "begins_at_seq": report.begins_at.map(|(_, seq)| seq),
        "last_seq": report.last.map(|(seq, _)| seq),
        "checkpoints": report.checkpoints,
        "anchored_through": report.anchored_through,
        "unanchored": report.unanchored,
        "key_held_by": held,
        "remembered_by": remembered.iter().map(|it| it.place.to_string()).collect::<Vec<_>>(),
        "keychain_fault": keychain_error,
    })
}

fn accept_damage(report: &Report, context: &Context<'_>, out: &mut dyn Write) -> Done {
    let layout = Layout::of(context.home);
    // If the key is missing, the daemon refuses even an intact log.
    let refused = || keys::load(&Disk, &layout, context.ids, false).is_err();
    match report.verdict {
        Verdict::Intact if !refused() => {
            writeln!(out, "there is nothing to accept")?;
            return Ok(0);
        }
        Verdict::Torn if !refused() => {
            writeln!(
                out,
                "there is nothing to accept: at its next start, the daemon moves the incomplete end of the log to a separate file"
            )?;
            return Ok(report.verdict.exit_code());
        }
        Verdict::Intact | Verdict::Torn | Verdict::Missing | Verdict::Broken | Verdict::Forked | Verdict::Truncated => {
        }
    }
    let (by, seq) = match context.acceptor {
        Acceptor::Refused(why) => return Err(Failure::usage(format!("only a person can accept this log: {why}"))),
        Acceptor::Daemon(accept) => accept().map_err(Failure::new)?,
        Acceptor::Here(person, remember) => {
            let place = (context.home, context.copy_to);
            let facts = (report, context.remembered);
            let (head, line) = accept(place, &Disk, context.clock, context.ids, person, facts).map_err(Failure::new)?;
            remember(&line);
            (person.to_string(), head.seq)
        }
    };
    writeln!(out, "log accepted by {by}; it continues at seq {seq}")?;
    Ok(0)
}

fn export(args: &ExportArgs, context: &Context<'_>, out: &mut dyn Write) -> Done {
    let Some(path) = &args.output else {
        return export_to(args, context, out);
    };
    let mut options = std::fs::OpenOptions::new();
    conductor_hosts::system::files::Opening::owner_only(options.write(true).create_new(true));
    let file = options.open(path).map_err(|error| Failure::read(path, &error))?;
    let mut file = io::BufWriter::new(file);
    let code = export_to(args, context, &mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(code)
}

fn export_to(args: &ExportArgs, context: &Context<'_>, out: &mut dyn Write) -> Done {
    let mut lines = own_lines(context)?;
    let progress = context.progress("exporting");
    let mut chain = export_plain::Chain::default();
    let mut first = true;
    if args.format == Format::Json {
        write!(out, "[")?;
    }
    while let Some(line) = lines.next_line(&Disk)? {
        progress.add(line_size(&line));
        let record: Value = serde_json::from_slice(&line).map_err(|error| {
            Failure::new(format_args!("a line of the log is not a record ({error}); run `conductor audit verify`"))
        })?;
        if !within(&record, args.since, args.until) {
            continue;
        }
        match args.format {
            Format::Jsonl => {
                out.write_all(&line)?;
                out.write_all(b"\n")?;
            }
            Format::Json => {
                out.write_all(if first { b"\n" } else { b",\n" })?;
                out.write_all(&line)?;
                first = false;
            }
            Format::Seed => {
                if let Some(entry) = chain.entry(&record) {
                    writeln!(out, "{entry}")?;
                }
            }
        }
    }
    if args.format == Format::Json {
        writeln!(out, "\n]")?;
    }
    Ok(0)
}

fn hash(text: &str, context: &Context<'_>, out: &mut dyn Write) -> Done {
    let arguments: Value =
        serde_json::from_str(text).map_err(|error| Failure::usage(format!("the arguments are not JSON: {error}")))?;
    let layout = Layout::of(context.home);
    let missing =
        |path: PathBuf| format!("{} does not exist; the first start of the daemon creates it", path.display());
    let salt = keys::salt(&Disk, &layout)?.ok_or_else(|| Failure::new(missing(layout.salt())))?;
    writeln!(out, "{}", InputHasher::new(&salt).hash(&arguments))?;
    Ok(0)
}

#[cfg(test)]
mod tests;
