// A client edits a patch over MCP. The page draws the patch again and marks the change, and the
// person undoes the change in the page. The page shows the grid and the notes of a Set.
export default async function (stage) {
  const { assert } = stage;
  const page = await stage.open();
  await stage.go(page, "patches");
  await page.getByText("5 objects").waitFor();
  const { patch_id: patch } = await stage.ai("claude-code", "open_patch", { path: "demo.maxpat" });
  const drawing = page.locator("console-drawing img");
  await drawing.waitFor();
  await page.waitForFunction(() => document.querySelector("console-drawing img")?.naturalWidth > 0);
  const before = await page.locator("console-drawing").screenshot();
  await stage.ai("claude-code", "add_max_object", { patch_id: patch, obj_type: "gain~", position: [140, 160], varname: "level" });
  await page.getByText("1 changed since you looked").waitFor();
  await page.getByText("6 objects").waitFor();
  await stage.until("the drawing changes", async () => !before.equals(await page.locator("console-drawing").screenshot()));
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await page.getByText("5 objects").waitFor();
  assert.equal((await stage.ai("claude-code", "get_patch_info", { patch_id: patch })).object_count, 5);
  await page.getByRole("button", { name: "Redo", exact: true }).click();
  await page.getByText("6 objects").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await stage.until("the file is saved", async () => (await stage.read("patches/demo.maxpat")).includes("level"));

  await stage.go(page, "sets");
  await page.locator(".session .clip", { hasText: "Beat" }).click();
  await page.waitForFunction(() => document.querySelector(".roll img")?.naturalWidth > 0);
  await page.locator("tr", { hasText: "Volume" }).first().waitFor();
  await stage.ai("claude-code", "live_set_track_props", { trackId: "track:0", props: { name: "Kit" } });
  await page.locator(".track-head", { hasText: "Kit" }).waitFor();
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await page.locator(".track-head", { hasText: "Drums" }).waitFor();
}
