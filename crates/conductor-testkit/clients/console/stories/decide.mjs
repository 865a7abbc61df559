// A plan of a real MCP client is approved and undone; calls are denied with a reason, allowed, and decided together.
const MAPPING = {
  mode: "Default", description: "opens the filter", trigger: { type: "Note", note: 46, device: "pads" },
  action: { type: "SendMidi", port: "synth", channel: 0, message_type: "CC", controller: 74, value: 90 },
};

export default async function (stage) {
  const { assert } = stage;
  const page = await stage.open();
  await stage.go(page, "approvals");
  await page.getByText("Nothing waits for you").waitFor();

  // The page shows the diff of a plan. Applying the plan changes the file, and the undo restores
  // the file.
  const plan = await stage.ai("claude-code", "conductor_create_mapping", MAPPING);
  assert.equal(plan.status, "pending");
  const row = page.locator(".ask").first();
  await row.waitFor();
  const detail = page.locator(".detail");
  await detail.getByText("claude-code").first().waitFor();
  await detail.getByText("conductor_create_mapping").waitFor();
  await detail.locator(".diff .add", { hasText: "opens the filter" }).first().waitFor();
  assert.ok(!(await stage.read("config.toml")).includes("opens the filter"), "the plan changed the file before it was applied");
  assert.equal(await page.locator(".nav .badge").first().innerText(), "1");
  await page.keyboard.press("a");
  await page.getByText("Applied.").waitFor();
  await stage.until("the file has the mapping", async () => (await stage.read("config.toml")).includes("opens the filter"));
  await page.getByText("Nothing waits for you").waitFor();
  await page.getByRole("button", { name: "History" }).click();
  await page.locator(".ask", { hasText: "done" }).first().click();
  await page.getByRole("button", { name: "Undo this change" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undo", exact: true }).click();
  await stage.until("the file is as before", async () => !(await stage.read("config.toml")).includes("opens the filter"));

  // A call that needs an approval waits for the page, and the client gets the person's reason.
  await page.getByRole("button", { name: /^Waiting/ }).click();
  const sysex = { port: "synth", data: [0x7d, 1, 2] };
  await stage.call("claude-code", "conductor_send_sysex", sysex);
  await page.locator(".ask", { hasText: "conductor_send_sysex" }).waitFor();
  await detail.getByText("HardwareIO").waitFor();
  await detail.getByText("Effective target").waitFor();
  await page.keyboard.press("d");
  await page.getByLabel("Reason, which the client sees").fill("not during the show");
  await page.keyboard.press("Enter");
  await page.getByText("The client sees your reason").waitFor();
  const denied = await stage.answer("claude-code");
  assert.equal(denied.failed, true);
  assert.equal(denied.value.code, "DENIED", JSON.stringify(denied));
  assert.match(JSON.stringify(denied.value), /not during the show/);

  // The person allows a call once, and the waiting client gets the result.
  await stage.call("claude-code", "conductor_send_sysex", { port: "synth", data: [0x7d, 3] });
  await page.locator(".ask", { hasText: "conductor_send_sysex" }).waitFor();
  await page.getByRole("button", { name: /^Allow once/ }).click();
  const sent = await stage.answer("claude-code");
  assert.equal(sent.failed, false, JSON.stringify(sent));

  // Two clients wait at once. The keys j and k select a request, x marks it, and one decision
  // applies to both.
  await stage.call("claude-code", "conductor_send_sysex", { port: "synth", data: [0x7d, 4] });
  await stage.call("cursor", "conductor_send_sysex", { port: "synth", data: [0x7d, 5] });
  await page.locator(".ask").nth(1).waitFor();
  const first = await page.locator(".ask[aria-current=true]").innerText();
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.waitForFunction((before) => document.querySelector(".ask[aria-current=true]")?.innerText !== before, first);
  await page.keyboard.press("x");
  await page.keyboard.press("k");
  await page.getByText("2 marked").waitFor();
  await page.locator(".head").getByRole("button", { name: "Deny" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Deny all" }).click();
  for (const client of ["claude-code", "cursor"]) assert.equal((await stage.answer(client)).value.code, "DENIED");
  await page.getByText("Nothing waits for you").waitFor();
}
