//! Finds the effects that a running patch has outside itself (its "reach"): which boxes use files,
//! the network, devices or the program, and which boxes can send messages to those boxes.
//!
//! Classes without such effects are on an allowlist; every other class is treated as having reach.
//! Boxes also communicate without cords: `send` and `receive`, buses and delay lines are followed
//! within the patch. A box that sends to a name which can be received outside the patch has reach
//! too. Not here: reading the files that a box names, and asking a person.

mod classes;

use crate::canvas::{Canvas, Face, Item, Slot};
use crate::document::{BoxId, CanvasId, Document};
use crate::{atoms, pd};
use classes::Classes;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One kind of effect outside a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Starts programs.
    RunsPrograms,
    /// Loads patches, scripts or libraries.
    LoadsCode,
    /// The class is unknown, so its effects are unknown.
    Unknown,
    /// Writes files.
    WritesFiles,
    /// Sends or receives over the network or a serial line.
    Network,
    /// Reads files.
    ReadsFiles,
    /// Controls the program that runs the patch.
    Host,
    /// Sends MIDI.
    Midi,
    /// Receives keys, the mouse, MIDI or audio input.
    Listens,
    /// Sends to a name that is outside this patch or that is built while the patch runs.
    Sends,
}

impl Reach {
    /// Description for a person.
    pub const fn text(self) -> &'static str {
        match self {
            Reach::RunsPrograms => "starts programs",
            Reach::LoadsCode => "loads patches or code",
            Reach::Unknown => "is unknown to Conductor and may do anything",
            Reach::WritesFiles => "writes files",
            Reach::Network => "uses the network",
            Reach::ReadsFiles => "reads files",
            Reach::Host => "sends commands to the program",
            Reach::Midi => "plays MIDI",
            Reach::Listens => "listens to keys, mouse, MIDI or microphone",
            Reach::Sends => "sends to names outside this patch, or makes other boxes do so",
        }
    }
}

/// The environment of a running patch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment<'a> {
    /// Whether every patch in the program is known. If so, messages to a name that only this patch
    /// receives do not leave the patch.
    pub alone: bool,
    /// Names that other patches receive and forward to boxes with reach.
    pub heard_elsewhere: Option<&'a BTreeSet<String>>,
    /// Classes that are overridden by a patch file in a folder that the program searches first.
    pub shadowed: Option<&'a BTreeSet<String>>,
}

/// A box with reach, or a statement of a Pd file that Pd executes when it opens the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ReachingBox {
    /// The canvas that contains the box.
    pub canvas: CanvasId,
    /// The box; `None` for a statement.
    pub id: Option<BoxId>,
    /// Name of the box, else its key.
    pub label: String,
    /// Text of the box.
    pub text: String,
    /// Reach of the box, most dangerous first.
    pub reach: Vec<Reach>,
}

/// A box that can send messages to a box with reach.
#[derive(Clone, Debug, PartialEq)]
pub struct DrivingBox {
    /// The canvas that contains the box.
    pub canvas: CanvasId,
    /// Address of the box.
    pub id: BoxId,
    /// Name of the box, else its key.
    pub label: String,
    /// Text of the box.
    pub text: String,
}

/// The reach of a patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reaching {
    /// Boxes with reach, in document order.
    pub boxes: Vec<ReachingBox>,
    /// Boxes that can send messages to the boxes in `boxes`, in document order.
    pub driving: Vec<DrivingBox>,
    /// Names by which the boxes in `boxes` and `driving` receive messages from outside.
    pub hears: BTreeSet<String>,
    /// The words of boxes that load code or are unknown: names of files that the patch may load.
    pub files: BTreeSet<String>,
    /// Folders that the patch declares.
    pub folders: BTreeSet<String>,
    /// Whether the patch sends to names. If so, its reach depends on its environment.
    pub names: bool,
    /// A fingerprint of the boxes, their contents and their cords. It depends on positions only
    /// where they decide the order of inlets, outlets or messages. Empty when no box has reach.
    pub print: Vec<u8>,
}

impl Reaching {
    /// Whether no box has reach.
    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// All words in the texts of `boxes` and `driving`. Words that are paths of patch files are
    /// reduced to the file name without extension.
    pub fn words(&self) -> BTreeSet<String> {
        let texts = self.boxes.iter().map(|it| it.text.as_str()).chain(self.driving.iter().map(|it| it.text.as_str()));
        texts
            .flat_map(|text| text.split([' ', ',', ';', '"', '\n', '\t']))
            .map(stem)
            .filter(|it| !it.is_empty())
            .collect()
    }
}

