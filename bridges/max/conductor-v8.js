// The part of the bridge in [v8]: edits patchers. A batch of edits runs in one turn of the scheduler. If an edit fails, the edits before
// it are rolled back and the whole batch is refused. This script has never been run in a real Max; see README.md.
"use strict";

include("pack.js");

inlets = 1;
outlets = 1;

var conductor = { patchers: {}, count: 0, keys: 0 };

function Refused(code, message) {
  this.code = code;
  this.message = message;
}

// Called by conductor.js. The request is in the dictionary with this number.
function request(number) {
  var asked = conductorUnpack(JSON.parse(new Dict("conductor_request_" + number).stringify()));
  var reply;
  try {
    // A late request is never run: its caller got a timeout and relies on the request having no effect.
    if (Date.now() > asked.expires) throw new Refused("TIMEOUT", "the request arrived after its deadline and was not run");
    var run = conductorOps[asked.op];
    if (!run) throw new Refused("UNSUPPORTED", "unknown operation " + asked.op);
    reply = { ok: true, result: run(asked.args || {}) };
  } catch (fault) {
    reply = { ok: false, error: { code: fault.code || "INTERNAL", message: String(fault.message || fault) } };
  }
  new Dict("conductor_reply_" + number).parse(JSON.stringify(conductorPack(reply)));
  outlet(0, "reply", number);
}

function known(id) {
  var found = conductor.patchers[id];
  if (!found) throw new Refused("NOT_FOUND", "there is no patcher " + id);
  return found;
}

function adopt(patcher) {
  for (var id in conductor.patchers) if (conductor.patchers[id].patcher === patcher) return id;
  conductor.count += 1;
  var made = "p" + conductor.count;
  conductor.patchers[made] = { patcher: patcher, revision: 1, boxes: {}, first: {}, signature: "" };
  conductor.patchers[made].signature = signature(patcher);
  return made;
}

function eachBox(patcher, work) {
  for (var box = patcher.firstobject; box; box = box.nextobject) {
    // The bridge's own objects are not part of a patch.
    if (String(box.varname || "").indexOf("conductor_") !== 0) work(box);
  }
}

// Whether the patcher is the bridge's own patch.
function ownWindow(patcher) {
  for (var box = patcher.firstobject; box; box = box.nextobject) if (String(box.varname || "") === "conductor_v8") return true;
  return false;
}

// A text that changes when a box is added, removed, moved or edited. It does not include cords, attributes and the content of
// subpatchers. Fast enough to be computed twice a second.
function signature(patcher) {
  var parts = [];
  eachBox(patcher, function (box) {
    parts.push(box.maxclass + box.rect.join() + (box.boxtext || ""));
  });
  return parts.join("|");
}

function keyOf(held, box) {
  for (var key in held.boxes) if (held.boxes[key] === box) return key;
  conductor.keys += 1;
  var made = "k" + conductor.keys;
  held.boxes[made] = box;
  return made;
}

function boxOf(held, key) {
  var box = held.boxes[key];
  if (!box || box.valid === false) throw new Refused("NOT_FOUND", "there is no object " + key);
  return box;
}

function rows(held, patcher) {
  var found = [];
  eachBox(patcher, function (box) {
    var row = { key: keyOf(held, box), maxclass: box.maxclass, text: box.boxtext || "", rect: box.rect.slice() };
    if (box.varname) row.varname = box.varname;
    var inside = box.subpatcher && box.subpatcher();
    if (inside) row.boxes = rows(held, inside);
    found.push(row);
  });
  return found;
}

// The patcher that an edit changes: the root, or the subpatcher at a path of boxes.
function within(held, path) {
  var patcher = held.patcher;
  [].concat(path || []).forEach(function (key) {
    var box = boxOf(held, key);
    patcher = box.subpatcher && box.subpatcher();
    if (!patcher) throw new Refused("WRONG_TYPE", key + " has no subpatcher");
  });
  return patcher;
}

