//! Runs the JavaScript engine in the process of a plugin or a script: one runtime, one context, one
//! file, and one event loop.
//!
//! The process always ends by `exit`, so that the order of destruction does not matter. Requests of
//! the plugin are sent as frames to the daemon, which answers them. Not here: the permissions of
//! the plugin.

use super::frame::blocking;
use super::{Kind, Limits, Thrown, sandbox};
use crate::system::worker_process::{Unbuffered, monotonic_ms, processor_us, wait_for_input};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::context::EvalOptions;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Error, Exception, Function, Module, Object, Runtime, TypedArray, Value,
};
use serde_json::json;
use std::cell::Cell;
use std::rc::Rc;

const SEALED: &str = include_str!("sealed.js");
const PRELUDE: &str = include_str!("prelude.js");
const SCRIPT_PRELUDE: &str = include_str!("script.js");

/// The processor time and the memory state of the running call.
struct Meter {
    budget_us: u64,
    until_us: Cell<u64>,
    spent: Cell<bool>,
    /// Set when a promise was rejected because of the memory limit, and no code has handled the
    /// rejection.
    starved: Cell<bool>,
}

impl Meter {
    fn new(limits: &Limits) -> Rc<Self> {
        let budget_us = u64::from(limits.cpu_ms) * 1000;
        Rc::new(Meter { budget_us, until_us: Cell::new(u64::MAX), spent: Cell::new(false), starved: Cell::new(false) })
    }

    fn arm(&self) {
        let now = processor_us();
        self.until_us.set(now.saturating_add(self.budget_us));
        self.starved.set(false);
        // The kernel's limit is two seconds higher, because the kernel counts whole seconds and our
        // own limit should act first. If setting the limit fails, the deadline of the daemon ends
        // the call.
        let _ = sandbox::allow_processor_seconds(now / 1_000_000, self.budget_us.div_ceil(1_000_000) + 2);
    }

    fn is_over(&self) -> bool {
        if processor_us() > self.until_us.get() {
            self.spent.set(true);
        }
        self.spent.get()
    }
}

/// The two pipes to the daemon. The process exits when the daemon has closed them.
struct Pipes;

impl Pipes {
    fn send(bytes: &[u8]) {
        if blocking::write(&mut Unbuffered, bytes).is_err() {
            std::process::exit(0);
        }
    }

    fn receive() -> Vec<u8> {
        blocking::read(&mut Unbuffered).unwrap_or_else(|_| std::process::exit(0))
    }
}

/// Serves one plugin or one script until the daemon closes the pipe.
pub fn serve(limits: &Limits, kind: Kind) -> ! {
    let file = String::from_utf8_lossy(&Pipes::receive()).into_owned();
    let source = Pipes::receive();
    let meter = Meter::new(limits);
    if let Err(fault) = run(limits, kind, &file, source, &meter) {
        Pipes::send(json!({ "failed": fault }).to_string().as_bytes());
    }
    std::process::exit(0)
}

fn run(limits: &Limits, kind: Kind, file: &str, source: Vec<u8>, meter: &Rc<Meter>) -> Result<(), Thrown> {
    let no_engine = |fault: Error| Thrown {
        message: format!("the JavaScript engine cannot be started: {fault}"),
        ..Thrown::default()
    };
    let runtime = Runtime::new().map_err(no_engine)?;
    runtime.set_memory_limit(limits.heap_mb as usize * 1024 * 1024);
    runtime.set_max_stack_size(limits.stack_kb as usize * 1024);
    let interrupt = Rc::clone(meter);
    runtime.set_interrupt_handler(Some(Box::new(move || interrupt.is_over())));
    let starving = Rc::clone(meter);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, is_handled| {
        let message = reason.as_object().and_then(|it| it.get::<_, String>("message").ok());
        // If there is no memory for an error object, the reason is null.
        if !is_handled && (reason.is_null() || message.is_some_and(|it| it == "out of memory")) {
            starving.starved.set(true);
        }
    })));
    match kind {
        Kind::Plugin => runtime.set_loader(Granted, Granted),
        // Without a loader, every import fails.
        Kind::Script => {}
    }
    let context = Context::full(&runtime).map_err(no_engine)?;
    context.with(|ctx| {
        let driver = run_prelude(&ctx, kind, file, meter).catch(&ctx).map_err(|fault| thrown(fault, file))?;
        meter.arm();
        let loaded = match kind {
            Kind::Plugin => load(&ctx, &driver, file, source),
            Kind::Script => load_script(&ctx, &driver, file, source),
        };
        let declared =
            loaded.map_err(|fault| if meter.spent.get() { over_time(limits, fault.place) } else { fault })?;
        Pipes::send(declared.as_bytes());
        converse(&ctx, &driver, file, limits, meter)
    })
}