/// The last part of a path without the extension of a patch file.
pub fn stem(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    match crate::Format::of_name(name) {
        Some(_) => name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned(),
        None => name.to_owned(),
    }
}

/// Finds the reach of a document.
pub fn reach(document: &Document, environment: &Environment<'_>) -> Reaching {
    let mut graph = Graph::new(document, environment);
    graph.walk(&document.root, &CanvasId::ROOT, None);
    graph.settle();
    if graph.nodes.iter().all(|node| node.reach.is_empty()) {
        return Reaching { names: graph.sends(), ..Reaching::default() };
    }
    graph.finish()
}

/// Whether a change certainly leaves a patch without reach. The cost depends only on the size of
/// the change. The caller guarantees that `before` has no reach and sends to no name, and that no
/// file overrides a class. `false` means that the whole patch must be examined.
pub fn stays_pure(before: &Document, after: &Document) -> bool {
    let environment = Environment { alone: true, ..Environment::default() };
    let mut graph = Graph::new(after, &environment);
    std::ptr::eq(&*before.source, &*after.source) && graph.stays_pure(&before.root, &after.root)
}

/// Ways in which boxes communicate without a cord.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bus {
    Message,
    Signal,
    Sum,
    Delay,
}

impl Bus {
    /// The name with a prefix for its bus, so that equal names on different buses stay distinct.
    fn name(self, name: &str) -> String {
        match self {
            Bus::Message => name.to_owned(),
            Bus::Signal => format!("~{name}"),
            Bus::Sum => format!("+{name}"),
            Bus::Delay => format!("d~{name}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Box(Slot),
    /// The outlets of a subpatcher. Its inlets are represented by the node of its box.
    Outlets(Slot),
    /// A statement that does not belong to a box.
    Statement,
}

struct Node<'a> {
    what: What,
    canvas: usize,
    face: Option<&'a Arc<Face>>,
    text: String,
    reach: Vec<Reach>,
    sends: Option<(Bus, String)>,
    hears: Option<(Bus, String)>,
    /// An embedded patcher whose content is treated as part of the box.
    sealed: Option<&'a Arc<Canvas>>,
}

struct Level<'a> {
    canvas: &'a Canvas,
    id: CanvasId,
    /// Indexed by slot: the node for cords that end at the box, and the node for cords that start
    /// at it.
    ends: Vec<Option<(usize, usize)>>,
    holder: Option<usize>,
}

impl Level<'_> {
    fn inlets(&self, slot: Slot) -> Option<usize> {
        self.ends.get(slot as usize)?.map(|it| it.0)
    }

    fn outlets(&self, slot: Slot) -> Option<usize> {
        self.ends.get(slot as usize)?.map(|it| it.1)
    }
}

struct Graph<'a> {
    document: &'a Document,
    environment: &'a Environment<'a>,
    pd: bool,
    classes: &'static Classes,
    nodes: Vec<Node<'a>>,
    levels: Vec<Level<'a>>,
    /// Boxes that build symbols from numbers or other symbols.
    makers: Vec<usize>,
    /// Whether a box builds the first word of a message from data.
    selects: bool,
}

fn class_of(face: &Face) -> &str {
    let text = face.facts.text.as_ref();
    match face.facts.native {
        Some("obj" | "restore") => text.split(' ').next().unwrap_or_default(),
        Some(native) => native,
        None if face.facts.maxclass.as_ref() == "newobj" => text.split_ascii_whitespace().next().unwrap_or_default(),
        None => &face.facts.maxclass,
    }
}

/// Whether a name is constant while the patch runs and is not received by the program itself.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name != "pd"
        && !name.starts_with("pd-")
        && !name.contains(['$', '\\', ';', ','])
        && name.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

