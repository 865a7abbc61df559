//! The host of a Set in a file, without Live. Readers get the last completed state. Only one writer
//! works at a time; it changes its own copy and publishes the copy at the end.

use super::roots::{Place, Roots};
use super::write_turn::Turn;
use super::{
    Answer, Caps, History, KnownIds, LiveHost, LiveHostError, Mode, Op, Playing, State, Transport, Way, blocking,
    named_als, wav,
};
use crate::picture::piano_roll::{self, ClipDrawing};
use crate::rooted::{Stamp, Step};
use arc_swap::ArcSwap;
use conductor_core::timestamp::Timestamp;
use conductor_set::{
    Applied, Clips, Devices, Diff, Document, Guard, LiveEdit, LiveError, NoteQuery, Notes, OpenSet, Overview, Param,
    PathId, Revision, Scenes, TrackDetail, TrackMatches, check, diff,
};
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const NAME: &str = "document";

/// The state that readers get.
struct Shown {
    document: Document,
    /// The document as saved in the file.
    saved: Document,
    dirty: bool,
    structure: u64,
}

/// The file as last read or written by this host.
struct OnDisk {
    place: Arc<Place>,
    stamp: Stamp,
    digest: [u8; 32],
}

pub struct DocumentHost {
    /// Locked for one edit at a time: by the call that has the write turn, or by a turn of a knob.
    set: Mutex<OpenSet>,
    shown: ArcSwap<Shown>,
    disk: Mutex<OnDisk>,
    /// The knob that was turned last, and the revision after its last value.
    turning: Mutex<Option<(PathId, Revision)>>,
    limit: usize,
    caps: Caps,
}

/// The result of a save.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: usize,
    /// Path of the old file; none when there was no old file.
    pub backup: Option<PathBuf>,
    /// The revision of the Set.
    pub revision: String,
}

/// The arguments of a save.
pub struct Saving {
    pub roots: Roots,
    /// Another file to save to. After the save, the Set belongs to that file.
    pub to: Option<PathBuf>,
    pub overwrite: bool,
    pub expect_revision: Option<String>,
    pub now: Timestamp,
    pub unique: String,
}

/// The result of a render.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// Name of the track.
    pub track: String,
    /// The WAV file.
    pub path: PathBuf,
    /// Length of the file.
    pub seconds: f64,
    /// Frames per second.
    pub sample_rate: u32,
    /// The highest absolute value of a sample; 1 is full scale.
    pub peak: f32,
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

impl DocumentHost {
    /// Reads and parses the file. Blocks.
    pub fn open(place: Place, limit: usize, undo_depth: usize) -> Result<DocumentHost, LiveHostError> {
        let (als, stamp) = place.read(limit)?;
        let set = OpenSet::open(&als, limit)?.with_undo_depth(undo_depth);
        let missing = [(Op::Launch, "a document cannot play"), (Op::Transport, "a document cannot play")];
        Ok(DocumentHost {
            shown: ArcSwap::from_pointee(Shown {
                document: set.document().clone(),
                saved: set.document().clone(),
                dirty: false,
                structure: 0,
            }),
            set: Mutex::new(set),
            disk: Mutex::new(OnDisk { place: Arc::new(place), stamp, digest: digest(&als) }),
            turning: Mutex::default(),
            limit,
            caps: Caps { missing: missing.into() },
        })
    }

    /// A copy of the document with its history. Edits to the copy do not affect this host.
    pub fn copy(&self) -> DocumentHost {
        let set = self.set().clone();
        let (shown, disk) = (self.shown.load(), self.disk());
        DocumentHost {
            shown: ArcSwap::from_pointee(Shown {
                document: set.document().clone(),
                saved: shown.saved.clone(),
                dirty: shown.dirty,
                structure: shown.structure,
            }),
            set: Mutex::new(set),
            disk: Mutex::new(OnDisk { place: Arc::clone(&disk.place), stamp: disk.stamp, digest: disk.digest }),
            turning: Mutex::default(),
            limit: self.limit,
            caps: self.caps.clone(),
        }
    }

