//! The host of a running Max that has Conductor's bridge (`bridges/max`) loaded. The bridge
//! connects to the daemon on loopback and waits for the daemon's token. Each side proves that it
//! has the secret. Then the daemon sends requests over a WebSocket.
//!
//! Tested with a fake Max under Node, not with a real Max; `get_patch_info` reports this. Scripts
//! in Max cannot read a whole patcher, so an edit made by the person cannot be adopted. If the
//! person adds, removes, moves or edits a box of the root patcher, the next edit is refused; other
//! edits by the person are missed. Not here: the code inside Max (`bridges/max`).

use super::bridges::{AddressFile, Bridge, BridgeState, Program, proof, receive, same, secret, write_private};
use super::patch::console::Voice;
use super::patch::{Ability, Capabilities, HostKind, PatchHost, Window};
use crate::system::{Clock, Ids};
use conductor_core::error::{Code, Effect, ToolError};
use conductor_patch::{Atom, BoxId, BoxView, CanvasId, CordView, Document, Format, Value, View, Warning, WarningCode};
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::Builder;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::http::{HeaderValue, StatusCode};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket, accept_hdr_with_config};

const PROTOCOL: u64 = 2;
const MOST_BYTES: usize = 16 << 20;
const CALL_US: u64 = 5_000_000;
/// The deadline of a request in the bridge. It is shorter than the timeout here, so that the bridge
/// never executes a request that has already timed out here.
const DEADLINE_MS: u64 = 4500;

/// Names and contents of the bridge's files.
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

/// Writes the bridge into the home and returns the path of its patch.
pub fn install(home: &Path, ids: &dyn Ids) -> io::Result<PathBuf> {
    let folder = bridge_folder(home);
    for (name, text) in BRIDGE {
        write_private(&folder.join(name), text.as_bytes(), ids)?;
    }
    Ok(folder.join("conductor.maxpat"))
}

pub struct MaxHost {
    bridge: Bridge<Line, Root>,
}

/// The token and the secret in the address file.
struct Keys {
    token: String,
    secret: String,
}

struct Root {
    patcher: String,
    revision: u64,
    /// The bridge's key for each box.
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
    /// Listens for the bridge, and writes the address into a file in the home that only this user
    /// can read.
    pub fn listen(home: &Path, port: u16, ids: &dyn Ids, voice: Voice, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let ours = listener.local_addr()?;
        let keys = Keys { token: secret(), secret: secret() };
        let text = json!({ "port": ours.port(), "token": keys.token, "secret": keys.secret }).to_string();
        let address = AddressFile::write(home.join("state").join("max-bridge.json"), text, ids)?;
        // Replace the installed bridge: an earlier version sends its token to every listener.
        if bridge_folder(home).is_dir() {
            install(home, ids)?;
        }
        let greet = move |socket| {
            let line = greet(socket, &keys, &clock)?;
            let text = format!("the bridge in Max {} connected", line.version);
            Ok((line, text))
        };
        let bridge = Bridge::listen(
            listener,
            address,
            Program { name: "Max", forgets_patches: true, proves_secret: true },
            voice,
            greet,
        )?;
        Ok(Arc::new(MaxHost { bridge }))
    }

    /// Whether a bridge is connected and replies.
    pub fn is_attached(&self) -> bool {
        self.bridge.state().line.as_mut().is_some_and(|it| it.ask("ping", json!({})).is_ok())
    }