impl<'a> Graph<'a> {
    fn new(document: &'a Document, environment: &'a Environment<'a>) -> Graph<'a> {
        let pd = document.format.is_pd();
        Graph {
            document,
            environment,
            pd,
            classes: Classes::of(pd),
            nodes: Vec::new(),
            levels: Vec::new(),
            makers: Vec::new(),
            selects: false,
        }
    }

    fn bytes(&self, face: &'a Face, inner: bool) -> &'a [u8] {
        let chunk = if inner { &face.after } else { &face.before };
        chunk.bytes(&self.document.source)
    }

    fn walk(&mut self, canvas: &'a Canvas, id: &CanvasId, holder: Option<usize>) {
        let level = self.levels.len();
        let ends = vec![None; canvas.next_box_slot() as usize];
        self.levels.push(Level { canvas, id: id.clone(), ends, holder });
        if self.pd {
            self.statements(canvas, level);
        }
        for (slot, face) in canvas.faces() {
            let inner = canvas.inner(slot);
            let mut node = self.classify(face, inner, level);
            node.what = What::Box(slot);
            let open = inner.filter(|_| node.sealed.is_none() && node.reach.is_empty());
            if !node.reach.is_empty() {
                node.sealed = inner;
            }
            let at = self.nodes.len();
            self.nodes.push(node);
            let mut out = at;
            if let Some(open) = open {
                out = self.nodes.len();
                self.nodes.push(Node { what: What::Outlets(slot), ..Node::new(level, Some(face)) });
                self.walk(open, &id.inside(slot), Some(at));
            }
            if let Some(ends) = self.levels.get_mut(level).and_then(|it| it.ends.get_mut(slot as usize)) {
                *ends = Some((at, out));
            }
        }
    }

    fn sends(&self) -> bool {
        self.nodes.iter().any(|it| it.sends.is_some())
    }

    /// Whether two states of a canvas differ only in boxes and cords without reach.
    fn stays_pure(&mut self, before: &'a Canvas, after: &'a Canvas) -> bool {
        if std::ptr::eq(before, after) {
            return true;
        }
        let texts = |canvas: &'a Canvas| {
            canvas.items.iter().filter_map(|item| match item {
                Item::Text(chunk) => Some(chunk),
                Item::Mark(_) | Item::Box(_) | Item::Cord(_) => None,
            })
        };
        let source: &'a [u8] = &self.document.source;
        if self.pd && !texts(before).map(|it| it.bytes(source)).eq(texts(after).map(|it| it.bytes(source))) {
            return false;
        }
        for (slot, face) in before.faces() {
            if after.face(slot).is_none() && !self.is_plain(face, before.inner(slot)) {
                return false;
            }
        }
        for (slot, face) in after.faces() {
            let same = before.face(slot).is_some_and(|old| Arc::ptr_eq(old, face));
            let kept = match (before.inner(slot), after.inner(slot)) {
                (Some(old), Some(new)) => same && (Arc::ptr_eq(old, new) || self.stays_pure(old, new)),
                (None, None) => same || self.is_plain(face, None),
                (None, Some(_)) | (Some(_), None) => false,
            };
            let replaced = before.face(slot).is_none_or(|old| same || self.is_plain(old, before.inner(slot)));
            if !kept || !replaced {
                return false;
            }
        }
        let joined = after.cord_slots().filter_map(|slot| Some((before.cord(slot), after.cord(slot)?)));
        let fresh = joined.filter(|(old, new)| !old.is_some_and(|old| Arc::ptr_eq(old, new)));
        fresh.map(|(_, cord)| cord).all(|cord| {
            let to = cord.to.slot.and_then(|slot| after.face(slot));
            to.is_some_and(|it| class_of(it) != "throw~") && !cord.text.bytes(source).contains(&b',')
        })
    }

    /// Whether a box has no reach, uses no names, and builds no words that another box could
    /// execute.
    fn is_plain(&mut self, face: &'a Arc<Face>, inner: Option<&'a Arc<Canvas>>) -> bool {
        let node = self.classify(face, inner, 0);
        inner.is_none()
            && node.reach.is_empty()
            && node.sends.is_none()
            && node.hears.is_none()
            && self.makers.is_empty()
            && !self.selects
    }

    /// Adds the statements of a Pd file that are not a box, a cord or coordinates: Pd executes each
    /// of them.
    fn statements(&mut self, canvas: &'a Canvas, level: usize) {
        let source: &'a [u8] = &self.document.source;
        for item in canvas.items.iter() {
            let (bytes, cord) = match item {
                Item::Text(chunk) => (chunk.bytes(source), false),
                Item::Cord(slot) => match canvas.cord(*slot) {
                    Some(cord) => (cord.text.bytes(source), true),
                    None => continue,
                },
                Item::Box(_) | Item::Mark(_) => continue,
            };
            if cord && !bytes.contains(&b',') {
                continue;
            }
            let mut rest = bytes;
            while !rest.is_empty() {
                let (statement, behind) = pd::own_statement(rest);
                rest = behind;
                let words: Vec<&[u8]> = pd::words(statement).collect();
                let single = !words.iter().any(|word| *word == b",");
                let reach = match words.as_slice() {
                    [] => continue,
                    [b"#N", b"canvas", ..] | [b"#X", b"coords" | b"connect" | b"f", ..] if single => continue,
                    [b"#X", b"declare", ..] if single => vec![Reach::LoadsCode, Reach::Host],
                    _ => vec![Reach::Host],
                };
                let text = String::from_utf8_lossy(statement).trim().to_owned();
                self.nodes.push(Node { what: What::Statement, text, reach, ..Node::new(level, None) });
            }
        }
    }

    fn classify(&mut self, face: &'a Arc<Face>, inner: Option<&'a Arc<Canvas>>, level: usize) -> Node<'a> {
        let mut node = Node::new(level, Some(face));
        let text = face.facts.text.as_ref();
        let class = class_of(face);
        // Only these characters separate words in both programs. Any other whitespace could hide
        // the class from this check.
        let odd = |it: char| (it.is_whitespace() || it.is_control()) && !matches!(it, ' ' | '\n' | '\r' | '\t');
        if face.facts.native != Some("text") && text.contains(odd) {
            node.reach = vec![Reach::Unknown];
        } else if self.pd {
            self.classify_pd(&mut node, face, class, inner);
        } else {
            self.classify_max(&mut node, face, class, inner);
        }
        node
    }

