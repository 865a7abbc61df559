//! Opens a log and recovers it after a crash. A log that was tampered with is refused and not
//! changed.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use conductor_core::audit::line;
use conductor_core::audit::memory::{Remembered, expects_memory};
use conductor_core::audit::verify::{Anchors, Fault, Report, Seen, Verdict, Verifier};
use conductor_core::audit::{Chain, Checkpoint, Entry, EventName, Head, InputHasher, Recovery, Seq};
use conductor_core::digest::Digest;
use conductor_core::principal::Principal;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, watch};

use super::copy::Copy;
use super::files::{Files, WHOLE, append_whole};
use super::keys::{self, KeyError, Keys};
use super::layout::Layout;
use super::memory;
use super::segments::{Active, Down, Segments};
use super::syncer::Syncer;
use super::walk;
use super::{CheckpointCallback, MAX_WAITERS, SYNC_BOUNDS_MS, Settings, Shared, Signal, UnavailableError};
use crate::histogram::Histogram;
use conductor_hosts::system::{Clock, Ids};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The log was tampered with. Nothing is appended and no tool can be called until a person runs
    /// `audit verify`, then `audit accept-rollback`.
    #[error("the audit log is {}", .0.faults.first().map_or_else(|| .0.verdict.to_string(), ToString::to_string))]
    Refused(Box<Report>),
    #[error("the audit thread could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// The result of opening a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opened {
    /// Whether the log did not exist before.
    pub fresh: bool,
    /// Number of bytes after the last complete line (a torn tail) that were moved to another file.
    pub torn_bytes: Option<u64>,
    /// Effects that were started and have no outcome, as pairs of call id and tool name.
    pub unanswered: Vec<(String, String)>,
    /// Why the log cannot be written yet, although it is open.
    pub down: Option<Arc<str>>,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    move |error| OpenError::Io(path.display().to_string(), error)
}