function atoms(text) {
  return (text.match(/"[^"]*"|\S+/g) || []).map(function (word) {
    return word !== "" && !isNaN(Number(word)) ? Number(word) : word.replace(/^"(.*)"$/, "$1");
  });
}

// Each edit returns a function that undoes it.
var conductorEdits = {
  add: function (held, patcher, edit, created) {
    var args = edit.maxclass === "newobj" ? atoms(edit.text) : [edit.maxclass];
    var box = patcher.newdefault.apply(patcher, [edit.rect[0], edit.rect[1]].concat(args));
    if (!box || box.maxclass === "jbogus") {
      if (box) patcher.remove(box);
      throw new Refused("SDK_REJECTED", "Max cannot create " + (edit.text || edit.maxclass));
    }
    if (edit.maxclass !== "newobj" && edit.text) box.boxtext = edit.text;
    box.rect = [edit.rect[0], edit.rect[1], edit.rect[0] + edit.rect[2], edit.rect[1] + edit.rect[3]];
    if (edit.varname) box.varname = edit.varname;
    var key = keyOf(held, box);
    // The caller may name the new box with `as`, so that later edits of the batch can refer to it.
    if (edit.as) held.boxes[edit.as] = box;
    created.push(key);
    return function () {
      patcher.remove(box);
      delete held.boxes[key];
    };
  },
  remove: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var old = { maxclass: box.maxclass, text: box.boxtext || "", rect: box.rect.slice(), varname: box.varname };
    patcher.remove(box);
    delete held.boxes[edit.key];
    return function () {
      var args = old.maxclass === "newobj" ? atoms(old.text) : [old.maxclass];
      var again = patcher.newdefault.apply(patcher, [old.rect[0], old.rect[1]].concat(args));
      again.rect = old.rect;
      if (old.varname) again.varname = old.varname;
      held.boxes[edit.key] = again;
    };
  },
  text: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var old = box.boxtext;
    box.boxtext = edit.text;
    if (box.maxclass === "jbogus") {
      box.boxtext = old;
      throw new Refused("SDK_REJECTED", "Max cannot create " + edit.text);
    }
    return function () {
      box.boxtext = old;
    };
  },
  rect: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var old = box.rect.slice();
    box.rect = [edit.rect[0], edit.rect[1], edit.rect[0] + edit.rect[2], edit.rect[1] + edit.rect[3]];
    return function () {
      box.rect = old;
    };
  },
  varname: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var old = box.varname;
    box.varname = edit.varname || "";
    return function () {
      box.varname = old;
    };
  },
  hidden: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var old = box.hidden;
    box.hidden = edit.hidden;
    return function () {
      box.hidden = old;
    };
  },
  attr: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var names = box.getboxattrnames().concat(box.getattrnames());
    if (names.indexOf(edit.name) < 0) throw new Refused("BAD_INPUT", edit.key + " has no attribute " + edit.name);
    var old = box.getboxattr(edit.name);
    // Store the value from before Conductor's first change: Max cannot remove an attribute, so undo sets this value.
    var first = held.first[edit.key] || (held.first[edit.key] = {});
    if (!(edit.name in first)) first[edit.name] = old;
    box.setboxattr(edit.name, edit.value);
    return function () {
      box.setboxattr(edit.name, old);
    };
  },
  attr_reset: function (held, patcher, edit) {
    var box = boxOf(held, edit.key);
    var first = held.first[edit.key] || {};
    if (!(edit.name in first)) throw new Refused("UNSUPPORTED", "the earlier value of " + edit.name + " of " + edit.key + " is not known");
    var old = box.getboxattr(edit.name);
    box.setboxattr(edit.name, first[edit.name]);
    return function () {
      box.setboxattr(edit.name, old);
    };
  },
  connect: function (held, patcher, edit) {
    var from = boxOf(held, edit.from[0]);
    var to = boxOf(held, edit.to[0]);
    patcher.connect(from, edit.from[1], to, edit.to[1]);
    return function () {
      patcher.disconnect(from, edit.from[1], to, edit.to[1]);
    };
  },
  disconnect: function (held, patcher, edit) {
    var from = boxOf(held, edit.from[0]);
    var to = boxOf(held, edit.to[0]);
    patcher.disconnect(from, edit.from[1], to, edit.to[1]);
    return function () {
      patcher.connect(from, edit.from[1], to, edit.to[1]);
    };
  },
};

