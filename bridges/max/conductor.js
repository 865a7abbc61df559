// Conductor's half in node.script: dials the daemon on this machine, makes sure that it is the daemon, and passes requests on to
// conductor-v8.js.
// JSON crosses between the two in named dictionaries. Never run in a real Max yet; see README.md.
"use strict";

const fs = require("fs");
const os = require("os");
const path = require("path");
const max = require("max-api");
const { dial } = require("./ws.js");
const { pack, unpack } = require("./pack.js");

const PROTOCOL = 2;
const AGAIN_MS = 2000;

/** Port, token and secret: new at every start of the daemon, removed when it stops, readable by this person alone. */
function address() {
  const home = process.argv[2] || process.env.CONDUCTOR_HOME || path.join(os.homedir(), ".conductor");
  return JSON.parse(fs.readFileSync(path.join(home, "state", "max-bridge.json"), "utf8"));
}

let send = null;
const waiting = new Map();
let turn = 0;

async function request(asked) {
  turn += 1;
  const number = turn;
  // The clock starts when the request arrives: whoever runs it later looks at it again.
  const expires = Date.now() + (asked.deadline_ms || 5000);
  waiting.set(number, { id: asked.id, expires });
  await max.setDict(`conductor_request_${number}`, pack({ op: asked.op, args: asked.args || {}, expires }));
  await max.outlet("request", number);
}

max.addHandler("reply", async (number) => {
  const asked = waiting.get(number);
  waiting.delete(number);
  if (!asked || !send) return;
  const told = unpack(await max.getDict(`conductor_reply_${number}`));
  send(JSON.stringify({ type: "reply", id: asked.id, ...told }));
});

max.addHandler("changed", (patcher, revision) => {
  if (send) send(JSON.stringify({ type: "event", event: "patcher_changed", patcher, revision }));
});

function start() {
  let where;
  try {
    where = address();
    if (!where.token || !where.secret) throw new Error("it is of another version");
  } catch (fault) {
    max.post(`conductor: no daemon has left its address (${fault.message})`);
    return setTimeout(start, AGAIN_MS);
  }
  dial(
    { host: "127.0.0.1", path: "/max", port: where.port, token: where.token, secret: where.secret },
    {
      open(tell) {
        send = tell;
        tell(JSON.stringify({ type: "hello", protocol: PROTOCOL, max: process.env.MAX_VERSION || "unknown", bridge: "2" }));
      },
      text(text) {
        let asked;
        try {
          asked = JSON.parse(text);
        } catch (fault) {
          return;
        }
        if (asked.type === "request") request(asked).catch((fault) => max.post(`conductor: ${fault.message}`));
      },
      close(reason) {
        send = null;
        waiting.clear();
        max.post(`conductor: ${reason}`);
        setTimeout(start, AGAIN_MS);
      },
    },
  );
}

start();
