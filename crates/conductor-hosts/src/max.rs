//! A running Max with our bridge (`bridges/max`) in it. The bridge dials us on loopback and waits
//! for our token; both prove that they know a secret, and then speak over a WebSocket: we send
//! requests, it answers.
//!
//! Tested against a fake Max under Node, never in a real one; `get_patch_info` says so. Max gives
//! scripts no way to read a whole patcher, so an edit of the person cannot be taken over: it is
//! noticed, and the next call is refused. Not here: what runs inside Max (`bridges/max`).

use super::bridges::{AddressFile, is_mine, proof, same, secret, write_private};
use super::patch::console::{Level, Source, Voice};
use super::patch::{Ability, Capabilities, HostKind, PatchHost, Window};
use crate::system::{Clock, Ids};
use conductor_core::error::{Code, Effect, ToolError};
use conductor_patch::{Atom, BoxId, BoxView, CanvasId, CordView, Document, Format, Value, View, Warning, WarningCode};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::http::{HeaderValue, StatusCode};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket, accept_hdr_with_config};

const PROTOCOL: u64 = 2;
const MOST_BYTES: usize = 16 << 20;
/// A handshake that takes longer is not one of the bridge.
const HELLO: Duration = Duration::from_secs(2);
const CALL_US: u64 = 5_000_000;
/// What the bridge gets a little less of than we wait, so that a request we gave up is never run.
const DEADLINE_MS: u64 = 4500;

/// The files of the bridge, by name.
pub const BRIDGE: [(&str, &str); 5] = [
    ("conductor.maxpat", include_str!("../../../bridges/max/conductor.maxpat")),
    ("conductor.js", include_str!("../../../bridges/max/conductor.js")),
    ("conductor-v8.js", include_str!("../../../bridges/max/conductor-v8.js")),
    ("ws.js", include_str!("../../../bridges/max/ws.js")),
    ("pack.js", include_str!("../../../bridges/max/pack.js")),
];

fn bridge_folder(home: &Path) -> PathBuf {
    home.join("state").join("max")
}

/// Writes the bridge into the home and gives the path of its patch.
pub fn install(home: &Path, ids: &dyn Ids) -> io::Result<PathBuf> {
    let folder = bridge_folder(home);
    for (name, text) in BRIDGE {
        write_private(&folder.join(name), text.as_bytes(), ids)?;
    }
    Ok(folder.join("conductor.maxpat"))
}

pub struct MaxHost {
    state: Arc<Mutex<State>>,
    address: AddressFile,
}

/// What the address file holds besides the port.
struct Keys {
    token: String,
    secret: String,
}

#[derive(Default)]
struct State {
    line: Option<Line>,
    roots: BTreeMap<String, Root>,
    /// Counts the names we give new boxes.
    names: u64,
}

struct Root {
    patcher: String,
    revision: u64,
    /// What the bridge calls each box.
    keys: HashMap<(CanvasId, BoxId), String>,
}

struct Line {
    out: WebSocket<TcpStream>,
    heard: Receiver<Json>,
    clock: Arc<dyn Clock>,
    asked: u64,
    version: String,
}

impl MaxHost {
    /// Waits for the bridge from now on; where is written to the home, for its person alone.
    pub fn listen(home: &Path, port: u16, ids: &dyn Ids, voice: Voice, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let ours = listener.local_addr()?;
        let keys = Keys { token: secret(), secret: secret() };
        let text = json!({ "port": ours.port(), "token": keys.token, "secret": keys.secret }).to_string();
        let address = AddressFile::write(home.join("state").join("max-bridge.json"), text, ids)?;
        // A bridge of an earlier version says its token to every listener.
        if bridge_folder(home).is_dir() {
            install(home, ids)?;
        }
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::downgrade(&state);
        Builder::new().name("max bridge".into()).spawn(move || {
            for socket in listener.incoming().flatten() {
                let Some(state) = shared.upgrade() else { return };
                let (level, text) = match greet(socket, ours, &keys, &clock) {
                    Ok(line) => {
                        let text = format!("the bridge of Max {} dialled in", line.version);
                        // The newest counts; patchers of an older one are gone with it.
                        let mut state = lock(&state);
                        state.roots.clear();
                        state.line = Some(line);
                        (Level::Info, text)
                    }
                    Err(why) => {
                        (Level::Warning, format!("a program dialled the port of Max's bridge and was refused: {why}"))
                    }
                };
                voice.say(Source::Conductor, level, None, None, text);
            }
        })?;
        Ok(Arc::new(MaxHost { state, address }))
    }

