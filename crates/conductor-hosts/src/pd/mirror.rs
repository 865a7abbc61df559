//! Mirrors the patches in a running Pd, and sends the messages that change Pd to the state of a
//! document.
//!
//! Boxes are identified by their address in the document, never by their number in Pd. Pd renumbers
//! boxes at every deletion, and moves a box to the end when its text changes. To select a box, we
//! count from a *marker*, a comment with a unique text. Two equal boxes are therefore never
//! confused. Not here: starting Pd (`link`), and files (`pd`).

use super::fudi::{self, Messages};
use super::link::Silence;
use super::tcl::Word;
use conductor_core::error::ToolError;
use conductor_patch::{BoxId, BoxView, CanvasId, Document, View, is_pd_gui, pd_value_atom};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A connection to a Pd.
pub trait Wire: Send {
    fn send(&mut self, messages: Messages);
    fn say(&mut self, receiver: &str, selector: &str, arguments: &[&str]) {
        let mut messages = Messages::default();
        messages.say(receiver, selector, arguments);
        self.send(messages);
    }
    /// Waits until Pd has handled all messages, and returns the words received until then.
    fn settle(&mut self, limit_us: u64) -> Result<Vec<Word>, Silence>;
}

/// Maximum number of arrow keys to move a box, each by one or ten pixels. A box that moves further
/// is created again.
const MOST_STEPS: u64 = 500;
/// Position of the marker comment.
const MARKER: (i64, i64) = (2000, 2000);

type Port = (BoxId, u32);
/// The inlets that each outlet is connected to, in order.
type Cords = BTreeMap<Port, Vec<Port>>;

/// The description of a box in a file.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    kind: &'static str,
    place: (i64, i64),
    atoms: Vec<String>,
    columns: Option<u32>,
}

#[derive(Debug)]
struct MirrorBox {
    /// `None` for the marker comment.
    id: Option<BoxId>,
    /// The box as in the document.
    wanted: Shape,
    /// The box as Pd saves it.
    written: Shape,
}

#[derive(Debug)]
struct Canvas {
    /// The address of the canvas in Pd. Absent if the patch created the canvas itself, because then
    /// no window has reported the address.
    address: Option<String>,
    /// The boxes in Pd's order.
    boxes: Vec<MirrorBox>,
    cords: Cords,
    frame: Vec<String>,
    /// Cords of the file that Pd did not accept.
    refused: BTreeSet<(Port, Port)>,
}

/// The mirrored state of one document in Pd.
#[derive(Debug, Default)]
pub struct Shown {
    canvases: HashMap<CanvasId, Canvas>,
    /// Texts of boxes that Pd could not create when it loaded the file. Such a box is not an error
    /// in later changes.
    broken: BTreeSet<String>,
}

/// Why Pd could not be changed to the state of the document.
#[derive(Debug)]
pub enum FollowError {
    Silent(Silence),
    /// Pd refused a change.
    Refused(String),
    /// The difference cannot be expressed in messages; the document must be loaded again.
    Reload(&'static str),
    /// The document contains text that must not be sent to Pd.
    Bad(ToolError),
}

impl From<Silence> for FollowError {
    fn from(silence: Silence) -> Self {
        FollowError::Silent(silence)
    }
}

impl From<ToolError> for FollowError {
    fn from(fault: ToolError) -> Self {
        FollowError::Bad(fault)
    }
}

impl Shape {
    fn of(object: &BoxView<'_>) -> Shape {
        let rect = object.rect();
        Shape {
            kind: object.native_class().unwrap_or("obj"),
            place: (rect.x.round() as i64, rect.y.round() as i64),
            atoms: object.pd_atoms(),
            columns: object.pd_columns(),
        }
    }

    fn class(&self) -> &str {
        self.atoms.first().map_or("", String::as_str)
    }

    fn is_gui(&self) -> bool {
        self.kind == "obj" && is_pd_gui(self.class())
    }

    /// Whether the text of the box can be changed by typing.
    fn takes_text(&self) -> bool {
        matches!(self.kind, "obj" | "msg" | "text" | "restore") && !self.is_gui()
    }

    fn gate(&self) -> Option<bool> {
        match (self.kind, self.class()) {
            ("obj", "inlet" | "inlet~") => Some(true),
            ("obj", "outlet" | "outlet~") => Some(false),
            _ => None,
        }
    }

