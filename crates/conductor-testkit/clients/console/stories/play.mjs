// An event is watched, a press that did nothing is explained, and a control is learned from a virtual pad.
export default async function (stage) {
  const { assert } = stage;
  const page = await stage.open();

  // An event of the hardware appears with its result.
  await stage.hand("pads", [0x90, 36, 100], [0x80, 36, 0]);
  const row = page.locator(".ev", { hasText: "note 36" }).filter({ hasText: "kick" }).first();
  await row.waitFor();
  assert.match(await row.innerText(), /fired/);
  await page.locator(".device", { hasText: "pads" }).getByText("event").first().waitFor();

  // A virtual pad without a mapping does nothing, and the page explains why.
  await page.locator("[data-control='on:41']").click();
  const quiet = page.locator(".ev", { hasText: "note 41" }).filter({ hasText: "no match" }).first();
  await quiet.waitFor();
  await quiet.click();
  await page.locator("view-why .verdict", { hasText: "Nothing happens" }).waitFor();
  await page.getByText("nothing is mapped to").first().waitFor();

  // For a rule of another mode, the page shows the required mode and the actual mode.
  await page.locator("input[name=event]").fill("on:36@100");
  await page.locator("select[name=device]").selectOption("pads");
  await page.locator("select[name=mode]").selectOption("Mix");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".rung.wins", { hasText: "mute" }).waitFor();
  const kick = page.locator(".rung", { hasText: "kick" });
  assert.match(await kick.innerText(), /wanted\s+Default/);
  assert.match(await kick.innerText(), /got\s+Mix/);
  await kick.getByRole("link", { name: "kick" }).click();
  await page.locator("view-mappings [data-mapping='Default/kick'][aria-selected=true]").waitFor();

  // Learn a control from a virtual pad, preview the plan, and apply it.
  await page.getByRole("button", { name: "Learn by touching" }).click();
  await page.getByText("Touch a control").waitFor();
  await page.locator("[data-virtual='47']").click();
  await page.locator(".side-panel", { hasText: "New mapping" }).waitFor();
  await page.locator(".side-panel").getByText("press 47").first().waitFor();
  await page.getByLabel("description").fill("learned in the browser");
  await page.getByLabel("port", { exact: true }).fill("synth");
  await page.keyboard.press("Tab");
  await page.getByRole("button", { name: "Preview the change" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".diff .add", { hasText: "learned in the browser" }).first().waitFor();
  assert.ok(!(await stage.read("config.toml")).includes("learned in the browser"));
  await dialog.getByRole("button", { name: "Apply" }).click();
  await stage.until("the file has the mapping", async () => (await stage.read("config.toml")).includes("learned in the browser"));
  await page.locator("tr", { hasText: "learned in the browser" }).waitFor();
  await stage.go(page, "now");
  await page.locator("[data-control='on:47']").click();
  await page.locator(".ev", { hasText: "note 47" }).filter({ hasText: "fired" }).first().waitFor();

  // Simulate a mapping in the page, and open its TOML text.
  await stage.go(page, "mappings?mode=Default&id=tap");
  await page.getByRole("button", { name: "Simulate", exact: true }).click();
  await page.locator(".sim-result li").first().waitFor();
  await page.getByRole("button", { name: "TOML", exact: true }).click();
  await page.locator("text-editor .cm-content", { hasText: "a short press plays the snare once" }).waitFor();

  // Switch the mode, mute a device and send a panic from the page.
  await stage.go(page, "now");
  await page.locator(".head").getByRole("button", { name: "Mix", exact: true }).click();
  await page.locator(".head button[aria-pressed=true]", { hasText: "Mix" }).waitFor();
  assert.equal((await stage.tool("conductor_get_status")).current_mode, "Mix");
  await page.getByRole("button", { name: "Mute pads", exact: true }).click();
  await page.getByRole("button", { name: "Unmute pads" }).waitFor();
  await stage.hand("pads", [0x90, 36, 100], [0x80, 36, 0]);
  await page.locator(".ev", { hasText: "muted" }).first().waitFor();
  await page.getByRole("button", { name: "Unmute pads" }).click();
  await page.getByRole("button", { name: "Panic", exact: true }).click();
  await page.getByText("Every note and key is released.").waitFor();
}