    /// Whether a bridge answers.
    pub fn is_attached(&self) -> bool {
        lock(&self.state).line.as_mut().is_some_and(|it| it.ask("ping", json!({})).is_ok())
    }

    fn with_root<T>(
        &self,
        root: &str,
        work: impl FnOnce(&mut Line, &mut u64, &mut Root) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut state = lock(&self.state);
        let State { line, roots, names } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let root = roots.get_mut(root).ok_or_else(|| {
            ToolError::new(Code::HostOffline, "Max was started anew and does not show this patch")
                .hint("Close the patch with close_patch and open it again.")
        })?;
        work(line, names, root)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The thread that reads has the same socket and would keep it open.
        let _ = self.out.get_ref().shutdown(Shutdown::Both);
    }
}

impl Line {
    fn ask(&mut self, op: &str, args: Json) -> Result<Json, ToolError> {
        self.asked += 1;
        let id = self.asked;
        let request = json!({ "type": "request", "id": id, "op": op, "deadline_ms": DEADLINE_MS, "args": args });
        let text = request.to_string();
        if text.len() > MOST_BYTES {
            return Err(ToolError::new(Code::BadInput, "the change is too large for the bridge of Max")
                .hint("Make it in parts."));
        }
        self.out.send(Message::text(text)).map_err(|fault| gone(&fault.to_string()))?;
        let until = self.clock.now().plus_us(CALL_US);
        loop {
            let left = until.0.saturating_sub(self.clock.now().0);
            let told = match self.heard.recv_timeout(Duration::from_micros(left)) {
                Ok(told) => told,
                Err(RecvTimeoutError::Disconnected) => return Err(gone("the bridge left")),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(ToolError::new(
                        Code::Timeout,
                        "Max does not answer; a request it did not run by now never runs",
                    )
                    .hint("Repeat the call when Max is no longer busy.")
                    .effect(Effect::Unknown));
                }
            };
            // An answer to a call that was given up.
            if told["id"] != json!(id) {
                continue;
            }
            return if told["ok"] == json!(true) { Ok(told["result"].clone()) } else { Err(refused(&told["error"])) };
        }
    }
}

impl PatchHost for MaxHost {
    fn kind(&self) -> HostKind {
        HostKind::Max
    }

    fn capabilities(&self, _: Format) -> Capabilities {
        const UNTESTED: Ability = Ability::Degraded("untested in real Max");
        vec![
            ("edit", UNTESTED),
            ("attributes", Ability::Degraded("untested in real Max; checked against what the object has")),
            ("ports", Ability::Degraded("from the file, its structure and a table of classes")),
            ("hidden", UNTESTED),
            ("midpoints", Ability::No("Max gives scripts no way to fold a cord")),
            ("presentation", UNTESTED),
            ("value", UNTESTED),
            ("lock", Ability::Degraded("untested in real Max; read from Max")),
            ("dirty", Ability::Degraded("of the document; Max's own flag is not told")),
            ("console", Ability::No("Max gives scripts no console")),
            ("frontmost", Ability::Degraded("untested in real Max; its front window")),
            ("redraw", Ability::No("Max draws by itself")),
        ]
    }

    fn open(&self, root: &str, document: &Document, file: Option<&Path>) -> Result<(), ToolError> {
        if document.format().is_pd() {
            return Err(
                ToolError::new(Code::BadInput, "Max does not open .pd files").hint("Use host \"pd\" or \"document\".")
            );
        }
        let mut state = lock(&self.state);
        let State { line, roots, .. } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let told = match file.filter(|it| it.is_file()) {
            Some(file) => line.ask("open", json!({ "path": file }))?,
            None => line.ask("create", json!({}))?,
        };
        let mut keys = HashMap::new();
        align(&document.root(), &told["boxes"], &mut keys).map_err(|why| {
            ToolError::new(Code::SdkRejected, format!("Max shows another patch than the file: {why}"))
                .hint("Save it in Max first, or open it with host \"document\".")
        })?;
        let patcher = told["patcher"].as_str().unwrap_or_default().to_owned();
        let revision = told["revision"].as_u64().unwrap_or(1);
        roots.insert(root.to_owned(), Root { patcher, revision, keys });
        Ok(())
    }