fn run_prelude<'js>(ctx: &Ctx<'js>, kind: Kind, file: &str, meter: &Rc<Meter>) -> rquickjs::Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    let give = |name: &str, function: Function<'js>| host.set(name, function);
    let armed = Rc::clone(meter);
    give("arm", Function::new(ctx.clone(), move || armed.arm())?)?;
    let starved = Rc::clone(meter);
    give("starved", Function::new(ctx.clone(), move || starved.starved.get())?)?;
    give("send", Function::new(ctx.clone(), |text: String| Pipes::send(text.as_bytes()))?)?;
    give("now", Function::new(ctx.clone(), monotonic_ms)?)?;
    give(
        "utf8",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new(ctx, text.into_bytes()))?,
    )?;
    give("text", Function::new(ctx.clone(), text_of)?)?;
    give("toBase64", Function::new(ctx.clone(), |bytes: TypedArray<'js, u8>| STANDARD.encode(bytes_of(&bytes)))?)?;
    give("fromBase64", Function::new(ctx.clone(), from_base64)?)?;
    give("uuid", Function::new(ctx.clone(), uuid)?)?;
    give("url", Function::new(ctx.clone(), url_parts)?)?;
    give(
        "urlWithSearch",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, href: String, search: String| {
            let Ok(mut url) = url::Url::parse(&href) else { return Ok(None) };
            url.set_query((!search.is_empty()).then_some(search.as_str()));
            parts(&ctx, &url).map(Some)
        })?,
    )?;
    let (word, prelude) = match kind {
        Kind::Plugin => ("plugins", PRELUDE),
        Kind::Script => ("scripts", SCRIPT_PRELUDE),
    };
    let seal: Function<'js> = ctx.eval(SEALED)?;
    let shared: Object<'js> = seal.call((word, file))?;
    let make: Function<'js> = ctx.eval(prelude)?;
    make.call((host, shared))
}

fn bytes_of<'a>(array: &'a TypedArray<'_, u8>) -> &'a [u8] {
    // SAFETY: no JavaScript runs while our function reads the bytes, so they do not move.
    unsafe { array.as_bytes() }.unwrap_or_default()
}

fn text_of<'js>(ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, fatal: bool) -> rquickjs::Result<String> {
    let bytes = bytes_of(&bytes);
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(fault) if fatal => {
            Err(Exception::throw_type(&ctx, &format!("not UTF-8 text at byte {}", fault.valid_up_to())))
        }
        Err(_) => Ok(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn from_base64<'js>(ctx: Ctx<'js>, text: String) -> rquickjs::Result<TypedArray<'js, u8>> {
    match STANDARD.decode(text) {
        Ok(bytes) => TypedArray::new(ctx, bytes),
        Err(fault) => Err(Exception::throw_type(&ctx, &format!("not base64: {fault}"))),
    }
}

/// A random id for the plugin's code. The daemon does not rely on this id.
#[expect(clippy::disallowed_methods, reason = "random numbers for the plugin, in the plugin's own process")]
fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn url_parts<'js>(ctx: Ctx<'js>, text: String, base: Option<String>) -> rquickjs::Result<Option<Object<'js>>> {
    let parsed = match base {
        Some(base) => url::Url::parse(&base).and_then(|base| base.join(&text)),
        None => url::Url::parse(&text),
    };
    parsed.ok().map(|url| parts(&ctx, &url)).transpose()
}

