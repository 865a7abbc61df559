//! Decides whether a change to a running patch is allowed. A patch has a *reach* if it contains
//! boxes with access to something outside it, such as files, programs, the network or MIDI. A
//! person must approve the reach.
//!
//! Only patches that run in Pure Data or Max are checked. A patch that is open as a document is not
//! executed, so it needs no check. The same code runs twice: before a person is asked for approval,
//! and again under the locks right before the program receives the change. Only the second check
//! decides. Not here: the classes of boxes that have a reach (`conductor_patch::reach`), and the
//! approval request (`pipeline`).

use super::folders::{Folders, Place};
use super::{HostKind, Open, PatchHost, Patches, lock, short};
use crate::rooted::lexical;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, ToolError};
use conductor_patch::reach::{Environment, Reach, Reaching, reach, stays_pure, stem};
use conductor_patch::{CanvasId, Document, Format, Limits};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of loaded files that are checked. If a patch loads more, its reach is not known,
/// so every change needs approval.
const MOST_FILES: usize = 200;
/// Maximum number of characters shown to a person, for all boxes together and for one box.
const SHOWN: usize = 12_000;
const SHOWN_BOX: usize = 700;

/// Who authorizes a change.
#[derive(Clone, Debug)]
pub enum Consent {
    /// A person who uses a controller.
    Hand,
    /// A tool call, with the digest that a person approved.
    Call(Option<Digest>),
    /// A check only: nothing is changed, and the question for the person is stored here.
    Rehearsal(Arc<Rehearsal>),
}

/// Stores the question that a rehearsal (a check without effect) would ask.
#[derive(Debug, Default)]
pub struct Rehearsal(Mutex<Option<Question>>);

impl Rehearsal {
    /// The question for a person; `None` if no approval is needed.
    pub fn question(&self) -> Option<Question> {
        lock(&self.0).take()
    }
}

/// The approval question about a patch.
#[derive(Clone, Debug)]
pub struct Question {
    /// Digest of the boxes with a reach, the boxes that control them, and the files that they load.
    pub digest: Digest,
    pub patch: String,
    pub host: HostKind,
    pub boxes: String,
    pub driven_by: String,
    /// A sentence about the sandbox of the program.
    pub confinement: String,
}

impl Consent {
    pub fn is_rehearsal(&self) -> bool {
        match self {
            Consent::Rehearsal(_) => true,
            Consent::Hand | Consent::Call(_) => false,
        }
    }
}

/// The reach of a running patch, as computed when the program received the patch.
#[derive(Clone, Debug, Default)]
pub struct Running {
    digest: Option<Digest>,
    /// Receiver names through which other patches can control the boxes with a reach.
    hears: BTreeSet<String>,
    /// Names of files whose change could affect the patch.
    file_names: BTreeSet<String>,
    /// The boxes as shown to the person.
    lines: BTreeSet<String>,
    /// Whether the reach depends on names in other patches.
    names: bool,
    /// Whether the patch loads more than [`MOST_FILES`] files.
    is_cut: bool,
}

/// The internal error that ends a rehearsal. It is never returned to a caller.
pub(super) fn rehearsed() -> ToolError {
    ToolError::new(Code::Internal, "this was a rehearsal")
}

/// The reach of a document, with the texts that are shown to a person.
struct Assessment {
    running: Running,
    boxes: Vec<(Reach, String)>,
    driving: Vec<String>,
}

