//! A patch file in memory: opened from bytes, written back to bytes, read through views.
//!
//! Opening a patch does not run, load or fetch anything that the patch names. Not here: edits
//! (`edit`), and revisions, undo and object references (`patch`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::amxd::{AmxdError, Frame};
use crate::atoms::{Atom, Value};
use crate::canvas::{Canvas, Cord, Entry, Face, Slot};
use crate::chunk::Writer;
use crate::diagnostic::Diagnostic;
use crate::geometry::{Point, Rect};
use crate::json::{self, JsonError, Kind};
use crate::max::{self, Shape};
use crate::ports::Ports;
use crate::style::Style;
use crate::{atoms, objects, pd};

/// The supported file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// A Max patch.
    Maxpat,
    /// A Max help patch.
    Maxhelp,
    /// A Max for Live device.
    Amxd,
    /// A Pure Data patch.
    Pd,
}

impl Format {
    /// The format of a file name, by its extension.
    pub fn of_name(name: &str) -> Option<Format> {
        let (_, extension) = name.rsplit_once('.')?;
        [Format::Maxpat, Format::Maxhelp, Format::Amxd, Format::Pd]
            .into_iter()
            .find(|format| extension.eq_ignore_ascii_case(format.extension()))
    }

    /// The extension without its dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Maxpat => "maxpat",
            Format::Maxhelp => "maxhelp",
            Format::Amxd => "amxd",
            Format::Pd => "pd",
        }
    }

    /// Whether the format is Pure Data.
    pub fn is_pd(self) -> bool {
        self == Format::Pd
    }
}

/// Limits for opening a file.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of the file in bytes.
    pub max_bytes: usize,
    /// Maximum nesting depth of patchers.
    pub max_depth: usize,
    /// Maximum number of boxes and cords (Max) or statements (Pd) in the whole file.
    pub max_items: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_bytes: 64 << 20, max_depth: 64, max_items: 250_000 }
    }
}

