// Tests the bridge with a simulated Max and a small server instead of the daemon. Run: node --test bridges/max/test/contract.test.js
"use strict";

const test = require("node:test");
const assert = require("node:assert");
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const os = require("os");
const path = require("path");
const { start } = require("./fake-max.js");
const { pack, unpack } = require("../pack.js");
const { proof } = require("../ws.js");

const TOKEN = "0123456789abcdef0123456789abcdef";
const SECRET = "fedcba9876543210fedcba9876543210";
const NONCE = "n0";

/** A server with a minimal WebSocket implementation. */
async function daemon() {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "conductor-max-"));
  fs.mkdirSync(path.join(home, "state"));
  const waiting = new Map();
  const events = [];
  const state = { home, events, hello: null, refused: 0, sockets: [] };
  let arrived;
  state.met = new Promise((resolve) => (arrived = resolve));
  state.again = () => (state.met = new Promise((resolve) => (arrived = resolve)));
  const server = http.createServer();
  // If set, the server is an impostor and sends this text instead of the token.
  state.lie = null;
  server.on("connection", (socket) => {
    socket.write(state.lie === null ? `conductor-daemon ${TOKEN} ${NONCE}\n` : state.lie);
    socket.on("end", () => socket.end());
    socket.on("close", () => state.onLeft && state.onLeft(socket.bytesRead));
  });
  server.on("upgrade", (request, socket) => {
    const [scheme, own, shown] = request.headers.authorization.split(" ");
    assert.equal(request.url, "/max");
    assert.deepEqual([scheme, shown], ["Conductor", proof(SECRET, "bridge", NONCE, own)]);
    const proven = state.unproven ? "0".repeat(64) : proof(SECRET, "daemon", own, NONCE);
    const key = crypto.createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\nConductor-Proof: ${proven}\r\n\r\n`);
    state.sockets.push(socket);
    let held = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      held = Buffer.concat([held, bytes]);
      for (;;) {
        if (held.length < 2) return;
        let length = held[1] & 127;
        let at = 2;
        if (length === 126) (length = held.readUInt16BE(2)), (at = 4);
        else if (length === 127) (length = Number(held.readBigUInt64BE(2))), (at = 10);
        if (held.length < at + 4 + length) return;
        const mask = held.subarray(at, at + 4);
        const body = Buffer.from(held.subarray(at + 4, at + 4 + length));
        for (let n = 0; n < body.length; n += 1) body[n] ^= mask[n & 3];
        const opcode = held[0] & 15;
        held = held.subarray(at + 4 + length);
        if (opcode !== 1) continue;
        const told = JSON.parse(body.toString());
        if (told.type === "hello") arrived((state.hello = told));
        else if (told.type === "reply") waiting.get(told.id)(told);
        else events.push(told);
      }
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  state.address = (token = TOKEN) =>
    fs.writeFileSync(path.join(home, "state", "max-bridge.json"), JSON.stringify({ port: server.address().port, token, secret: SECRET }));
  state.address();
  let count = 0;
  state.ask = (op, args = {}, deadline_ms = 5000, pieces = 1) => {
    count += 1;
    const id = count;
    const body = Buffer.from(JSON.stringify({ type: "request", id, op, deadline_ms, args }));
    const socket = state.sockets.at(-1);
    const size = Math.ceil(body.length / pieces);
    for (let n = 0; n < pieces; n += 1) {
      const part = body.subarray(n * size, (n + 1) * size);
      const head = Buffer.alloc(10);
      head[0] = (n === pieces - 1 ? 0x80 : 0) | (n === 0 ? 1 : 0);
      head[1] = 127;
      head.writeBigUInt64BE(BigInt(part.length), 2);
      socket.write(Buffer.concat([head, part]));
    }
    return new Promise((resolve) => waiting.set(id, resolve));
  };
  state.stop = () => {
    state.sockets.forEach((it) => it.destroy());
    server.close();
    server.closeAllConnections();
  };
  return state;
}

test("the bridge follows its protocol", async (t) => {
  const studio = await daemon();
  const left = () => new Promise((resolve) => (studio.onLeft = resolve));
  studio.lie = "";
  let leaving = left();
  const world = start(studio.home);
  assert.equal(await leaving, 0, "a listener that sent nothing received data");
  for (const lie of [`conductor-daemon ${"0".repeat(32)} ${NONCE}\n`, `conductor-daemon ${TOKEN}\n`, "HTTP/1.1 101 Switching Protocols\r\n\r\n", "x".repeat(2000)]) {
    studio.lie = lie;
    leaving = left();
    assert.equal(await leaving, 0, lie.slice(0, 40));
  }
  // An impostor that has the token but not the secret receives nothing after its wrong proof.
  studio.lie = null;
  studio.unproven = true;
  leaving = left();
  await leaving;
  assert.equal(studio.hello, null);
  studio.unproven = false;
  studio.sockets.length = 0;
  await studio.met;
  assert.deepEqual([studio.hello.protocol, studio.hello.bridge], [2, "2"]);
  const ok = async (...args) => {
    const told = await studio.ask(...args);
    assert.equal(told.ok, true, JSON.stringify(told));
    return told.result;
  };
  const no = async (...args) => (await studio.ask(...args)).error;

  const made = await ok("create");
  const patcher = made.patcher;
  const box = (text, y) => ({ op: "add", maxclass: "newobj", text, rect: [10, y, 70, 22] });
  const first = await ok("apply", { patcher, at: 1, edits: [{ ...box("cycle~ 440", 10), as: "$a" }, { ...box("*~ 0.1", 60), as: "$b", varname: "gain" }, { op: "connect", from: ["$a", 0], to: ["$b", 0] }] });
  assert.deepEqual([first.revision, first.created.length], [2, 2]);
  const [osc, gain] = first.created;
  assert.equal(world.patchers[0].cords.length, 1);

  await t.test("a batch that fails is rolled back", async () => {
    const before = await ok("snapshot", { patcher });
    const error = await no("apply", { patcher, at: 2, edits: [box("metro 100", 100), { op: "text", key: osc, text: "cycle~ 1" }, { op: "remove", key: gain }, box("nosuch", 5)] });
    assert.equal(error.code, "SDK_REJECTED");
    assert.match(error.message, /^edits\[3\]/);
    const after = await ok("snapshot", { patcher });
    const plain = (told) => told.boxes.map((it) => [it.text, it.rect, it.varname]).sort();
    assert.deepEqual(plain(after), plain(before));
    assert.equal(after.revision, 2);
  });
  await t.test("an old revision is refused, and an edit by a person creates a new revision", async () => {
    assert.equal((await no("apply", { patcher, at: 1, edits: [] })).code, "STALE_REFERENCE");
    world.patchers[0].newdefault(300, 300, "metro", 5);
    world.poll();
    assert.equal((await ok("snapshot", { patcher })).revision, 3);
    assert.deepEqual(studio.events.at(-1), { type: "event", event: "patcher_changed", patcher, revision: 3 });
  });
  await t.test("a request is not run after its deadline", async () => {
    world.busy = true;
    const late = no("apply", { patcher, at: 3, edits: [box("metro 9", 200)] }, 1);
    await new Promise((resolve) => {
      const wait = () => (world.held.length > 0 ? setTimeout(resolve, 5) : setImmediate(wait));
      wait();
    });
    world.release();
    assert.equal((await late).code, "TIMEOUT");
    assert.equal((await ok("snapshot", { patcher })).revision, 3);
  });
  await t.test("a megabyte of text is transferred, also in fragments", async () => {
    const text = "x".repeat(1 << 20);
    const note = await ok("apply", { patcher, at: 3, edits: [{ op: "add", maxclass: "comment", text, rect: [0, 0, 50, 20] }] }, 5000, 7);
    assert.equal(note.revision, 4);
    const told = await ok("snapshot", { patcher });
    assert.equal(told.boxes.at(-1).text, text);
    assert.deepEqual(unpack(pack({ a: [text, 1, null] })), { a: [text, 1, null] });
  });
  await t.test("values, locks, unknown names, and the bridge's own boxes", async () => {
    const number = (await ok("apply", { patcher, at: 4, edits: [{ op: "add", maxclass: "number", text: "", rect: [0, 90, 50, 20] }] })).created[0];
    assert.equal((await ok("value", { patcher, key: number })).value, 0);
    assert.equal((await no("value", { patcher, key: osc })).code, "UNSUPPORTED");
    assert.equal((await ok("lock", { patcher, locked: true })).locked, 1);
    assert.equal((await no("snapshot", { patcher: "p99" })).code, "NOT_FOUND");
    assert.equal((await no("dance")).code, "UNSUPPORTED");
    assert.equal((await no("apply", { patcher, at: 5, edits: [{ op: "attr", key: osc, name: "fontzize", value: 1 }] })).code, "BAD_INPUT");
    const mine = world.patchers[0].newdefault(0, 0, "button");
    mine.varname = "conductor_v8";
    assert.ok((await ok("snapshot", { patcher })).boxes.every((it) => it.varname !== "conductor_v8"));
  });
  await t.test("a new attribute is reset to its earlier value, and windows are listed", async () => {
    const at = (await ok("snapshot", { patcher })).revision;
    await ok("apply", { patcher, at, edits: [{ op: "attr", key: osc, name: "fontsize", value: 30 }] });
    const shown = () => world.patchers[0].boxes.find((it) => it.text === "cycle~ 440").attributes.fontsize;
    assert.equal(shown(), 30);
    await ok("apply", { patcher, at: at + 1, edits: [{ op: "attr_reset", key: osc, name: "fontsize" }] });
    assert.equal(shown(), 12);
    assert.equal((await no("apply", { patcher, at: at + 2, edits: [{ op: "attr_reset", key: osc, name: "presentation" }] })).code, "UNSUPPORTED");
    world.make("/somewhere/mine.maxpat");
    assert.deepEqual((await ok("list")).windows, [{ patcher: "", name: "mine.maxpat", path: "/somewhere/mine.maxpat" }]);
    world.patchers[0].boxes = world.patchers[0].boxes.filter((it) => it.varname !== "conductor_v8");
    assert.deepEqual((await ok("list")).windows.map((it) => it.patcher), ["", patcher]);
  });
  await t.test("the bridge reconnects when the daemon is back", async () => {
    studio.again();
    studio.sockets.at(-1).destroy();
    await studio.met;
    assert.deepEqual(await ok("ping"), {});
  });
  studio.stop();
  fs.rmSync(studio.home, { recursive: true });
  setImmediate(() => process.exit(0));
});