    fn close(&self, root: &str) {
        let _ = self.with_root(root, |line, _, root| line.ask("close", json!({ "patcher": root.patcher })));
        lock(&self.state).roots.remove(root);
    }

    fn carry(&self, root: &str, before: &Document, after: &Document) -> Result<Vec<Warning>, ToolError> {
        if before.root().is_untouched(&after.root()) {
            return Ok(Vec::new());
        }
        self.with_root(root, |line, names, root| {
            let mut plan = Plan { keys: root.keys.clone(), names, edits: Vec::new(), straight: 0 };
            plan.canvas(Some(&before.root()), &after.root(), &[])?;
            if plan.edits.is_empty() && before.to_bytes() != after.to_bytes() {
                return Err(beyond("the bridge of Max has no way to make this change"));
            }
            let args = json!({ "patcher": root.patcher, "at": root.revision, "edits": plan.edits });
            let Plan { keys, straight, .. } = plan;
            let told = line.ask("apply", args)?;
            root.keys = keys;
            root.revision = told["revision"].as_u64().unwrap_or(root.revision + 1);
            let degraded = (straight > 0).then(|| Warning {
                code: WarningCode::HostDegraded,
                message: format!("{straight} cords are folded or hidden in the document; Max shows them straight"),
                subject: None,
            });
            Ok(degraded.into_iter().collect())
        })
    }

    fn value(&self, root: &str, object: &BoxView<'_>) -> Result<Option<Value>, ToolError> {
        self.with_root(root, |line, _, root| {
            let Some(key) = root.keys.get(&(object.canvas().id().clone(), object.id())) else { return Ok(None) };
            let told = line.ask("value", json!({ "patcher": root.patcher, "key": key }))?;
            let value = &told["value"];
            let many = value.as_array().map(|many| Value::Many(many.iter().map(atom).collect()));
            Ok(Some(many.unwrap_or_else(|| Value::One(atom(value)))))
        })
    }

    fn set_locked(&self, root: &str, locked: bool) -> Result<(), ToolError> {
        self.with_root(root, |line, _, root| {
            line.ask("lock", json!({ "patcher": root.patcher, "locked": locked })).map(|_| ())
        })
    }

    fn locked(&self, root: &str) -> Result<Option<bool>, ToolError> {
        self.with_root(root, |line, _, root| {
            let answer = line.ask("lock", json!({ "patcher": root.patcher }))?;
            Ok(answer["locked"].as_u64().map(|it| it != 0))
        })
    }

    fn windows(&self) -> Result<Option<Vec<Window>>, ToolError> {
        let mut state = lock(&self.state);
        let State { line, roots, .. } = &mut *state;
        let answer = line.as_mut().ok_or_else(absent)?.ask("list", json!({}))?;
        let windows = answer["windows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let window = |row: &Json| {
            let text = |name: &str| row[name].as_str().filter(|it| !it.is_empty());
            let root = roots.iter().find(|(_, it)| Some(it.patcher.as_str()) == text("patcher"));
            Window {
                root: root.map(|(id, _)| id.clone()),
                name: text("name").unwrap_or("untitled").chars().take(200).collect(),
                path: text("path").map(PathBuf::from),
            }
        };
        Ok(Some(windows.iter().map(window).collect()))
    }

    fn stop(&self) {
        self.address.remove();
        lock(&self.state).line = None;
    }

    fn redraw(&self, _: &str, _: &BoxView<'_>) -> Result<bool, ToolError> {
        Err(ToolError::new(Code::Unsupported, "Max draws by itself").hint("Clearance it out."))
    }
}

/// The edits that bring Max from one state of a document to another, all in one batch.
struct Plan<'a> {
    keys: HashMap<(CanvasId, BoxId), String>,
    names: &'a mut u64,
    edits: Vec<Json>,
    /// New cords that Max shows otherwise than the document has them.
    straight: usize,
}

/// Members of a box that are told in another way, or that Max finds itself.
const NOT_ATTRIBUTES: [&str; 13] = [
    "id",
    "maxclass",
    "text",
    "patching_rect",
    "varname",
    "hidden",
    "numinlets",
    "numoutlets",
    "outlettype",
    "patcher",
    "saved_object_attributes",
    "saved_attribute_attributes",
    "data",
];