    fn classify_pd(&mut self, node: &mut Node<'a>, face: &'a Face, class: &str, inner: Option<&'a Arc<Canvas>>) {
        let text = face.facts.text.as_ref();
        let bytes = self.bytes(face, inner.is_some());
        let native = face.facts.native.unwrap_or("obj");
        let arguments = || text.split(' ').skip(1);
        let first = || arguments().next().unwrap_or_default().to_owned();
        match native {
            "text" => {}
            "restore" if inner.is_some() && matches!(class, "pd" | "graph" | "") => {}
            "msg" => {
                if text.contains(';') {
                    let host = text.split(';').skip(1).any(|part| {
                        let to = part.split_ascii_whitespace().next().unwrap_or_default();
                        to == "pd" || to.starts_with("pd-")
                    });
                    node.reach = if host { vec![Reach::Host, Reach::Sends] } else { vec![Reach::Sends] };
                }
                self.selects |= text.split(',').any(|part| part.trim_start().starts_with('$'));
            }
            "array" => {
                let name = pd::words(bytes).nth(2).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
                node.reach = vec![Reach::WritesFiles, Reach::ReadsFiles];
                node.hears = Some((Bus::Message, name));
            }
            "floatatom" | "symbolatom" | "listbox" => self.gui(node, bytes, 4, native),
            "obj" if pd::gui_fields(class).is_some() => self.gui(node, bytes, 5, class),
            "obj" => match class {
                "" => {}
                "send" | "s" => node.sends = Some((Bus::Message, first())),
                "send~" | "s~" => node.sends = Some((Bus::Signal, first())),
                "throw~" => node.sends = Some((Bus::Sum, first())),
                "delwrite~" => node.sends = Some((Bus::Delay, first())),
                "receive" | "r" => {
                    let name = first();
                    if name.starts_with('#') {
                        node.reach = vec![Reach::Listens];
                    }
                    node.hears = Some((Bus::Message, name));
                }
                "receive~" | "r~" => node.hears = Some((Bus::Signal, first())),
                "catch~" => node.hears = Some((Bus::Sum, first())),
                "delread~" | "delread4~" | "vd~" => node.hears = Some((Bus::Delay, first())),
                "expr" | "expr~" | "fexpr~" => {
                    let plain = classes::is_plain_expression(text.get(class.len()..).unwrap_or_default());
                    if !plain {
                        node.reach = vec![Reach::Sends];
                    }
                }
                "table" if first().is_empty() => {}
                _ if self.classes.is_pure(class) => {
                    match (class, arguments().next()) {
                        ("makefilename" | "oscparse", _) | ("list", Some("tosymbol")) => {
                            self.makers.push(self.nodes.len())
                        }
                        ("fudiparse", _) => {
                            self.makers.push(self.nodes.len());
                            self.selects = true;
                        }
                        ("route", _) | ("list", Some("trim")) => self.selects = true,
                        _ => {}
                    }
                    if text.contains(';') {
                        node.reach = vec![Reach::Sends];
                    }
                }
                _ => {
                    node.reach = self.classes.reach(class).to_vec();
                    if matches!(class, "table" | "array") {
                        node.hears = arguments()
                            .find(|it| !it.starts_with('-') && *it != "define")
                            .map(|it| (Bus::Message, it.to_owned()));
                    }
                }
            },
            _ => node.reach = vec![Reach::Unknown],
        }
        let silent = matches!(native, "text" | "restore" | "array" | "floatatom" | "symbolatom" | "listbox")
            || node.hears.is_some()
            || node.sends.is_some()
            || matches!(class, "inlet" | "outlet" | "inlet~" | "outlet~" | "print" | "cnv");
        let gui = native == "obj" && pd::gui_fields(class).is_some();
        if node.reach.is_empty() && !silent && !gui {
            let skip = usize::from(native == "obj");
            let order = |it: &str| classes::PD_ORDERS.contains(&it);
            if text.split([' ', ',']).skip(skip).any(order) {
                node.reach = vec![Reach::Sends];
            }
        }
        // Pd splits a statement at each comma and executes each part. Only a width may follow a
        // comma.
        let tail: Vec<&[u8]> = if bytes.contains(&b',') {
            pd::words(pd::own_statement(bytes).0).skip_while(|word| *word != b",").collect()
        } else {
            Vec::new()
        };
        let width = matches!(tail.as_slice(), [] | [_, b"f", _]);
        // Pd assigns `#A` data to the array created last, even if another box is in between.
        let data = node.reach.is_empty() && contains(bytes, b"#A") && contains(pd::own_statement(bytes).1, b"#A");
        if !width || data {
            node.reach.push(Reach::Host);
        }
    }