    /// Whether both descriptions are of the same box. The current value of a user interface object
    /// is ignored, because it is not part of the patch.
    fn is_like(&self, other: &Shape) -> bool {
        let value = if self.kind == "obj" { pd_value_atom(self.class()) } else { None };
        self.kind == other.kind
            && self.place == other.place
            && self.columns == other.columns
            && self.atoms.len() == other.atoms.len()
            && self.atoms.iter().zip(&other.atoms).enumerate().all(|(n, (a, b))| Some(n) == value || fudi::alike(a, b))
    }
}

fn cords_of(view: &View<'_>) -> Cords {
    let mut cords = Cords::new();
    for cord in view.cords() {
        if let (Some(from), Some(to)) = (cord.from(), cord.to()) {
            let fed = cords.entry((from.id(), cord.outlet())).or_default();
            let end = (to.id(), cord.inlet());
            // Pd refuses the second of two equal cords.
            if !fed.contains(&end) {
                fed.push(end);
            }
        }
    }
    cords
}

impl Canvas {
    fn index(&self, id: Option<BoxId>) -> Option<usize> {
        self.boxes.iter().position(|it| it.id == id)
    }

    /// The number of each box in Pd's order.
    fn numbers(&self) -> HashMap<BoxId, usize> {
        self.boxes.iter().enumerate().filter_map(|(n, it)| Some((it.id?, n))).collect()
    }

    /// The `inlet` and `outlet` boxes of the canvas ("gates"), each sorted from left to right,
    /// which is the order of the ports. If two boxes have the same horizontal position, the later
    /// box is first.
    fn gates(&self) -> (Vec<BoxId>, Vec<BoxId>) {
        let sorted = |inlets: bool| {
            let mut found: Vec<(i64, usize, BoxId)> = self
                .boxes
                .iter()
                .enumerate()
                .filter(|(_, it)| it.wanted.gate() == Some(inlets))
                .filter_map(|(n, it)| Some((it.wanted.place.0, usize::MAX - n, it.id?)))
                .collect();
            found.sort_unstable();
            found.into_iter().map(|(_, _, id)| id).collect()
        };
        (sorted(true), sorted(false))
    }

    fn forget_cords(&mut self, id: BoxId) {
        self.cords.retain(|(from, _), fed| {
            fed.retain(|(to, _)| *to != id);
            *from != id && !fed.is_empty()
        });
        self.refused.retain(|(from, to)| from.0 != id && to.0 != id);
    }

    /// Renumbers the cords outside a subpatch after its gates have changed. The cords of a gate
    /// stay connected to it. If the gate was removed, its cords are removed too.
    fn follow_gates(&mut self, holder: BoxId, before: &(Vec<BoxId>, Vec<BoxId>), after: &(Vec<BoxId>, Vec<BoxId>)) {
        if before == after {
            return;
        }
        let moved = |old: &[BoxId], new: &[BoxId], port: u32| {
            let gate = old.get(port as usize)?;
            new.iter().position(|it| it == gate).map(|it| it as u32)
        };
        let mut cords = Cords::new();
        for ((from, outlet), fed) in std::mem::take(&mut self.cords) {
            let outlet = if from == holder { moved(&before.1, &after.1, outlet) } else { Some(outlet) };
            let fed: Vec<Port> = fed
                .into_iter()
                .filter_map(|(to, inlet)| {
                    Some((to, if to == holder { moved(&before.0, &after.0, inlet)? } else { inlet }))
                })
                .collect();
            if let Some(outlet) = outlet.filter(|_| !fed.is_empty()) {
                cords.insert((from, outlet), fed);
            }
        }
        self.cords = cords;
    }
}

impl Shown {
    /// The state of Pd after it has loaded the document. `written` is the patch as Pd saves it.
    /// `windows` are the commands that Pd sent to its GUI during the load.
    pub fn after_load(document: &Document, written: &Document, windows: &[Word]) -> Result<Shown, String> {
        let mut within: HashMap<&str, Vec<&str>> = HashMap::new();
        let mut root = None;
        let (mut last_error, mut broken) = (String::new(), BTreeSet::new());
        for word in windows {
            if let Word::Parents(canvas, around) = word {
                match around.first() {
                    Some(nearest) => within.entry(nearest).or_default().push(canvas),
                    None => root = Some(canvas.as_str()),
                }
            }
            broken.extend(not_made(word, &mut last_error));
        }
        let root = root.ok_or("it opened no window")?;
        let mut shown = Shown { canvases: HashMap::new(), broken };
        let windows = |_: &View<'_>, address: &str| -> Vec<String> {
            within.get(address).into_iter().flatten().map(|it| (*it).to_owned()).collect()
        };
        shown.learn(&document.root(), &written.root(), &windows, root)?;
        Ok(shown)
    }

