// Only a person's one-time link opens the page; every other way is refused.
import { createServer, request } from "node:http";

/** A request with exactly these headers, as a program would send it. */
function raw(url, method, headers, body) {
  return new Promise((done, fail) => {
    const sent = request(url, { method, headers }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => done({ status: answer.statusCode, headers: answer.headers, text }));
    });
    sent.on("error", fail);
    sent.end(body);
  });
}

export default async function (stage) {
  const { assert, url } = stage;
  const same = { "sec-fetch-site": "same-origin" };

  // Without a link the page says how to get one.
  const blank = await stage.blank();
  await blank.goto(`${url}/`);
  await blank.getByText("conductor console --open").waitFor();

  // A prefetch does not use up the link. The address bar does not keep the secret of the link.
  const link = await stage.link();
  const prefetched = await raw(link, "GET", {});
  assert.equal(prefetched.status, 200);
  for (const name of ["content-security-policy", "cross-origin-opener-policy"]) assert.ok(prefetched.headers[name], `${name} is missing`);
  const csp = prefetched.headers["content-security-policy"];
  assert.match(csp, /frame-ancestors 'none'/);
  assert.doesNotMatch(csp, /unsafe-inline|unsafe-eval/);
  assert.equal(prefetched.headers["set-cookie"], undefined);
  assert.equal(prefetched.headers["access-control-allow-origin"], undefined);
  await blank.goto(link);
  await blank.locator("view-now .head").waitFor();
  assert.ok(!blank.url().includes("login="), blank.url());
  const key = await blank.evaluate(() => sessionStorage.getItem("conductor-key"));
  assert.ok(key);
  assert.equal((await blank.context().cookies()).length, 0);

  // A link works once.
  const replay = await stage.blank();
  await replay.goto(link);
  await replay.getByText("This link cannot be used").waitFor();
  assert.equal(await replay.evaluate(() => sessionStorage.getItem("conductor-key")), null);
  await replay.close();

  // Requests without a key, with a wrong key, with a bearer token, or from another site are
  // refused.
  const token = (await stage.read("state/http.token")).trim();
  const state = `${url}/console/state`;
  assert.equal((await raw(state, "GET", same)).status, 401);
  assert.equal((await raw(state, "GET", { ...same, "x-conductor-key": "wrong" })).status, 401);
  assert.equal((await raw(state, "GET", { ...same, authorization: `Bearer ${token}` })).status, 401);
  assert.equal((await raw(state, "GET", { "x-conductor-key": key })).status, 403, "a request without Sec-Fetch-Site was not refused");
  assert.equal((await raw(state, "GET", { "x-conductor-key": key, "sec-fetch-site": "same-site" })).status, 403);
  assert.equal((await raw(state, "GET", { ...same, "x-conductor-key": key, origin: "http://evil.example" })).status, 403);
  assert.equal((await raw(state, "GET", { ...same, "x-conductor-key": key, host: "evil.example" })).status, 403);
  assert.equal((await raw(state, "GET", { ...same, "x-conductor-key": key })).status, 200);
  const mcp = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const asKey = await raw(`${url}/mcp`, "POST", { "content-type": "application/json", accept: "application/json, text/event-stream", authorization: `Bearer ${key}`, "x-conductor-key": key }, mcp);
  assert.equal(asKey.status, 401, "/mcp did not refuse a console key");

  // Another server on 127.0.0.1 gets no secret, cannot read the state, and cannot frame the page.
  const heard = [];
  const other = createServer((incoming, answer) => {
    heard.push(incoming.headers);
    answer.writeHead(200, { "content-type": "text/html" });
    answer.end(`<!doctype html><iframe src="${url}/"></iframe>`);
  });
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  const elsewhere = `http://127.0.0.1:${other.address().port}/`;
  const evil = await stage.browser.newPage();
  await evil.goto(elsewhere);
  const stolen = await evil.evaluate(async ([target, stolenKey]) => {
    try {
      const answer = await fetch(target, { headers: { "X-Conductor-Key": stolenKey } });
      return `read ${answer.status}`;
    } catch {
      return "refused";
    }
  }, [state, key]);
  assert.equal(stolen, "refused");
  const frame = evil.frames()[1];
  assert.equal(await frame?.locator("console-app").count().catch(() => 0) ?? 0, 0, "the page was shown in a frame");
  for (const headers of heard) assert.ok(!headers.cookie && !headers["x-conductor-key"]);
  other.close();
  await evil.close();

  // A person revokes the session, and the page reports that.
  const sessions = await stage.person("--json", "console", "sessions");
  const [{ session }] = JSON.parse(sessions.text.slice(sessions.text.indexOf("{"))).sessions;
  assert.equal((await stage.person("console", "revoke", session)).code, 0);
  await blank.getByText("This session was revoked.").waitFor();
  assert.equal((await raw(state, "GET", { ...same, "x-conductor-key": key })).status, 401);
  await blank.close();

  // Signing out ends the session in the daemon too.
  const page = await stage.open();
  const second = await page.evaluate(() => sessionStorage.getItem("conductor-key"));
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You closed this session.").waitFor();
  assert.equal((await raw(state, "GET", { ...same, "x-conductor-key": second })).status, 401);

  // All sessions end when the daemon ends.
  const last = await stage.open();
  await stage.stop();
  await last.getByText(/The daemon has stopped|cannot be reached/).first().waitFor();
}