fn parts<'js>(ctx: &Ctx<'js>, url: &url::Url) -> rquickjs::Result<Object<'js>> {
    let marked = |mark: char, part: Option<&str>| match part {
        Some(part) if !part.is_empty() => format!("{mark}{part}"),
        Some(_) | None => String::new(),
    };
    let port = url.port().map(|port| port.to_string()).unwrap_or_default();
    let hostname = url.host_str().unwrap_or_default();
    let object = Object::new(ctx.clone())?;
    for (key, value) in [
        ("href", url.as_str().to_owned()),
        ("origin", url.origin().ascii_serialization()),
        ("protocol", format!("{}:", url.scheme())),
        ("username", url.username().to_owned()),
        ("password", url.password().unwrap_or_default().to_owned()),
        ("host", if port.is_empty() { hostname.to_owned() } else { format!("{hostname}:{port}") }),
        ("hostname", hostname.to_owned()),
        ("port", port),
        ("pathname", url.path().to_owned()),
        ("search", marked('?', url.query())),
        ("hash", marked('#', url.fragment())),
    ] {
        object.set(key, value)?;
    }
    Ok(object)
}

/// Evaluates the file and passes the plugin to the prelude. Returns the frame with the plugin's
/// declarations.
fn load<'js>(ctx: &Ctx<'js>, driver: &Object<'js>, file: &str, source: Vec<u8>) -> Result<String, Thrown> {
    let loaded = || -> rquickjs::Result<String> {
        let (module, ready) = Module::declare(ctx.clone(), file, source)?.eval()?;
        ready.finish::<()>()?;
        let adopt: Function<'js> = driver.get("adopt")?;
        adopt.call((module.namespace()?,))
    };
    loaded().catch(ctx).map_err(|fault| match fault {
        CaughtError::Error(Error::WouldBlock) => {
            Thrown { message: "the file waits for an event that never happens".into(), ..Thrown::default() }
        }
        other @ (CaughtError::Error(_) | CaughtError::Exception(_) | CaughtError::Value(_)) => thrown(other, file),
    })
}

/// Compiles the code as the body of an async function. Code that closes the function early runs in
/// the same sandbox, so it gains nothing.
fn load_script<'js>(ctx: &Ctx<'js>, driver: &Object<'js>, file: &str, source: Vec<u8>) -> Result<String, Thrown> {
    // The first line of the code stays the first line, so that line numbers in errors are correct.
    let body = [b"(async (studio) => {".as_slice(), &source, b"\n})"].concat();
    let mut options = EvalOptions::default();
    options.filename = Some(file.to_owned());
    let loaded = || -> rquickjs::Result<String> {
        let run: Value<'js> = ctx.eval_with_options(body, options)?;
        let adopt: Function<'js> = driver.get("adopt")?;
        adopt.call((run,))
    };
    loaded().catch(ctx).map_err(|fault| thrown(fault, file))
}

/// The event loop: receives calls and answers, and sends results and requests.
fn converse<'js>(
    ctx: &Ctx<'js>,
    driver: &Object<'js>,
    file: &str,
    limits: &Limits,
    meter: &Meter,
) -> Result<(), Thrown> {
    let get = |name: &str| driver.get::<_, Function<'js>>(name).catch(ctx).map_err(|fault| thrown(fault, file));
    let (receive, idle) = (get("receive")?, get("idle")?);
    let end = |fault: CaughtError<'js>| ended(thrown(fault, file), limits, meter);
    loop {
        while ctx.execute_pending_job() {
            if meter.spent.get() {
                spent(limits, None);
            }
        }
        if meter.spent.get() {
            spent(limits, None);
        }
        // The prelude catches errors in plugin code. An error here means that the time or memory
        // limit was reached.
        let wait: i32 = idle.call(()).catch(ctx).unwrap_or_else(|fault| end(fault).0);
        match u32::try_from(wait) {
            Ok(0) => {}
            Ok(ms) if !wait_for_input(Some(ms)) => {}
            Ok(_) | Err(_) => {
                let frame = String::from_utf8_lossy(&Pipes::receive()).into_owned();
                receive.call::<_, ()>((frame,)).catch(ctx).unwrap_or_else(|fault| end(fault).1);
            }
        }
    }
}

