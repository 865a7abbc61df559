// Packs values for a Max dictionary. Max truncates a symbol at 32,767 characters, so longer strings are split into pieces.
// conductor-v8.js also uses this file, with `include` instead of `require`.
"use strict";

var CONDUCTOR_PIECE = 30000;

function conductorPack(value) {
  if (typeof value === "string" && value.length > CONDUCTOR_PIECE) {
    var pieces = [];
    for (var at = 0; at < value.length; at += CONDUCTOR_PIECE) pieces.push(value.slice(at, at + CONDUCTOR_PIECE));
    return { $long: pieces };
  }
  if (Array.isArray(value)) return value.map(conductorPack);
  if (value !== null && typeof value === "object") {
    var out = {};
    Object.keys(value).forEach(function (key) {
      out[key] = conductorPack(value[key]);
    });
    return out;
  }
  return value;
}

function conductorUnpack(value) {
  if (Array.isArray(value)) return value.map(conductorUnpack);
  if (value !== null && typeof value === "object") {
    // A dictionary returns a list of one item as the item itself.
    if ("$long" in value) return [].concat(value.$long).join("");
    var out = {};
    Object.keys(value).forEach(function (key) {
      out[key] = conductorUnpack(value[key]);
    });
    return out;
  }
  return value;
}

if (typeof module !== "undefined") module.exports = { pack: conductorPack, unpack: conductorUnpack };
