// A phone is paired by the QR code of a terminal, decides at 390 px, and is revoked. With a folder as argument, writes pictures of the page.
import jsqr from "jsqr";
import { request } from "node:https";

const MAPPING = {
  mode: "Default", description: "opens the filter of the synth", trigger: { type: "Note", note: 46, device: "pads" },
  action: { type: "SendMidi", port: "synth", channel: 0, message_type: "CC", controller: 74, value: 90 },
};

/** A request with exactly these headers, as a program would send it. */
function raw(url, method, headers, body) {
  return new Promise((done, fail) => {
    const sent = request(url, { method, headers, rejectUnauthorized: false }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => done({ status: answer.statusCode, text }));
    });
    sent.on("error", fail);
    sent.end(body);
  });
}

/** Reads the QR code that a terminal shows with half blocks, with a decoder that is not part of Conductor. */
function scan(screen) {
  const rows = screen.split("\n").map((it) => it.replace(/\r$/, "")).filter((it) => /[\u2580\u2584\u2588]/.test(it) && /^[ \u2580\u2584\u2588]+$/.test(it));
  const columns = Math.max(...rows.map((it) => it.length));
  const [scale, margin] = [4, 4];
  const width = (columns + 2 * margin) * scale;
  const height = (rows.length * 2 + 2 * margin) * scale;
  const pixels = new Uint8ClampedArray(width * height * 4).fill(255);
  rows.forEach((row, y) => [...row].forEach((block, x) => {
    for (const [half, blocks] of [[0, "\u2580\u2588"], [1, "\u2584\u2588"]]) {
      if (!blocks.includes(block)) continue;
      for (let py = 0; py < scale; py += 1) {
        for (let px = 0; px < scale; px += 1) {
          const at = (((y * 2 + half + margin) * scale + py) * width + (x + margin) * scale + px) * 4;
          pixels.fill(0, at, at + 3);
        }
      }
    }
  }));
  return jsqr(pixels, width, height)?.data;
}