impl Patches {
    /// Checks whether a document may run in a program. Returns its reach.
    #[expect(clippy::too_many_arguments, reason = "both states of the patch, its place, and the consent")]
    pub(super) fn may_run(
        &self,
        id: &str,
        host: &dyn PatchHost,
        before: Option<&Document>,
        document: &Document,
        place: Option<&Place>,
        now: &Running,
        consent: &Consent,
    ) -> Result<Running, ToolError> {
        // Fast path: most edits change a few boxes of a patch that has no reach. Only the changed
        // boxes are checked then.
        let pure = now.digest.is_none() && !now.names && host.kind() == HostKind::Pd;
        if pure && before.is_some_and(|before| stays_pure(before, document)) {
            return Ok(now.clone());
        }
        let assessed = self.assess(id, host, document, place);
        let Some(digest) = assessed.running.digest else { return Ok(assessed.running) };
        // The digest does not cover files that were not checked.
        let is_known = !assessed.running.is_cut;
        if is_known && (now.digest == Some(digest) || self.is_approved(id, place, digest)) {
            return Ok(assessed.running);
        }
        let new = |line: &String| !now.lines.contains(line);
        let question = || Question {
            digest,
            patch: place.map_or_else(|| id.to_owned(), |it| format!("{id}, {}", it.path().display())),
            host: host.kind(),
            boxes: unchecked(&assessed.running) + &list(assessed.boxes.iter().map(|(_, line)| line), new),
            driven_by: list(assessed.driving.iter(), new),
            confinement: host.confinement(),
        };
        self.decide(consent, digest, question, || self.approve(id, place, digest))?;
        Ok(assessed.running)
    }

    fn decide(
        &self,
        consent: &Consent,
        digest: Digest,
        question: impl FnOnce() -> Question,
        approve: impl FnOnce(),
    ) -> Result<(), ToolError> {
        match consent {
            Consent::Hand => Ok(()),
            Consent::Call(Some(seen)) if *seen == digest => {
                approve();
                Ok(())
            }
            Consent::Call(_) => Err(ToolError::new(
                Code::PlanStale,
                "a person has not approved the current effects of the running patch",
            )
            .hint("Nothing was done. Repeat the call; the person is then asked about the current effects.")),
            Consent::Rehearsal(rehearsal) => {
                *lock(&rehearsal.0) = Some(question());
                Err(rehearsed())
            }
        }
    }

    /// Checks whether a file may be written. Writing a file also changes the running patches that
    /// load it.
    pub(super) fn may_save(&self, place: &Place, bytes: &[u8], consent: &Consent) -> Result<(), ToolError> {
        let name = stem(&place.file_name());
        let loads = |open: &Open| {
            let running = lock(&open.running);
            running.is_cut || running.file_names.contains(&name)
        };
        let users: Vec<Arc<Open>> =
            self.list().into_iter().filter(|it| it.host.kind() != HostKind::Document && loads(it)).collect();
        let Some(first) = users.first() else { return Ok(()) };
        if self.folders.read(place).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        let mut hash = Sha256::new();
        hash.update(b"save");
        for open in &users {
            hash.update(open.id.as_bytes());
            hash.update(lock(&open.running).digest.map(|it| it.to_string()).unwrap_or_default());
        }
        hash.update(place.path().as_os_str().as_encoded_bytes());
        hash.update(Sha256::digest(bytes));
        let digest = Digest::of(&hash.finalize());
        if self.is_approved(&first.id, Some(place), digest) {
            return Ok(());
        }
        let question = || {
            let names: Vec<&str> = users.iter().map(|it| it.id.as_str()).collect();
            let assessed = Document::open(bytes.to_vec(), place.format(), &self.limits())
                .map(|document| self.assess("", &*first.host, &document, Some(place)));
            let (more, boxes, driving) =
                assessed.map(|it| (unchecked(&it.running), it.boxes, it.driving)).unwrap_or_default();
            let head = format!(
                "{} is loaded by the running {}. It would contain:\n{more}",
                place.path().display(),
                names.join(", ")
            );
            Question {
                digest,
                patch: names.join(", "),
                host: first.host.kind(),
                boxes: head + &list(boxes.iter().map(|(_, line)| line), |_| true),
                driven_by: list(driving.iter(), |_| true),
                confinement: first.host.confinement(),
            }
        };
        self.decide(consent, digest, question, || self.approve(&first.id, Some(place), digest))
    }

