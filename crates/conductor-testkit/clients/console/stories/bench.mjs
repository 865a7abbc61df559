// Reports how the page and the daemon behave under 1,000 events a second: first paint, long tasks, memory of the page, and the daemon's
// latency with and without the page.
const SECONDS = Number(process.env.CONSOLE_BENCH_SECONDS ?? 60);

/** The quantile `part` of the numbers, such as the median for 0.5. */
const quantile = (numbers, part) => numbers.toSorted((a, b) => a - b)[Math.floor((numbers.length - 1) * part)] ?? null;

export default async function (stage) {
  const { assert } = stage;
  /** Plays for some seconds in five parts, and reads the newest latencies after each part. */
  const play = async (seconds) => {
    const list = [];
    let events = 0;
    for (let part = 0; part < 5; part += 1) {
      events += await stage.ask({ do: "load", seconds: Math.max(1, Math.round(seconds / 5)) });
      const { records } = await stage.tool("conductor_get_trace", { limit: 200 });
      list.push(...records.map((it) => it.latency_us).filter((it) => it !== null));
    }
    return { events, latency: { median: quantile(list, 0.5), p99: quantile(list, 0.99), records: list.length } };
  };
  const alone = await play(10);

  const page = await stage.open();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null);
  await page.evaluate(() => {
    const bench = { long: [] };
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) bench.long.push(entry.duration); }).observe({ type: "longtask" });
    Object.assign(window, { bench });
  });
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((it) => it.name === "JSHeapUsedSize").value;
  };
  const before = await heap();
  const load = play(SECONDS);
  // Measure the response of the page under load: the time until it has drawn two frames.
  const answers = [];
  const end = Date.now() + SECONDS * 1000;
  while (Date.now() < end - 2000) {
    answers.push(await page.evaluate(() => new Promise((done) => { const from = performance.now(); requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - from))); })));
    await page.waitForTimeout(500);
  }
  const together = await load;
  const after = await heap();
  const long = await page.evaluate(() => /** @type {any} */ (window).bench.long);
  // No event was lost on the way to the page: its counter reaches the counter of the daemon.
  const { statistics } = await stage.tool("conductor_get_status");
  const counted = (text) => Number(text.replace(/\D/g, ""));
  await stage.until("the page shows the daemon's count", async () => counted(await page.locator(".figures b").first().innerText()) >= statistics.events_processed);
  const missed = await page.locator(".notice", { hasText: "too slow" }).count();
  const report = {
    first_paint_ms: Math.round(paint), seconds: SECONDS, events: together.events, long_tasks: long.length, long_task_median_ms: quantile(long, 0.5), long_task_max_ms: quantile(long, 1),
    missed_notices: missed, two_frames_median_ms: Math.round(quantile(answers, 0.5)), heap_before_mb: before / 1e6, heap_after_mb: after / 1e6,
    daemon_alone_us: alone.latency, daemon_with_page_us: together.latency,
  };
  console.error(JSON.stringify(report, null, 2));
  assert.ok(together.events > SECONDS * 500, "the load did not reach half of its rate");
  assert.equal(missed, 0, "the page missed events");
  assert.ok((report.long_task_median_ms ?? 0) < 100, "the median of long tasks is too high");
  assert.ok(after - before < 30e6, "the memory of the page grew too much");
}