pub(super) fn open(
    home: &Path,
    files: Arc<dyn Files>,
    mut settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<(Syncer, Opened), OpenError> {
    settings.checkpoint_records = settings.checkpoint_records.clamp(1, 256);
    let layout = Layout::of(home);
    for dir in [&layout.audit, &layout.state, &layout.secrets] {
        files.make_dir(dir).map_err(at(dir))?;
    }
    let keys = keys::load(&*files, &layout, &*ids, false)?;
    let mut start = Start::read(&*files, &layout, &keys, settings.copy_to.as_deref())?;
    start.set_tail_aside(&*files, &layout)?;

    let mut opened = Opened { fresh: start.active.is_none() && start.last_number == 0, ..Opened::default() };
    let mut unwritten = VecDeque::new();
    let stamp = || super::stamp(&*clock, &*ids);
    if let Some(torn) = &start.torn {
        opened.torn_bytes = Some(torn.bytes);
        let detail = json!({"seq": start.chain.next_seq(), "bytes": torn.bytes, "hash": torn.hash, "file": torn.file});
        unwritten.push_back((stamp(), Entry::Recovery { event: Recovery::TornTail, detail }));
    }
    for (call, open) in start.unanswered {
        let tool = open.record.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned();
        let detail = json!({"call": call, "seq": open.seq, "tool": tool, "effect": "unknown"});
        unwritten.push_back((stamp(), Entry::Recovery { event: Recovery::Unanswered, detail }));
        opened.unanswered.push((call, tool));
    }

    let log_id = start.log_id.unwrap_or_else(|| ids.v4());
    let durable = start.chain.last().map(|(seq, hash)| Head { log_id, seq, hash });
    let needs_repair = start.active.is_none() || !unwritten.is_empty();
    let copy = settings.copy_to.clone().map(|dir| Copy::new(dir, settings.copy_required));
    let reads_wait = settings.reads_wait;
    let segments = Segments {
        layout: layout.clone(),
        files: Arc::clone(&files),
        clock: Arc::clone(&clock),
        ids: Arc::clone(&ids),
        settings,
        log_id,
        chain: start.chain,
        active: start.active,
        last_number: start.last_number,
        rotated: Vec::new(),
        directory_dirty: false,
        durable,
        last_published: durable.map(|it| it.seq),
        dirty_since_ms: None,
        waiters: VecDeque::new(),
        borders: start.border.into_iter().collect(),
        anchored: start.anchored,
        down: None,
        unwritten: VecDeque::new(),
        unwritten_lost: 0,
        unconfirmed: Vec::new(),
        records: 0,
        buffer: Vec::with_capacity(4096),
    };
    let shared = Arc::new(Shared {
        segments: Mutex::new(segments),
        signal: Mutex::new(Signal::default()),
        work: parking_lot::Condvar::new(),
        room: Notify::new(),
        permits: Semaphore::new(MAX_WAITERS),
        hasher: InputHasher::new(&keys.salt),
        clock: Arc::clone(&clock),
        ids,
        reads_wait,
        syncs: Mutex::new(Histogram::new(&SYNC_BOUNDS_MS)),
        checkpoints: AtomicU64::new(0),
        copy_fault: Mutex::new(None),
        held: watch::Sender::new(false),
        on_checkpoint: CheckpointCallback::default(),
    });
    let mut syncer = Syncer {
        shared: Arc::clone(&shared),
        layout,
        files,
        signing: keys.signing,
        unsaved_key: keys.unsaved,
        checkpoints: None,
        checkpoints_len: 0,
        checkpointed_ms: 0,
        checkpoint_retry_ms: 0,
        rotate_retry_ms: 0,
        linked: None,
        copy,
        retention_checked: None,
        stopping: false,
    };
    // Sign the existing records before adding any, so that many recovery records cannot make the
    // checkpoints lag. Then sign the added records, so that emptying the log later is detected.
    syncer.stopping = true;
    syncer.step();
    {
        let mut segments = shared.segments();
        segments.unwritten = unwritten;
        if needs_repair && segments.repair().is_err() {
            opened.down = segments.down.as_ref().map(|down: &Down| Arc::clone(&down.reason.reason));
        }
    }
    syncer.step();
    syncer.stopping = false;
    Ok((syncer, opened))
}

struct Torn {
    bytes: u64,
    hash: Digest,
    file: String,
}

struct OpenIntent {
    seq: Seq,
    record: Value,
}

/// The state of the files at start.
struct Start {
    chain: Chain,
    log_id: Option<uuid::Uuid>,
    active: Option<Active>,
    last_number: u32,
    anchored: Option<Seq>,
    /// The end of the second-last segment, if no checkpoint covers it because of a crash between
    /// rotation and checkpoint.
    border: Option<Head>,
    unanswered: Vec<(String, OpenIntent)>,
    torn_tail: Option<(u32, u64)>,
    torn: Option<Torn>,
}

impl Start {
    fn read(files: &dyn Files, layout: &Layout, keys: &Keys, copy_to: Option<&Path>) -> Result<Self, OpenError> {
        let remembered = memory::recall(files, layout, copy_to).map_err(at(&layout.state))?;
        let path = layout.checkpoints();
        let bytes = walk::checkpoints(files, layout).map_err(at(&path))?;
        let whole = whole_lines(&bytes);
        if whole < bytes.len() {
            // A crash truncated the last checkpoint. Remove its partial line, because the next
            // checkpoint must start on a new line.
            let file = files.open(&path).map_err(at(&path))?;
            file.truncate(whole as u64).and_then(|()| file.sync()).map_err(at(&path))?;
        }
        let segments = layout.segments(files).map_err(at(&layout.audit))?;
        let (begin, first) = begin_walk(files, layout, &segments)?;
        // Start one record earlier, to include a checkpoint at the end of the previous segment.
        let from = first.map_or(0, |(seq, _)| seq.saturating_sub(1));
        let anchors = Anchors::read_from(&bytes, &keys.signing.verifying_key(), from);
        let latest = anchors.latest();
        let last = segments.last().copied();
        let linked = layout.linked(files);
        let new = last.is_none() && bytes.is_empty() && linked.is_none() && remembered.is_empty();
        if new && !keys::exist(files, layout) {
            return Ok(Self {
                chain: Chain::start(),
                log_id: None,
                active: None,
                last_number: 0,
                anchored: None,
                border: None,
                unanswered: Vec::new(),
                torn_tail: None,
                torn: None,
            });
        }

        let mut verifier = match first {
            Some((seq, prev)) => Verifier::resume(anchors, begin - 1, seq, prev),
            None => Verifier::new(anchors),
        };
        let mut intents = Intents::default();
        let mut expected = false;
        for number in segments.iter().copied().filter(|number| *number >= begin) {
            let path = layout.segment(number);
            let mut see = |seen: &Seen<'_>| {
                expected |= expects_memory(seen);
                intents.see(seen);
            };
            walk::feed(files, layout, &mut verifier, number, &mut see).map_err(at(&path))?;
        }
        let mut report = verifier.finish();
        let link_is_ahead = walk::add_missing_segment(&mut report, linked, last);
        if !link_is_ahead && last.is_none() && report.faults.is_empty() {
            // The log is missing: a key exists, which is created only together with a log, or
            // another place stores a checkpoint of a log.
            report.add(Fault::new(Verdict::Missing, 0, "a log", "no segment"));
        }
        walk::add_memory_faults(&mut report, &remembered, expected, &bytes);
        match report.verdict {
            Verdict::Intact | Verdict::Torn => {}
            Verdict::Missing | Verdict::Broken | Verdict::Forked | Verdict::Truncated => {
                return Err(OpenError::Refused(Box::new(report)));
            }
        }
        intents.look_back(files, layout, &segments, begin)?;

        let last_number = last.unwrap_or(0);
        let good_len = report.last_segment.map_or(0, |(_, len)| len);
        let chain = report.last.map_or_else(Chain::start, |(seq, hash)| Chain::after(seq, hash));
        let path = layout.segment(last_number);
        let file = files.open(&path).map_err(at(&path))?;
        let size = file.size().map_err(at(&path))?;
        let border =
            border_before(files, layout, last_number)?.filter(|head| latest.is_none_or(|latest| latest.seq < head.seq));
        let kept = good_len > 0;
        Ok(Self {
            chain,
            log_id: report.log_id,
            // A segment whose first line is incomplete is created again with the same number.
            active: kept.then_some(Active { number: last_number, file, len: good_len, durable_len: good_len }),
            last_number: if kept { last_number } else { last_number - 1 },
            anchored: latest.map(|checkpoint| checkpoint.seq),
            border,
            unanswered: intents.into_list(),
            torn_tail: (size > good_len).then_some((last_number, good_len)),
            torn: None,
        })
    }

    /// Moves an incomplete last line (a torn tail) to a separate file and truncates the segment.
    /// Repeating this after a crash is harmless.
    fn set_tail_aside(&mut self, files: &dyn Files, layout: &Layout) -> Result<(), OpenError> {
        let Some((number, good_len)) = self.torn_tail else {
            // The previous daemon may not have synced its records. Sync them now, because later
            // records must not be durable before them.
            if let Some(active) = &self.active {
                active.file.sync().map_err(at(&layout.segment(active.number)))?;
            }
            return Ok(());
        };
        let segment = layout.segment(number);
        let bytes = files.read_at(&segment, good_len, WHOLE).map_err(at(&segment))?;
        let seq = self.chain.next_seq();
        let names = files.names(&layout.audit).map_err(at(&layout.audit))?;
        let name = (1_u32..)
            .map(|n| if n == 1 { format!("torn-{seq}.bin") } else { format!("torn-{seq}-{n}.bin") })
            .find(|name| !names.contains(name))
            .unwrap_or_default();
        let path = layout.audit.join(&name);
        let torn = files.create(&path).map_err(at(&path))?;
        append_whole(&*torn, &bytes)
            .and_then(|()| torn.sync())
            .and_then(|()| files.sync_dir(&layout.audit))
            .map_err(at(&path))?;
        let file = files.open(&segment).map_err(at(&segment))?;
        file.truncate(good_len).and_then(|()| file.sync()).map_err(at(&segment))?;
        self.torn = Some(Torn { bytes: bytes.len() as u64, hash: Digest::of(&bytes), file: name });
        Ok(())
    }
}

