// Runs docs/first-hour.md: its steps in their order, with the commands that the page shows. With a folder as argument, writes the pictures
// of the page there.
import { readFileSync } from "node:fs";

const PAGE = readFileSync(new URL("../../../../../docs/first-hour.md", import.meta.url), "utf8");

/** The words of a command line; double quotes group words. */
const words = (line) => [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((it) => it[1] ?? it[2]);

export default async function (stage) {
  const { assert } = stage;
  const [folder] = stage.arguments;
  const sections = PAGE.split(/<!-- step: (\w+) -->/).slice(1);
  const steps = [];
  for (let at = 0; at < sections.length; at += 2) {
    const commands = [...sections[at + 1].matchAll(/```sh\n([\s\S]*?)```/g)].flatMap((it) => it[1].trim().split("\n"));
    steps.push({ name: sections[at], commands });
  }
  assert.deepEqual(steps.map((it) => it.name), ["start", "play", "why", "learn", "connect", "approve", "undo", "verify"]);

  /** @type {import('playwright-core').Page} */
  let page;
  const picture = async (name) => {
    if (!folder) return;
    // A message about the previous step must not be in the picture.
    await page.locator(".toast").first().waitFor({ state: "detached" });
    await page.screenshot({ path: `${folder}/first-hour-${name}.png` });
  };
  /** Runs the only command of a step as a person. */
  const run = async ({ name, commands }) => {
    assert.equal(commands.length, 1, name);
    const [program, ...rest] = words(commands[0]);
    assert.equal(program, "conductor", name);
    const done = await stage.person(...rest);
    assert.equal(done.code, 0, done.text);
    return done.text;
  };
  const events = (text, outcome) => page.locator(".ev", { hasText: text }).filter({ hasText: outcome }).first();

  const walk = {
    async start({ commands }) {
      // The test has started the demo studio; this browser follows the link.
      assert.deepEqual(commands, ["make run", "conductor console --open"]);
      page = await stage.open();
    },
    async play(step) {
      await run(step);
      await events("note 36", "kick").waitFor();
      await page.locator("[data-control='on:38']").click();
      await events("note 38", "touch").waitFor();
      await picture("now");
    },
    async why(step) {
      await run(step);
      await events("note 47", "no match").click();
      await page.locator("view-why .verdict", { hasText: "Nothing happens" }).waitFor();
      await page.getByText("nothing is mapped to").first().waitFor();
    },
    async learn(step) {
      await stage.go(page, "mappings");
      await page.getByRole("button", { name: "Learn by touching" }).click();
      await page.getByText("Touch a control").waitFor();
      await run(step);
      await page.locator(".side-panel", { hasText: "New mapping" }).waitFor();
      await page.getByLabel("description").fill("plays the cymbal");
      await page.keyboard.press("Tab");
      await page.getByRole("button", { name: "Preview the change" }).click();
      await page.getByRole("dialog").locator(".diff .add", { hasText: "plays the cymbal" }).first().waitFor();
      await picture("learn");
      await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
      await stage.until("the file has the mapping", async () => (await stage.read("config.toml")).includes("plays the cymbal"));
      await page.locator("tr", { hasText: "plays the cymbal" }).waitFor();
    },
    async connect(step) {
      assert.match(await run(step), /conductor/);
      await stage.go(page, "connect");
      await page.getByText("Claude Code").first().waitFor();
    },
    async approve(step) {
      await stage.go(page, "approvals");
      const before = await stage.read("config.toml");
      const plan = await stage.ai("claude-code", "conductor_create_mapping", {
        mode: "Default", description: "opens the filter of the synth", trigger: { type: "Note", note: 46, device: "pads" },
        action: { type: "SendMidi", port: "synth", channel: 0, message_type: "CC", controller: 74, value: 100 },
      });
      assert.equal(plan.status, "pending");
      await page.locator(".detail .diff .add", { hasText: "opens the filter" }).first().waitFor();
      await picture("approve");
      walk.before = before;
      await page.keyboard.press("a");
      await page.getByText("Nothing waits for you").waitFor();
      // The request leaves the list first, then the file changes, then the engine has the mapping.
      await stage.until("the file has the mapping", async () =>
        (await stage.read("config.toml")).includes("opens the filter"));
      await stage.go(page, "mappings");
      await page.getByText("opens the filter").first().waitFor();
      await run(step);
      await stage.go(page, "now");
      await events("note 46", "fired").waitFor();
    },
    async undo() {
      await stage.go(page, "approvals");
      await page.getByRole("button", { name: "History" }).click();
      await page.locator(".ask", { hasText: "claude-code" }).filter({ hasText: "done" }).first().click();
      await page.getByRole("button", { name: "Undo this change" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Undo", exact: true }).click();
      await stage.until("the file is as before", async () => (await stage.read("config.toml")) === walk.before);
    },
    async verify(step) {
      assert.match(await run(step), /ok|complete|intact/i);
      await stage.go(page, "calls");
      await page.getByRole("button", { name: "Verify the log" }).click();
      await page.getByText("The log is complete and unchanged").waitFor();
    },
  };
  for (const step of steps) await walk[step.name].call(walk, step);
}
