//! Measures patches. A file of 2 MB is opened, listed, edited and saved, and compared with two
//! public libraries. An object is added to a running Pd, and compared with a plain round trip to
//! Pd. For patches of 100 to 10,000 boxes, the layout is checked and the reach is computed. Prints
//! medians with the range of the rounds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use conductor_core::error::ToolError;
use conductor_hosts::patch::reach::{Consent, Rehearsal};
use conductor_hosts::patch::{Ask, HostKind, Naming, PatchHost, Patches, Settings};
use conductor_hosts::pd::{self, PdHost};
use conductor_hosts::system::{RandomIds, RealClock};
use conductor_patch::reach::{Environment, reach};
use conductor_patch::validate::{Options, validate};
use conductor_patch::{CanvasId, CordEnds, Document, Edit, Format, NewBox, Op, Point};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 7;
const TRIPS: usize = 300;

fn main() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("patches");
    std::fs::create_dir(&folder).unwrap();
    let mut boxes = 1000;
    let mut file = large(boxes).to_bytes();
    while file.len() < 2_000_000 {
        boxes += 500;
        file = large(boxes).to_bytes();
    }
    std::fs::write(folder.join("large.maxpat"), &file).unwrap();
    println!("a patch of {boxes} boxes, {:.2} MB; milliseconds, median (range) of {ROUNDS}", file.len() as f64 / 1e6);
    println!("{:<12} {:>22} {:>22} {:>22} {:>22}", "", "open", "list", "edit", "save");
    let mut ours: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (step, ms) in round(home.path()) {
            ours.entry(step).or_default().push(ms);
        }
    }
    row("conductor", &mut ours);
    peers(&folder.join("large.maxpat"));

    println!("\ncheck of a layout, milliseconds");
    for n in [100, 1_000, 10_000] {
        let document = large(n);
        let mut times: Vec<f64> =
            (0..ROUNDS).map(|_| timed(|| drop(black_box(validate(&document.root(), &Options::default()))))).collect();
        println!("{n:>8} boxes {}", told(&mut times));
    }
    println!("\nreach of a pure patch, milliseconds");
    for n in [100, 1_000, 10_000] {
        let document = large(n);
        let mut times: Vec<f64> =
            (0..ROUNDS).map(|_| timed(|| drop(black_box(reach(&document, &Environment::default()))))).collect();
        println!("{n:>8} boxes {}", told(&mut times));
    }
    println!("\nadd an object to a running Pd, milliseconds, median (range) of {TRIPS}");
    running(home.path(), "through the host", add);
    running(home.path(), "as a tool does", look_and_add);
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1000.0
}

fn told(times: &mut [f64]) -> String {
    times.sort_by(f64::total_cmp);
    let (low, high) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
    let median = times.get(times.len() / 2).copied().unwrap_or(0.0);
    format!("{median:.2} ({low:.2}-{high:.2})")
}

fn row(name: &str, times: &mut BTreeMap<&str, Vec<f64>>) {
    let mut shown = |step: &str| times.get_mut(step).map_or_else(String::new, |it| told(it));
    let (open, list, edit, save) = (shown("open"), shown("list"), shown("edit"), shown("save"));
    println!("{name:<12} {open:>22} {list:>22} {edit:>22} {save:>22}");
}

/// Rows of objects. Each object is connected to the object below it.
fn large(n: usize) -> Document {
    let mut document = Document::create(Format::Maxpat);
    let columns = (n as f64).sqrt().ceil() as usize;
    let mut edits = Vec::new();
    for i in 0..n {
        let new = NewBox {
            class: "metro 500".into(),
            position: Point::new((i % columns) as f64 * 90.0, (i / columns) as f64 * 50.0),
            varname: Some(format!("box{i}")),
            ..NewBox::default()
        };
        edits.push(Edit { canvas: CanvasId::ROOT, op: Op::Add(new) });
        if i >= columns {
            let ends = CordEnds {
                from: format!("box{}", i - columns).as_str().into(),
                outlet: 0,
                to: format!("box{i}").as_str().into(),
                inlet: 0,
            };
            edits.push(Edit { canvas: CanvasId::ROOT, op: Op::Connect { ends, hidden: false } });
        }
    }
    document.apply(&edits).unwrap();
    document
}

fn studio(home: &Path) -> Arc<Patches> {
    Patches::new(home, Settings::default(), Arc::new(RealClock::new()), Arc::new(RandomIds))
}

fn round(home: &Path) -> Vec<(&'static str, f64)> {
    let patches = studio(home);
    let mut id = String::new();
    let open = timed(|| {
        let opened = patches.open("large.maxpat", HostKind::Document, Naming::default(), &Consent::Call(None)).unwrap();
        id = opened.id().to_owned();
    });
    let list = timed(|| {
        let rows = patches.look(&id, |scene| {
            Ok(scene.view.boxes().map(|it| (it.key().to_owned(), it.text().to_owned(), it.rect())).collect::<Vec<_>>())
        });
        black_box(rows.unwrap());
    });
    let edit = timed(|| add(&patches, &id, "metro 100", 1));
    let save = timed(|| drop(patches.save(&id, Some("out.maxpat"), true, None, &Consent::Call(None)).unwrap()));
    vec![("open", open), ("list", list), ("edit", edit), ("save", save)]
}

