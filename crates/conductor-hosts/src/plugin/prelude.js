// Defines the global objects of a plugin. This script runs before the file of the plugin, in the same sandbox. A plugin that changes these
// objects harms only itself, because the daemon checks every request. `host` contains the native functions.
(function (host, shared) {
  "use strict";

  const { place } = shared;

  const give = (name, value) =>
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });

  // ---- the running call -----------------------------------------------------------------------------------------------------------------

  let plugin = null;
  let tools = new Map();
  let config = {};
  let active = false;
  let settled = null;
  let nextId = 1;
  let asked = new Map();
  let timers = new Map();

  const thrown = (error) => {
    if (error === null) return { message: "out of memory" };
    if (typeof error !== "object" && typeof error !== "function") return { message: String(error) };
    const name = typeof error.name === "string" && error.name !== "Error" ? error.name + ": " : "";
    const message = typeof error.message === "string" ? error.message : String(error);
    const code = typeof error.code === "string" ? error.code : undefined;
    return { message: (name + message).slice(0, 2000), code, place: place(error) };
  };

  const failed = (error) => {
    const over = error === null || (error instanceof InternalError && error.message === "out of memory");
    return over ? { threw: thrown(error), over: "memory" } : { threw: thrown(error) };
  };

  // The result is sent only when the job queue is empty. The time of a promise loop that is still running thus counts for this call.
  const settle = (message) => { if (settled === null) settled = message; };

  const begin = (work, told) => {
    active = true;
    settled = null;
    host.arm();
    (async () => work())().then((value) => settle(told(value)), (error) => settle(failed(error)));
  };

  const finish = () => {
    let text;
    try {
      text = JSON.stringify(settled);
    } catch (error) {
      text = JSON.stringify(failed(error));
    }
    active = false;
    settled = null;
    asked.clear();
    timers.clear();
    host.send(text);
  };

  // ---- requests to the daemon ----------------------------------------------------------------------------------------------------------

  const ask = (what, input) => new Promise((resolve, reject) => {
    if (!active) throw new Error(what + " works only inside handlers, onLoad and onUnload");
    const id = nextId++;
    asked.set(id, { resolve, reject });
    host.send(JSON.stringify({ ask: { id, what, with: input } }));
  });

  const answer = ({ id, ok, error }) => {
    const waiting = asked.get(id);
    if (!waiting) return;
    asked.delete(id);
    if (!error) return waiting.resolve(ok);
    const fault = new Error(error.message);
    if (error.code) fault.code = error.code;
    waiting.reject(fault);
  };

  // ---- console, timers, text -----------------------------------------------------------------------------------------------------------

  const show = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return thrown(value).message;
    try { return JSON.stringify(value) ?? String(value); } catch { return String(value); }
  };
  const say = (level) => (...values) =>
    host.send(JSON.stringify({ log: { level, text: values.map(show).join(" ").slice(0, 8192) } }));
  give("console", {
    log: say("info"), info: say("info"), debug: say("debug"), trace: say("debug"), warn: say("warning"), error: say("error"),
  });

  const timer = (again) => (run, ms, ...values) => {
    if (typeof run !== "function") throw new TypeError("a timer needs a function");
    if (!active) throw new Error("timers work only inside handlers, onLoad and onUnload");
    const every = Math.max(again ? 1 : 0, Math.min(Number(ms) || 0, 0x7fffffff));
    const id = nextId++;
    timers.set(id, { run, values, at: host.now() + every, every: again ? every : null });
    return id;
  };
  give("setTimeout", timer(false));
  give("setInterval", timer(true));
  give("clearTimeout", (id) => { timers.delete(id); });
  give("clearInterval", (id) => { timers.delete(id); });
  if (typeof globalThis.queueMicrotask !== "function") give("queueMicrotask", (run) => { Promise.resolve().then(run); });

  /// Sends the result of a finished call, or runs due timers. Returns the milliseconds until it must be called again, or -1 if the process
  /// can only continue with a message from the daemon.
  const idle = () => {
    if (!active) return -1;
    if (settled !== null) { finish(); return -1; }
    const now = host.now();
    const due = [...timers].filter(([, it]) => it.at <= now).sort((a, b) => a[1].at - b[1].at);
    for (const [id, it] of due) {
      if (!timers.has(id)) continue;
      if (it.every === null) timers.delete(id); else it.at = now + it.every;
      try {
        it.run(...it.values);
      } catch (error) {
        settle(failed(error));
      }
    }
    if (due.length > 0) return 0;
    if (timers.size > 0) return Math.max(1, Math.ceil(Math.min(...[...timers.values()].map((it) => it.at)) - now));
    if (asked.size > 0) return -1;
    settle(host.starved() ? failed(null) : { threw: { message: "the handler waits for a promise that can never be settled" }, over: "stuck" });
    return 0;
  };

  const bytesOf = (value) => {
    if (value instanceof Uint8Array) return value;
    if (value instanceof ArrayBuffer) return new Uint8Array(value);
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    throw new TypeError("bytes must be a Uint8Array or an ArrayBuffer");
  };

  give("TextEncoder", class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return host.utf8(String(text).toWellFormed()); }
  });
  give("TextDecoder", class TextDecoder {
    constructor(label = "utf-8", options = {}) {
      if (!/^utf-?8$/i.test(label)) throw new RangeError("only utf-8 is supported");
      this.fatal = Boolean(options.fatal);
    }
    get encoding() { return "utf-8"; }
    decode(bytes = new Uint8Array(0)) { return host.text(bytesOf(bytes), this.fatal); }
  });
  give("btoa", (text) => host.toBase64(Uint8Array.from(String(text), (it) => it.codePointAt(0))));
  give("atob", (text) => Array.from(host.fromBase64(String(text)), (it) => String.fromCharCode(it)).join(""));
  give("crypto", { randomUUID: () => host.uuid() });
  if (typeof globalThis.structuredClone !== "function") give("structuredClone", (value) => {
    const seen = new Map();
    const copy = (it) => {
      if (typeof it === "function" || typeof it === "symbol") throw new TypeError(typeof it + " cannot be cloned");
      if (it === null || typeof it !== "object") return it;
      if (seen.has(it)) return seen.get(it);
      const keep = (made) => { seen.set(it, made); return made; };
      if (it instanceof Date) return keep(new Date(it));
      if (it instanceof RegExp) return keep(new RegExp(it.source, it.flags));
      if (it instanceof ArrayBuffer) return keep(it.slice(0));
      if (ArrayBuffer.isView(it)) return keep(new it.constructor(it));
      if (it instanceof Map) { const made = keep(new Map()); for (const [k, v] of it) made.set(copy(k), copy(v)); return made; }
      if (it instanceof Set) { const made = keep(new Set()); for (const v of it) made.add(copy(v)); return made; }
      if (it instanceof Error) { const made = keep(new Error(it.message)); made.name = it.name; return made; }
      const made = keep(Array.isArray(it) ? [] : {});
      for (const key of Object.keys(it)) made[key] = copy(it[key]);
      return made;
    };
    return copy(value);
  });

  // ---- addresses -----------------------------------------------------------------------------------------------------------------------

  const decode = (text) => decodeURIComponent(text.replaceAll("+", " "));
  const encode = (text) => encodeURIComponent(text).replaceAll("%20", "+").replace(/[!'()~]/g, (it) => "%" + it.charCodeAt(0).toString(16).toUpperCase());
  class URLSearchParams {
    #pairs = [];
    #changed = () => {};
    constructor(from = "", changed) {
      if (changed) this.#changed = changed;
      if (typeof from === "string") {
        for (const part of from.replace(/^\?/, "").split("&")) {
          if (part === "") continue;
          const cut = part.indexOf("=");
          this.#pairs.push(cut < 0 ? [decode(part), ""] : [decode(part.slice(0, cut)), decode(part.slice(cut + 1))]);
        }
      } else {
        const pairs = typeof from[Symbol.iterator] === "function" ? from : Object.entries(from);
        for (const [key, value] of pairs) this.#pairs.push([String(key), String(value)]);
      }
    }
    append(key, value) { this.#pairs.push([String(key), String(value)]); this.#changed(this.toString()); }
    set(key, value) {
      const at = this.#pairs.findIndex((it) => it[0] === String(key));
      if (at < 0) return this.append(key, value);
      this.#pairs = this.#pairs.filter((it, index) => index === at || it[0] !== String(key));
      this.#pairs[at][1] = String(value);
      this.#changed(this.toString());
    }
    delete(key) { this.#pairs = this.#pairs.filter((it) => it[0] !== String(key)); this.#changed(this.toString()); }
    get(key) { return this.#pairs.find((it) => it[0] === String(key))?.[1] ?? null; }
    getAll(key) { return this.#pairs.filter((it) => it[0] === String(key)).map((it) => it[1]); }
    has(key) { return this.#pairs.some((it) => it[0] === String(key)); }
    *entries() { for (const [key, value] of this.#pairs) yield [key, value]; }
    *keys() { for (const [key] of this.#pairs) yield key; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([key, value]) => encode(key) + "=" + encode(value)).join("&"); }
  }
  class URL {
    #parts;
    #params;
    constructor(text, base) {
      const parts = host.url(String(text), base === undefined ? null : String(base));
      if (!parts) throw new TypeError("not a URL: " + String(text).slice(0, 200));
      this.#parts = parts;
      this.#params = new URLSearchParams(parts.search, (search) => { this.search = search; });
    }
    static canParse(text, base) { return Boolean(host.url(String(text), base === undefined ? null : String(base))); }
    get href() { return this.#parts.href; }
    get origin() { return this.#parts.origin; }
    get protocol() { return this.#parts.protocol; }
    get username() { return this.#parts.username; }
    get password() { return this.#parts.password; }
    get host() { return this.#parts.host; }
    get hostname() { return this.#parts.hostname; }
    get port() { return this.#parts.port; }
    get pathname() { return this.#parts.pathname; }
    get search() { return this.#parts.search; }
    get hash() { return this.#parts.hash; }
    get searchParams() { return this.#params; }
    set search(search) { this.#parts = host.urlWithSearch(this.#parts.href, String(search).replace(/^\?/, "")); }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }
  give("URL", URL);
  give("URLSearchParams", URLSearchParams);

  // ---- secrets, network, files ---------------------------------------------------------------------------------------------------------

  // A handle never contains the secret value: the daemon inserts the value into a header when it sends the request.
  class Secret {
    #name;
    constructor(name) { this.#name = name; Object.freeze(this); }
    toString() { return "{{secret:" + this.#name + "}}"; }
    toJSON() { return "[secret:" + this.#name + "]"; }
  }
  give("secrets", { get: async (name) => { await ask("secret", { name: String(name) }); return new Secret(String(name)); } });

  class Headers {
    #map = new Map();
    constructor(from = {}) {
      const pairs = typeof from[Symbol.iterator] === "function" ? from : Object.entries(from);
      for (const [key, value] of pairs) this.set(key, value);
    }
    set(key, value) { this.#map.set(String(key).toLowerCase(), String(value)); }
    append(key, value) { const old = this.get(key); this.set(key, old === null ? value : old + ", " + value); }
    delete(key) { this.#map.delete(String(key).toLowerCase()); }
    get(key) { return this.#map.get(String(key).toLowerCase()) ?? null; }
    has(key) { return this.#map.has(String(key).toLowerCase()); }
    entries() { return this.#map.entries(); }
    keys() { return this.#map.keys(); }
    values() { return this.#map.values(); }
    forEach(run) { for (const [key, value] of this.#map) run(value, key, this); }
    [Symbol.iterator]() { return this.#map.entries(); }
  }
  give("Headers", Headers);
  class Response {
    #bytes;
    constructor(answer) {
      this.url = answer.url;
      this.status = answer.status;
      this.ok = answer.status >= 200 && answer.status < 300;
      this.headers = new Headers(answer.headers);
      this.truncated = answer.truncated;
      this.#bytes = host.fromBase64(answer.body);
    }
    async bytes() { return this.#bytes; }
    async arrayBuffer() { return this.#bytes.buffer; }
    async text() { return host.text(this.#bytes, false); }
    async json() { return JSON.parse(await this.text()); }
  }
  give("fetch", async (target, init = {}) => {
    const headers = new Headers(init.headers);
    let body;
    if (init.body !== undefined && init.body !== null) {
      const plain = typeof init.body === "string" || init.body instanceof URLSearchParams;
      if (init.body instanceof URLSearchParams && !headers.has("content-type")) {
        headers.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
      }
      body = host.toBase64(plain ? host.utf8(String(init.body).toWellFormed()) : bytesOf(init.body));
    }
    const method = String(init.method ?? "GET").toUpperCase();
    return new Response(await ask("fetch", { url: String(target), method, headers: [...headers], body }));
  });

  const isText = (options) => {
    const encoding = typeof options === "string" ? options : options?.encoding;
    if (encoding === undefined || encoding === null) return null;
    if (/^utf-?8$/i.test(encoding)) return true;
    if (encoding === "binary" || encoding === "bytes") return false;
    throw new RangeError("encoding must be utf-8 or bytes");
  };
  const inRoot = (path, options) => ({ path: String(path), root: typeof options === "object" ? options?.root : undefined });
  const readFile = async (path, options, plain) => {
    const wanted = isText(options) ?? plain;
    const got = await ask("files.read", inRoot(path, options));
    const bytes = host.fromBase64(got.content);
    return wanted ? host.text(bytes, true) : bytes;
  };
  const writeFile = async (path, data, options) => {
    const bytes = typeof data === "string" ? host.utf8(data.toWellFormed()) : bytesOf(data);
    return ask("files.write", { ...inRoot(path, options), content: host.toBase64(bytes) });
  };
  const list = async (path, options) => (await ask("files.list", inRoot(path ?? "", options))).entries;
  const stat = (path, options) => ask("files.stat", inRoot(path, options));
  give("files", { read: (path, options) => readFile(path, options, true), write: writeFile, list, stat });

  const promises = {
    readFile: (path, options) => readFile(path, options, false),
    writeFile: async (path, data, options) => { await writeFile(path, data, options); },
    readdir: async (path) => (await list(path)).map((it) => it.name),
    stat: async (path) => {
      const found = await stat(path);
      return { size: found.size, mtimeMs: found.mtime_ms, isFile: () => found.kind === "file", isDirectory: () => found.kind === "directory" };
    },
  };
  const normal = (path) => {
    const parts = [];
    for (const part of path.split("/")) {
      if (part === "" || part === ".") continue;
      if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop();
      else if (part !== ".." || !path.startsWith("/")) parts.push(part);
    }
    return (path.startsWith("/") ? "/" : "") + parts.join("/") || ".";
  };
  const last = (path) => path.replace(/\/+$/, "").split("/").at(-1);
  const paths = {
    sep: "/",
    join: (...parts) => normal(parts.filter((it) => it !== "").join("/")),
    normalize: normal,
    isAbsolute: (path) => path.startsWith("/"),
    basename: (path, suffix = "") => { const name = last(path); return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name; },
    dirname: (path) => { const cut = path.replace(/\/+$/, "").lastIndexOf("/"); return cut < 0 ? "." : cut === 0 ? "/" : path.slice(0, cut); },
    extname: (path) => { const name = last(path); const dot = name.lastIndexOf("."); return dot > 0 ? name.slice(dot) : ""; },
  };

  // ---- modules -------------------------------------------------------------------------------------------------------------------------

  const modules = { "fs/promises": promises, path: paths };
  give("require", (name) => {
    const known = modules[String(name).replace(/^node:/, "")];
    if (!known) throw new Error(`require("${name}"): plugins can require only fs/promises and path`);
    return known;
  });
  const initial = {};
  give("module", { exports: initial });
  give("exports", initial);
  give("process", { env: Object.freeze({}) });
  give("global", globalThis);

  const adopt = (namespace) => {
    let found = namespace.default;
    const common = globalThis.module?.exports;
    if (found === undefined && common && (common !== initial || Object.keys(common).length > 0)) {
      found = common.__esModule && common.default !== undefined ? common.default : common;
    }
    if (typeof found === "function") found = new found();
    if (found === null || typeof found !== "object") throw new TypeError("the file exports no plugin: use `export default { name, version, description, tools }` or module.exports");
    plugin = found;
    const list = Array.isArray(found.tools) ? found.tools : [];
    if (!Array.isArray(found.tools)) throw new TypeError("`tools` is not an array");
    for (const tool of list) {
      if (typeof tool?.handler !== "function") throw new TypeError(`tool ${JSON.stringify(tool?.name)} has no handler function`);
      tools.set(tool.name, { tool, handler: tool.handler });
    }
    const { name, version, description, configSchema } = found;
    const declared = list.map((it) => ({
      name: it.name, title: it.title, description: it.description, inputSchema: it.inputSchema,
      requiresApproval: it.requiresApproval, idempotent: it.idempotent,
    }));
    return JSON.stringify({ declared: { name, version, description, configSchema, tools: declared } });
  };

  const receive = (text) => {
    const message = JSON.parse(text);
    if (message.answer) return answer(message.answer);
    if (message.call) {
      const known = tools.get(message.call.tool);
      return begin(
        () => { if (!known) throw new Error("no such tool"); return known.handler.call(known.tool, message.call.input, config); },
        (value) => ({ done: value === undefined ? null : value }),
      );
    }
    if (message.start) {
      config = message.start.config;
      for (const [field, name] of Object.entries(message.start.secrets)) config[field] = new Secret(name);
      return begin(() => plugin.onLoad?.(config), () => ({ done: true }));
    }
    if (message.stop) return begin(() => plugin.onUnload?.(), () => ({ done: true }));
  };

  return { adopt, receive, idle, failure: (error) => JSON.stringify({ failed: thrown(error) }), modules };
})
