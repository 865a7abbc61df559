// The verification reports that the log is complete. After one character was changed, it reports
// the record and the verdict.
export default async function (stage) {
  const { assert } = stage;
  for (let round = 0; round < 3; round += 1) await stage.ai("claude-code", "conductor_switch_mode", { mode: round % 2 ? "Default" : "Mix" });
  const page = await stage.open();
  await stage.go(page, "calls");
  await page.locator("tr", { hasText: "conductor_switch_mode" }).first().click();
  await page.locator(".steps li").first().waitFor();
  await page.getByRole("button", { name: "Verify the log" }).click();
  await page.getByText("The log is complete and unchanged").waitFor();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  assert.match((await download).suggestedFilename(), /audit/);

  const log = await stage.read("audit/000001.jsonl");
  const changed = log.replace("conductor_switch_mode", "conductor_switch_m0de");
  assert.notEqual(changed, log);
  await stage.write("audit/000001.jsonl", changed);
  await page.getByRole("button", { name: "Verify the log" }).click();
  const verdict = page.locator(".verdict-panel", { hasText: "The log is not intact" });
  await verdict.waitFor();
  assert.match(await verdict.innerText(), /at record \d+/);
}