fn add(patches: &Patches, id: &str, class: &str, n: usize) {
    let added = add_as(patches, id, class, n, Consent::Call(None));
    added.unwrap();
}

/// Adds an object as a tool does: first checks whether a person must be asked, then edits.
fn look_and_add(patches: &Patches, id: &str, class: &str, n: usize) {
    let rehearsal = Arc::new(Rehearsal::default());
    let _ = add_as(patches, id, class, n, Consent::Rehearsal(Arc::clone(&rehearsal)));
    assert!(rehearsal.question().is_none(), "a pure edit needed an approval");
    add(patches, id, class, n);
}

fn add_as(patches: &Patches, id: &str, class: &str, n: usize, consent: Consent) -> Result<(), ToolError> {
    let new = NewBox {
        class: class.into(),
        position: Point::new((n % 50) as f64 * 90.0, -50.0 - (n / 50) as f64 * 30.0),
        ..NewBox::default()
    };
    let ask = Ask { patch_id: id, expected_revision: None, label: "bench".into(), consent };
    patches.edit(&ask, |_| Ok(vec![Op::Add(new)]), |_, _| Ok(())).map(drop)
}

fn peers(file: &Path) {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conductor-testkit/clients");
    let python = clients.join("venv-patch/bin/python");
    if !python.exists() {
        println!("(py2max and MaxPyLang are not installed: crates/conductor-testkit/clients/install bench)");
        return;
    }
    let output =
        Command::new(python).arg(clients.join("patch_peers.py")).arg(file).arg(ROUNDS.to_string()).output().unwrap();
    let mut all: BTreeMap<String, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let round: serde_json::Value = serde_json::from_str(line).unwrap();
        let peer = round["peer"].as_str().unwrap_or_default().to_owned();
        if let Some(fault) = round["fault"].as_str() {
            println!("{peer:<12} {fault}");
            continue;
        }
        let times = all.entry(peer).or_default();
        for step in ["open", "list", "edit", "save"] {
            times.entry(step).or_default().extend(round["ms"][step].as_f64());
        }
    }
    if all.is_empty() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    for (peer, mut times) in all {
        row(&peer, &mut times);
    }
}

/// Adds objects to a running Pd, alternately with `add` and with plain messages over a similar
/// connection. Each of the two uses a separate Pd: Pd sleeps between two polls of its sockets, so a
/// second patch in the same Pd would change all figures.
fn running(home: &Path, name: &str, add: fn(&Patches, &str, &str, usize)) {
    let Some(mut bare) = Bare::start() else {
        println!("(pd is not installed)");
        return;
    };
    let patches = studio(home);
    let clock = Arc::new(RealClock::new());
    let host = PdHost::new(home, pd::Settings::default(), patches.voice().clone(), clock).unwrap();
    patches.drive(host as Arc<dyn PatchHost>);
    let open = patches.create(Format::Pd, None, None, HostKind::Pd, Naming::default()).unwrap();
    let (mut measured, mut by_hand) = (Vec::new(), Vec::new());
    for n in 0..TRIPS {
        measured.push(timed(|| add(&patches, open.id(), "osc~ 440", n)));
        by_hand.push(timed(|| bare.add(n)));
    }
    println!("{name:<16} {}   plain messages {}", told(&mut measured), told(&mut by_hand));
}

/// A Pd that the bench controls directly, in place of Pd's user interface and without our Pd host.
struct Bare {
    child: std::process::Child,
    socket: std::net::TcpStream,
    canvas: String,
}

impl Bare {
    fn start() -> Option<Bare> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let child = Command::new("pd")
            .args(["-guiport", &port, "-noprefs", "-nomidi", "-nrt", "-sleepgrain", "0.5", "-noaudio"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        let mut bare = Bare { child, socket, canvas: String::new() };
        let fonts =
            "8 5 11 10 6 13 12 7 16 16 10 19 24 14 29 36 22 44 16 10 23 20 12 27 24 14 32 32 20 44 48 28 58 72 44 89";
        bare.send(&format!("pd init /tmp 0 {fonts};\npd menunew bare.pd /tmp;\n"));
        let told = bare.until("pdtk_undomenu");
        let at = told.find("pdtk_canvas_new ").unwrap() + "pdtk_canvas_new ".len();
        bare.canvas = told[at..].split(' ').next().unwrap().to_owned();
        Some(bare)
    }

    fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    fn until(&mut self, word: &str) -> String {
        let mut heard = String::new();
        let mut bytes = [0; 65536];
        while !heard.contains(word) {
            let count = self.socket.read(&mut bytes).unwrap();
            heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        heard
    }

    fn add(&mut self, n: usize) {
        let canvas = self.canvas.clone();
        self.send(&format!("{canvas} obj {} {} osc~ 440;\n{canvas} find +none{n} 1;\n", n % 50 * 90, 50 + n / 50 * 30));
        self.until("pdtk_showfindresult");
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
