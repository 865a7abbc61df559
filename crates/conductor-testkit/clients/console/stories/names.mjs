// Names that try to run a script, to break out of an attribute, or to reverse the text: in the configuration, a client, a plan, a patch, a
// Set, a plugin and a reason. The page shows them as text, with hidden characters visible, and cuts long ones.
const SCRIPT = '<img src=x onerror="window.__xss=1"><script>window.__xss=2</script>';
const BIDI = "safe\u202Egnp.exe\u2066\u200B";
const LONG = "long ".repeat(60).trim();
const VIEWS = ["now", "approvals", "mappings", "why", "patches", "sets", "calls", "health", "connect", "tools", "tools?name=evil.go"];

export default async function (stage) {
  const { assert } = stage;
  const client = "evil\u202Etneilc <b>bold</b>";
  const { patch_id: patch } = await stage.ai(client, "open_patch", { path: "demo.maxpat", group: SCRIPT });
  await stage.ai(client, "add_max_object", { patch_id: patch, obj_type: "comment", position: [20, 300], arguments: [`${SCRIPT} ${BIDI}`] });
  await stage.ai(client, "live_set_track_props", { trackId: "track:0", props: { name: `${SCRIPT}${BIDI}` } });
  await stage.ai(client, "conductor_create_mapping", {
    mode: "Default", description: `${SCRIPT} ${BIDI} ${LONG}`, trigger: { type: "Note", note: 46, device: "pads" },
    action: { type: "SendMidi", port: "synth", channel: 0, message_type: "CC", controller: 1, value: 1 },
  });
  // The manifest of a plugin has no hidden characters, because the daemon refuses them. The errors
  // of a plugin may contain any characters.
  const hostile = JSON.stringify(SCRIPT);
  await stage.write("plugins/evil.js", `export default { name: 'evil', version: '1.0.0', description: ${hostile}, tools: [{ name: 'evil.go', title: ${hostile}, description: ${hostile},
    inputSchema: { type: 'object', properties: { word: { type: 'string', title: ${hostile}, description: ${hostile} } } }, handler() { throw new Error(${JSON.stringify(`${SCRIPT} ${BIDI} ${LONG}`)}) } }] }`);
  await stage.enable("evil");
  await stage.call(client, "evil.go", { word: `${SCRIPT} ${BIDI}` });
  assert.equal((await stage.answer(client)).failed, true);
  await stage.hand("pads", [0x90, 48, 100], [0x80, 48, 0]);
  const page = await stage.open();
  await page.locator(".ev", { hasText: "note 48" }).first().waitFor();

  for (const view of VIEWS) {
    await stage.go(page, view);
    await page.waitForTimeout(300);
    const found = await page.evaluate(() => ({
      ran: /** @type {any} */ (window).__xss ?? null,
      elements: document.querySelectorAll('img[src="x"], script:not([type=module]), [onerror], b b, long-text b').length,
      raw: [...document.querySelectorAll("body *")].filter((it) => it.children.length === 0 && /[\u202a-\u202e\u2066-\u2069\u200b]/.test(it.textContent ?? "")).map((it) => it.outerHTML.slice(0, 120)),
      attributes: [...document.querySelectorAll("body *")].flatMap((it) => [...it.attributes].filter((at) => !["data-mapping", "href", "value"].includes(at.name) && /[\u202a-\u202e\u2066-\u2069\u200b]/.test(at.value)).map((at) => `${at.name}=${at.value.slice(0, 60)}`)),
    }));
    assert.deepEqual(found, { ran: null, elements: 0, raw: [], attributes: [] }, view);
    // The palette lists the same names.
    if (view === "mappings") {
      await page.keyboard.press("Control+k");
      await page.getByRole("option").nth(20).waitFor();
      assert.equal(await page.evaluate(() => document.querySelectorAll('dialog img, dialog script').length), 0);
      await page.keyboard.press("Escape");
      await page.locator(".hidden-char").first().waitFor();
    }
  }
  await stage.go(page, "tools?name=evil.go");
  await page.locator(".detail", { hasText: "<img src=x" }).first().waitFor();
  await stage.go(page, "approvals");
  const detail = page.locator(".detail");
  await detail.getByText("<img src=x").first().waitFor();
  await detail.getByText("U+202E").first().waitFor();
  await stage.go(page, "mappings");
  const more = page.locator("long-text .more").first();
  await more.waitFor();
  await more.click();
  await page.locator("long-text .more[aria-expanded=true]").first().waitFor();
  await stage.go(page, "approvals");

  // The reason of a denial is untrusted too. The history shows the reason and the names as text.
  await page.keyboard.press("d");
  await page.getByLabel("Reason, which the client sees").fill(SCRIPT);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "History" }).click();
  // The history may have been shown before the answer arrived, with another row open.
  await page.locator(".ask", { hasText: "denied" }).click();
  await page.locator(".detail", { hasText: "<img src=x" }).waitFor();
  assert.equal(await page.evaluate(() => /** @type {any} */ (window).__xss ?? null), null);
}
