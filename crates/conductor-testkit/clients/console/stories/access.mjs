// Checks every view with axe-core in both themes and at both widths, then uses the page without a
// mouse.
import { readFileSync } from "node:fs";

const AXE = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const VIEWS = ["now", "approvals", "mappings", "mappings?mode=Default&id=tap", "why", "patches", "sets", "calls", "health", "connect", "tools?name=conductor_switch_mode"];

export default async function (stage) {
  const { assert } = stage;
  await stage.ai("claude-code", "open_patch", { path: "demo.maxpat" });
  await stage.ai("claude-code", "conductor_create_mapping", {
    mode: "Default", description: "waits in the page", trigger: { type: "Note", note: 46, device: "pads" },
    action: { type: "SendMidi", port: "synth", channel: 0, message_type: "CC", controller: 1, value: 1 },
  });
  await stage.hand("pads", [0x90, 36, 100], [0x80, 36, 0], [0x90, 41, 100], [0x80, 41, 0]);
  const page = await stage.open();
  // The test runs axe through the debugger, so that the Content Security Policy of the page stays
  // in force.
  const session = await page.context().newCDPSession(page);
  for (const theme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme: theme });
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
      for (const view of VIEWS) {
        await stage.go(page, view);
        await page.waitForTimeout(250);
        await session.send("Runtime.evaluate", { expression: AXE });
        const found = await page.evaluate(async () => {
          const { violations } = await /** @type {any} */ (window).axe.run(document, { resultTypes: ["violations"] });
          return violations.filter((it) => it.impact === "serious" || it.impact === "critical").map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
        });
        assert.deepEqual(found, [], `${view} ${theme} ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${view} is ${wide} px too wide at ${width}`);
      }
    }
  }
  // The command palette opens a view and switches the mode, by keyboard alone.
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("health");
  await page.keyboard.press("Enter");
  await page.locator("view-health .head").waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("Mix");
  await page.getByRole("option", { name: /^mode Mix/ }).waitFor();
  await page.keyboard.press("Enter");
  await stage.until("the mode is Mix", async () => (await stage.tool("conductor_get_status")).current_mode === "Mix");
  // The navigation can be used with the keyboard: Enter opens the focused link.
  await stage.go(page, "now");
  await page.locator("body").press("Tab");
  await page.locator(".nav a", { hasText: "Why" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("view-why .head").waitFor();
}