/// Why a file was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The file is too large.
    #[error("the file has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// Size of the file in bytes.
        size: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// Patchers are nested too deep.
    #[error("line {line}: patchers are nested deeper than {limit} levels")]
    TooDeep {
        /// Maximum nesting depth.
        limit: usize,
        /// The line at which the limit was exceeded.
        line: usize,
    },
    /// Too many boxes and cords (Max) or statements (Pd).
    #[error("the file contains more than {limit} boxes and cords (Max) or statements (Pd)")]
    TooManyItems {
        /// Maximum number of boxes and cords, or of statements.
        limit: usize,
    },
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Json(#[from] JsonError),
    /// The text is valid JSON or Pd, but not a patch.
    #[error("not a patch: there is no {missing:?} at the top level")]
    NotAPatch {
        /// The key that every patch has.
        missing: &'static str,
    },
    /// A Pd subpatch without its `#X restore`.
    #[error("line {line}: the file ends inside a subpatch and `#X restore` is missing (open subpatches: {canvases})")]
    Unclosed {
        /// Number of open subpatches.
        canvases: usize,
        /// The last line.
        line: usize,
    },
    /// The file is not a Max for Live device.
    #[error(transparent)]
    Amxd(#[from] AmxdError),
}

/// Address of a canvas: the slots of the boxes that lead to it from the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CanvasId(pub(crate) Vec<Slot>);

impl CanvasId {
    /// The root canvas.
    pub const ROOT: CanvasId = CanvasId(Vec::new());

    pub(crate) fn inside(&self, slot: Slot) -> CanvasId {
        let mut path = self.0.clone();
        path.push(slot);
        CanvasId(path)
    }

    /// Number of patchers that contain the canvas.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// The canvas that contains this canvas; `None` for the root.
    pub fn parent(&self) -> Option<CanvasId> {
        let (_, outer) = self.0.split_last()?;
        Some(CanvasId(outer.to_vec()))
    }
}

/// Address of a box inside its canvas. It does not change while the document is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoxId(pub(crate) Slot);

/// An opened patch file. Cloning is cheap: unchanged parts are shared.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) format: Format,
    pub(crate) source: Arc<[u8]>,
    frame: Option<Arc<Frame>>,
    pub(crate) style: Style,
    pub(crate) root: Arc<Canvas>,
    diagnostics: Arc<Vec<Diagnostic>>,
    abstractions: HashMap<String, Ports>,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl Document {
    /// Opens the bytes of a file.
    pub fn open(bytes: impl Into<Arc<[u8]>>, format: Format, limits: &Limits) -> Result<Document, OpenError> {
        let source: Arc<[u8]> = bytes.into();
        let most = limits.max_bytes.min(u32::MAX as usize / 2);
        if source.len() > most {
            return Err(OpenError::TooLarge { size: source.len(), limit: most });
        }
        let start = if source.starts_with(BOM) { BOM.len() } else { 0 };
        let (frame, (root, diagnostics), style) = match format {
            Format::Pd => {
                let style = Style::detect_pd(&source);
                (None, pd::read(&source, limits)?, style)
            }
            Format::Amxd => {
                let frame = Frame::read(&source)?;
                let range = frame.json.clone();
                let style = Style::detect(source.get(range.clone()).unwrap_or_default());
                (Some(Arc::new(frame)), max::read(&source, range, limits)?, style)
            }
            Format::Maxpat | Format::Maxhelp => (
                None,
                max::read(&source, start..source.len(), limits)?,
                Style::detect(source.get(start..).unwrap_or_default()),
            ),
        };
        Ok(Document {
            format,
            source,
            frame,
            style,
            root: Arc::new(root),
            diagnostics: Arc::new(diagnostics),
            abstractions: HashMap::new(),
        })
    }

    /// A new, empty patch. For `Maxhelp` and `Amxd`, the patch has the format `Maxpat`.
    pub fn create(format: Format) -> Document {
        let text = if format.is_pd() { NEW_PD } else { NEW_MAX };
        let format = if format.is_pd() { Format::Pd } else { Format::Maxpat };
        match Document::open(text.as_bytes(), format, &Limits::default()) {
            Ok(document) => document,
            // Unreachable while the templates are valid, which a test checks.
            Err(_) => Document {
                format,
                source: Arc::from(Vec::new()),
                frame: None,
                style: Style::modern(),
                root: Arc::default(),
                diagnostics: Arc::default(),
                abstractions: HashMap::new(),
            },
        }
    }

    /// The bytes to save. Without edits they equal the opened file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.source);
        if self.frame.is_none() && !self.format.is_pd() && self.source.starts_with(BOM) {
            writer.raw(BOM);
        }
        self.root.write(&mut writer, &self.source, self.format);
        let bytes = writer.finish();
        match &self.frame {
            Some(frame) => frame.write(&self.source, &bytes),
            None => bytes,
        }
    }

    /// Format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The name of the file's JSON style; `pd` for Pd.
    pub fn style_name(&self) -> &'static str {
        if self.format.is_pd() { "pd" } else { self.style.name() }
    }

    /// Version of Max that wrote the file, if the file states it.
    pub fn app_version(&self) -> Option<&str> {
        self.root.facts.app_version.as_deref()
    }

    /// Faults found when the file was opened.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Why the document is read-only: the directory of the device is inconsistent. `None` if the
    /// document can be edited.
    pub fn read_only(&self) -> Option<&'static str> {
        self.frame.as_ref().and_then(|frame| frame.read_only)
    }

    /// Registers the ports of a patch file that the document uses as a class.
    ///
    /// The document reads no files: its caller looks for the files of [`Document::unknown_classes`]
    /// and passes the [`Document::ports_as_abstraction`] of each.
    pub fn learn_abstraction(&mut self, name: &str, ports: Ports) {
        self.abstractions.insert(name.to_owned(), ports);
    }

    pub(crate) fn abstraction(&self, name: &str) -> Option<&Ports> {
        self.abstractions.get(name)
    }

    /// Names of classes and files that are neither in the object tables nor registered as
    /// abstractions. Each name is returned once.
    pub fn unknown_classes(&self) -> Vec<String> {
        let mut found = std::collections::BTreeSet::new();
        self.walk(&mut |view| {
            for object in view.boxes() {
                let name = object.file().unwrap_or_else(|| object.class().to_owned());
                let known = object.view.canvas.inner(object.slot).is_some()
                    || (object.file().is_none()
                        && objects::table(self.format).class_of(&object.face.facts.text).is_some());
                let plain = object.face.facts.maxclass.as_ref() == "newobj" || object.file().is_some();
                if plain && !known && !name.is_empty() && self.abstraction(&name).is_none() {
                    found.insert(name);
                }
            }
        });
        found.into_iter().collect()
    }

    /// The ports of this patch when another patch uses it as an object.
    pub fn ports_as_abstraction(&self) -> Ports {
        crate::ports::from_inside(self.format, &self.root)
    }

    pub(crate) fn canvas_at(&self, id: &CanvasId) -> Option<&Canvas> {
        let mut canvas = self.root.as_ref();
        for slot in &id.0 {
            canvas = canvas.inner(*slot)?;
        }
        Some(canvas)
    }

    /// A view of the root canvas.
    pub fn root(&self) -> View<'_> {
        View { document: self, canvas: &self.root, id: CanvasId::ROOT }
    }

    /// A view of a canvas; `None` if a box on the path to the canvas was removed.
    pub fn view(&self, id: &CanvasId) -> Option<View<'_>> {
        Some(View { document: self, canvas: self.canvas_at(id)?, id: id.clone() })
    }

    /// Calls `each` on every canvas, outer canvases first.
    pub fn walk(&self, each: &mut dyn FnMut(&View<'_>)) {
        fn down(view: &View<'_>, each: &mut dyn FnMut(&View<'_>)) {
            each(view);
            for object in view.boxes() {
                if let Some(inner) = object.inside() {
                    down(&inner, each);
                }
            }
        }
        down(&self.root(), each);
    }
}