/// Ends the process and never returns. The return type only allows callers to use this function as
/// a fallback.
fn ended(thrown: Thrown, limits: &Limits, meter: &Meter) -> (i32, ()) {
    if meter.spent.get() { spent(limits, thrown.place) } else { out_of_memory(limits, thrown.place) }
}

fn over_time(limits: &Limits, place: Option<String>) -> Thrown {
    Thrown { message: format!("stopped after {} ms of processor time", limits.cpu_ms), code: None, place }
}

fn spent(limits: &Limits, place: Option<String>) -> ! {
    Pipes::send(json!({ "threw": over_time(limits, place), "over": "time" }).to_string().as_bytes());
    std::process::exit(0)
}

fn out_of_memory(limits: &Limits, place: Option<String>) -> ! {
    let thrown = Thrown { message: format!("out of memory: the limit is {} MB", limits.heap_mb), code: None, place };
    Pipes::send(json!({ "threw": thrown, "over": "memory" }).to_string().as_bytes());
    std::process::exit(0)
}

/// Converts an error, and adds the innermost line of the plugin's file.
fn thrown(fault: CaughtError<'_>, file: &str) -> Thrown {
    match fault {
        CaughtError::Exception(exception) => {
            let name: Option<String> = exception.as_object().get("name").ok();
            let message = exception.message().unwrap_or_default();
            let message = match name.filter(|it| it != "Error") {
                Some(name) => format!("{name}: {message}"),
                None => message,
            };
            let place = exception.stack().and_then(|stack| place_in(&stack, file));
            Thrown { message: message.chars().take(2000).collect(), code: None, place }
        }
        CaughtError::Value(value) => Thrown { message: shown(&value), ..Thrown::default() },
        CaughtError::Error(error) => Thrown { message: error.to_string(), ..Thrown::default() },
    }
}

fn shown(value: &Value<'_>) -> String {
    if value.is_null() {
        return "out of memory".to_owned();
    }
    value
        .as_string()
        .and_then(|text| text.to_string().ok())
        .unwrap_or_else(|| "threw a value that is not an error".to_owned())
}

/// Finds `file.js:12:5` in a stack such as `    at handler (file.js:12:5)`.
fn place_in(stack: &str, file: &str) -> Option<String> {
    let start = stack.find(&format!("{file}:"))?;
    let rest = stack.get(start + file.len()..)?;
    let numbers: String = rest.chars().take_while(|it| it.is_ascii_digit() || *it == ':').collect();
    Some(format!("{file}{}", numbers.trim_end_matches(':')))
}

/// The two available modules, for files that use `import` instead of `require`.
struct Granted;

impl Resolver for Granted {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        match name.strip_prefix("node:").unwrap_or(name) {
            known @ ("fs/promises" | "path") => Ok(known.to_owned()),
            _ => Err(Error::new_resolving_message(base, name, "plugins can import fs/promises and path, nothing else")),
        }
    }
}

impl Loader for Granted {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        let names: &[&str] = match name {
            "path" => &["sep", "join", "normalize", "isAbsolute", "basename", "dirname", "extname"],
            _ => &["readFile", "writeFile", "readdir", "stat"],
        };
        let source =
            format!("const it = require(\"{name}\"); export default it; export const {{ {} }} = it;", names.join(", "));
        Module::declare(ctx.clone(), name, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows that without `sealed.js`, all of these expressions create code from text. With
    /// `sealed.js`, none of them does (test `no_code_is_made_from_text`).
    #[test]
    fn a_bare_engine_makes_code_from_text() {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        context.with(|ctx| {
            for way in ["eval('1')", "Function('return 1')()", "(() => {}).constructor('return 1')()"] {
                assert_eq!(ctx.eval::<i32, _>(way).unwrap(), 1, "{way}");
            }
        });
    }

    #[test]
    fn the_innermost_line_of_the_file_is_the_place() {
        let stack =
            "    at parse (native)\n    at handler (my plugin.js:12:5)\n    at <anonymous> (my plugin.js:2:1)\n";
        assert_eq!(place_in(stack, "my plugin.js").as_deref(), Some("my plugin.js:12:5"));
        assert_eq!(place_in(stack, "other.js"), None);
        assert_eq!(place_in("    at x.js:3\n", "x.js").as_deref(), Some("x.js:3"));
    }
}