    /// Computes the reach after the patch was changed in the program itself.
    pub(super) fn running(&self, open: &Open, document: &Document) -> Running {
        self.assess(&open.id, &*open.host, document, open.place().as_ref()).running
    }

    fn is_approved(&self, id: &str, place: Option<&Place>, digest: Digest) -> bool {
        let approved = lock(&self.approved);
        approved.contains(&(id.to_owned(), digest))
            || place.is_some_and(|it| approved.contains(&(it.path().display().to_string(), digest)))
    }

    fn approve(&self, id: &str, place: Option<&Place>, digest: Digest) {
        let mut approved = lock(&self.approved);
        approved.insert((id.to_owned(), digest));
        if let Some(place) = place {
            approved.insert((place.path().display().to_string(), digest));
        }
    }

    fn assess(&self, id: &str, host: &dyn PatchHost, document: &Document, place: Option<&Place>) -> Assessment {
        let others = self.list();
        let elsewhere: BTreeSet<String> = others
            .iter()
            .filter(|it| it.id != id && it.host.kind() == host.kind())
            .flat_map(|it| lock(&it.running).hears.clone())
            .collect();
        let shadowed = match host.kind() {
            HostKind::Max => self.folders.stems(place, Format::Maxpat),
            HostKind::Pd | HostKind::Document => BTreeSet::new(),
        };
        let around =
            Environment { alone: host.is_ours(), heard_elsewhere: Some(&elsewhere), shadowed: Some(&shadowed) };
        let found = reach(document, &around);
        if found.is_empty() {
            let running = Running { names: found.names, ..Running::default() };
            return Assessment { running, boxes: Vec::new(), driving: Vec::new() };
        }
        let folder = place.and_then(|it| it.path().parent().map(Path::to_owned));
        let folder = folder.unwrap_or_else(|| self.folders.home().join("state").join("pd"));
        let mut files = Loaded {
            folders: &self.folders,
            limits: self.limits(),
            found: BTreeMap::new(),
            file_names: found.words(),
            is_cut: false,
        };
        files.follow(&found, &folder, document.format().is_pd());
        let mut hash = Sha256::new();
        hash.update(host.kind().as_str());
        hash.update(&found.print);
        for (path, (digest, _)) in &files.found {
            hash.update(b"\nfile ");
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(digest.to_string());
        }
        let digest = Digest::of(&hash.finalize());
        let mut boxes = lines(document, &found);
        for (path, (_, inside)) in &files.found {
            let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
            boxes.extend(inside.iter().map(|(reach, line)| (*reach, format!("{name}: {line}"))));
        }
        boxes.sort_by_key(|it| it.0);
        let driving: Vec<String> =
            found.driving.iter().map(|it| line(document, &it.canvas, &it.label, &it.text, "")).collect();
        let lines = boxes.iter().map(|it| it.1.clone()).chain(driving.iter().cloned()).collect();
        let running = Running {
            digest: Some(digest),
            hears: found.hears,
            file_names: files.file_names,
            lines,
            names: found.names,
            is_cut: files.is_cut,
        };
        Assessment { running, boxes, driving }
    }
}

/// The patch files that a patch loads, recursively.
struct Loaded<'a> {
    folders: &'a Folders,
    limits: Limits,
    found: BTreeMap<PathBuf, (Digest, Vec<(Reach, String)>)>,
    file_names: BTreeSet<String>,
    /// Whether there are more than [`MOST_FILES`] files.
    is_cut: bool,
}

