// The weight of the page: everything except CodeMirror, compressed with gzip, must be under 120 KB.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMIT = 120_000;
const root = new URL("../../../../console/", import.meta.url).pathname;
const files = readdirSync(root, { recursive: true }).map(String).filter((it) => /\.(js|css|html|svg)$/.test(it) && !it.endsWith("codemirror.js"));
const sizes = files.map((file) => ({ file, size: gzipSync(readFileSync(join(root, file)), { level: 9 }).length }));
const total = sizes.reduce((sum, it) => sum + it.size, 0);
for (const { file, size } of sizes.toSorted((a, b) => b.size - a.size)) console.log(String(size).padStart(7), file);
console.log(String(total).padStart(7), "together");
if (total > LIMIT) {
  console.error(`the page is ${total} bytes; the limit is ${LIMIT}`);
  process.exit(1);
}
