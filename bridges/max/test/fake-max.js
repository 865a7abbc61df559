// Simulates the parts of Max that the bridge uses: patchers and boxes with Max's names, dictionaries that cut long symbols, and the cords
// between node.script and v8. It enforces the rules of Max and contains no code of the bridge.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");
const Module = require("module");

const SYMBOL = 32767;
const CLASSES = { "cycle~": [2, 1], "*~": [2, 1], "ezdac~": [2, 0], metro: [2, 1], number: [1, 2], message: [2, 1], comment: [1, 0], button: [1, 1], inlet: [0, 1], outlet: [1, 0], patcher: [0, 0], p: [0, 0] };
const UI = ["number", "message", "comment", "button", "ezdac~", "inlet", "outlet"];

class Box {
  constructor(patcher, x, y, words) {
    this.patcher = patcher;
    this.valid = true;
    this.varname = "";
    this.hidden = false;
    this.attributes = { fontsize: 12, presentation: 0 };
    this.rect = [x, y, x + 60, y + 22];
    this.value = 0;
    this.text = "";
    this.become(words);
  }
  become(words) {
    const name = String(words[0]);
    const ports = CLASSES[name];
    this.maxclass = !ports ? "jbogus" : UI.includes(name) ? name : "newobj";
    this.fixed = ports || [0, 0];
    // `comment` and `index` are the names in patch files. It is not known whether a running Max
    // lists them as attributes.
    if (name === "inlet" || name === "outlet") Object.assign(this.attributes, { comment: "", index: 0 });
    if (this.maxclass !== name) this.text = words.join(" ");
    this.inside = name === "p" || name === "patcher" ? this.inside || new FakePatcher() : null;
  }
  get ports() {
    if (!this.inside) return this.fixed;
    const count = (kind) => this.inside.boxes.filter((it) => it.maxclass === kind).length;
    return [count("inlet"), count("outlet")];
  }
  get boxtext() {
    return this.text;
  }
  set boxtext(text) {
    if (UI.includes(this.maxclass)) this.text = text;
    else this.become(text.split(" "));
  }
  get nextobject() {
    return this.patcher.boxes[this.patcher.boxes.indexOf(this) + 1] || null;
  }
  subpatcher() {
    return this.inside;
  }
  getboxattrnames() {
    return Object.keys(this.attributes);
  }
  getattrnames() {
    return [];
  }
  getboxattr(name) {
    return this.attributes[name];
  }
  setboxattr(name, value) {
    this.attributes[name] = value;
  }
  getvalueof() {
    return this.maxclass === "number" ? this.value : undefined;
  }
}

class FakePatcher {
  constructor(filepath = "") {
    this.filepath = filepath;
    this.name = path.basename(filepath);
    this.locked = 0;
    this.boxes = [];
    this.cords = [];
  }
  get firstobject() {
    return this.boxes[0] || null;
  }
  newdefault(x, y, ...words) {
    const box = new Box(this, x, y, words);
    this.boxes.push(box);
    return box;
  }
  remove(box) {
    box.valid = false;
    this.boxes = this.boxes.filter((it) => it !== box);
    this.cords = this.cords.filter((it) => it[0] !== box && it[2] !== box);
  }
  connect(from, outlet, to, inlet) {
    if (outlet >= from.ports[1] || inlet >= to.ports[0]) throw new Error("no such port");
    this.cords.push([from, outlet, to, inlet]);
  }
  disconnect(from, outlet, to, inlet) {
    this.cords = this.cords.filter((it) => !(it[0] === from && it[1] === outlet && it[2] === to && it[3] === inlet));
  }
  close() {}
  message() {}
}

/** The value that Max stores in a dictionary: long symbols are cut. */
function kept(value) {
  if (typeof value === "string") return value.slice(0, SYMBOL);
  if (Array.isArray(value)) return value.map(kept);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, kept(it)]));
  return value;
}

/** Returns the path on Linux of a file that a daemon under Wine names. Other paths stay as they are. */
function native(file) {
  const [, drive, rest] = /^([CZ]):(\\.*)$/.exec(file) || [];
  if (!drive) return file;
  return (drive === "C" ? path.join(process.env.WINEPREFIX || "", "drive_c") : "") + rest.replace(/\\/g, "/");
}

