// Defines the global objects of a script. This file runs before the code of the script, in the same sandbox. A script that changes these
// objects harms only itself: the daemon checks every call, and makes the calls one after another in the order in which they arrive.
// `host` contains the native functions.
(function (host, shared) {
  "use strict";

  const { place } = shared;

  // ---- no randomness, no clock -----------------------------------------------------------------------------------------------------------

  // A repeated run must make the same calls. These objects depend on time, the machine, the garbage
  // collector or other threads, so their results would differ between runs.
  for (const name of ["performance", "WeakRef", "FinalizationRegistry", "Atomics", "SharedArrayBuffer", "navigator", "gc"]) {
    delete globalThis[name];
  }

  const { stringify, parse } = JSON;
  const RealDate = Date;
  const construct = Reflect.construct;

  const fixTime = (now) => {
    const Fixed = function Date(...args) {
      if (new.target === undefined) return new RealDate(now).toString();
      return construct(RealDate, args.length === 0 ? [now] : args, new.target);
    };
    const fixed = (object, name, value) => Object.defineProperty(object, name, { value, writable: false, enumerable: false, configurable: false });
    fixed(Fixed, "prototype", RealDate.prototype);
    fixed(RealDate.prototype, "constructor", Fixed);
    fixed(Fixed, "now", () => now);
    fixed(Fixed, "parse", RealDate.parse);
    fixed(Fixed, "UTC", RealDate.UTC);
    fixed(globalThis, "Date", Fixed);
  };

  // Replaces `Math.random` with the generator sfc32. Its seed is stored in the journal, so a
  // repeated run gets the same numbers.
  const fixChance = ([a, b]) => {
    let c = a ^ 0x9e3779b9, counter = 1;
    const next = () => {
      const t = (((a + b) | 0) + counter) | 0;
      counter = (counter + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + t) | 0;
      return t >>> 0;
    };
    for (let n = 0; n < 15; n++) next();
    const random = () => ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
    Object.defineProperty(Math, "random", { value: random, writable: false, enumerable: false, configurable: false });
  };

  // ---- the run ---------------------------------------------------------------------------------------------------------------------------

  let main = null;
  let active = false;
  let settled = null;
  let nextId = 1;
  const asked = new Map();

  const thrown = (error) => {
    if (error === null || (typeof error !== "object" && typeof error !== "function")) return { message: String(error).slice(0, 2000) };
    const name = typeof error.name === "string" && error.name !== "Error" && error.name !== "ToolError" ? error.name + ": " : "";
    const message = typeof error.message === "string" ? error.message : "threw a value that is not an error";
    const call = Number.isInteger(error.call) ? error.call : undefined;
    return { message: (name + message).slice(0, 2000), place: place(error), call };
  };

  const failed = (error) => {
    const over = error === null || (error instanceof InternalError && error.message === "out of memory");
    return over ? { threw: { message: "out of memory" }, over: "memory" } : { done: { threw: thrown(error) } };
  };

  const finish = () => {
    let text;
    try {
      text = stringify(settled);
    } catch (error) {
      text = stringify(failed(error));
    }
    active = false;
    settled = null;
    host.send(text);
  };

  class ToolError extends Error {
    constructor(error, call, stack) {
      super(`${error.code}: ${error.message}`);
      this.stack = stack;
      this.name = "ToolError";
      this.code = error.code;
      this.hint = error.hint;
      this.effect = error.effect;
      this.details = error;
      this.call = call;
    }
  }

  const ask = (tool, args) => new Promise((resolve, reject) => {
    if (!active) throw new Error("the script has ended");
    const text = stringify({ ask: { id: nextId, what: "call", with: { tool, arguments: args === undefined ? {} : args } } });
    // Keep the stack of this call, so that the error of a failed call shows the line of the call.
    asked.set(nextId++, { resolve, reject, stack: new Error().stack });
    host.send(text);
  });

  const answer = ({ id, ok, error }) => {
    const waiting = asked.get(id);
    if (!waiting) return;
    asked.delete(id);
    if (error) return waiting.reject(new Error(error.message));
    if (ok.error) return waiting.reject(new ToolError(ok.error, ok.call, waiting.stack));
    waiting.resolve(ok.ok);
  };

  // Reading an unknown name throws an error that lists the existing names. `then` must be absent,
  // so that `await studio.live` does not fail.
  const guarded = (members, label) => new Proxy(Object.freeze(members), {
    get(target, key) {
      if (typeof key === "symbol" || key === "then" || key === "toJSON" || key in target) return target[key];
      throw new TypeError(`${label}.${key} does not exist; ${label} has: ${Object.keys(target).join(", ")}`);
    },
  });

  const studioOf = (tools) => {
    const sets = Object.create(null);
    for (const [set, verb, tool] of tools) {
      const members = (sets[set] ??= Object.create(null));
      members[verb] = (args) => ask(tool, args);
    }
    for (const set of Object.keys(sets)) sets[set] = guarded(sets[set], "studio." + set);
    return guarded(sets, "studio");
  };

  const show = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return thrown(value).message;
    try { return stringify(value) ?? String(value); } catch { return String(value); }
  };
  const say = (level) => (...values) => host.send(stringify({ log: { level, text: values.map(show).join(" ").slice(0, 65536) } }));
  Object.defineProperty(globalThis, "console", { value: Object.freeze({
    log: say("info"), info: say("info"), debug: say("debug"), trace: say("debug"), warn: say("warning"), error: say("error"),
  }), writable: false, enumerable: false, configurable: false });

  /// Sends the result of a finished run. Returns 0 if it must be called again, or -1 if the process can only continue with a message from the
  /// daemon. A run ends only after all its calls have ended.
  const idle = () => {
    if (!active || asked.size > 0) return -1;
    if (settled !== null) { finish(); return -1; }
    settled = host.starved() ? failed(null) : { done: { threw: { message: "the script waits for a promise that can never be settled" } } };
    return 0;
  };

  const adopt = (run) => {
    if (typeof run !== "function") throw new SyntaxError("the code is not the body of a function");
    main = run;
    return stringify({ declared: true });
  };

  const receive = (text) => {
    const message = parse(text);
    if (message.answer) return answer(message.answer);
    if (!message.run || main === null) return;
    const run = main;
    main = null;
    fixTime(message.run.now);
    fixChance(message.run.seed);
    const studio = studioOf(message.run.tools);
    active = true;
    host.arm();
    run(studio).then((value) => { settled ??= { done: { ok: value === undefined ? null : value } }; }, (error) => { settled ??= failed(error); });
  };

  return { adopt, receive, idle };
})