/// Length of the lines in `bytes` that end in a newline.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// The first line of a segment, and whether it ends in a newline.
fn first_line(files: &dyn Files, layout: &Layout, number: u32) -> Result<(Vec<u8>, bool), OpenError> {
    let path = layout.segment(number);
    let bytes = files.read_at(&path, 0, line::MAX_LINE).map_err(at(&path))?;
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok((first.to_vec(), first.len() < bytes.len()))
}

/// The last segment with a complete first line, and the sequence number and previous hash in this
/// line. A crash can leave at most one later segment with an incomplete first line.
fn begin_walk(files: &dyn Files, layout: &Layout, segments: &[u32]) -> Result<(u32, Option<Place>), OpenError> {
    for number in segments.iter().rev().copied() {
        let (first, whole) = first_line(files, layout, number)?;
        if whole && let Ok((links, _)) = line::read(&first) {
            let prev = links.prev.and_then(|text| Digest::from_text(text.as_bytes()));
            return Ok((number, Some((links.seq, prev))));
        }
    }
    Ok((0, None))
}

type Place = (Seq, Option<Digest>);

/// The last record of the segment before `number`. The first line of segment `number` contains the
/// sequence number and hash of that record.
fn border_before(files: &dyn Files, layout: &Layout, number: u32) -> Result<Option<Head>, OpenError> {
    let (first, _) = first_line(files, layout, number)?;
    let Ok((links, _)) = line::read(&first) else {
        return Ok(None);
    };
    let hash = links.prev.and_then(|text| Digest::from_text(text.as_bytes()));
    let log_id = links.log_id.and_then(|text| uuid::Uuid::parse_str(text).ok());
    let head = links.seq.checked_sub(1).zip(hash).zip(log_id);
    Ok(head.map(|((seq, hash), log_id)| Head { log_id, seq, hash }))
}