impl Loaded<'_> {
    /// Reads the files that the patch loads, up to the limit. Searches the patch's folder, the
    /// folders that it declares, and the roots. Every file that matches is included.
    fn follow(&mut self, patch: &Reaching, folder: &Path, pd: bool) {
        let folders: Vec<PathBuf> = std::iter::once(folder.to_owned())
            .chain(patch.folders.iter().map(|it| lexical(&folder.join(it))))
            .chain(self.folders.granted().cloned())
            .collect();
        let extensions: &[&str] = if pd { &["pd"] } else { &["maxpat", "maxhelp", "amxd"] };
        for name in &patch.files {
            let names: Vec<String> = match Format::of_name(name) {
                Some(_) => vec![name.clone()],
                None => extensions.iter().map(|it| format!("{name}.{it}")).collect(),
            };
            for path in folders.iter().flat_map(|folder| names.iter().map(|it| lexical(&folder.join(it)))) {
                if self.found.contains_key(&path) {
                    continue;
                }
                let Some(bytes) = self.read(&path) else { continue };
                if self.found.len() == MOST_FILES {
                    self.is_cut = true;
                    return;
                }
                let mut rows = Vec::new();
                let mut inside = Reaching::default();
                if let Some(format) = path.to_str().and_then(Format::of_name)
                    && let Ok(document) = Document::open(bytes.clone(), format, &self.limits)
                {
                    inside = reach(&document, &Environment::default());
                    rows = lines(&document, &inside);
                }
                self.file_names.extend(inside.words());
                self.found.insert(path.clone(), (Digest::of(&bytes), rows));
                self.follow(&inside, path.parent().unwrap_or(folder), pd);
            }
        }
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let place = self.folders.place(path.to_str()?).ok()?;
        self.folders.read(&place).ok()
    }
}

/// The first line of a question about a patch that loads too many files; otherwise empty.
fn unchecked(running: &Running) -> String {
    if running.is_cut {
        format!("NOT CHECKED COMPLETELY: it loads more than {MOST_FILES} files, and the others may contain anything\n")
    } else {
        String::new()
    }
}

fn lines(document: &Document, found: &Reaching) -> Vec<(Reach, String)> {
    found
        .boxes
        .iter()
        .map(|it| {
            let can: Vec<&str> = it.reach.iter().map(|it| it.text()).collect();
            let worst = it.reach.first().copied().unwrap_or(Reach::Unknown);
            (worst, line(document, &it.canvas, &it.label, &it.text, &format!(": {}", can.join(", "))))
        })
        .collect()
}

/// Describes one box for a person: path, text and abilities. The middle of a long text is replaced
/// by its length and hash.
fn line(document: &Document, canvas: &CanvasId, label: &str, text: &str, can: &str) -> String {
    let mut path = document.view(canvas).map(|it| it.key_path()).unwrap_or_default();
    path.push(label.to_owned());
    let letters: Vec<char> = text.chars().collect();
    let shown = if letters.len() <= SHOWN_BOX {
        text.to_owned()
    } else {
        let head: String = letters.iter().take(SHOWN_BOX * 2 / 3).collect();
        let tail: String = letters.iter().skip(letters.len() - SHOWN_BOX / 3).collect();
        format!("{head} … ({} characters in total, {}) … {tail}", letters.len(), Digest::of(text.as_bytes()))
    };
    format!("{} [{shown}]{can}", short(&path.join("/")))
}

/// Joins lines; new and changed lines are first. Lines beyond the limit are only counted.
fn list<'a>(lines: impl Iterator<Item = &'a String>, new: impl Fn(&String) -> bool) -> String {
    let (fresh, old): (Vec<&String>, Vec<&String>) = lines.partition(|it| new(it));
    let marked = fresh.iter().map(|it| format!("new or changed: {it}")).chain(old.iter().map(|it| (*it).clone()));
    let mut out = String::new();
    let mut left = 0;
    for line in marked {
        if left > 0 || out.len() + line.len() > SHOWN {
            left += 1;
        } else {
            out.push_str(&line);
            out.push('\n');
        }
    }
    if left > 0 {
        out.push_str(&format!("and {left} more\n"));
    }
    out.trim_end().to_owned()
}