    /// The state of an attached Pd. Its canvases are identified only by name.
    pub fn by_name(document: &Document, written: &Document, name: &str) -> Result<Shown, String> {
        let mut shown = Shown::default();
        let names = |view: &View<'_>, _: &str| -> Vec<String> {
            view.boxes().filter_map(|it| it.inside()?.name()).map(|it| format!("pd-{it}")).collect()
        };
        shown.learn(&document.root(), &written.root(), &names, &format!("pd-{name}"))?;
        Ok(shown)
    }

    /// Stores the state of a canvas and of all its subpatches. `kids` returns the addresses of the
    /// subpatches of a canvas, in order.
    fn learn(
        &mut self,
        view: &View<'_>,
        written: &View<'_>,
        kids: &dyn Fn(&View<'_>, &str) -> Vec<String>,
        address: &str,
    ) -> Result<(), String> {
        let pairs = self.learn_canvas(view, written, Some(address.to_owned()))?;
        let windows = kids(view, address);
        if windows.len() != pairs.len() {
            return Err(format!("{} subpatches have {} windows", pairs.len(), windows.len()));
        }
        for ((inside, written), window) in pairs.iter().zip(&windows) {
            self.learn(inside, written, kids, window)?;
        }
        Ok(())
    }

    /// Stores the state of one canvas. Returns each subpatch of the document with its counterpart
    /// from Pd.
    fn learn_canvas<'a>(
        &mut self,
        view: &View<'a>,
        written: &View<'a>,
        address: Option<String>,
    ) -> Result<Vec<(View<'a>, View<'a>)>, String> {
        let mut boxes = Vec::new();
        let mut pairs = Vec::new();
        let mut heard = written.boxes().peekable();
        for object in view.boxes() {
            let wanted = Shape::of(&object);
            let fits = heard.peek().is_some_and(|it| {
                let kind = it.native_class().unwrap_or("obj");
                kind == wanted.kind || (kind == "restore" && wanted.kind == "obj")
            });
            let Some(found) = heard.next_if(|_| fits) else {
                // Pd drops a scalar if its template is missing.
                if wanted.kind == "scalar" {
                    continue;
                }
                return Err(format!("it does not show the box {:?}", object.text()));
            };
            if let (Some(inside), Some(written)) = (object.inside(), found.inside()) {
                pairs.push((inside, written));
            }
            boxes.push(MirrorBox {
                id: Some(object.id()),
                wanted,
                written: Shape { kind: Shape::of(&object).kind, ..Shape::of(&found) },
            });
        }
        if let Some(more) = heard.next() {
            return Err(format!("it shows a box that the file does not contain: {:?}", more.text()));
        }
        let mut canvas =
            Canvas { address, boxes, cords: Cords::new(), frame: view.pd_frame(), refused: BTreeSet::new() };
        canvas.cords = heard_cords(&canvas, written).unwrap_or_default();
        for (from, fed) in cords_of(view) {
            let taken = canvas.cords.get(&from).map(Vec::as_slice).unwrap_or_default();
            canvas.refused.extend(fed.into_iter().filter(|to| !taken.contains(to)).map(|to| (from, to)));
        }
        self.canvases.insert(view.id().clone(), canvas);
        Ok(pairs)
    }

    /// Whether the patch that Pd saved equals the mirrored state.
    pub fn agrees(&self, document: &Document, written: &Document) -> bool {
        self.canvas_agrees(&document.root(), &written.root())
    }

    fn canvas_agrees(&self, view: &View<'_>, written: &View<'_>) -> bool {
        let Some(canvas) = self.canvases.get(view.id()) else { return false };
        let heard: Vec<BoxView<'_>> = written.boxes().collect();
        if heard.len() != canvas.boxes.len() || heard_cords(canvas, written).as_ref() != Some(&canvas.cords) {
            return false;
        }
        canvas.boxes.iter().zip(&heard).all(|(mirrored, found)| {
            let shape = Shape { kind: mirrored.written.kind, ..Shape::of(found) };
            let inside = mirrored.id.and_then(|id| view.get(id)).and_then(|it| it.inside());
            mirrored.written.is_like(&shape)
                && match (inside, found.inside()) {
                    (Some(inside), Some(written)) => self.canvas_agrees(&inside, &written),
                    (None, _) => true,
                    (Some(_), None) => false,
                }
        })
    }

    /// Replaces the mirrored document with one that was read from Pd. The addresses of known
    /// windows are kept.
    pub fn adopt(&mut self, before: &Document, document: &Document) -> Result<(), String> {
        let mut old = std::mem::take(self);
        self.broken = std::mem::take(&mut old.broken);
        self.adopt_canvas(&old, Some(&before.root()), &document.root())
    }

    fn adopt_canvas(&mut self, old: &Shown, before: Option<&View<'_>>, view: &View<'_>) -> Result<(), String> {
        let was = before.and_then(|it| old.canvases.get(it.id()));
        let address = was.and_then(|it| it.address.clone());
        // The known subpatches in Pd's order.
        let mut known =
            was.into_iter().flat_map(|it| &it.boxes).filter_map(|mirrored| before?.get(mirrored.id?)?.inside());
        for (inside, _) in self.learn_canvas(view, view, address)? {
            let before = known.next().filter(|it| it.name() == inside.name());
            self.adopt_canvas(old, before.as_ref(), &inside)?;
        }
        Ok(())
    }

    pub fn root(&self) -> Option<&str> {
        self.address(&CanvasId::ROOT)
    }

    pub fn address(&self, canvas: &CanvasId) -> Option<&str> {
        self.canvases.get(canvas)?.address.as_deref()
    }

    /// Finds a box in the drawing of its canvas: the number of inlets and outlets, and the text.
    /// `words` is one complete drawing, starting with the first box.
    pub fn drawn(&self, object: &BoxView<'_>, words: &[Word]) -> Option<Drawn> {
        let canvas = self.canvases.get(object.canvas().id())?;
        let mut shapes = words.iter().filter_map(|word| {
            let Word::Shape { canvas: at, tag, x, y } = word else { return None };
            (Some(at) == canvas.address.as_ref()).then_some((tag, (x.round() as i64, y.round() as i64)))
        });
        let mut tag = None;
        for mirrored in &canvas.boxes {
            let outlined = !mirrored.wanted.is_gui()
                && matches!(mirrored.wanted.kind, "obj" | "msg" | "restore" | "floatatom" | "symbolatom" | "listbox");
            if !outlined {
                continue;
            }
            // Skip shapes at other positions: a subpatch may also draw its contents on its box.
            let found = shapes.clone().position(|(_, place)| place == mirrored.written.place);
            let at = found.and_then(|found| shapes.nth(found));
            if mirrored.id == Some(object.id()) {
                tag = at.map(|(tag, _)| tag);
                break;
            }
        }
        let tag = tag?;
        let nubs = |wanted: bool| {
            words
                .iter()
                .filter(|it| matches!(it, Word::Nub { tag: of, inlet } if of == tag && *inlet == wanted))
                .count() as u32
        };
        let text = words.iter().find_map(|word| {
            let Word::Text { tag: of, text } = word else { return None };
            (of == tag).then(|| text.clone())
        });
        Some(Drawn { inlets: nubs(true), outlets: nubs(false), text })
    }
}

