// Runs one story of the console in chromium: node story.mjs STORY URL [ARGUMENTS]. The story asks the test that started it for everything
// outside the page, one JSON object per line on stdout, and reads each answer from stdin.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [story, url, ...rest] = process.argv.slice(2);
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
// A long limit, because the machine may run many tests at once. No story asserts a time.
const PATIENCE = 60_000;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let turn = Promise.resolve();
/** Sends one request to the test and waits for the result. */
function ask(wish) {
  turn = turn.then(async () => {
    process.stdout.write(`${JSON.stringify(wish)}\n`);
    const line = await answers.next();
    if (line.done) throw new Error(`the test gave no answer to ${JSON.stringify(wish)}`);
    return JSON.parse(line.value).value;
  });
  return turn;
}

const browser = await chromium.launchPersistentContext(process.env.CONSOLE_PROFILE ?? "", {
  executablePath: "/usr/bin/chromium", args: FLAGS, viewport: { width: 1440, height: 900 },
  // The page of phones has a self-signed certificate.
  ignoreHTTPSErrors: url.startsWith("https:"),
});
browser.setDefaultTimeout(PATIENCE);

/** Faults of pages: exceptions, refused scripts and styles, requests to other hosts. */
const faults = [];

function watch(page) {
  page.on("pageerror", (error) => faults.push(`exception: ${error.stack}`));
  page.on("console", (message) => {
    const text = message.text();
    if (/Content Security Policy|Refused to|Trusted/i.test(text)) faults.push(text);
  });
  page.on("dialog", (dialog) => {
    faults.push(`a dialog was opened: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const target = request.url();
    if (!target.startsWith(url) && !/^(blob|data|about|chrome)/.test(target)) faults.push(`a request to ${target}`);
  });
  return page;
}

const stage = {
  url,
  arguments: rest,
  browser,
  faults,
  assert,
  link: () => ask({ do: "link" }),
  person: (...words) => ask({ do: "person", words }),
  /** Starts a tool call as an AI client; `answer` waits for its result. */
  call: (client, tool, args = {}) => ask({ do: "call", client, tool, arguments: args }),
  answer: (client) => ask({ do: "answer", client }),
  /** Makes a tool call as an AI client; the call must need no decision and must succeed. */
  async ai(client, tool, args = {}) {
    await stage.call(client, tool, args);
    const answer = await stage.answer(client);
    assert.equal(answer.failed, false, `${tool}: ${JSON.stringify(answer)}`);
    return answer.value;
  },
  control: (method, params = {}) => ask({ do: "control", method, params }),
  /** Calls a tool as `conductor call` does. */
  tool: (tool, args = {}) => ask({ do: "control", method: "call", params: { tool, arguments: args } }),
  /** Plays messages on a loopback device, as its player does. */
  hand: (device, ...messages) => ask({ do: "control", method: "play", params: { port: `${device} hand`, messages } }),
  /** A person enables a plugin at a terminal. */
  enable: (plugin) => ask({ do: "enable", plugin }),
  read: (path) => ask({ do: "read", path }),
  write: (path, text) => ask({ do: "write", path, text }),
  save: (text) => ask({ do: "save", text }),
  stop: () => ask({ do: "stop" }),
  ask,
  blank: async () => watch(await browser.newPage()),
  /** A page that a person's link has opened. */
  async open({ width = 1440, height = width < 500 ? 844 : 900, theme = "dark" } = {}) {
    const page = watch(await browser.newPage());
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme });
    await page.goto(await stage.link());
    await page.locator("view-now .head").waitFor();
    return page;
  },
  async go(page, view) {
    await page.evaluate((hash) => { location.hash = hash; }, `#/${view}`);
    await page.locator(`view-${view.split("?")[0]} .head`).waitFor();
  },
  /** Waits until a condition outside the page holds. */
  async until(what, look) {
    for (let round = 0; round < 600; round += 1) {
      const value = await look();
      if (value) return value;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`this condition was never true: ${what}`);
  },
};

let code = 0;
try {
  const { default: run } = await import(`./stories/${story}.mjs`);
  await run(stage);
  assert.deepEqual(faults, [], "the page had faults");
} catch (error) {
  code = 1;
  console.error(error.stack ?? error);
  const page = browser.pages().at(-1);
  if (page) {
    await page.screenshot({ path: join(tmpdir(), `console-${story}.png`) }).catch(() => {});
    console.error((await page.locator("body").innerText().catch(() => "")).slice(0, 3000));
  }
  if (faults.length) console.error(faults.join("\n"));
}
await browser.close();
process.exit(code);