    fn with_root<T>(
        &self,
        root: &str,
        work: impl FnOnce(&mut Line, &mut u64, &mut Root) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut state = self.bridge.state();
        let BridgeState { line, roots, count: names } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let root = roots.get_mut(root).ok_or_else(|| {
            ToolError::new(Code::HostOffline, "Max or its bridge was restarted, so this patch is no longer attached")
                .hint("Close the patch with close_patch and open it again.")
        })?;
        work(line, names, root)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Close the socket explicitly: the reader thread shares it and would keep it open.
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
            return Err(ToolError::new(Code::BadInput, "the change is too large for the Max bridge")
                .hint("Split it into smaller changes."));
        }
        self.out.send(Message::text(text)).map_err(|fault| gone(&fault.to_string()))?;
        // Ignore replies to earlier calls that timed out. They have another id.
        let heard =
            receive(&self.heard, &*self.clock, CALL_US, |answer: Json| (answer["id"] == json!(id)).then_some(answer));
        let answer = heard.map_err(|why| match why {
            RecvTimeoutError::Disconnected => gone("the bridge closed the connection"),
            RecvTimeoutError::Timeout => ToolError::new(
                Code::Timeout,
                "Max did not reply in time; the request may have run, but will not start later",
            )
            .hint("Repeat the call when Max is no longer busy.")
            .effect(Effect::Unknown),
        })?;
        if answer["ok"] == json!(true) { Ok(answer["result"].clone()) } else { Err(refused(&answer["error"])) }
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
            ("attributes", Ability::Degraded("untested in real Max; the bridge checks the attribute names")),
            ("ports", Ability::Degraded("Max does not report ports; they are computed from the file")),
            ("hidden", UNTESTED),
            ("midpoints", Ability::No("scripts in Max cannot fold a cord")),
            ("presentation", UNTESTED),
            ("value", UNTESTED),
            ("lock", Ability::Degraded("untested in real Max; the state is read from Max")),
            ("dirty", Ability::Degraded("only edits made through Conductor count as unsaved")),
            ("console", Ability::No("scripts in Max cannot read the console")),
            ("frontmost", Ability::Degraded("untested in real Max; the front window is read from Max")),
            ("redraw", Ability::No("Max redraws its windows itself")),
        ]
    }

    fn open(&self, root: &str, document: &Document, file: Option<&Path>) -> Result<(), ToolError> {
        if document.format().is_pd() {
            return Err(
                ToolError::new(Code::BadInput, "Max does not open .pd files").hint("Use host \"pd\" or \"document\".")
            );
        }
        let mut state = self.bridge.state();
        let BridgeState { line, roots, .. } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let answer = match file.filter(|it| it.is_file()) {
            Some(file) => line.ask("open", json!({ "path": file }))?,
            None => line.ask("create", json!({}))?,
        };
        let mut keys = HashMap::new();
        align(&document.root(), &answer["boxes"], &mut keys).map_err(|why| {
            ToolError::new(Code::SdkRejected, format!("the patch in Max differs from the file: {why}"))
                .hint("Save it in Max first, or open it with host \"document\".")
        })?;
        let patcher = answer["patcher"].as_str().unwrap_or_default().to_owned();
        let revision = answer["revision"].as_u64().unwrap_or(1);
        roots.insert(root.to_owned(), Root { patcher, revision, keys });
        Ok(())
    }

    fn close(&self, root: &str) {
        let _ = self.with_root(root, |line, _, root| line.ask("close", json!({ "patcher": root.patcher })));
        self.bridge.state().roots.remove(root);
    }

    fn carry(&self, root: &str, before: &Document, after: &Document) -> Result<Vec<Warning>, ToolError> {
        if before.root().is_untouched(&after.root()) {
            return Ok(Vec::new());
        }
        self.with_root(root, |line, names, root| {
            let mut plan = Plan { keys: root.keys.clone(), names, edits: Vec::new(), straight: 0 };
            plan.canvas(Some(&before.root()), &after.root(), &[])?;
            if plan.edits.is_empty() && before.to_bytes() != after.to_bytes() {
                return Err(beyond("the Max bridge cannot make this change"));
            }
            let args = json!({ "patcher": root.patcher, "at": root.revision, "edits": plan.edits });
            let Plan { keys, straight, .. } = plan;
            let answer = line.ask("apply", args)?;
            root.keys = keys;
            root.revision = answer["revision"].as_u64().unwrap_or(root.revision + 1);
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
            let answer = line.ask("value", json!({ "patcher": root.patcher, "key": key }))?;
            let value = &answer["value"];
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
        let mut state = self.bridge.state();
        let BridgeState { line, roots, .. } = &mut *state;
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
        self.bridge.stop();
    }

    fn redraw(&self, _: &str, _: &BoxView<'_>) -> Result<bool, ToolError> {
        Err(ToolError::new(Code::Unsupported, "Max redraws its windows itself").hint("Leave this operation out."))
    }
}

/// The edits that change Max from one state of a document to another. They are sent in one batch.
struct Plan<'a> {
    keys: HashMap<(CanvasId, BoxId), String>,
    names: &'a mut u64,
    edits: Vec<Json>,
    /// Number of new cords that are folded or hidden in the document. Max shows them straight.
    straight: usize,
}