/// Template of a new Max patch.
const NEW_MAX: &str = r#"{
    "patcher": {
        "fileversion": 1,
        "appversion": {
            "major": 9,
            "minor": 1,
            "revision": 0,
            "architecture": "x64",
            "modernui": 1
        },
        "classnamespace": "box",
        "rect": [ 100.0, 100.0, 1000.0, 700.0 ],
        "gridsize": [ 15.0, 15.0 ],
        "boxes": [],
        "lines": [],
        "autosave": 0
    }
}
"#;

const NEW_PD: &str = "#N canvas 100 100 700 500 12;\n";

/// A read-only view of one canvas.
#[derive(Clone)]
pub struct View<'a> {
    pub(crate) document: &'a Document,
    pub(crate) canvas: &'a Canvas,
    pub(crate) id: CanvasId,
}

/// A read-only view of one box.
#[derive(Clone)]
pub struct BoxView<'a> {
    pub(crate) view: View<'a>,
    pub(crate) slot: Slot,
    pub(crate) face: &'a Arc<Face>,
}

/// A read-only view of one cord.
#[derive(Clone)]
pub struct CordView<'a> {
    pub(crate) view: View<'a>,
    pub(crate) cord: &'a Arc<Cord>,
}

/// A subpatcher, as described by its box.
#[derive(Clone, Debug, PartialEq)]
pub struct Subpatcher {
    /// One of `patcher bpatcher poly~ pfft~ gen~ jit.gen rnbo~ pd abstraction`.
    pub kind: &'static str,
    /// The box that represents the subpatcher.
    pub id: BoxId,
    /// Key of the box that represents the subpatcher.
    pub key: String,
    /// Name of the box that represents the subpatcher.
    pub varname: Option<String>,
    /// Name or file name of the subpatcher.
    pub name: Option<String>,
    /// The canvas of the subpatcher, when it is embedded.
    pub canvas: Option<CanvasId>,
    /// The canvas that contains the box.
    pub within: CanvasId,
}

