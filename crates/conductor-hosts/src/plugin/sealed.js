// Prevents plugins and scripts from creating code from text. This file runs before the prelude, in
// the same sandbox, and returns the functions that both preludes use. `kind` is the word `plugins`
// or `scripts`, for error messages.
(function (kind, fileName) {
  "use strict";

  const refuse = function () { throw new TypeError(kind + " cannot create code from text"); };
  for (const made of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    Object.defineProperty(Object.getPrototypeOf(made), "constructor", { value: refuse, writable: false, configurable: false });
  }
  for (const name of ["eval", "Function"]) {
    Object.defineProperty(globalThis, name, { value: refuse, writable: false, configurable: false });
  }

  // Finds the innermost line of the file in the stack of an error.
  const place = (error) => {
    const stack = typeof error?.stack === "string" ? error.stack : "";
    const at = stack.indexOf(fileName + ":");
    if (at < 0) return undefined;
    const rest = /^:(\d+)(?::(\d+))?/.exec(stack.slice(at + fileName.length));
    return rest ? fileName + rest[0] : undefined;
  };

  return { place };
})