    fn set(&self) -> MutexGuard<'_, OpenSet> {
        self.set.lock()
    }

    fn disk(&self) -> MutexGuard<'_, OnDisk> {
        self.disk.lock()
    }

    pub fn path(&self) -> PathBuf {
        self.disk().place.path().to_owned()
    }

    /// The document that readers currently get. Cheap: the text is shared.
    pub fn snapshot(&self) -> Document {
        self.shown.load().document.clone()
    }

    /// Whether another program changed or removed the file after this host last read or wrote it.
    /// Blocks. Fails if the file cannot be examined.
    pub fn changed_on_disk(&self) -> Result<bool, LiveHostError> {
        let (place, stamp, known) = {
            let disk = self.disk();
            (Arc::clone(&disk.place), disk.stamp, disk.digest)
        };
        match place.stamp() {
            Ok(now) if now == stamp => return Ok(false),
            Err(fault @ LiveHostError::Io { .. }) => return Err(fault),
            Ok(_) => {}
            Err(_) => return Ok(true),
        }
        match place.read(self.limit) {
            // A file with a new timestamp but the same bytes is not a conflict.
            Ok((bytes, now)) if digest(&bytes) == known => {
                self.disk().stamp = now;
                Ok(false)
            }
            Err(fault @ LiveHostError::Io { .. }) => Err(fault),
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// Reads the file again. Unsaved edits are lost.
    pub async fn reload(self: Arc<Self>, turn: Turn) -> Result<(), LiveHostError> {
        blocking(move || {
            let _turn = turn;
            let place = Arc::clone(&self.disk().place);
            let (als, stamp) = place.read(self.limit)?;
            let mut set = self.set();
            set.reload(&als, self.limit)?;
            self.show(&set, Some(set.document().clone()));
            let mut disk = self.disk();
            (disk.stamp, disk.digest) = (stamp, digest(&als));
            Ok(())
        })
        .await
    }

    /// Writes the file and keeps the old file as a backup. The new text is checked first. After an
    /// error, the edits still count as unsaved, and the file is unchanged unless only the final
    /// sync of the folder failed.
    pub async fn save(self: Arc<Self>, turn: Turn, saving: Saving) -> Result<Saved, LiveHostError> {
        blocking(move || {
            let _turn = turn;
            self.save_now(saving, &|_| Ok(()))
        })
        .await
    }

    fn save_now(&self, saving: Saving, look: &dyn Fn(Step) -> io::Result<()>) -> Result<Saved, LiveHostError> {
        let mut set = self.set();
        let revision = set.document().revision();
        if let Some(expected) = saving.expect_revision.filter(|it| *it != revision.to_string()) {
            return Err(LiveError::RevisionDiffers { expected, actual: revision }.into());
        }
        let als = set.save();
        if set.is_dirty() {
            sound(set.document(), &als, self.limit)?;
        }
        let own = Arc::clone(&self.disk().place);
        let target = match &saving.to {
            Some(path) => Arc::new(named_als(saving.roots.find(path)?)?),
            None => Arc::clone(&own),
        };
        let elsewhere = target.path() != own.path();
        if elsewhere && target.exists() && !saving.overwrite {
            return Err(LiveHostError::FileExists { path: target.path().to_owned() });
        }
        if !elsewhere && !saving.overwrite && self.changed_on_disk()? {
            return Err(LiveHostError::ChangedOnDisk { path: target.path().to_owned() });
        }
        let time = backup_time(saving.now);
        let (stamp, backup) = target.replace(&als, &time, &saving.unique, look)?;
        *self.disk() = OnDisk { place: Arc::clone(&target), stamp, digest: digest(&als) };
        let bytes = als.len();
        set.saved(als);
        self.show(&set, Some(set.document().clone()));
        Ok(Saved { path: target.path().to_owned(), bytes, backup, revision: revision.to_string() })
    }

    fn show(&self, set: &OpenSet, saved: Option<Document>) {
        let saved = saved.unwrap_or_else(|| self.shown.load().saved.clone());
        let document = set.document().clone();
        self.shown.store(Arc::new(Shown { document, saved, dirty: set.is_dirty(), structure: set.structure() }));
    }

    /// The difference from the document as opened or last saved.
    pub fn diff_to_saved(&self) -> Diff {
        let shown = self.shown.load();
        diff(&shown.saved, &shown.document)
    }

    /// Renders an audio track without its mixer and devices. Blocks.
    pub fn render(
        &self,
        roots: &Roots,
        folder: &Path,
        track: PathId,
        start: f64,
        end: f64,
    ) -> Result<Rendered, LiveHostError> {
        let plan = self.snapshot().plan_render(track, start, end)?;
        let folder_of_set = self.path().parent().map(Path::to_owned).unwrap_or_default();
        let mut samples = Vec::new();
        for piece in &plan.pieces {
            samples.push(wav::read_sample(roots, &folder_of_set, piece)?);
        }
        let mixed = conductor_set::mix(&plan, &samples)?;
        let peak = mixed.channels.iter().flatten().fold(0.0_f32, |peak, it| peak.max(it.abs()));
        let stem = format!("{}_{}-{}", wav::slug(&plan.track), start, end);
        let path = wav::write_new(folder, &stem, &mixed)?;
        Ok(Rendered { track: plan.track, path, seconds: plan.seconds, sample_rate: mixed.sample_rate, peak })
    }
}

/// Checks that the new file, when it is read again, contains the text of the document.
fn sound(document: &Document, als: &[u8], limit: usize) -> Result<(), LiveHostError> {
    let broken = |reason: String| LiveHostError::Broken { reason };
    let again = Document::open(als, limit.saturating_mul(2))
        .map_err(|fault| broken(format!("the new file cannot be opened: {fault}")))?;
    if again.to_xml() != document.to_xml() {
        return Err(broken("the new file contains a different text".into()));
    }
    Ok(())
}

/// The rules that the document violates, as text.
pub fn faults(document: &Document) -> Vec<String> {
    check(document).iter().map(ToString::to_string).collect()
}

/// The time format in the names of Live's own backups: `2026-01-02 030405`.
fn backup_time(now: Timestamp) -> String {
    let text = now.to_string();
    let (day, clock) = text.split_once('T').unwrap_or((&text, ""));
    let clock: String = clock.chars().filter(char::is_ascii_digit).take(6).collect();
    format!("{day} {clock}")
}

fn now<T: Send + 'static>(value: Result<T, LiveError>) -> Answer<'static, T> {
    Box::pin(std::future::ready(value.map_err(LiveHostError::from)))
}

fn cannot_play<T: Send + 'static>(op: Op) -> Answer<'static, T> {
    Box::pin(std::future::ready(Err(LiveHostError::Missing { host: NAME, op, reason: "a document cannot play" })))
}

impl LiveHost for DocumentHost {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn state(&self) -> State {
        let shown = self.shown.load();
        State {
            host: NAME,
            path: Some(self.path()),
            dirty: shown.dirty,
            revision: shown.document.revision().to_string(),
            structure: shown.structure,
        }
    }

    fn refresh(&self) -> Answer<'_, ()> {
        now(Ok(()))
    }

    fn overview(&self) -> Answer<'_, Overview> {
        now(Ok(self.snapshot().overview()))
    }

    fn find_track(&self, query: String) -> Answer<'_, TrackMatches> {
        now(self.snapshot().find_track(&query))
    }

    fn clips(&self, track: PathId, offset: usize) -> Answer<'_, Clips> {
        now(self.snapshot().clips(track, offset))
    }

    fn notes(&self, clip: PathId, query: NoteQuery) -> Answer<'_, Notes> {
        now(self.snapshot().notes(clip, query))
    }

    fn devices(&self, chain: PathId) -> Answer<'_, Devices> {
        now(self.snapshot().devices(chain))
    }

    fn scenes(&self) -> Answer<'_, Scenes> {
        now(Ok(self.snapshot().scenes()))
    }

    fn track_detail(&self, track: PathId) -> Answer<'_, TrackDetail> {
        now(self.snapshot().track_detail(track))
    }

    fn draw_clip(&self, clip: PathId, width: u32) -> Answer<'_, ClipDrawing> {
        now(piano_roll::draw_clip(&self.snapshot(), clip, width))
    }

    fn param(&self, id: PathId) -> Answer<'_, Param> {
        now(self.snapshot().param(id))
    }

    fn param_values(&self, ids: Vec<PathId>) -> Answer<'_, Vec<Option<f64>>> {
        let document = self.snapshot();
        now(Ok(ids.into_iter().map(|id| document.param(id).ok().map(|it| it.value)).collect()))
    }

    fn turn_knob(&self, id: PathId, value: f64, still: bool) -> Answer<'_, ()> {
        let mut set = self.set();
        let mut turning = self.turning.lock();
        // If another caller edited the Set since the last value, the knob starts a new undo entry,
        // because edits of different callers must not be merged.
        let same = *turning == Some((id, set.document().revision()));
        let edit = [LiveEdit::SetParam { param_id: id, value }];
        let turned =
            if still && same { set.extend(&edit, &Guard::default()) } else { set.apply(&edit, &Guard::default()) };
        if turned.is_ok() {
            *turning = Some((id, set.document().revision()));
            self.show(&set, None);
        }
        now(turned.map(drop))
    }

    fn write(self: Arc<Self>, turn: Turn, edits: Vec<LiveEdit>, guard: Guard, mode: Mode) -> Answer<'static, Applied> {
        Box::pin(blocking(move || {
            let _turn = turn;
            let mut set = self.set();
            let applied = match mode {
                Mode::Preview => set.preview(&edits, &guard)?,
                Mode::Apply => set.apply(&edits, &guard)?,
            };
            self.show(&set, None);
            Ok(applied)
        }))
    }

    fn step(self: Arc<Self>, turn: Turn, way: Way, steps: u32, guard: Guard, mode: Mode) -> Answer<'static, History> {
        Box::pin(blocking(move || {
            let _turn = turn;
            let mut set = self.set();
            let before = set.document().clone();
            // Work on a copy, so that an error after some steps leaves the history unchanged.
            let mut after = set.clone();
            let stepped = match way {
                Way::Undo => after.undo(steps, &guard)?,
                Way::Redo => after.redo(steps, &guard)?,
            };
            let history = History {
                stepped,
                diff: diff(&before, after.document()),
                tracks: u32::try_from(after.document().track_rows().len()).unwrap_or(u32::MAX),
                warnings: Vec::new(),
            };
            if mode == Mode::Apply {
                *set = after;
                self.show(&set, None);
            }
            Ok(history)
        }))
    }

    fn launch(&self, _: PathId) -> Answer<'_, &'static str> {
        cannot_play(Op::Launch)
    }

    fn transport(&self, _: Transport, _: Option<f64>) -> Answer<'_, Playing> {
        cannot_play(Op::Transport)
    }

    fn known_ids(&self) -> KnownIds {
        let document = self.snapshot();
        KnownIds {
            tracks: u32::try_from(document.track_rows().len()).unwrap_or(u32::MAX),
            midi_clips: document.midi_clip_ids(),
            names: std::collections::BTreeMap::new(),
        }
    }

    fn document(self: Arc<Self>) -> Option<Arc<DocumentHost>> {
        Some(self)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn opened(home: &Path) -> (Roots, DocumentHost, Vec<u8>) {
        let roots = Roots::new(home, &[]);
        let als = Document::new_set().expect("no skeleton").to_als();
        fs::create_dir_all(home.join("sets")).expect("no folder");
        fs::write(home.join("sets/a.als"), &als).expect("no file");
        fs::set_permissions(home.join("sets/a.als"), fs::Permissions::from_mode(0o640)).expect("no mode");
        let host = DocumentHost::open(roots.find(Path::new("a.als")).expect("no place"), 1 << 24, 10).expect("no Set");
        host.set().apply(&[LiveEdit::SetTempo { bpm: 99.0 }], &Guard::default()).expect("no edit");
        (roots, host, als)
    }

    fn saving(roots: &Roots, second: u64) -> Saving {
        let now = Timestamp::from_millis(1_767_323_045_000 + second * 1000);
        Saving { roots: roots.clone(), to: None, overwrite: false, expect_revision: None, now, unique: "x".into() }
    }

    #[test]
    fn a_save_that_ends_at_any_step_leaves_the_old_or_the_new_file_whole() {
        for stop in Step::ALL {
            let home = tempfile::tempdir().expect("no folder");
            let (roots, host, old) = opened(home.path());
            let look = |step: Step| if step == stop { Err(io::Error::other("pulled the plug")) } else { Ok(()) };
            assert!(host.save_now(saving(&roots, 0), &look).is_err(), "{stop:?}");
            let now = fs::read(home.path().join("sets/a.als")).expect("no file");
            let new = host.set().document().to_als();
            assert_eq!(
                now == old,
                stop != Step::SyncFolder,
                "{stop:?}: wrong file; only the sync of the folder is after the rename"
            );
            assert!(now == old || now == new, "{stop:?}");
            let left: Vec<_> = fs::read_dir(home.path().join("sets"))
                .expect("no folder")
                .flatten()
                .filter(|it| it.file_name() != "Backup")
                .collect();
            assert_eq!(left.len(), 1, "{stop:?}: a temporary file is left");
            assert!(host.set().is_dirty(), "{stop:?}: the Set is not dirty after a failed save");
        }
    }

    #[test]
    fn a_save_keeps_the_mode_and_twenty_backups_of_ours_only() {
        let home = tempfile::tempdir().expect("no folder");
        let (roots, host, old) = opened(home.path());
        let backups = home.path().join("sets/Backup");
        fs::create_dir(&backups).expect("no folder");
        for kept in ["a [2020-01-01 000000].als", "b [2020-01-01 000000] conductor.als"] {
            fs::write(backups.join(kept), "theirs").expect("no file");
        }
        for second in 0..25 {
            host.set().apply(&[LiveEdit::SetTempo { bpm: 60.0 + second as f64 }], &Guard::default()).expect("no edit");
            let saved = host.save_now(saving(&roots, second), &|_| Ok(())).expect("no save");
            if second == 0 {
                assert_eq!(fs::read(saved.backup.expect("no backup")).expect("no backup"), old);
            }
        }
        let file = home.path().join("sets/a.als");
        assert_eq!(fs::metadata(&file).expect("no file").permissions().mode() & 0o7777, 0o640);
        let mut names: Vec<String> = fs::read_dir(&backups)
            .expect("no folder")
            .flatten()
            .map(|it| it.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names.len(), 22);
        assert!(names.iter().any(|it| it == "a [2020-01-01 000000].als"));
        assert_eq!(names.iter().filter(|it| it.starts_with("a [2026")).count(), 20);
        let kept = |time: &str| names.iter().any(|it| it.contains(time));
        assert!(kept("030429") && !kept("030406"), "the newest backups were not kept");
        assert!(kept("030405"), "the first backup, which is the original file, was removed");
    }

    #[test]
    fn saving_without_edits_writes_the_same_bytes() {
        let home = tempfile::tempdir().expect("no folder");
        let (roots, host, old) = opened(home.path());
        host.set().undo(1, &Guard::default()).expect("no undo");
        host.save_now(saving(&roots, 0), &|_| Ok(())).expect("no save");
        assert_eq!(fs::read(home.path().join("sets/a.als")).expect("no file"), old);
    }

    #[test]
    fn a_link_that_appears_after_the_look_is_not_followed() {
        let (home, outside) = (tempfile::tempdir().expect("no folder"), tempfile::tempdir().expect("no folder"));
        let (roots, host, _) = opened(home.path());
        let target = outside.path().join("victim");
        fs::write(&target, "precious").expect("no file");
        let swapped = Cell::new(false);
        let look = |step: Step| {
            if step == Step::Rename {
                let file = home.path().join("sets/a.als");
                fs::remove_file(&file)?;
                std::os::unix::fs::symlink(&target, &file)?;
                swapped.set(true);
            }
            Ok(())
        };
        // The rename replaces the link itself, not its target.
        assert!(host.save_now(saving(&roots, 0), &look).is_ok() && swapped.get());
        assert_eq!(fs::read_to_string(&target).expect("no file"), "precious");
        fs::remove_file(home.path().join("sets/a.als")).expect("no file");
        std::os::unix::fs::symlink(&target, home.path().join("sets/a.als")).expect("no link");
        assert!(matches!(host.disk().place.read(10), Err(LiveHostError::NotAFile { .. })));
    }
}