impl<'a> View<'a> {
    /// Address of the canvas.
    pub fn id(&self) -> &CanvasId {
        &self.id
    }

    /// Boxes in file order (in Max, front to back); the position of a box is its index.
    pub fn boxes(&self) -> impl Iterator<Item = BoxView<'a>> + use<'a> {
        let view = self.clone();
        self.canvas.faces().map(move |(slot, face)| BoxView { view: view.clone(), slot, face })
    }

    /// Cords in file order.
    pub fn cords(&self) -> impl Iterator<Item = CordView<'a>> + use<'a> {
        let view = self.clone();
        let canvas = self.canvas;
        canvas.cord_slots().filter_map(move |slot| Some(CordView { view: view.clone(), cord: canvas.cord(slot)? }))
    }

    /// Number of boxes.
    pub fn box_count(&self) -> usize {
        self.canvas.box_count
    }

    /// Number of cords.
    pub fn cord_count(&self) -> usize {
        self.canvas.cord_count
    }

    /// A box by its address.
    pub fn get(&self, id: BoxId) -> Option<BoxView<'a>> {
        Some(BoxView { view: self.clone(), slot: id.0, face: self.canvas.face(id.0)? })
    }

    /// A box by its key.
    pub fn by_key(&self, key: &str) -> Option<BoxView<'a>> {
        self.get(BoxId(self.canvas.by_key(key)?))
    }

    /// Cords that start or end at a box.
    pub fn cords_of(&self, id: BoxId) -> Vec<CordView<'a>> {
        let slots = self.canvas.cords_at(id.0);
        slots
            .into_iter()
            .filter_map(|slot| Some(CordView { view: self.clone(), cord: self.canvas.cord(slot)? }))
            .collect()
    }

    /// Whether the patcher opens in presentation mode.
    pub fn opens_in_presentation(&self) -> bool {
        self.canvas.facts.open_in_presentation
    }

    /// Whether the canvas is a gen patcher. Operators in gen have other inlets than Max objects of
    /// the same name.
    pub fn is_gen(&self) -> bool {
        match self.canvas.facts.namespace.as_deref() {
            Some(namespace) => namespace == "dsp.gen",
            None => self.holder().is_some_and(|holder| GEN_CLASSES.contains(&holder.class())),
        }
    }

    /// The box that contains this canvas; `None` for the root.
    pub fn holder(&self) -> Option<BoxView<'a>> {
        let parent = self.id.parent()?;
        let slot = *self.id.0.last()?;
        self.document.view(&parent)?.get(BoxId(slot))
    }

    /// Name of the subpatcher, from its box.
    pub fn name(&self) -> Option<String> {
        self.holder()?.subpatcher_name()
    }

    /// Subpatchers of the canvas; when `recursive`, also those nested inside them.
    pub fn subpatchers(&self, recursive: bool) -> Vec<Subpatcher> {
        let mut found = Vec::new();
        for object in self.boxes() {
            let Some(kind) = object.subpatcher_kind() else {
                continue;
            };
            let inside = object.inside();
            found.push(Subpatcher {
                kind,
                id: object.id(),
                key: object.key().to_owned(),
                varname: object.varname().map(str::to_owned),
                name: object.subpatcher_name(),
                canvas: inside.as_ref().map(|inside| inside.id.clone()),
                within: self.id.clone(),
            });
            if let Some(inside) = inside.filter(|_| recursive) {
                found.extend(inside.subpatchers(true));
            }
        }
        found
    }

    /// The path of keys from the root, as in `obj-12/obj-3`; empty for the root.
    pub fn key_path(&self) -> Vec<String> {
        let mut keys = Vec::new();
        let mut canvas = self.document.root.as_ref();
        for slot in &self.id.0 {
            let Some(entry) = canvas.entry(*slot) else {
                break;
            };
            keys.push(entry.face.key.to_string());
            match &entry.inner {
                Some(inner) => canvas = inner,
                None => break,
            }
        }
        keys
    }

    /// Format of the document.
    pub fn format(&self) -> Format {
        self.document.format
    }

    /// Background colour, when the patcher states one: red, green, blue and opacity (0 to 1).
    pub fn background(&self) -> Option<[f64; 4]> {
        self.canvas.facts.background
    }

    /// Default font size of the boxes, when the canvas states one.
    pub fn font_size(&self) -> Option<f64> {
        self.canvas.facts.font_size
    }

    /// Pd: width and height of a character in pixels.
    pub fn pd_cell(&self) -> (f64, f64) {
        pd::cell(self.font_size())
    }

    /// Pd: whether the canvas is shown on its box (graph on parent).
    pub fn is_graph(&self) -> bool {
        self.canvas.facts.graph.is_some()
    }
}