type Cord = (BoxId, u32, BoxId, u32);

fn key_of(cord: &CordView<'_>) -> Option<Cord> {
    Some((cord.from()?.id(), cord.outlet(), cord.to()?.id(), cord.inlet()))
}

fn cords(view: &View<'_>) -> BTreeSet<Cord> {
    view.cords().filter_map(|it| key_of(&it)).collect()
}

/// Points and visibility of every cord, which Max does not let scripts change.
fn courses(view: &View<'_>) -> HashMap<Cord, (Vec<[f64; 2]>, bool)> {
    let points = |it: &CordView<'_>| it.midpoints().iter().map(|it| [it.x, it.y]).collect();
    view.cords().filter_map(|it| Some((key_of(&it)?, (points(&it), it.hidden())))).collect()
}

impl Plan<'_> {
    fn canvas(&mut self, before: Option<&View<'_>>, after: &View<'_>, within: &[String]) -> Result<(), ToolError> {
        if before.is_some_and(|it| it.is_untouched(after)) {
            return Ok(());
        }
        let at = after.id().clone();
        let (old, new) = (before.map(cords).unwrap_or_default(), cords(after));
        let courses_before = before.map(courses).unwrap_or_default();
        for (cord, course) in courses(after) {
            match courses_before.get(&cord) {
                Some(was) if *was != course => {
                    return Err(beyond("Max gives scripts no way to fold or hide a cord"));
                }
                Some(_) => {}
                None => self.straight += usize::from(course.1 || !course.0.is_empty()),
            }
        }
        // A box of another kind is another box: its cords go with the old one.
        let anew = |id: BoxId| match (before.and_then(|it| it.get(id)), after.get(id)) {
            (Some(was), Some(is)) => was.maxclass() != is.maxclass(),
            (Some(_), None) => true,
            (None, _) => false,
        };
        for cord in old.iter().filter(|it| !new.contains(it) || anew(it.0) || anew(it.2)) {
            self.cord(&at, within, "disconnect", *cord);
        }
        for was in before.into_iter().flat_map(View::boxes).filter(|it| anew(it.id())) {
            if let Some(key) = self.keys.remove(&(at.clone(), was.id())) {
                self.push(within, json!({ "op": "remove", "key": key }));
            }
        }
        for is in after.boxes() {
            let was = before.and_then(|it| it.get(is.id())).filter(|_| !anew(is.id()));
            match &was {
                None => self.add(&at, within, &is),
                Some(was) if was.is_untouched(&is) => {}
                Some(was) => self.change(&at, within, was, &is)?,
            }
            if let Some(inside) = is.inside() {
                let key = self.keys.get(&(at.clone(), is.id())).cloned().unwrap_or_default();
                let path: Vec<String> = within.iter().cloned().chain([key]).collect();
                self.canvas(was.and_then(|it| it.inside()).as_ref(), &inside, &path)?;
            }
        }
        for cord in new.iter().filter(|it| !old.contains(it) || anew(it.0) || anew(it.2)) {
            self.cord(&at, within, "connect", *cord);
        }
        Ok(())
    }

    fn push(&mut self, within: &[String], mut edit: Json) {
        if !within.is_empty() {
            edit["within"] = json!(within);
        }
        self.edits.push(edit);
    }

    fn add(&mut self, at: &CanvasId, within: &[String], object: &BoxView<'_>) {
        *self.names += 1;
        let key = format!("c{}", self.names);
        self.keys.insert((at.clone(), object.id()), key.clone());
        let mut edit = json!({
            "op": "add", "as": key, "maxclass": object.maxclass(), "text": object.text(), "rect": object.rect().array(),
        });
        if let Some(name) = object.varname() {
            edit["varname"] = json!(name);
        }
        self.push(within, edit);
        if object.hidden() {
            self.push(within, json!({ "op": "hidden", "key": key, "hidden": true }));
        }
        for name in object.keys().iter().filter(|it| !NOT_ATTRIBUTES.contains(&it.as_str())) {
            if let Some(value) = object.attribute(name) {
                self.push(within, json!({ "op": "attr", "key": key, "name": name, "value": told(&value) }));
            }
        }
    }

    fn change(
        &mut self,
        at: &CanvasId,
        within: &[String],
        was: &BoxView<'_>,
        is: &BoxView<'_>,
    ) -> Result<(), ToolError> {
        let key = self.keys.get(&(at.clone(), is.id())).cloned().ok_or_else(|| gone("a box is not known"))?;
        if was.text() != is.text() {
            self.push(within, json!({ "op": "text", "key": key, "text": is.text() }));
        }
        if was.rect() != is.rect() {
            self.push(within, json!({ "op": "rect", "key": key, "rect": is.rect().array() }));
        }
        if was.varname() != is.varname() {
            self.push(within, json!({ "op": "varname", "key": key, "varname": is.varname() }));
        }
        if was.hidden() != is.hidden() {
            self.push(within, json!({ "op": "hidden", "key": key, "hidden": is.hidden() }));
        }
        for name in is.keys().iter().filter(|it| !NOT_ATTRIBUTES.contains(&it.as_str())) {
            let value = is.attribute(name);
            if value != was.attribute(name)
                && let Some(value) = value
            {
                self.push(within, json!({ "op": "attr", "key": key, "name": name, "value": told(&value) }));
            }
        }
        let taken_back = was.keys().into_iter().filter(|it| is.attribute(it).is_none());
        for name in taken_back.filter(|it| !NOT_ATTRIBUTES.contains(&it.as_str())) {
            self.push(within, json!({ "op": "attr_reset", "key": key, "name": name }));
        }
        Ok(())
    }

    fn cord(&mut self, at: &CanvasId, within: &[String], op: &str, (from, outlet, to, inlet): Cord) {
        let key = |id: BoxId| self.keys.get(&(at.clone(), id)).cloned();
        if let (Some(from), Some(to)) = (key(from), key(to)) {
            self.push(within, json!({ "op": op, "from": [from, outlet], "to": [to, inlet] }));
        }
    }
}