/// Effects that were started since the last start of a daemon and have no outcome.
#[derive(Default)]
struct Intents {
    open: HashMap<String, OpenIntent>,
    /// Calls whose outcome was read, but whose intent is in an earlier segment.
    answered: Vec<String>,
    started: bool,
}

impl Intents {
    fn see(&mut self, seen: &Seen<'_>) {
        let links = &seen.links;
        if links.event == Some(EventName::DaemonStart.as_str()) {
            self.open.clear();
            self.started = true;
            return;
        }
        let parse = || serde_json::from_slice::<Value>(seen.line).unwrap_or_default();
        match (links.phase, links.call) {
            ("intent", Some(call)) => {
                self.open.insert(call.to_owned(), OpenIntent { seq: links.seq, record: parse() });
            }
            ("outcome", Some(call)) => self.answer(call),
            ("recovery", _) if links.event == Some(Recovery::Unanswered.as_str()) => {
                if let Some(call) = parse().pointer("/detail/call").and_then(Value::as_str) {
                    self.answer(call);
                }
            }
            (_, _) => {}
        }
    }

    fn answer(&mut self, call: &str) {
        if self.open.remove(call).is_none() && !self.started {
            self.answered.push(call.to_owned());
        }
    }

    /// Reads earlier segments, newest first, up to the segment that contains the last start of a
    /// daemon.
    fn look_back(&mut self, files: &dyn Files, layout: &Layout, segments: &[u32], begin: u32) -> Result<(), OpenError> {
        for number in segments.iter().rev().copied().filter(|number| *number < begin) {
            if self.started {
                break;
            }
            let mut earlier = Self::default();
            let path = layout.segment(number);
            let mut carry = Vec::new();
            walk::pieces(files, &path, 0, &mut |piece| {
                carry.extend_from_slice(piece);
                let whole = whole_lines(&carry);
                for line in carry[..whole].split(|byte| *byte == b'\n') {
                    if let Ok((links, _)) = line::read(line) {
                        earlier.see(&Seen { segment: number, links, line });
                    }
                }
                carry.drain(..whole);
            })
            .map_err(at(&path))?;
            for call in &self.answered {
                earlier.open.remove(call);
            }
            self.open.extend(earlier.open);
            self.answered.extend(earlier.answered);
            self.started = earlier.started;
        }
        Ok(())
    }

    fn into_list(self) -> Vec<(String, OpenIntent)> {
        let mut list: Vec<_> = self.open.into_iter().collect();
        list.sort_by_key(|(_, intent)| intent.seq);
        list
    }
}