/** Loads both scripts of the bridge and connects them. `home` contains the file with the daemon's address. */
function start(home) {
  const dicts = {};
  const handlers = {};
  const posts = [];
  const world = { patchers: [], windows: [], busy: false, held: [], posts };
  const folder = path.join(__dirname, "..");
  class Dict {
    constructor(name) {
      this.name = name;
    }
    stringify() {
      return JSON.stringify(dicts[this.name] || {});
    }
    parse(text) {
      dicts[this.name] = kept(JSON.parse(text));
    }
  }
  class Task {
    constructor(work) {
      this.work = work;
      world.poll = () => work();
    }
    repeat() {}
  }
  const make = (...args) => {
    const patcher = new FakePatcher(typeof args[0] === "string" ? args[0] : "");
    world.patchers.push(patcher);
    // Max's list of windows: the front window first, each with a reference to the next.
    world.windows.unshift(patcher);
    patcher.wind = {
      assoc: patcher,
      get next() {
        const after = world.windows[world.windows.indexOf(patcher) + 1];
        return after ? after.wind : null;
      },
    };
    patcher.close = () => (world.windows = world.windows.filter((it) => it !== patcher));
    return patcher;
  };
  const sandbox = {
    inlets: 1,
    outlets: 1,
    Dict,
    Task,
    Patcher: function () {
      return make();
    },
    max: {
      get frontpatcher() {
        return world.windows[0] || null;
      },
      openpatcher(file) {
        const open = world.patchers.find((it) => it.filepath === file);
        if (open) return open;
        const disk = native(file);
        if (!fs.existsSync(disk)) return null;
        const patcher = make(file);
        const { boxes, lines = [] } = JSON.parse(fs.readFileSync(disk, "utf8")).patcher;
        const byId = {};
        for (const { box } of boxes) {
          const [x, y, w, h] = box.patching_rect;
          const made = patcher.newdefault(x, y, ...(box.maxclass === "newobj" ? box.text.split(" ") : [box.maxclass]));
          made.rect = [x, y, x + w, y + h];
          if (box.maxclass !== "newobj") made.text = box.text || "";
          made.varname = box.varname || "";
          for (const name of Object.keys(made.attributes)) if (name in box) made.attributes[name] = box[name];
          byId[box.id] = made;
        }
        for (const { patchline } of lines) {
          const [[from, outlet], [to, inlet]] = [patchline.source, patchline.destination];
          patcher.cords.push([byId[from], outlet, byId[to], inlet]);
        }
        return patcher;
      },
    },
    include: (file) => vm.runInContext(fs.readFileSync(path.join(folder, file), "utf8").replace(/if \(typeof module[^\n]*\n?/, ""), context),
    outlet: (_, name, ...args) => setImmediate(() => handlers[name] && handlers[name](...args)),
    JSON,
    Date,
  };
  const context = vm.createContext(sandbox);
  vm.runInContext(fs.readFileSync(path.join(folder, "conductor-v8.js"), "utf8"), context);
  const run = (number) => sandbox.request(number);
  world.release = () => {
    world.busy = false;
    world.held.splice(0).forEach(run);
  };
  const api = {
    addHandler: (name, work) => (handlers[name] = work),
    setDict: async (name, value) => void (dicts[name] = kept(value)),
    getDict: async (name) => dicts[name],
    outlet: async (_, number) => void setImmediate(() => (world.busy ? world.held.push(number) : run(number))),
    post: (text) => posts.push(text),
  };
  world.make = make;
  // The content of a patcher as plain values, for tests that query Max directly.
  world.picture = (patcher) => ({
    boxes: patcher.boxes.map((it) => ({
      class: it.maxclass,
      text: it.text,
      name: it.varname,
      hidden: Boolean(it.hidden),
      rect: it.rect,
      attributes: it.attributes,
      inside: it.inside ? world.picture(it.inside) : null,
    })),
    cords: patcher.cords.map(([from, outlet, to, inlet]) => [patcher.boxes.indexOf(from), outlet, patcher.boxes.indexOf(to), inlet]),
    locked: patcher.locked,
  });
  const load = Module._load;
  Module._load = (name, ...rest) => (name === "max-api" ? api : load(name, ...rest));
  const node = path.join(folder, "conductor.js");
  delete require.cache[require.resolve(node)];
  process.argv[2] = home;
  require(node);
  Module._load = load;
  return world;
}

module.exports = { start, FakePatcher };