/// Finds every box of the document among those that Max shows: by kind, text and place, equal ones
/// in their order.
fn align(view: &View<'_>, told: &Json, keys: &mut HashMap<(CanvasId, BoxId), String>) -> Result<(), String> {
    let rows = told.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut taken = BTreeSet::new();
    for object in view.boxes() {
        let rect = object.rect();
        let near =
            |row: &Json, at: usize, place: f64| row["rect"][at].as_f64().is_some_and(|it| (it - place).abs() < 1.0);
        let found = rows.iter().enumerate().find(|(n, row)| {
            !taken.contains(n)
                && row["maxclass"] == object.maxclass()
                && row["text"] == object.text()
                && near(row, 0, rect.x)
                && near(row, 1, rect.y)
        });
        let Some((n, row)) = found else { return Err(format!("no box {:?} at {}, {}", object.text(), rect.x, rect.y)) };
        taken.insert(n);
        keys.insert((view.id().clone(), object.id()), row["key"].as_str().unwrap_or_default().to_owned());
        if let Some(inside) = object.inside() {
            align(&inside, &row["boxes"], keys)?;
        }
    }
    if taken.len() < rows.len() {
        return Err(format!("{} boxes more than the file holds", rows.len() - taken.len()));
    }
    Ok(())
}

