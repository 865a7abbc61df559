// A small WebSocket client (RFC 6455) on top of Node's http module: the Node inside older Max versions has no WebSocket.
// It exchanges only text, joins fragments and answers pings. A frame or message longer than 16 MiB closes the connection.
// The daemon sends its token first. Then client and daemon prove in the HTTP headers of the upgrade that they have the secret.
"use strict";

const crypto = require("crypto");
const http = require("http");
const net = require("net");

const MOST_BYTES = 16 * 1024 * 1024;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const GREETING_MS = 3000;

function same(a, b) {
  const [left, right] = [Buffer.from(String(a)), Buffer.from(String(b))];
  return left.length === right.length && crypto.timingSafeEqual(left, right);
}

/** Returns the proof that this side has the secret, for the two random numbers of one connection. */
function proof(secret, role, first, second) {
  return crypto.createHmac("sha256", secret).update(`${role} ${first} ${second}`).digest("hex");
}

/**
 * Connects. After both sides have proved that they have the secret, calls `on.open(send, close)`, `on.text(text)` for each message, and
 * `on.close(reason)` once at the end. Sends nothing to a listener that does not have the token.
 */
function dial({ host, port, path, token, secret }, on) {
  let ended = false;
  const end = (reason) => {
    if (!ended) {
      ended = true;
      clearTimeout(limit);
      on.close(reason);
    }
  };
  const socket = net.connect({ host, port });
  const leave = (reason) => {
    socket.destroy();
    end(reason);
  };
  const limit = setTimeout(() => leave("the daemon did not authenticate itself in time"), GREETING_MS);
  let heard = Buffer.alloc(0);
  const listen = (bytes) => {
    heard = Buffer.concat([heard, bytes]);
    const stop = heard.indexOf(10);
    if (stop < 0 && heard.length < 512) return;
    const [word, shown, nonce] = heard.subarray(0, Math.max(stop, 0)).toString("utf8").split(" ");
    if (word !== "conductor-daemon" || !nonce || !same(shown, token)) return leave("the listener is not the daemon");
    socket.off("data", listen);
    upgrade({ host, port, path, secret, nonce, socket }, { ...on, close: end, greeted: () => clearTimeout(limit) });
  };
  socket.on("data", listen);
  socket.on("error", (fault) => end(fault.message));
  socket.on("close", () => end("closed"));
}

function upgrade({ host, port, path, secret, nonce, socket: connected }, on) {
  const key = crypto.randomBytes(16).toString("base64");
  const own = crypto.randomBytes(32).toString("hex");
  const end = on.close;
  const request = http.request({
    host,
    port,
    path,
    createConnection: () => connected,
    headers: {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": key,
      Authorization: `Conductor ${own} ${proof(secret, "bridge", nonce, own)}`,
    },
  });
  request.on("error", (fault) => end(fault.message));
  request.on("response", (response) => {
    response.resume();
    end(`refused with ${response.statusCode}`);
  });
  request.on("upgrade", (response, socket, head) => {
    const wanted = crypto.createHash("sha1").update(key + GUID).digest("base64");
    const proven = same(response.headers["conductor-proof"], proof(secret, "daemon", own, nonce));
    if (response.headers["sec-websocket-accept"] !== wanted || !proven) {
      socket.destroy();
      end("the listener is not the daemon");
      return;
    }
    on.greeted();
    socket.setNoDelay(true);
    const write = (opcode, bytes) => socket.destroyed || socket.write(frame(opcode, bytes));
    const close = (reason) => {
      write(8, Buffer.alloc(0));
      socket.destroy();
      end(reason);
    };
    const read = reader({
      text: on.text,
      ping: (bytes) => write(10, bytes),
      close: () => close("closed"),
      fault: close,
    });
    socket.on("data", read);
    socket.on("error", (fault) => end(fault.message));
    socket.on("close", () => end("closed"));
    on.open((text) => write(1, Buffer.from(text, "utf8")), () => close("left"));
    if (head.length > 0) read(head);
  });
  request.end();
}

/** Encodes one frame. RFC 6455 requires a client to mask its frames. */
function frame(opcode, bytes) {
  const length = bytes.length;
  const head = length < 126 ? Buffer.alloc(6) : length < 65536 ? Buffer.alloc(8) : Buffer.alloc(14);
  head[0] = 0x80 | opcode;
  if (length < 126) {
    head[1] = 0x80 | length;
  } else if (length < 65536) {
    head[1] = 0x80 | 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  const mask = crypto.randomBytes(4);
  mask.copy(head, head.length - 4);
  const body = Buffer.from(bytes);
  for (let n = 0; n < body.length; n += 1) body[n] ^= mask[n & 3];
  return Buffer.concat([head, body]);
}

/** Returns a function that receives bytes as they arrive, and calls `on.text` for every complete message. */
function reader(on) {
  let held = Buffer.alloc(0);
  let parts = [];
  let size = 0;
  return (bytes) => {
    held = held.length === 0 ? bytes : Buffer.concat([held, bytes]);
    while (held.length >= 2) {
      const opcode = held[0] & 15;
      const last = (held[0] & 0x80) !== 0;
      let length = held[1] & 127;
      let at = 2;
      if (length === 126) {
        if (held.length < 4) return;
        length = held.readUInt16BE(2);
        at = 4;
      } else if (length === 127) {
        if (held.length < 10) return;
        const long = held.readBigUInt64BE(2);
        if (long > BigInt(MOST_BYTES)) return void on.fault("a frame is too long");
        length = Number(long);
        at = 10;
      }
      if (held[1] & 0x80) return void on.fault("the daemon sent a masked frame");
      if (held.length < at + length) return;
      const body = held.subarray(at, at + length);
      held = held.subarray(at + length);
      if (opcode === 8) return void on.close();
      if (opcode === 9) on.ping(Buffer.from(body));
      if (opcode > 2) continue;
      size += length;
      if (size > MOST_BYTES) return void on.fault("a message is too long");
      parts.push(Buffer.from(body));
      if (last) {
        const text = Buffer.concat(parts).toString("utf8");
        parts = [];
        size = 0;
        on.text(text);
      }
    }
  };
}

module.exports = { dial, frame, proof, reader };
