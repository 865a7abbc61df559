// A simulated Max that runs the bridge, for tests of the daemon: node run.js HOME
// Each line on stdin is an expression that can use `world`; its value is written to stdout as one line of JSON.
"use strict";

const world = require("./fake-max.js").start(process.argv[2]);
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const value = new Function("world", `return (${line});`)(world);
  process.stdout.write(`${JSON.stringify(value === undefined ? null : value)}\n`);
});
