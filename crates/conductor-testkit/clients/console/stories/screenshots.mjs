// Takes pictures of every view of a studio in use, at 1440 and 390 px and in both themes:
// FOLDER/VIEW-WIDTH-THEME.png. Arguments: FOLDER [VIEW,VIEW...].
const VIEWS = ["now", "approvals", "mappings?mode=Default&id=roll", "why", "patches", "sets", "calls", "health", "connect", "tools?name=conductor_switch_mode"];

/** Presses a note of a loopback device. */
const press = (note, velocity = 100) => [[0x90, note, velocity], [0x80, note, 0]];

export default async function (stage) {
  const [folder, only = ""] = stage.arguments;
  const views = VIEWS.filter((it) => !only || only.split(",").includes(it.split("?")[0]));
  const ai = (tool, args) => stage.ai("claude-code", tool, args);
  await ai("conductor_get_status", {});
  await ai("conductor_list_devices", {});
  const { patch_id: patch } = await ai("open_patch", { path: "demo.maxpat" });
  const page = await stage.open();
  await stage.go(page, "patches");
  await page.waitForFunction(() => document.querySelector("console-drawing img")?.naturalWidth > 0);
  await ai("add_max_object", { patch_id: patch, obj_type: "gain~", position: [140, 60], varname: "level" });
  await ai("live_get_song_overview", {});
  await ai("conductor_create_mapping", {
    mode: "Default", description: "opens the filter of the synth", trigger: { type: "CC", cc: 21, device: "keys" },
    action: { type: "SendMidi", port: "synth", channel: 0, message_type: "CC", controller: 74, value: 100 },
  });
  await stage.call("cursor", "conductor_send_sysex", { port: "synth", data: [0x7d, 0x10, 0x42] });
  // Plays some events, so that the graphs contain data.
  const play = async () => {
    for (const messages of [press(36), press(37), press(38, 30), press(38, 120), press(45), press(41), press(36, 80), press(44)]) await stage.hand("pads", ...messages);
    await stage.hand("keys", [0xb0, 7, 20], [0xb0, 7, 64], [0xb0, 7, 96], [0xb0, 16, 1], ...press(60), ...press(64));
  };
  for (let round = 0; round < 20; round += 1) {
    await play();
    await page.waitForTimeout(600 + 400 * Math.sin(round));
  }
  let frequency = 220;
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
      for (const view of views) {
        const id = view.split("?")[0];
        await stage.go(page, view);
        if (id === "now") await play();
        if (id === "approvals" && width < 500) await page.locator(".ask").first().click();
        if (id === "patches") {
          frequency += 110;
          await ai("replace_object_text", { patch_id: patch, varname: "osc", new_text: `cycle~ ${frequency}` });
          await page.getByText("1 changed since you looked").waitFor();
        }
        if (id === "sets") await page.locator(".session .clip", { hasText: "Beat" }).click();
        if (id === "calls") await page.locator("tr.link", { hasText: "add_max_object" }).first().click();
        if (id === "why") {
          await page.evaluate(() => { location.hash = "#/why?event=on:39@100&device=pads&mode=Default"; });
          await page.locator(".rung").first().waitFor();
        }
        await page.waitForTimeout(700);
        await page.mouse.move(0, 0);
        await page.screenshot({ path: `${folder}/${id}-${width}-${theme}.png` });
      }
    }
  }
}