/// A box as Pd drew it.
pub struct Drawn {
    pub inlets: u32,
    pub outlets: u32,
    pub text: Option<String>,
}

fn heard_cords(canvas: &Canvas, written: &View<'_>) -> Option<Cords> {
    let ids: HashMap<BoxId, BoxId> =
        written.boxes().zip(&canvas.boxes).filter_map(|(it, mirrored)| Some((it.id(), mirrored.id?))).collect();
    let mut cords = Cords::new();
    for ((from, outlet), fed) in cords_of(written) {
        let fed: Option<Vec<Port>> = fed.into_iter().map(|(to, inlet)| Some((*ids.get(&to)?, inlet))).collect();
        cords.insert((*ids.get(&from)?, outlet), fed?);
    }
    Some(cords)
}

/// The text of a box that Pd could not create. Pd prints the text of the box in one line and the
/// error in the next.
fn not_made(word: &Word, last: &mut String) -> Option<String> {
    let Word::Log { text, .. } = word else { return None };
    if text.contains("couldn't create") {
        return Some(std::mem::take(last));
    }
    text.trim_end().clone_into(last);
    None
}

/// Changes Pd from the mirrored state to the state of a document.
pub struct Follow<'a> {
    pub wire: &'a mut dyn Wire,
    pub shown: &'a mut Shown,
    pub nonce: &'a mut u64,
    pub limit_us: u64,
    out: Messages,
    words: Vec<Word>,
}

impl<'a> Follow<'a> {
    pub fn new(wire: &'a mut dyn Wire, shown: &'a mut Shown, nonce: &'a mut u64, limit_us: u64) -> Self {
        Follow { wire, shown, nonce, limit_us, out: Messages::default(), words: Vec::new() }
    }