/// Classes whose embedded patcher is a gen patcher unless it states another namespace.
pub(crate) const GEN_CLASSES: &[&str] = &["gen~", "mc.gen~", "mcs.gen~", "gen", "jit.gen", "jit.pix", "jit.gl.pix"];

impl<'a> BoxView<'a> {
    /// Address of the box.
    pub fn id(&self) -> BoxId {
        BoxId(self.slot)
    }

    /// Key of the box: its id in the file when that id is unique and contains no `/`, else `~n`.
    pub fn key(&self) -> &'a str {
        &self.face.key
    }

    /// Scripting name of the box.
    pub fn varname(&self) -> Option<&'a str> {
        self.face.facts.varname.as_deref()
    }

    /// The scripting name, else the key.
    pub fn label(&self) -> &'a str {
        self.varname().unwrap_or(self.key())
    }

    /// `newobj`, `message`, `comment`, or the class of a user interface object.
    pub fn maxclass(&self) -> &'a str {
        &self.face.facts.maxclass
    }

    /// Pd: the kind of the box as Pd names it.
    pub fn native_class(&self) -> Option<&'static str> {
        self.face.facts.native
    }

    /// Text of the box; empty for most user interface objects.
    pub fn text(&self) -> &'a str {
        &self.face.facts.text
    }

    /// The class: the first word of an object's text, else the kind of box.
    pub fn class(&self) -> &'a str {
        match self.face.facts.native {
            Some("obj" | "restore") => self.text().split_whitespace().next().unwrap_or("obj"),
            Some(native) => native,
            None if self.maxclass() == "newobj" => self.text().split_whitespace().next().unwrap_or("newobj"),
            None => self.maxclass(),
        }
    }

    /// Rectangle of the box in the patch.
    pub fn rect(&self) -> Rect {
        self.face.facts.rect
    }

    /// Rectangle of the box in presentation mode.
    pub fn presentation_rect(&self) -> Option<Rect> {
        self.face.facts.presentation_rect
    }

    /// Whether presentation mode shows the box.
    pub fn in_presentation(&self) -> bool {
        self.face.facts.presentation
    }

    /// Whether the box is hidden when the patch is locked.
    pub fn hidden(&self) -> bool {
        self.face.facts.hidden
    }

    /// Whether the box is in the background layer.
    pub fn in_background(&self) -> bool {
        self.face.facts.background
    }

    /// Index of the box: its position in the canvas.
    pub fn index(&self) -> usize {
        self.view.canvas.index_of(self.slot).unwrap_or(0)
    }

    /// A view of the canvas that contains the box.
    pub fn canvas(&self) -> View<'a> {
        self.view.clone()
    }

    /// A view of the patcher embedded in the box.
    pub fn inside(&self) -> Option<View<'a>> {
        let inner = self.view.canvas.inner(self.slot)?;
        Some(View { document: self.view.document, canvas: inner, id: self.view.id.inside(self.slot) })
    }

    /// Whether the box has no cords.
    pub fn unconnected(&self) -> bool {
        self.entry().is_none_or(|entry| entry.cords.is_empty())
    }

    pub(crate) fn entry(&self) -> Option<&'a Entry> {
        self.view.canvas.entry(self.slot)
    }

    /// The file that a bpatcher, `poly~` or `pfft~` box names.
    pub fn file(&self) -> Option<String> {
        if self.view.document.format.is_pd() {
            return None;
        }
        match self.class() {
            "bpatcher" if self.inside().is_none() => match self.key_value("name")? {
                Value::One(Atom::Word(name)) => Some(name),
                Value::One(_) | Value::Many(_) | Value::Json(_) => None,
            },
            "poly~" | "mc.poly~" | "mcs.poly~" | "pfft~" => {
                atoms::tokens(self.text()).get(1).filter(|name| !name.starts_with('@')).map(|name| (*name).to_owned())
            }
            _ => None,
        }
    }

    fn subpatcher_kind(&self) -> Option<&'static str> {
        let embedded = self.view.canvas.inner(self.slot).is_some();
        if self.view.document.format.is_pd() {
            let known = objects::table(Format::Pd).class_of(self.text()).is_some();
            return match (self.native_class(), embedded) {
                (_, true) => Some("pd"),
                (Some("obj"), false) if !known && self.view.document.abstraction(self.class()).is_some() => {
                    Some("abstraction")
                }
                _ => None,
            };
        }
        match self.class() {
            "bpatcher" => Some("bpatcher"),
            "poly~" | "mc.poly~" | "mcs.poly~" => Some("poly~"),
            "pfft~" => Some("pfft~"),
            "gen~" | "mc.gen~" | "mcs.gen~" => Some("gen~"),
            "jit.gen" | "jit.pix" | "jit.gl.pix" | "gen" if embedded => Some("jit.gen"),
            "rnbo~" => Some("rnbo~"),
            _ if embedded => Some("patcher"),
            class if self.view.document.abstraction(class).is_some() => Some("abstraction"),
            _ => None,
        }
    }

    fn subpatcher_name(&self) -> Option<String> {
        if let Some(file) = self.file() {
            return Some(file);
        }
        match self.subpatcher_kind()? {
            "abstraction" => Some(self.class().to_owned()),
            _ => atoms::tokens(self.text())
                .get(1)
                .filter(|name| !name.starts_with('@'))
                .map(|name| name.trim_matches('"').to_owned()),
        }
    }

    pub(crate) fn shape(&self) -> Option<Shape> {
        shape_of(self.view.document, self.face, self.view.canvas.inner(self.slot).is_some(), self.view.id.depth())
    }

    /// Font size of the text: the size that the box states, else the size that the canvas states.
    pub fn font_size(&self) -> Option<f64> {
        self.face.facts.font_size.or(self.view.font_size())
    }

    /// Pd: the class of the box; `None` if it is an object of an unknown class.
    pub fn pd_class(&self) -> Option<&'static str> {
        match self.native_class()? {
            "obj" => objects::table(Format::Pd).class_of(self.text()).map(|(class, _)| class.name),
            native => Some(native),
        }
    }

    /// Pd: the text of the box as lines, wrapped as Pd wraps them.
    pub fn pd_lines(&self) -> Vec<String> {
        pd::wrapped(self.text(), self.face.facts.columns)
    }

    /// Pd: at most `most` saved values of an array, evenly spaced.
    pub fn array_values(&self, most: usize) -> Vec<f64> {
        pd::array_values(self.face.before.bytes(&self.view.document.source), most)
    }

    /// Max: a setting of the parameter of a user interface object, such as `parameter_enum`.
    pub fn parameter(&self, key: &str) -> Option<Value> {
        let shape = self.shape()?;
        let (saved, _) = shape.get("saved_attribute_attributes")?;
        let (_, range, _) = json::members(saved).into_iter().find(|(name, _, _)| name == "valueof")?;
        let settings = saved.get(range)?;
        let (_, range, kind) = json::members(settings).into_iter().find(|(name, _, _)| name == key)?;
        Some(read_value(settings.get(range)?, kind))
    }

    /// The value of a key of the box in the file.
    pub fn key_value(&self, key: &str) -> Option<Value> {
        let shape = self.shape()?;
        let (raw, kind) = shape.get(key)?;
        Some(read_value(raw, kind))
    }

    /// The value of a key as four colour components; `None` if it is not a colour.
    pub fn color(&self, key: &str) -> Option<[f64; 4]> {
        if self.view.document.format.is_pd() {
            return None;
        }
        let shape = self.shape()?;
        max::color(shape.get(key)?.0)
    }

    /// All keys of the box in the file.
    pub fn keys(&self) -> Vec<String> {
        self.shape().map(|shape| shape.keys().map(str::to_owned).collect()).unwrap_or_default()
    }

    /// The value of an attribute. Max: a key of the box, or `@name value` in its text. Pd: a field
    /// of a GUI box.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        let rect = |rect: Rect| Value::Many(rect.array().into_iter().map(Atom::Float).collect());
        match name {
            "patching_rect" => return Some(rect(self.rect())),
            "varname" => return self.varname().map(|name| Value::One(name.into())),
            "text" => return Some(Value::One(self.text().into())),
            "maxclass" => return Some(Value::One(self.maxclass().into())),
            "hidden" | "presentation" | "background" if !self.view.document.format.is_pd() => {
                let on = match name {
                    "hidden" => self.hidden(),
                    "presentation" => self.in_presentation(),
                    _ => self.in_background(),
                };
                return Some(Value::One(Atom::Int(i64::from(on))));
            }
            _ => {}
        }
        if self.view.document.format.is_pd() {
            return self.pd_field(name);
        }
        let (_, _, attributes) = atoms::split(self.text());
        if self.maxclass() == "newobj"
            && let Some((_, values)) = attributes.iter().rev().find(|(found, _)| *found == name)
        {
            return Some(Value::from_atoms(values.iter().map(|token| Atom::read(token)).collect()));
        }
        self.key_value(name).or_else(|| {
            let shape = self.shape()?;
            let (saved, _) = shape.get("saved_object_attributes")?;
            let (_, range, kind) = json::members(saved).into_iter().rev().find(|(key, _, _)| key == name)?;
            Some(read_value(saved.get(range)?, kind))
        })
    }

    fn pd_field(&self, name: &str) -> Option<Value> {
        let class = self.pd_class()?;
        if name == "width" && pd::gui_fields(class).is_none() {
            return self.face.facts.columns.map(|n| Value::One(Atom::Int(i64::from(n))));
        }
        let at = pd::gui_field(class, name)?;
        let word = match self.native_class()? {
            "obj" => self.text().split(' ').nth(at + 1).map(str::to_owned),
            _ => {
                let text = self.face.before.bytes(&self.view.document.source);
                pd::words(text).nth(4 + at).map(|word| String::from_utf8_lossy(word).into_owned())
            }
        };
        let word = word.or_else(|| pd::gui_default(class)?.split(' ').nth(at).map(str::to_owned))?;
        Some(Value::One(Atom::read(&word)))
    }

    /// The value that the file stores for a number box, slider or similar box.
    pub fn stored_value(&self) -> Option<Value> {
        if self.view.document.format.is_pd() {
            return self.pd_field("value");
        }
        match self.maxclass() {
            "message" | "textedit" | "comment" | "live.comment" => Some(Value::One(self.text().into())),
            _ => self.parameter("parameter_initial"),
        }
    }

    /// Number of inlets and outlets of the box, and the source of these counts.
    pub fn ports(&self) -> Ports {
        crate::ports::of(self)
    }
}