var conductorOps = {
  ping: function () {
    return {};
  },
  // All patcher windows of Max, the front one first.
  list: function () {
    var found = [];
    for (var wind = max.frontpatcher && max.frontpatcher.wind; wind && found.length < 200; wind = wind.next) {
      var patcher = wind.assoc;
      if (!patcher || ownWindow(patcher)) continue;
      var row = { patcher: "", name: patcher.name || wind.title || "", path: patcher.filepath || "" };
      for (var id in conductor.patchers) if (conductor.patchers[id].patcher === patcher) row.patcher = id;
      found.push(row);
    }
    return { windows: found };
  },
  open: function (args) {
    var patcher = max.openpatcher ? max.openpatcher(args.path) : null;
    if (!patcher) {
      max.loadfile ? max.loadfile(args.path) : messnamed("max", "openfile", "conductor", args.path);
      patcher = max.frontpatcher;
    }
    if (!patcher || (patcher.filepath && patcher.filepath !== args.path)) throw new Refused("NOT_FOUND", "Max did not open " + args.path);
    var id = adopt(patcher);
    return conductorOps.snapshot({ patcher: id });
  },
  create: function () {
    return conductorOps.snapshot({ patcher: adopt(new Patcher(100, 100, 800, 600)) });
  },
  close: function (args) {
    known(args.patcher).patcher.close();
    delete conductor.patchers[args.patcher];
    return {};
  },
  snapshot: function (args) {
    var held = known(args.patcher);
    return { patcher: args.patcher, revision: held.revision, locked: held.patcher.locked ? 1 : 0, boxes: rows(held, held.patcher) };
  },
  apply: function (args) {
    var held = known(args.patcher);
    detectChange(args.patcher);
    if (args.at !== held.revision) throw new Refused("STALE_REFERENCE", "the patcher is at revision " + held.revision);
    var back = [];
    var created = [];
    var edits = [].concat(args.edits || []);
    try {
      edits.forEach(function (edit) {
        var make = conductorEdits[edit.op];
        if (!make) throw new Refused("UNSUPPORTED", "unknown edit " + edit.op);
        back.push(make(held, within(held, edit.within), edit, created));
      });
    } catch (fault) {
      var index = back.length;
      while (back.length > 0) back.pop()();
      held.signature = signature(held.patcher);
      throw new Refused(fault.code || "INTERNAL", "edits[" + index + "]: " + (fault.message || fault));
    }
    held.revision += 1;
    held.signature = signature(held.patcher);
    return { revision: held.revision, created: created };
  },
  value: function (args) {
    var box = boxOf(known(args.patcher), args.key);
    var value = box.getvalueof ? box.getvalueof() : undefined;
    if (value === undefined || value === null) throw new Refused("UNSUPPORTED", args.key + " has no value to read");
    return { value: value };
  },
  lock: function (args) {
    var held = known(args.patcher);
    if (args.locked !== undefined) held.patcher.locked = args.locked ? 1 : 0;
    return { locked: held.patcher.locked ? 1 : 0 };
  },
  save: function (args) {
    var held = known(args.patcher);
    held.patcher.message("write", args.path || held.patcher.filepath);
    return {};
  },
};

// Detects edits that a person made in Max, by comparing signatures. Edits that the signature does not include are missed.
function detectChange(id) {
  var held = conductor.patchers[id];
  var now = signature(held.patcher);
  if (now === held.signature) return;
  held.signature = now;
  held.revision += 1;
  outlet(0, "changed", id, held.revision);
}

function poll() {
  for (var id in conductor.patchers) detectChange(id);
}

var conductorPoll = new Task(poll, this);
conductorPoll.interval = 500;
conductorPoll.repeat();