    /// Changes Pd to the state of `target`. `base` is the document that Pd shows now; parts that
    /// are equal in both are skipped.
    pub fn go(mut self, target: &Document, base: Option<&Document>) -> Result<(), FollowError> {
        self.judge(&target.root(), base)?;
        self.canvas(&target.root(), base)?;
        if let Some(root) = self.shown.root().map(str::to_owned) {
            self.out.say(&root, "dirty", &["1"]);
        }
        self.settle()?;
        self.shown.canvases.retain(|id, _| target.view(id).is_some());
        let mut last = String::new();
        for word in &self.words {
            if let Some(text) = not_made(word, &mut last).filter(|it| !self.shown.broken.contains(it)) {
                return Err(FollowError::Refused(format!("Pd cannot create {text:?}")));
            }
            if let Word::Log { text, .. } = word
                && text.contains("connection failed")
            {
                return Err(FollowError::Refused(format!("Pd refused a cord: {}", text.trim())));
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), FollowError> {
        let root = self.shown.root().unwrap_or("pd").to_owned();
        *self.nonce += 1;
        let nonce = format!("+done{}", self.nonce);
        self.out.say(&root, "find", &[&nonce, "1"]);
        self.wire.send(std::mem::take(&mut self.out));
        self.words.extend(self.wire.settle(self.limit_us)?);
        Ok(())
    }

    /// Checks whether all changes can be expressed in messages. Called before anything is sent.
    fn judge(&self, view: &View<'_>, base: Option<&Document>) -> Result<(), FollowError> {
        let before = base.and_then(|it| it.view(view.id()));
        if before.as_ref().is_some_and(|it| it.is_untouched(view)) {
            return Ok(());
        }
        let canvas = self.shown.canvases.get(view.id());
        if canvas.is_some_and(|it| it.address.is_none()) {
            return Err(FollowError::Reload("the patch created a subpatch itself"));
        }
        let frame = view.pd_frame();
        if canvas.map_or(!frame.is_empty(), |it| it.frame != frame) {
            return Err(FollowError::Reload("declarations or the view of a graph changed"));
        }
        for object in view.boxes() {
            if before.as_ref().and_then(|it| it.get(object.id())).is_none_or(|it| !it.is_untouched(&object)) {
                let mirrored = canvas.and_then(|it| it.boxes.get(it.index(Some(object.id()))?));
                let shape = Shape::of(&object);
                if mirrored.is_none_or(|it| it.wanted != shape) {
                    fudi::check(&shape.atoms)?;
                    let is_new = mirrored.is_none_or(|it| it.wanted.kind != shape.kind || !it.wanted.takes_text());
                    if is_new && (matches!(shape.kind, "array" | "scalar") || object.pd_has_data()) {
                        return Err(FollowError::Reload("stored data can be changed only by loading the patch"));
                    }
                    if mirrored.is_some_and(|it| it.wanted.kind == "restore" && steps(&it.wanted, &shape) > MOST_STEPS)
                    {
                        return Err(FollowError::Reload("a subpatch was moved too far"));
                    }
                }
            }
            if let Some(inside) = object.inside() {
                self.judge(&inside, base)?;
            }
        }
        Ok(())
    }

    fn canvas(&mut self, view: &View<'_>, base: Option<&Document>) -> Result<(), FollowError> {
        let before = base.and_then(|it| it.view(view.id()));
        if before.as_ref().is_some_and(|it| it.is_untouched(view)) {
            return Ok(());
        }
        let id = view.id();
        let canvas =
            self.shown.canvases.get(id).ok_or(FollowError::Reload("the state of a subpatch in Pd is unknown"))?;
        let address = canvas.address.clone().ok_or(FollowError::Reload("the patch created a subpatch itself"))?;
        let gone: Vec<BoxId> =
            canvas.boxes.iter().filter_map(|it| it.id).filter(|it| view.get(*it).is_none()).collect();
        let known = canvas.numbers();
        let (mut changed, mut added) = (Vec::new(), Vec::new());
        for object in view.boxes() {
            match known.get(&object.id()).and_then(|it| canvas.boxes.get(*it)) {
                None if Shape::of(&object).kind == "scalar" => {}
                None => added.push(object),
                Some(_)
                    if before
                        .as_ref()
                        .and_then(|it| it.get(object.id()))
                        .is_some_and(|it| it.is_untouched(&object)) => {}
                Some(mirrored) => {
                    let shape = Shape::of(&object);
                    if mirrored.wanted != shape {
                        changed.push((object.id(), shape));
                    }
                }
            }
        }
        let mut disturbed = BTreeSet::new();
        self.loosen(view, &address, &changed);
        if !gone.is_empty() || !changed.is_empty() {
            self.change(view, &address, &gone, changed, &mut disturbed)?;
        }
        for object in added {
            self.add(view, &address, object.id(), Shape::of(&object))?;
            if object.inside().is_some() {
                self.open_inside(&object)?;
            }
        }
        for object in view.boxes() {
            if let Some(inside) = object.inside() {
                self.canvas(&inside, base)?;
            }
        }
        self.cords(view, &address, &disturbed);
        Ok(())
    }

    /// Called before the text of a box changes. Removes the cords that the document no longer has,
    /// because the changed box may lack their ports, and Pd would report an error for each such
    /// cord.
    fn loosen(&mut self, view: &View<'_>, address: &str, changed: &[(BoxId, Shape)]) {
        let Some(canvas) = self.shown.canvases.get_mut(view.id()) else { return };
        let wanted = cords_of(view);
        let retyped = |id: BoxId| changed.iter().any(|(it, shape)| *it == id && shape.kind == "obj");
        let numbers: HashMap<BoxId, usize> = canvas.numbers();
        for (from, fed) in &mut canvas.cords {
            let stays = wanted.get(from).map(Vec::as_slice).unwrap_or_default();
            fed.retain(|to| {
                let lost = (retyped(from.0) || retyped(to.0)) && !stays.contains(to);
                if lost {
                    cord(&mut self.out, address, "disconnect", &numbers, *from, *to);
                }
                !lost
            });
        }
        canvas.cords.retain(|_, fed| !fed.is_empty());
    }

    fn canvas_mut(&mut self, view: &View<'_>) -> Result<&mut Canvas, FollowError> {
        self.shown.canvases.get_mut(view.id()).ok_or(FollowError::Reload("the state of a subpatch in Pd is unknown"))
    }

    /// Changes the mirrored canvas, and renumbers the cords outside it if its gates have changed.
    fn know(&mut self, view: &View<'_>, change: impl FnOnce(&mut Canvas)) -> Result<(), FollowError> {
        let canvas = self.canvas_mut(view)?;
        let before = canvas.gates();
        change(canvas);
        let after = canvas.gates();
        if let (Some(outside), Some(holder)) = (view.id().parent(), view.holder())
            && let Some(outside) = self.shown.canvases.get_mut(&outside)
        {
            outside.follow_gates(holder.id(), &before, &after);
        }
        Ok(())
    }

    fn change(
        &mut self,
        view: &View<'_>,
        address: &str,
        gone: &[BoxId],
        changed: Vec<(BoxId, Shape)>,
        disturbed: &mut BTreeSet<Port>,
    ) -> Result<(), FollowError> {
        if address.starts_with("pd-") {
            // Open the window first, because selecting needs one. Canvases of a Pd that we started
            // always have a window.
            self.out.say(address, "vis", &["1"]);
        }
        *self.nonce += 1;
        let nonce = format!("conductor-{}", self.nonce);
        let find = format!("+{nonce}");
        let marker = Shape { kind: "text", place: MARKER, atoms: vec![nonce], columns: None };
        self.out.say_atoms(address, "text", MARKER, &marker.atoms);
        self.canvas_mut(view)?.boxes.push(MirrorBox { id: None, written: marker.clone(), wanted: marker });
        for id in gone {
            self.cut(view, address, &find, *id)?;
        }
        let mut recreated = Vec::new();
        for (id, shape) in changed {
            let canvas = self.canvas_mut(view)?;
            let Some(old) = canvas.index(Some(id)).and_then(|it| canvas.boxes.get(it)).map(|it| it.wanted.clone())
            else {
                continue;
            };
            let same_text = old.kind == shape.kind && old.atoms == shape.atoms && old.columns == shape.columns;
            let far = steps(&old, &shape) > MOST_STEPS;
            if far || !(same_text || old.kind == shape.kind && old.takes_text() && shape.takes_text()) {
                self.cut(view, address, &find, id)?;
                recreated.push((id, shape));
                continue;
            }
            if !same_text {
                self.retype(view, address, &find, id, &shape, disturbed)?;
            }
            self.step(view, address, &find, id, &shape)?;
        }
        self.out.say(address, "find", &[&find, "1"]);
        self.out.say(address, "cut", &[]);
        self.canvas_mut(view)?.boxes.retain(|it| it.id.is_some());
        for (id, shape) in recreated {
            self.add(view, address, id, shape)?;
        }
        Ok(())
    }

    /// Selects a box by counting from the marker comment.
    fn select(&mut self, view: &View<'_>, address: &str, find: &str, id: BoxId) -> Result<(), FollowError> {
        let canvas = self.canvas_mut(view)?;
        let (Some(from), Some(to)) = (canvas.index(None), canvas.index(Some(id))) else {
            return Err(FollowError::Reload("the state of a box in Pd is unknown"));
        };
        self.out.say(address, "find", &[find, "1"]);
        self.out.say(address, "cycleselect", &[&(to as i64 - from as i64).to_string()]);
        Ok(())
    }

    fn cut(&mut self, view: &View<'_>, address: &str, find: &str, id: BoxId) -> Result<(), FollowError> {
        self.select(view, address, find, id)?;
        self.out.say(address, "cut", &[]);
        self.know(view, |canvas| {
            canvas.forget_cords(id);
            canvas.boxes.retain(|it| it.id != Some(id));
        })
    }

    /// Types a new text into a box, as a person would. The box keeps its cords, and the sound is
    /// not interrupted.
    fn retype(
        &mut self,
        view: &View<'_>,
        address: &str,
        find: &str,
        id: BoxId,
        shape: &Shape,
        disturbed: &mut BTreeSet<Port>,
    ) -> Result<(), FollowError> {
        self.select(view, address, find, id)?;
        self.out.say(address, "reselect", &[]);
        let text = fudi::typed(&shape.atoms);
        if text.is_empty() {
            self.out.say(address, "key", &["1", "8", "0"]);
        }
        for letter in text.chars() {
            self.out.say(address, "key", &["1", &u32::from(letter).to_string(), "0"]);
        }
        self.out.say(address, "deselectall", &[]);
        let canvas = self.canvas_mut(view)?;
        let old = canvas.index(Some(id)).and_then(|it| canvas.boxes.get(it)).map(|it| it.wanted.clone());
        if old.as_ref().is_some_and(|it| it.columns != shape.columns) {
            self.out.say(address, "f", &[&shape.columns.unwrap_or(0).to_string()]);
        }
        let canvas = self.canvas_mut(view)?;
        // Pd removes the cords of this box and adds them again, so they are now the last cords of
        // their outlets. The order must be restored.
        disturbed.extend(
            canvas
                .cords
                .iter()
                .filter(|(from, fed)| fed.len() > 1 && (from.0 == id || fed.iter().any(|it| it.0 == id)))
                .map(|(from, _)| *from),
        );
        canvas.refused.retain(|(from, to)| from.0 != id && to.0 != id);
        let new_class = old.as_ref().is_none_or(|it| it.class() != shape.class());
        let is_gate = shape.gate().is_some() || old.as_ref().is_some_and(|it| it.gate().is_some());
        if is_gate {
            // Pd creates the gate again, and removes the cords to it outside the subpatch.
            self.know(view, |canvas| canvas.boxes.retain(|it| it.id != Some(id)))?;
        }
        if shape.kind == "restore"
            && let Some(inside) = view.get(id).and_then(|it| it.inside())
            && let Some(canvas) = self.shown.canvases.get_mut(inside.id())
            && canvas.address.as_ref().is_some_and(|it| it.starts_with("pd-"))
        {
            // This canvas is addressed by its name, which has changed.
            canvas.address = inside.name().map(|it| format!("pd-{it}"));
        }
        let placed = Shape { place: old.map_or(shape.place, |it| it.place), ..shape.clone() };
        self.know(view, |canvas| {
            canvas.boxes.retain(|it| it.id != Some(id));
            canvas.boxes.push(MirrorBox { id: Some(id), written: placed.clone(), wanted: placed });
        })?;
        if new_class && shape.kind == "obj" {
            // Pd may have dropped a cord that the document still has, so all cords of this box are
            // removed and added again. Removing a cord that does not exist is harmless.
            let canvas = self.canvas_mut(view)?;
            disturbed.extend(
                canvas
                    .cords
                    .iter()
                    .filter(|(from, fed)| from.0 == id || fed.iter().any(|it| it.0 == id))
                    .map(|(from, _)| *from),
            );
        }
        Ok(())
    }

    fn step(
        &mut self,
        view: &View<'_>,
        address: &str,
        find: &str,
        id: BoxId,
        shape: &Shape,
    ) -> Result<(), FollowError> {
        let canvas = self.canvas_mut(view)?;
        let Some(place) = canvas.index(Some(id)).and_then(|it| canvas.boxes.get(it)).map(|it| it.wanted.place) else {
            return Ok(());
        };
        let (dx, dy) = (shape.place.0 - place.0, shape.place.1 - place.1);
        if (dx, dy) != (0, 0) {
            self.select(view, address, find, id)?;
            for (way, far) in [(if dx < 0 { "Left" } else { "Right" }, dx), (if dy < 0 { "Up" } else { "Down" }, dy)] {
                for _ in 0..far.unsigned_abs() / 10 {
                    self.out.say(address, "key", &["1", way, "1"]);
                }
                for _ in 0..far.unsigned_abs() % 10 {
                    self.out.say(address, "key", &["1", way, "0"]);
                }
            }
            self.out.say(address, "deselectall", &[]);
        }
        let place = shape.place;
        self.know(view, |canvas| {
            if let Some(mirrored) = canvas.index(Some(id)).and_then(|it| canvas.boxes.get_mut(it)) {
                mirrored.wanted.place = place;
                mirrored.written.place = place;
            }
        })
    }

    fn add(&mut self, view: &View<'_>, address: &str, id: BoxId, shape: Shape) -> Result<(), FollowError> {
        let kind = if shape.kind == "restore" { "obj" } else { shape.kind };
        self.out.say_atoms(address, kind, shape.place, &shape.atoms);
        if let Some(columns) = shape.columns {
            self.out.say(address, "f", &[&columns.to_string()]);
        }
        self.know(view, |canvas| canvas.boxes.push(MirrorBox { id: Some(id), written: shape.clone(), wanted: shape }))
    }

    /// Reads the address of a new subpatch from its window. If Pd reports no window, the address is
    /// derived from the name of the subpatch.
    fn open_inside(&mut self, object: &BoxView<'_>) -> Result<(), FollowError> {
        let Some(inside) = object.inside() else { return Ok(()) };
        let said = self.words.len();
        self.settle()?;
        let window = self
            .words
            .iter()
            .skip(said)
            .find_map(|it| if let Word::Canvas(address) = it { Some(address.clone()) } else { None });
        let address = window.or_else(|| inside.name().map(|it| format!("pd-{it}")));
        let empty =
            Canvas { address, boxes: Vec::new(), cords: Cords::new(), frame: Vec::new(), refused: BTreeSet::new() };
        self.shown.canvases.insert(inside.id().clone(), empty);
        Ok(())
    }

    /// Removes and adds cords so that each outlet has the order of the document.
    fn cords(&mut self, view: &View<'_>, address: &str, disturbed: &BTreeSet<Port>) {
        let Some(canvas) = self.shown.canvases.get_mut(view.id()) else { return };
        let mut wanted = cords_of(view);
        for (from, fed) in &mut wanted {
            fed.retain(|to| !canvas.refused.contains(&(*from, *to)));
        }
        wanted.retain(|_, fed| !fed.is_empty());
        let numbers = canvas.numbers();
        let mut send =
            |selector: &str, from: Port, to: Port| cord(&mut self.out, address, selector, &numbers, from, to);
        let none = Vec::new();
        let ports: BTreeSet<Port> = canvas.cords.keys().chain(wanted.keys()).copied().collect();
        for from in ports {
            let (now, then) = (canvas.cords.get(&from).unwrap_or(&none), wanted.get(&from).unwrap_or(&none));
            if now == then && !disturbed.contains(&from) {
                continue;
            }
            let (stay, go): (Vec<Port>, Vec<Port>) = now.iter().partition(|it| then.contains(it));
            let same =
                if disturbed.contains(&from) { 0 } else { stay.iter().zip(then).take_while(|(a, b)| a == b).count() };
            for to in go.iter().chain(stay.iter().skip(same)) {
                send("disconnect", from, *to);
            }
            for to in then.iter().skip(same) {
                send("connect", from, *to);
            }
        }
        canvas.cords = wanted;
    }
}

fn cord(out: &mut Messages, address: &str, selector: &str, numbers: &HashMap<BoxId, usize>, from: Port, to: Port) {
    let number = |id: BoxId| numbers.get(&id).map_or_else(|| "-1".to_owned(), usize::to_string);
    let (outlet, inlet) = (from.1.to_string(), to.1.to_string());
    out.say(address, selector, &[&number(from.0), &outlet, &number(to.0), &inlet]);
}

fn steps(old: &Shape, new: &Shape) -> u64 {
    let of = |far: i64| far.unsigned_abs() / 10 + far.unsigned_abs() % 10;
    of(new.place.0 - old.place.0) + of(new.place.1 - old.place.1)
}