pub(crate) fn shape_of(document: &Document, face: &Face, has_inner: bool, depth: usize) -> Option<Shape> {
    if document.format.is_pd() {
        return None;
    }
    let after = has_inner.then(|| face.after.bytes(&document.source));
    Shape::open(face.before.bytes(&document.source), after, "box", depth)
}

pub(crate) fn read_value(raw: &[u8], kind: Kind) -> Value {
    let atom = |raw: &[u8], kind: Kind| match kind {
        Kind::String => {
            Some(Atom::Word(json::decode(raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()).into_owned()))
        }
        Kind::Number => {
            let text = String::from_utf8_lossy(raw);
            text.parse::<i64>().map(Atom::Int).ok().or_else(|| json::number(raw).map(Atom::Float))
        }
        Kind::Word => Some(Atom::Int(i64::from(raw == b"true"))).filter(|_| raw != b"null"),
        Kind::Object | Kind::Array => None,
    };
    if kind == Kind::Array {
        let parts = json::elements(raw);
        let atoms: Vec<Atom> = parts.iter().filter_map(|(range, kind)| atom(raw.get(range.clone())?, *kind)).collect();
        if atoms.len() == parts.len() {
            return Value::from_atoms(atoms);
        }
    } else if let Some(atom) = atom(raw, kind) {
        return Value::One(atom);
    }
    Value::Json(String::from_utf8_lossy(raw).into_owned())
}