    /// Records the names under which a Pd user interface object sends and receives.
    fn gui(&self, node: &mut Node<'a>, bytes: &[u8], skip: usize, class: &str) {
        let words: Vec<&[u8]> = pd::words(pd::own_statement(bytes).0).collect();
        let field = |name: &str| {
            let word = words.get(skip + pd::gui_field(class, name)?)?;
            let text = String::from_utf8_lossy(word).into_owned();
            Some(text).filter(|it| !matches!(it.as_str(), "empty" | "-" | ","))
        };
        node.sends = field("send").map(|it| (Bus::Message, it));
        node.hears = field("receive").map(|it| (Bus::Message, it));
    }

    fn classify_max(&mut self, node: &mut Node<'a>, face: &'a Face, class: &str, inner: Option<&'a Arc<Canvas>>) {
        let text = face.facts.text.as_ref();
        let shadowed = self.environment.shadowed.is_some_and(|it| it.contains(class));
        match class {
            "comment" => {}
            "message" => {
                if text.contains(';') {
                    node.reach = vec![Reach::Host, Reach::Sends];
                }
            }
            _ if shadowed => node.reach = vec![Reach::LoadsCode],
            "p" | "patcher" | "bpatcher" if inner.is_some() => {}
            // Operators inside gen only compute, but they can write into buffers.
            "gen~" | "gen"
                if inner.is_some_and(|it| it.facts.namespace.as_deref().is_none_or(|it| it == "dsp.gen")) =>
            {
                node.sealed = inner;
                let mut writer = crate::chunk::Writer::new(&self.document.source);
                if let Some(inner) = inner {
                    inner.write(&mut writer, &self.document.source, self.document.format);
                }
                let inside = writer.finish();
                if contains(&inside, b"poke") || contains(&inside, b"splat") {
                    node.reach = vec![Reach::Sends];
                }
            }
            "expr" | "vexpr" => {
                let formula = atoms::split(text).1.join(" ");
                if !classes::is_plain_expression(&formula) {
                    node.reach = vec![Reach::Sends];
                }
            }
            _ if self.classes.is_pure(class) && inner.is_none() => {
                if text.contains(';') {
                    node.reach = vec![Reach::Host, Reach::Sends];
                }
            }
            _ => node.reach = self.classes.reach(class).to_vec(),
        }
        if matches!(class, "receive" | "r") {
            node.hears = text.split_ascii_whitespace().nth(1).map(|it| (Bus::Message, it.to_owned()));
        }
        if self.has_painter(face, inner.is_some()) {
            node.reach.push(Reach::LoadsCode);
        }
        let order = |it: &str| classes::MAX_ORDERS.contains(&it.trim_start_matches('@'));
        let skip = usize::from(face.facts.maxclass.as_ref() == "newobj");
        if node.reach.is_empty()
            && !matches!(class, "comment" | "print" | "receive" | "r" | "p" | "patcher" | "bpatcher")
            && text.split([' ', ',', '\n', '\t']).skip(skip).any(order)
        {
            node.reach = vec![Reach::Sends];
        }
    }

