// Builds the vendored libraries of the console: node vendor.mjs FOLDER. The folder has the packages of `PARTS` and esbuild in its
// `node_modules`. Writes the modules, their versions, licences and digests.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.argv[2] ?? ".");
const target = new URL("../../../../console/vendor/", import.meta.url).pathname;
const OPTIONS = ["--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=none"];
/** The exports of each module, and the packages whose code it contains. */
const PARTS = {
  lit: {
    packages: ["lit", "lit-html", "lit-element", "@lit/reactive-element"],
    entry: `
      export { html, svg, nothing, render } from 'lit-html';
      export { repeat } from 'lit-html/directives/repeat.js';
      export { ref } from 'lit-html/directives/ref.js';
      export { live } from 'lit-html/directives/live.js';
      export { LitElement } from 'lit-element/lit-element.js';`,
  },
  uplot: { packages: ["uplot"], entry: "export { default } from 'uplot';" },
  codemirror: {
    packages: [
      "@codemirror/state", "@codemirror/view", "@codemirror/commands", "@codemirror/language", "@codemirror/legacy-modes",
      "@codemirror/streamparser", "@lezer/common", "@lezer/highlight", "@lezer/lr", "@marijn/find-cluster-break",
      "style-mod", "crelt", "w3c-keyname",
    ],
    entry: `
      export { EditorState } from '@codemirror/state';
      export { EditorView, keymap, lineNumbers, highlightActiveLine, drawSelection } from '@codemirror/view';
      export { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
      export { StreamLanguage, syntaxHighlighting, HighlightStyle } from '@codemirror/language';
      export { toml } from '@codemirror/legacy-modes/mode/toml';
      export { tags } from '@lezer/highlight';`,
  },
};

const manifest = (name) => JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8"));
const described = (names) => names.map((name) => ({ name, version: manifest(name).version, license: manifest(name).license }));
const digest = (file) => createHash("sha256").update(readFileSync(join(target, file))).digest("hex");

const files = {};
for (const [name, { packages, entry }] of Object.entries(PARTS)) {
  execFileSync(join(folder, "node_modules/.bin/esbuild"), [...OPTIONS, `--outfile=${join(target, `${name}.js`)}`], { input: entry, cwd: folder });
  files[`${name}.js`] = { sha256: digest(`${name}.js`), packages: described(packages) };
}
copyFileSync(join(folder, "node_modules/uplot/dist/uPlot.min.css"), join(target, "uplot.css"));
files["uplot.css"] = { sha256: digest("uplot.css"), packages: described(["uplot"]) };
const list = { made_with: { esbuild: manifest("esbuild").version, options: OPTIONS.join(" ") }, files };
writeFileSync(join(target, "vendor.json"), `${JSON.stringify(list, null, 2)}\n`);

const texts = new Map();
for (const { name, version } of described([...new Set(Object.values(PARTS).flatMap((it) => it.packages))])) {
  const text = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((file) => {
    try {
      return readFileSync(join(folder, "node_modules", name, file), "utf8").trim();
    } catch {
      return "";
    }
  }).find(Boolean);
  if (!text) throw new Error(`${name} has no licence file`);
  texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
}
writeFileSync(join(target, "LICENSES.txt"), [...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`).join("\n----------------------------------------\n\n"));