export default async function (stage) {
  const { assert, url } = stage;
  const [folder] = stage.arguments;
  const phone = async () => {
    const page = await stage.blank();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.emulateMedia({ colorScheme: "light" });
    return page;
  };
  const shoot = async (page, name) => {
    if (!folder) return;
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await page.screenshot({ path: `${folder}/${name}-390-${theme}.png` });
    }
  };
  /** The page fits the width of the phone. */
  const fits = async (page) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is too wide");

  // A phone that is not paired sees a message and gets no data.
  const stranger = await phone();
  await stranger.goto(`${url}/`);
  await stranger.getByText("This phone is not paired").waitFor();
  await stranger.close();
  const same = { "sec-fetch-site": "same-origin" };
  const unpaired = await raw(`${url}/phone/state`, "GET", { ...same, "x-conductor-phone": "a-guess" });
  assert.equal(unpaired.status, 401);
  assert.match(unpaired.text, /this phone is not paired/);

  // The terminal shows a QR code, the same link as text, and the fingerprint.
  const shown = await stage.person("pair", "--name", "kitchen");
  assert.equal(shown.code, 0, shown.text);
  const link = shown.text.match(/https:\S+/)[0];
  assert.equal(scan(shown.text), link, shown.text);
  assert.ok(link.startsWith(`${url}/#pair=`), link);
  const secret = link.split("#pair=")[1];
  const fingerprint = [...shown.text.matchAll(/(?:[0-9A-F]{2}:){15}[0-9A-F]{2}/g)].map((it) => it[0]).join(":");
  assert.equal(fingerprint.length, 95, shown.text);

  // The page shows the same fingerprint. The secret is not in the address, and is sent only after the button.
  const page = await phone();
  const bodies = [];
  page.on("request", (it) => bodies.push(`${it.url()} ${it.postData() ?? ""} ${JSON.stringify(it.headers())}`));
  await page.goto(link);
  await page.getByText("Pair this phone?").waitFor();
  await page.locator(".print span").first().waitFor();
  const cells = await page.locator(".print span").allInnerTexts();
  assert.equal(cells.join(":"), fingerprint);
  assert.ok(!page.url().includes(secret), page.url());
  assert.ok(bodies.every((it) => !it.includes(secret)), "the secret was sent too early");
  await fits(page);
  await shoot(page, "phone-pair");
  await page.getByRole("button", { name: "They are the same. Pair" }).click();
  await page.getByText("Nothing waits for you").waitFor();
  await page.getByText("kitchen").waitFor();

  // The link works once.
  const second = await phone();
  await second.goto(link);
  await second.getByRole("button", { name: "They are the same. Pair" }).click();
  await second.getByText("this link was used or has expired").waitFor();
  await second.close();

  // The card of a call shows who asks, the tool, the tier, the target, all arguments and the time
  // left.
  await stage.call("claude-code", "conductor_send_sysex", { port: "synth", data: [0x7d, 0x10, 0x42] });
  const card = page.locator(".card");
  await card.waitFor();
  for (const text of ["claude-code", "conductor_send_sysex", "HardwareIO", "synth"]) await card.getByText(text).first().waitFor();
  await card.getByText(/7d 10 42|125|7D/i).first().waitFor();
  assert.match(await card.locator("[role=timer]").innerText(), /^\d+:\d\d$/);
  await fits(page);
  await page.getByRole("button", { name: "Allow once" }).click();
  const sent = await stage.answer("claude-code");
  assert.equal(sent.failed, false, JSON.stringify(sent));
  await page.getByText(/Allowed once/).waitFor();

  // The person denies a call with a reason, and the client sees the reason. The request stays open
  // while the pictures are taken.
  await stage.call("claude-code", "conductor_send_sysex", { port: "synth", data: [0x7d, 0x10, 0x43] });
  await card.waitFor();
  await page.waitForFunction(() => !document.querySelector(".answer button[disabled]"));
  await shoot(page, "phone");
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByLabel("Reason, which the client sees").fill("not during the show");
  await fits(page);
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  const denied = await stage.answer("claude-code");
  assert.equal(denied.value.code, "DENIED", JSON.stringify(denied));
  assert.match(JSON.stringify(denied.value), /not during the show/);

  // The card of a plan shows its diff.
  const plan = await stage.ai("claude-code", "conductor_create_mapping", MAPPING);
  assert.equal(plan.status, "pending");
  await card.locator(".diff .add", { hasText: "opens the filter" }).first().waitFor();
  await fits(page);
  await page.waitForFunction(() => !document.querySelector(".answer button[disabled]"));
  await shoot(page, "phone-plan");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText(/^Applied/).waitFor();
  await stage.until("the file has the mapping", async () => (await stage.read("config.toml")).includes("opens the filter"));

  // The audit log contains the channel and the name of the phone. The log, the status and the list
  // of phones contain neither the secret nor the key.
  const key = await page.evaluate(() => localStorage.getItem("conductor-phone"));
  assert.ok(key && key.length >= 40);
  const log = await stage.read("audit.log");
  assert.match(log, /"phone:kitchen"/);
  assert.match(log, /"channel":"phone"/);
  for (const decision of ["approval.allowed", "approval.denied", "plan.applied", "phone.paired"]) {
    const line = log.split("\n").find((it) => it.includes(`"${decision}"`) && it.includes("phone:kitchen"));
    assert.ok(line, `${decision} is missing or has another author`);
  }
  const status = JSON.stringify(await stage.tool("conductor_get_status"));
  for (const text of [log, status, await stage.read("state/phones.json")]) {
    assert.ok(!text.includes(secret) && !text.includes(key), "a secret is stored");
  }
  assert.ok(!status.includes(`:${new URL(url).port}`), "the status shows the address of the phones");

  // The listener for phones serves no other paths, even with the key of a phone.
  for (const path of ["/mcp", "/tools", "/console/state", "/events", "/assets/app.js"]) {
    const answer = await raw(url + path, "GET", { ...same, "x-conductor-phone": key, authorization: `Bearer ${key}` });
    assert.equal(answer.status, 404, path);
  }

  // A revoked phone is notified at once, and its key is refused.
  const before = await stage.person("--json", "pair", "list");
  assert.match(before.text, /"kitchen"/);
  assert.equal((await stage.person("pair", "revoke", "kitchen")).code, 0);
  await page.getByText("This phone was revoked").waitFor();
  const revoked = await raw(`${url}/phone/state`, "GET", { ...same, "x-conductor-phone": key });
  assert.equal(revoked.status, 401);
  assert.match((await stage.person("pair", "list")).text, /no phone is paired/);
}