    /// Whether a script draws the box (`jspainterfile`).
    fn has_painter(&self, face: &Face, inner: bool) -> bool {
        let source = &self.document.source;
        let parts = [face.before.bytes(source), face.after.bytes(source)];
        // A key may be written with escapes, so decode the keys first.
        if parts.iter().any(|it| contains(it, b"\\u")) {
            let shape = crate::document::shape_of(self.document, face, inner, 0);
            return shape.is_none_or(|it| it.keys().any(|key| key == "jspainterfile"));
        }
        parts.iter().any(|it| contains(it, b"jspainterfile"))
    }

    /// Decides which names leave the patch, and adds the reach of boxes that send to such names or
    /// build them.
    fn settle(&mut self) {
        if self.selects {
            for maker in std::mem::take(&mut self.makers) {
                if let Some(node) = self.nodes.get_mut(maker).filter(|it| it.reach.is_empty()) {
                    node.reach = vec![Reach::Sends];
                }
            }
        }
        if self.nodes.iter().all(|it| it.sends.is_none()) {
            return;
        }
        let heard: BTreeSet<String> =
            self.nodes.iter().filter_map(|it| it.hears.as_ref()).map(|(bus, name)| bus.name(name)).collect();
        let renamable = self.thrown_by_message();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let Some((bus, name)) = &node.sends else { continue };
            let full = bus.name(name);
            let host = *bus == Bus::Message && (name == "pd" || name.starts_with("pd-"));
            let leaves = !self.environment.alone
                || !is_plain_name(name)
                || self.environment.heard_elsewhere.is_some_and(|it| it.contains(&full))
                || (*bus == Bus::Message && !heard.contains(&full))
                || renamable.contains(&at);
            if host {
                node.reach.push(Reach::Host);
            } else if leaves {
                node.reach.push(Reach::Sends);
            }
        }
    }

    /// `throw~` boxes that receive messages: a message can change the name to which they send.
    fn thrown_by_message(&self) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for level in &self.levels {
            for cord in level.canvas.cord_slots().filter_map(|it| level.canvas.cord(it)) {
                let (Some(from), Some(to)) = (cord.from.slot, cord.to.slot) else { continue };
                let Some(at) = level.inlets(to) else { continue };
                let sum = self.nodes.get(at).is_some_and(|it| matches!(it.sends, Some((Bus::Sum, _))));
                if sum && !level.canvas.face(from).is_some_and(|it| class_of(it).ends_with('~')) {
                    found.insert(at);
                }
            }
        }
        found
    }

    /// For each node, the nodes that can send to it.
    fn sources(&self) -> Vec<Vec<usize>> {
        let mut sources: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut add = |to: usize, from: usize| {
            if let Some(list) = sources.get_mut(to) {
                list.push(from);
            }
        };
        for level in &self.levels {
            for cord in level.canvas.cord_slots().filter_map(|it| level.canvas.cord(it)) {
                let ends = cord.from.slot.zip(cord.to.slot);
                if let Some((from, to)) = ends.and_then(|(a, b)| Some((level.outlets(a)?, level.inlets(b)?))) {
                    add(to, from);
                }
            }
            let Some(holder) = level.holder else { continue };
            for (slot, face) in level.canvas.faces() {
                let Some(gate) = level.inlets(slot) else { continue };
                match class_of(face) {
                    "inlet" | "inlet~" => add(gate, holder),
                    "outlet" | "outlet~" => add(holder + 1, gate),
                    _ => {}
                }
            }
        }
        let mut hearers: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some((bus, name)) = &node.hears {
                hearers.entry(bus.name(name)).or_default().push(at);
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let Some((bus, name)) = &node.sends else { continue };
            for to in hearers.get(&bus.name(name)).into_iter().flatten() {
                add(*to, at);
            }
        }
        sources
    }

    fn finish(self) -> Reaching {
        let sources = self.sources();
        let mut inside = vec![false; self.nodes.len()];
        let mut open: Vec<usize> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if !node.reach.is_empty() {
                open.push(at);
            }
        }
        while let Some(at) = open.pop() {
            match inside.get_mut(at) {
                Some(seen) if !*seen => *seen = true,
                Some(_) | None => continue,
            }
            open.extend(sources.get(at).into_iter().flatten());
        }
        let mut found = Reaching { names: self.sends(), ..Reaching::default() };
        // Number the boxes in document order, so that boxes without reach do not change the
        // fingerprint.
        let mut ranks = vec![usize::MAX; self.nodes.len()];
        let mut rank = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            if inside.get(at) != Some(&true) {
                continue;
            }
            if let Some(place) = ranks.get_mut(at) {
                *place = rank;
            }
            rank += 1;
            self.print_node(node, &mut found.print);
            self.record(node, &mut found);
        }
        for level in &self.levels {
            self.print_cords(level, &ranks, &mut found.print);
        }
        found
    }

    fn print_node(&self, node: &Node<'a>, print: &mut Vec<u8>) {
        let depth = self.levels.get(node.canvas).map_or(0, |it| it.id.depth());
        print.extend_from_slice(format!("\nbox {depth} {:?}", node.reach).as_bytes());
        let put = |print: &mut Vec<u8>, bytes: &[u8]| {
            print.extend_from_slice(format!(" {}:", bytes.len()).as_bytes());
            print.extend_from_slice(bytes);
        };
        let Some(face) = node.face else {
            put(print, node.text.as_bytes());
            return;
        };
        if matches!(node.what, What::Outlets(_)) {
            print.extend_from_slice(b" outlets");
            return;
        }
        let source = &self.document.source;
        if self.pd {
            let chunk = if face.before.len() == 0 { &face.after } else { &face.before };
            let (own, attached) = pd::own_statement(chunk.bytes(source));
            let placed = !matches!(face.facts.native, Some("array" | "scalar"));
            let words: Vec<&[u8]> = pd::words(own).collect();
            let words = match words.as_slice() {
                [all @ .., b",", b"f", _] => all,
                all => all,
            };
            for (_, word) in words.iter().enumerate().filter(|(n, _)| !placed || !(2..4).contains(n)) {
                put(print, word);
            }
            put(print, attached);
        } else if let Some(shape) = crate::document::shape_of(self.document, face, self.has_inner(node), depth) {
            for key in shape.keys().filter(|key| !classes::is_cosmetic(key)) {
                put(print, key.as_bytes());
                put(print, shape.get(key).map(|it| it.0).unwrap_or_default());
            }
        }
        if let Some(sealed) = node.sealed {
            let mut writer = crate::chunk::Writer::new(source);
            sealed.write(&mut writer, source, self.document.format);
            put(print, &writer.finish());
        }
        // The port number of an inlet or outlet box depends on its position relative to the others,
        // so include this order.
        if let What::Box(slot) = node.what
            && matches!(class_of(face), "inlet" | "outlet" | "inlet~" | "outlet~")
            && let Some(level) = self.levels.get(node.canvas)
        {
            let before = level.canvas.faces().filter(|(other, it)| {
                class_of(it).trim_end_matches('~') == class_of(face).trim_end_matches('~')
                    && (it.facts.rect.x < face.facts.rect.x || (it.facts.rect.x == face.facts.rect.x && *other < slot))
            });
            print.extend_from_slice(format!(" gate {}", before.count()).as_bytes());
        }
    }

    fn has_inner(&self, node: &Node<'a>) -> bool {
        let What::Box(slot) = node.what else { return false };
        self.levels.get(node.canvas).is_some_and(|it| it.canvas.inner(slot).is_some())
    }

    /// Adds the cords between the boxes of the fingerprint. Pd sends in file order, Max from right
    /// to left.
    fn print_cords(&self, level: &Level<'a>, ranks: &[usize], print: &mut Vec<u8>) {
        let rank = |at: Option<usize>| at.and_then(|at| ranks.get(at)).copied().filter(|it| *it != usize::MAX);
        let mut rows = Vec::new();
        for cord in level.canvas.cord_slots().filter_map(|it| level.canvas.cord(it)) {
            let (Some(from), Some(to)) = (cord.from.slot, cord.to.slot) else { continue };
            let (Some(a), Some(b)) = (rank(level.outlets(from)), rank(level.inlets(to))) else { continue };
            let place = level.canvas.face(to).map(|it| (it.facts.rect.x, it.facts.rect.y)).unwrap_or_default();
            rows.push((a, cord.from.port, place, b, cord.to.port));
        }
        if !self.pd {
            rows.sort_by(|one, two| {
                (one.0, one.1).cmp(&(two.0, two.1)).then(two.2.0.total_cmp(&one.2.0)).then(two.2.1.total_cmp(&one.2.1))
            });
        }
        for (from, outlet, _, to, inlet) in rows {
            print.extend_from_slice(format!("\ncord {from} {outlet} {to} {inlet}").as_bytes());
        }
    }

    fn record(&self, node: &Node<'a>, found: &mut Reaching) {
        if let Some((bus, name)) = &node.hears {
            found.hears.insert(bus.name(name));
        }
        let canvas = self.levels.get(node.canvas).map(|it| it.id.clone()).unwrap_or_default();
        let (label, text, id) = match (node.what, node.face) {
            (What::Outlets(_), _) => return,
            (What::Box(slot), Some(face)) => {
                let label = face.facts.varname.as_deref().unwrap_or(&face.key).to_owned();
                (label, self.shown(face), Some(BoxId(slot)))
            }
            (What::Box(_) | What::Statement, _) => ("statement".to_owned(), node.text.clone(), None),
        };
        if node.reach.is_empty() {
            found.driving.extend(id.map(|id| DrivingBox { canvas, id, label, text }));
            return;
        }
        let mut reach = node.reach.clone();
        reach.sort_unstable();
        reach.dedup();
        let words = || text.split([' ', ';', '\n', '\t']).filter(|it| !it.is_empty());
        if text.contains("declare") {
            let all: Vec<&str> = words().collect();
            let named = all.windows(2).filter(|it| it.first().is_some_and(|flag| flag.ends_with("path")));
            found.folders.extend(named.filter_map(|it| it.get(1)).map(|it| (*it).to_owned()));
        }
        if reach.iter().any(|it| matches!(it, Reach::LoadsCode | Reach::Unknown)) {
            let named = words().filter(|it| !it.starts_with(['-', '@', '#']) && it.parse::<f64>().is_err());
            found.files.extend(named.map(|it| it.trim_matches('"').to_owned()));
        }
        found.boxes.push(ReachingBox { canvas, id, label, text, reach });
    }

    /// The text of a box as shown to a person: its own text, or the class of a user interface
    /// object and the file that it names.
    fn shown(&self, face: &Face) -> String {
        let text = face.facts.text.as_ref();
        if self.pd && face.facts.native.is_some_and(|it| it.ends_with("atom") || it == "listbox") {
            let words = pd::words(face.before.bytes(&self.document.source)).skip(4);
            let words: Vec<String> = words.map(|it| String::from_utf8_lossy(it).into_owned()).collect();
            return format!("{} {}", face.facts.native.unwrap_or_default(), words.join(" "));
        }
        if self.pd || face.facts.maxclass.as_ref() == "newobj" {
            return text.to_owned();
        }
        let name = crate::document::shape_of(self.document, face, face.after.len() > 0, 0)
            .and_then(|shape| shape.get("name").map(|it| String::from_utf8_lossy(it.0).into_owned()));
        [Some(face.facts.maxclass.as_ref()), Some(text), name.as_deref()]
            .into_iter()
            .flatten()
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl<'a> Node<'a> {
    fn new(canvas: usize, face: Option<&'a Arc<Face>>) -> Node<'a> {
        Node {
            what: What::Statement,
            canvas,
            face,
            text: String::new(),
            reach: Vec::new(),
            sends: None,
            hears: None,
            sealed: None,
        }
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(bytes, word).is_some()
}
