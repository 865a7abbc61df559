// The part of the bridge in node.script: connects to the daemon on this machine, checks its identity, and forwards requests to
// conductor-v8.js. The two scripts exchange JSON in named dictionaries. This script has never been run in a real Max; see README.md.
"use strict";

const fs = require("fs");
const os = require("os");
const path = require("path");
const max = require("max-api");
const { dial } = require("./ws.js");
const { pack, unpack } = require("./pack.js");

const PROTOCOL = 2;
const RETRY_MS = 2000;

/** Reads port, token and secret. The daemon writes this file at start, for this user only, and removes it when it stops. */
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
  // The deadline counts from the arrival of the request; conductor-v8.js checks it before it runs the request.
  const expires = Date.now() + (asked.deadline_ms || 5000);
  waiting.set(number, { id: asked.id, expires });
  await max.setDict(`conductor_request_${number}`, pack({ op: asked.op, args: asked.args || {}, expires }));
  await max.outlet("request", number);
}

max.addHandler("reply", async (number) => {
  const asked = waiting.get(number);
  waiting.delete(number);
  if (!asked || !send) return;
  const reply = unpack(await max.getDict(`conductor_reply_${number}`));
  send(JSON.stringify({ type: "reply", id: asked.id, ...reply }));
});

max.addHandler("changed", (patcher, revision) => {
  if (send) send(JSON.stringify({ type: "event", event: "patcher_changed", patcher, revision }));
});

function start() {
  let where;
  try {
    where = address();
    if (!where.token || !where.secret) throw new Error("the file has no token or secret; the daemon may have another version");
  } catch (fault) {
    max.post(`conductor: cannot read the address of the daemon: ${fault.message}`);
    return setTimeout(start, RETRY_MS);
  }
  dial(
    { host: "127.0.0.1", path: "/max", port: where.port, token: where.token, secret: where.secret },
    {
      open(sendText) {
        send = sendText;
        send(JSON.stringify({ type: "hello", protocol: PROTOCOL, max: process.env.MAX_VERSION || "unknown", bridge: "2" }));
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
        setTimeout(start, RETRY_MS);
      },
    },
  );
}

start();