/// Continues a damaged log that a person has accepted, in a new segment. The segment's second line
/// names the damage and the person. The end of the segment is signed immediately, and the
/// checkpoint is stored in every place that can be reached. No existing record changes. Returns the
/// head of the log and the line of the checkpoint.
pub fn accept(
    (home, copy_to): (&Path, Option<&Path>),
    files: &dyn Files,
    clock: &dyn Clock,
    ids: &dyn Ids,
    by: &Principal,
    (report, remembered): (&Report, &[Remembered]),
) -> Result<(Head, String), OpenError> {
    let layout = Layout::of(home);
    for dir in [&layout.audit, &layout.state, &layout.secrets] {
        files.make_dir(dir).map_err(at(dir))?;
    }
    let keys = keys::load(files, &layout, ids, true)?;
    if keys.unsaved {
        keys::save(files, &layout, &keys.signing).map_err(at(&layout.signing_key()))?;
    }
    let checkpoints = walk::checkpoints(files, &layout).map_err(at(&layout.checkpoints()))?;
    let latest = Anchors::read(&checkpoints, &keys.signing.verifying_key()).latest();
    let segments = layout.segments(files).map_err(at(&layout.audit))?;
    let readable = last_readable(files, &layout, &segments)?;
    let own = |it: &Checkpoint| report.log_id.is_none_or(|log_id| log_id == it.log_id);
    let memories = remembered.iter().filter_map(|it| it.checkpoint(&keys.signing.verifying_key())).filter(own);
    let latest = memories.chain(latest).max_by_key(|checkpoint| checkpoint.seq);
    let anchor = latest.map(|checkpoint| (checkpoint.seq, checkpoint.hash));
    // Continue after the last readable line or the last checkpoint, whichever has the greater
    // sequence number, so that no sequence number is used twice. If the numbers are equal, use the
    // checkpoint.
    let after = match (readable, anchor) {
        (Some(line), Some(anchor)) if line.0 > anchor.0 => Some(line),
        (_, Some(anchor)) => Some(anchor),
        (line, None) => line,
    };
    let mut chain = after.map_or_else(Chain::start, |(seq, hash)| Chain::after(seq, hash));
    let log_id = report.log_id.or(latest.map(|checkpoint| checkpoint.log_id)).unwrap_or_else(|| ids.v4());
    let last = segments.last().copied().max(layout.linked(files)).unwrap_or(0);
    let stamp = || super::stamp(clock, ids);
    let fault = report.faults.first();
    let detail = json!({
        "verdict": report.verdict.as_str(),
        "seq": fault.map(|fault| fault.seq),
        "expected": fault.map(|fault| &fault.expected),
        "found": fault.map(|fault| &fault.found),
        "faults": report.faults.len(),
    });
    let event = Entry::Event { principal: Some(by.clone()), conn: None, event: EventName::AuditAccepted, detail };
    let mut bytes = Vec::new();
    let first = Entry::Segment { log_id, segment: last + 1, prev_segment: (last > 0).then_some(last) };
    chain.append(&stamp(), &first, &mut bytes);
    chain.append(&stamp(), &event, &mut bytes);
    let path = layout.segment(last + 1);
    let file = files.create(&path).map_err(at(&path))?;
    append_whole(&*file, &bytes)
        .and_then(|()| file.sync())
        .and_then(|()| files.sync_dir(&layout.audit))
        .map_err(at(&path))?;
    let (seq, hash) = chain.last().unwrap_or((0, Digest::of(b"")));
    let head = Head { log_id, seq, hash };

    let path = layout.checkpoints();
    let whole = whole_lines(&checkpoints);
    let file = match files.create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files.open(&path),
        file => file,
    }
    .map_err(at(&path))?;
    if whole < checkpoints.len() {
        file.truncate(whole as u64).map_err(at(&path))?;
    }
    let line = Checkpoint::at(head, clock.timestamp()).sign(&keys.signing);
    append_whole(&*file, line.as_bytes())
        .and_then(|()| file.sync())
        .and_then(|()| files.sync_dir(&layout.state))
        .and_then(|()| memory::overwrite(files, &layout, copy_to, &line))
        .map_err(at(&path))?;
    Ok((head, line))
}

/// The last readable line of the log.
fn last_readable(files: &dyn Files, layout: &Layout, segments: &[u32]) -> Result<Option<(Seq, Digest)>, OpenError> {
    for number in segments.iter().rev() {
        let path = layout.segment(*number);
        let bytes = files.read_at(&path, 0, WHOLE).map_err(at(&path))?;
        let found = bytes
            .rsplit(|byte| *byte == b'\n')
            .find_map(|line| line::read(line).ok().map(|(links, hash)| (links.seq, hash)));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

impl From<UnavailableError> for io::Error {
    fn from(unavailable: UnavailableError) -> Self {
        Self::other(unavailable.to_string())
    }
}