/// Our token first, then the proofs of both in the heads of the WebSocket, then the first message
/// of the bridge.
#[expect(clippy::result_large_err, reason = "the shape of the answer is the library's")]
fn greet(mut socket: TcpStream, ours: SocketAddr, keys: &Keys, clock: &Arc<dyn Clock>) -> Result<Line, String> {
    let fail = |fault: io::Error| fault.to_string();
    // Another user who dialled could show the token to the bridge later, on a port that we left
    // behind.
    if !is_mine(socket.peer_addr().map_err(fail)?, ours) {
        return Err("it belongs to another user".to_owned());
    }
    socket.set_read_timeout(Some(HELLO)).map_err(fail)?;
    socket.set_nodelay(true).map_err(fail)?;
    let nonce = secret();
    socket.write_all(format!("conductor-daemon {} {nonce}\n", keys.token).as_bytes()).map_err(fail)?;
    let check = |request: &Request, mut response: Response| {
        let shown = request.headers().get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
        let mut words = shown.split(' ');
        if let (Some("Conductor"), Some(theirs), Some(proven)) = (words.next(), words.next(), words.next())
            && request.uri().path() == "/max"
            && same(proven, &proof(&keys.secret, "bridge", &nonce, theirs))
            && let Ok(value) = HeaderValue::from_str(&proof(&keys.secret, "daemon", theirs, &nonce))
        {
            response.headers_mut().insert("conductor-proof", value);
            return Ok(response);
        }
        let mut refusal = tungstenite::http::Response::new(None);
        *refusal.status_mut() = StatusCode::UNAUTHORIZED;
        Err(refusal)
    };
    let config = WebSocketConfig::default().max_message_size(Some(MOST_BYTES)).max_frame_size(Some(MOST_BYTES));
    let mut line = accept_hdr_with_config(socket, check, Some(config)).map_err(|fault| fault.to_string())?;
    let hello = line.read().map_err(|fault| fault.to_string())?;
    let hello: Json = serde_json::from_str(hello.to_text().unwrap_or_default()).map_err(|fault| fault.to_string())?;
    if hello["type"] != "hello" || hello["protocol"].as_u64() != Some(PROTOCOL) {
        return Err("it speaks another protocol; run `conductor bridge install max` again".to_owned());
    }
    line.get_ref().set_read_timeout(None).map_err(fail)?;
    let out = WebSocket::from_raw_socket(line.get_ref().try_clone().map_err(fail)?, Role::Server, Some(config));
    let (tell, heard) = mpsc::channel();
    Builder::new()
        .name("max reader".into())
        .spawn(move || {
            while let Ok(message) = line.read() {
                let told: Option<Json> = message.to_text().ok().and_then(|it| serde_json::from_str(it).ok());
                // Events only say that something changed; the next call is told so.
                if let Some(told) = told.filter(|it| it["type"] == "reply")
                    && tell.send(told).is_err()
                {
                    return;
                }
            }
        })
        .map_err(fail)?;
    let version = hello["max"].as_str().unwrap_or("unknown").chars().take(40).collect();
    Ok(Line { out, heard, clock: Arc::clone(clock), asked: 0, version })
}

fn told(value: &Value) -> Json {
    let one = |it: &Atom| match it {
        Atom::Int(whole) => json!(whole),
        Atom::Float(number) => json!(number),
        Atom::Word(word) => json!(word),
    };
    match value {
        Value::One(atom) => one(atom),
        Value::Many(many) => many.iter().map(one).collect(),
        Value::Json(text) => serde_json::from_str(text).unwrap_or(Json::Null),
    }
}

fn atom(told: &Json) -> Atom {
    match told {
        Json::Number(number) => number.as_i64().map_or_else(|| Atom::Float(number.as_f64().unwrap_or(0.0)), Atom::Int),
        Json::String(text) => Atom::Word(text.clone()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => Atom::Word(told.to_string()),
    }
}

fn refused(error: &Json) -> ToolError {
    let text = error["message"].as_str().unwrap_or("Max refused the request").chars().take(400).collect::<String>();
    match error["code"].as_str().unwrap_or_default() {
        "STALE_REFERENCE" => ToolError::new(Code::StaleReference, format!("somebody edited the patch in Max: {text}"))
            .hint("Save it in Max, close it here with discard, and open it again."),
        "NOT_FOUND" => ToolError::new(Code::NotFound, text).hint("Close the patch here and open it again."),
        "BAD_INPUT" => {
            ToolError::new(Code::BadInput, text).hint("Nothing was changed. Check the attribute and its value.")
        }
        "UNSUPPORTED" => ToolError::new(Code::Unsupported, text).hint("Clearance it out, or use host \"document\"."),
        "TIMEOUT" => ToolError::new(Code::Timeout, text).hint("Repeat the call: it was not run.").effect(Effect::None),
        _ => ToolError::new(Code::SdkRejected, text).hint("Nothing was changed. Check the class and its ports."),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn beyond(why: &str) -> ToolError {
    ToolError::new(Code::Unsupported, why)
        .hint("Nothing was changed. Close the patch here, and open its file with host \"document\" for this change.")
        .effect(Effect::None)
}

fn absent() -> ToolError {
    ToolError::new(Code::HostOffline, "no Max has dialled in")
        .hint("Run `conductor bridge install max`, open the patch it writes in Max and keep it open.")
}

fn gone(why: &str) -> ToolError {
    ToolError::new(Code::HostOffline, format!("Max cannot be reached: {why}"))
        .hint("See that the bridge patch is open in Max.")
}