/// Members of a box that are not sent as attributes: they are sent separately, or Max computes
/// them.
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

/// Midpoints and visibility of every cord; scripts in Max cannot change these.
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
                    return Err(beyond("scripts in Max cannot fold or hide a cord"));
                }
                Some(_) => {}
                None => self.straight += usize::from(course.1 || !course.0.is_empty()),
            }
        }
        // A box whose class changes is created again, so the cords of the old box are removed.
        let is_new_or_gone = |id: BoxId| match (before.and_then(|it| it.get(id)), after.get(id)) {
            (Some(was), Some(is)) => was.maxclass() != is.maxclass(),
            (Some(_), None) => true,
            (None, _) => false,
        };
        for cord in old.iter().filter(|it| !new.contains(it) || is_new_or_gone(it.0) || is_new_or_gone(it.2)) {
            self.cord(&at, within, "disconnect", *cord);
        }
        for was in before.into_iter().flat_map(View::boxes).filter(|it| is_new_or_gone(it.id())) {
            if let Some(key) = self.keys.remove(&(at.clone(), was.id())) {
                self.push(within, json!({ "op": "remove", "key": key }));
            }
        }
        for is in after.boxes() {
            let was = before.and_then(|it| it.get(is.id())).filter(|_| !is_new_or_gone(is.id()));
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
        for cord in new.iter().filter(|it| !old.contains(it) || is_new_or_gone(it.0) || is_new_or_gone(it.2)) {
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
                self.push(within, json!({ "op": "attr", "key": key, "name": name, "value": to_json(&value) }));
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
        let key = self.keys.get(&(at.clone(), is.id())).cloned().ok_or_else(no_key)?;
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
                self.push(within, json!({ "op": "attr", "key": key, "name": name, "value": to_json(&value) }));
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

/// Finds every box of the document among the boxes in Max: by kind, text and position. Boxes that
/// are equal in all three are matched in order.
fn align(view: &View<'_>, answer: &Json, keys: &mut HashMap<(CanvasId, BoxId), String>) -> Result<(), String> {
    let rows = answer.as_array().map(Vec::as_slice).unwrap_or_default();
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
        return Err(format!("Max has {} more boxes than the file", rows.len() - taken.len()));
    }
    Ok(())
}

/// Sends the token, exchanges the proofs in the WebSocket headers, and reads the first message of
/// the bridge.
#[expect(clippy::result_large_err, reason = "the library determines the type")]
fn greet(mut socket: TcpStream, keys: &Keys, clock: &Arc<dyn Clock>) -> Result<Line, String> {
    let fail = |fault: io::Error| fault.to_string();
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
        return Err("it uses another protocol version; run `conductor bridge install max` again".to_owned());
    }
    line.get_ref().set_read_timeout(None).map_err(fail)?;
    let out = WebSocket::from_raw_socket(line.get_ref().try_clone().map_err(fail)?, Role::Server, Some(config));
    let (answers, heard) = mpsc::channel();
    Builder::new()
        .name("max reader".into())
        .spawn(move || {
            while let Ok(message) = line.read() {
                let answer: Option<Json> = message.to_text().ok().and_then(|it| serde_json::from_str(it).ok());
                // Only replies are forwarded. Events are ignored: if the person has changed the
                // patch, the next call returns an error.
                if let Some(answer) = answer.filter(|it| it["type"] == "reply")
                    && answers.send(answer).is_err()
                {
                    return;
                }
            }
        })
        .map_err(fail)?;
    let version = hello["max"].as_str().unwrap_or("unknown").chars().take(40).collect();
    Ok(Line { out, heard, clock: Arc::clone(clock), asked: 0, version })
}