impl<'a> CordView<'a> {
    /// The box at the start of the cord; `None` if the file names a missing box.
    pub fn from(&self) -> Option<BoxView<'a>> {
        self.view.get(BoxId(self.cord.from.slot?))
    }

    /// The box at the end of the cord; `None` if the file names a missing box.
    pub fn to(&self) -> Option<BoxView<'a>> {
        self.view.get(BoxId(self.cord.to.slot?))
    }

    /// Number of the outlet at which the cord starts.
    pub fn outlet(&self) -> u32 {
        self.cord.from.port
    }

    /// Number of the inlet at which the cord ends.
    pub fn inlet(&self) -> u32 {
        self.cord.to.port
    }

    /// Name that the file uses for the box at the start of the cord.
    pub fn from_name(&self) -> &'a str {
        &self.cord.from.name
    }

    /// Name that the file uses for the box at the end of the cord.
    pub fn to_name(&self) -> &'a str {
        &self.cord.to.name
    }

    /// Whether the cord is hidden when the patch is locked.
    pub fn hidden(&self) -> bool {
        self.cord.hidden
    }

    /// Interior points of the cord.
    pub fn midpoints(&self) -> Vec<Point> {
        self.cord.midpoints.chunks_exact(2).filter_map(|pair| Some(Point::new(*pair.first()?, *pair.get(1)?))).collect()
    }

    /// Whether one end of the cord has no box, or its box has no such port.
    pub fn dangling(&self) -> bool {
        let short = |count: Option<u32>, port: u32| count.is_some_and(|count| port >= count);
        match (self.from(), self.to()) {
            (Some(from), Some(to)) => {
                short(from.ports().outlets, self.outlet()) || short(to.ports().inlets, self.inlet())
            }
            _ => true,
        }
    }

    /// Whether the cord carries a signal, according to the type of its outlet.
    pub fn is_signal(&self) -> bool {
        let types = self.from().and_then(|from| from.ports().outlet_types);
        types.and_then(|types| types.get(self.outlet() as usize).map(|kind| kind.contains("signal"))).unwrap_or(false)
    }

    fn member(&self, key: &str) -> Option<Value> {
        if self.view.document.format.is_pd() {
            return None;
        }
        let shape =
            Shape::open(self.cord.text.bytes(&self.view.document.source), None, "patchline", self.view.id.depth())?;
        let (raw, kind) = shape.get(key)?;
        Some(read_value(raw, kind))
    }

    /// Colour of the cord, when the file states one.
    pub fn color(&self) -> Option<[f64; 4]> {
        let value = self.member("color")?;
        let parts: Vec<f64> = value.atoms().iter().filter_map(Atom::number).collect();
        match parts.as_slice() {
            [r, g, b, a, ..] => Some([*r, *g, *b, *a]),
            [r, g, b] => Some([*r, *g, *b, 1.0]),
            _ => None,
        }
    }

    /// Position of the cord among the cords of its outlet, when the file states it.
    pub fn order(&self) -> Option<i64> {
        match self.member("order")? {
            Value::One(Atom::Int(order)) => Some(order),
            Value::One(_) | Value::Many(_) | Value::Json(_) => None,
        }
    }
}