fn to_json(value: &Value) -> Json {
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

fn atom(answer: &Json) -> Atom {
    match answer {
        Json::Number(number) => number.as_i64().map_or_else(|| Atom::Float(number.as_f64().unwrap_or(0.0)), Atom::Int),
        Json::String(text) => Atom::Word(text.clone()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => Atom::Word(answer.to_string()),
    }
}

fn refused(error: &Json) -> ToolError {
    let text = error["message"].as_str().unwrap_or("Max refused the request").chars().take(400).collect::<String>();
    match error["code"].as_str().unwrap_or_default() {
        "STALE_REFERENCE" => ToolError::new(Code::StaleReference, format!("the patch was edited in Max: {text}"))
            .hint("Save the patch in Max, close it here with discard, and open it again."),
        "NOT_FOUND" => ToolError::new(Code::NotFound, text).hint("Close the patch here and open it again."),
        "BAD_INPUT" => {
            ToolError::new(Code::BadInput, text).hint("Nothing was changed. Check the attribute and its value.")
        }
        "UNSUPPORTED" => ToolError::new(Code::Unsupported, text).hint("Leave this edit out, or use host \"document\"."),
        "TIMEOUT" => {
            ToolError::new(Code::Timeout, text).hint("Repeat the call; it was not executed.").effect(Effect::None)
        }
        _ => ToolError::new(Code::SdkRejected, text).hint("Nothing was changed. Check the class and its ports."),
    }
}

fn beyond(why: &str) -> ToolError {
    ToolError::new(Code::Unsupported, why)
        .hint("Nothing was changed. Close the patch here, and open its file with host \"document\" for this change.")
        .effect(Effect::None)
}

fn absent() -> ToolError {
    ToolError::new(Code::HostOffline, "no Max is connected")
        .hint("Run `conductor bridge install max`, open the new patch in Max and keep it open.")
}

/// The connection failed during a request, so the request may have run.
fn gone(why: &str) -> ToolError {
    ToolError::new(Code::HostOffline, format!("Max cannot be reached: {why}"))
        .hint("Check that the bridge patch is open in Max. Read the patch before you repeat the call.")
        .effect(Effect::Unknown)
}

/// Conductor's copy of the patch and the patch in Max do not match.
fn no_key() -> ToolError {
    ToolError::new(Code::StaleReference, "Max reported no key for a box of this patch, so the box cannot be changed")
        .hint("Nothing was changed. Save the patch in Max, close it here with discard, and open it again.")
        .effect(Effect::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_patch::Limits;

    #[test]
    fn a_box_without_a_key_is_stale_and_max_is_not_reported_as_offline() {
        let open = |text: &str| {
            let file = format!(
                r#"{{"patcher":{{"boxes":[{{"box":{{"id":"obj-1","maxclass":"newobj","text":"{text}","patching_rect":[1,1,50,22]}}}}],"lines":[]}}}}"#
            );
            Document::open(file.into_bytes(), Format::Maxpat, &Limits::default()).unwrap()
        };
        let before = open("+ 1");
        let mut plan = Plan { keys: HashMap::new(), names: &mut 0, edits: Vec::new(), straight: 0 };
        let refused = plan.canvas(Some(&before.root()), &open("+ 2").root(), &[]).unwrap_err();
        assert_eq!((refused.code, refused.effect), (Code::StaleReference, Some(Effect::None)));
    }
}
