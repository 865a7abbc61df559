// Health: latency, graphs of the last minutes, circuit breakers, rigs, and the doctor's checks.

import { html, nothing, repeat } from '../vendor/lit.js';
import uPlot from '../vendor/uplot.js';
import * as api from '../lib/api.js';
import { decideOne, fail, say } from '../lib/actions.js';
import { bytes, clockTime, count, micros } from '../lib/format.js';
import { store, View } from '../lib/store.js';
import { homely, lines, name } from '../lib/text.js';

/** @typedef {import('../contract.d.ts').HealthSample} HealthSample */
/** @typedef {{ id: string, title: string, series: { label: string, of: (now: HealthSample, before: HealthSample | undefined) => number | null, stroke: string }[], show: (value: number) => string }} Chart */

/** @param {keyof HealthSample} key */
const rate = (key) => (/** @type {HealthSample} */ now, /** @type {HealthSample | undefined} */ before) => {
  if (!before) return null;
  const seconds = (now.at_ms - before.at_ms) / 1000;
  const difference = Number(now[key]) - Number(before[key]);
  return seconds > 0 && difference >= 0 ? difference / seconds : null;
};
/** @param {keyof HealthSample} key */
const gauge = (key) => (/** @type {HealthSample} */ now) => /** @type {number | null} */ (now[key]);
/** @param {number} value */
const perSecond = (value) => `${value < 10 ? value.toFixed(1) : count(value)}/s`;

/** Steps of an axis in bytes. */
const MEGABYTES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].map((it) => it * 2 ** 20);

/** @type {Chart[]} */
const CHARTS = [
  { id: 'events', title: 'Events', show: perSecond, series: [{ label: 'events', of: rate('events'), stroke: '--accent' }, { label: 'actions', of: rate('actions'), stroke: '--good' }] },
  { id: 'latency', title: 'Latency, median and 99 %', show: micros, series: [{ label: 'median', of: gauge('latency_p50_us'), stroke: '--accent' }, { label: '99 %', of: gauge('latency_p99_us'), stroke: '--warn' }] },
  { id: 'calls', title: 'Calls', show: perSecond, series: [{ label: 'calls', of: rate('calls'), stroke: '--accent' }, { label: 'errors', of: rate('call_errors'), stroke: '--bad' }] },
  { id: 'drops', title: 'Drops and failures', show: perSecond, series: [{ label: 'drops', of: rate('dropped'), stroke: '--warn' }, { label: 'failures', of: rate('failed'), stroke: '--bad' }] },
  { id: 'audit', title: 'Audit write', show: (ms) => `${ms.toFixed(1)} ms`, series: [{ label: 'write', of: gauge('audit_sync_ms'), stroke: '--accent' }] },
  { id: 'memory', title: 'Memory', show: bytes, series: [{ label: 'memory', of: gauge('memory_bytes'), stroke: '--accent' }] },
];
/** Spans of the time range, in minutes. */
const SPANS = [1, 5, 15, 60];

class ViewHealth extends View {
  static topics = ['health'];
  // An event about a circuit breaker contains no cause, so the report is loaded again.
  static reloadTopics = ['circuit'];
  static properties = { report: { state: true }, span: { state: true } };

  constructor() {
    super();
    /** @type {import('../contract.d.ts').Reads['health']['answer'] | null} */
    this.report = null;
    this.span = 5;
    /** @type {Map<string, uPlot>} */
    this.plots = new Map();
    this.theme = matchMedia('(prefers-color-scheme: dark)');
    this.onTheme = () => { this.clear(); this.requestUpdate(); };
    this.resize = new ResizeObserver(() => {
      for (const [id, plot] of this.plots) {
        const host = this.querySelector(`[data-chart=${id}]`);
        if (host && host.clientWidth) plot.setSize({ width: host.clientWidth, height: 150 });
      }
    });
  }

  connectedCallback() {
    super.connectedCallback();
    if (!document.querySelector('link[href$="uplot.css"]')) {
      const sheet = document.createElement('link');
      sheet.rel = 'stylesheet';
      sheet.href = '/assets/vendor/uplot.css';
      document.head.append(sheet);
    }
    this.theme.addEventListener('change', this.onTheme);
    this.resize.observe(this);
    this.load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.theme.removeEventListener('change', this.onTheme);
    this.resize.disconnect();
    this.clear();
  }

  clear() {
    for (const plot of this.plots.values()) plot.destroy();
    this.plots.clear();
  }

  async load() {
    try {
      this.report = await api.read('health', {});
      const last = this.report.samples.at(-1)?.at_ms ?? 0;
      store.samples = [...this.report.samples, ...store.samples.filter((it) => it.at_ms > last)];
    } catch (error) {
      fail(error);
    }
  }

  /** @param {string | null} tool */
  async reset(tool) {
    if (await decideOne({ decision: 'reset_circuit', tool })) {
      say('The breaker is reset.');
      await this.load();
    }
  }

  shown() {
    const from = store.now() - this.span * 60_000;
    const at = store.samples.findIndex((it) => it.at_ms >= from);
    return at < 0 ? [] : store.samples.slice(Math.max(0, at - 1));
  }

  updated() {
    const samples = this.shown();
    for (const chart of CHARTS) {
      const host = /** @type {HTMLElement | null} */ (this.querySelector(`[data-chart=${chart.id}]`));
      if (!host?.clientWidth) continue;
      const times = samples.map((it) => it.at_ms / 1000);
      const data = [times, ...chart.series.map((it) => samples.map((sample, at) => it.of(sample, samples[at - 1])))];
      const plot = this.plots.get(chart.id);
      if (plot) plot.setData(data);
      else if (samples.length) this.plots.set(chart.id, this.draw(chart, data, host));
    }
  }

  /** @param {Chart} chart @param {import('../vendor/uplot.js').Data} data @param {HTMLElement} host */
  draw(chart, data, host) {
    const style = getComputedStyle(document.documentElement);
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour('--dim'), font: '11px Inter, system-ui, sans-serif', grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false } };
    return new uPlot({
      width: host.clientWidth, height: 150, padding: [10, 12, 0, 0], legend: { show: false }, cursor: { y: false, points: { size: 6 } }, scales: { y: { range: (/** @type {unknown} */ _, /** @type {number} */ low, /** @type {number} */ high) => [0, Math.max(high * 1.15, 1)] } },
      axes: [{ ...axis, space: 70, size: 28, values: (/** @type {unknown} */ _, /** @type {number[]} */ list) => list.map((it) => clockTime(it * 1000).slice(0, this.span > 5 ? 5 : 8)) }, { ...axis, size: 60, space: 34, ...(chart.id === 'memory' ? { incrs: MEGABYTES } : {}), values: (/** @type {unknown} */ _, /** @type {number[]} */ list) => list.map((it) => chart.show(it)) }],
      series: [{}, ...chart.series.map((it) => ({ label: it.label, stroke: colour(it.stroke), width: 1.5, points: { show: false }, fill: it.stroke === '--accent' ? `${colour('--accent')}18` : undefined }))],
    }, data, host);
  }

  render() {
    const state = store.state;
    if (!state) return nothing;
    const samples = this.shown();
    const checks = this.report?.checks ?? [];
    const bad = checks.filter((it) => it.grade !== 'ok');
    const circuits = (this.report?.circuits ?? state.circuits).filter((it) => it.state !== 'Passing' || it.trips > 0);
    return html`<div class="head"><h1>Health</h1><span class="chip ${bad.some((it) => it.grade === 'bad') ? 'bad' : 'good'}">${bad.some((it) => it.grade === 'bad') ? 'needs attention' : 'all well'}</span><span class="grow"></span>
        <div class="segments" role="group" aria-label="Time range">${SPANS.map((it) => html`<button type="button" aria-pressed=${this.span === it} @click=${() => { this.span = it; }}>${it < 60 ? `${it} min` : '1 h'}</button>`)}</div></div>
      <div class="stack gap">
        <div class="charts">${CHARTS.map((chart) => html`<section class="panel chart" aria-label=${chart.title}><header><h2>${chart.title}</h2><span class="row small">${chart.series.map((it) => { const value = this.last(samples, it); return html`<span class="dim"><span class="dot swatch${it.stroke}"></span> ${it.label} <strong class="figure">${value === null ? '–' : chart.show(value)}</strong></span>`; })}</span></header><div class="plot" data-chart=${chart.id}></div></section>`)}</div>
        <div class="two even">
          <section class="panel" aria-label="Checks"><header><h2>Checks</h2><span class="grow"></span><button class="btn small quiet" type="button" @click=${() => this.load()}>Check again</button></header>${checks.length ? html`<ul>${repeat([...bad, ...checks.filter((it) => it.grade === 'ok')], (it) => it.check, (it) => html`<li class="check-row"><span class="dot ${it.grade === 'ok' ? 'on' : it.grade === 'note' ? 'warn' : 'bad'}" role="img" aria-label=${it.grade}></span><strong>${name(it.check, 40)}</strong><span>${lines(homely(it.detail))}${it.cure ? html`<br><span class="dim">${lines(homely(it.cure))}</span>` : nothing}</span></li>`)}</ul>` : html`<div class="empty"><p>The checks have not run yet.</p></div>`}</section>
          <div class="stack gap">
            <section class="panel" aria-label="Latency histogram"><header><h2>Latency since the start</h2></header><div class="body">${this.histogram(state.meters.latency)}</div></section>
            ${this.rigs(this.report?.rigs ?? null)}
            <section class="panel" aria-label="Circuit breakers"><header><h2>Circuit breakers</h2></header>${circuits.length ? html`<ul>${circuits.map((it) => html`<li class="check-row"><span class="dot ${it.state === 'Passing' ? 'on' : it.state === 'Probing' ? 'warn' : 'bad'}" role="img" aria-label=${it.state}></span><strong>${name(it.tool, 30)}</strong><span class="row wrap"><span class="grow">${it.state === 'Passing' ? 'passing again' : `${it.state.toLowerCase()} after ${it.failures} failures`}${it.targets[0]?.cause ? html`<br><span class="dim">${name(it.targets[0].cause.message, 80)}</span>` : nothing}</span>${it.state === 'Passing' ? nothing : html`<button class="btn small" type="button" @click=${() => this.reset(it.tool)}>Reset</button>`}</span></li>`)}</ul>` : html`<div class="body dim small">No circuit breaker is open. A tool that keeps failing is switched off and listed here with the reason.</div>`}</section>
          </div></div></div>`;
  }

  /** @param {import('../contract.d.ts').Rigs | null} rigs */
  rigs(rigs) {
    if (!rigs) return nothing;
    return html`<section class="panel" aria-label="Rigs"><header><h2>Rigs</h2><span class="grow"></span><span class="chip ${rigs.connected ? 'good' : 'warn'}">${rigs.connected ? 'connected' : 'no server'}</span></header>
      ${rigs.error ? html`<div class="body dim small">${lines(rigs.error)}</div>` : nothing}
      <ul>${rigs.rigs.slice(0, 100).map((it) => html`<li class="check-row"><span class="dot ${it.state === 'up' ? 'on' : 'warn'}" role="img" aria-label=${it.state}></span><strong>${name(it.rig, 32)}</strong><span>${it.state === 'up' ? html`mode ${name(it.mode ?? '–', 40)}, version ${name(it.version ?? '–', 20)}, ${count(it.drops ?? 0)} drops` : html`<span class="dim">unknown</span>`}</span></li>`)}</ul></section>`;
  }

  /** @param {HealthSample[]} samples @param {Chart['series'][number]} series */
  last(samples, series) {
    const now = samples.at(-1);
    return now ? series.of(now, samples.at(-2)) : null;
  }

  /** @param {import('../contract.d.ts').Meters['latency']} latency */
  histogram(latency) {
    const most = Math.max(1, ...latency.counts);
    const first = latency.counts.findIndex((it) => it > 0);
    if (first < 0) return html`<p class="dim small">No event was handled yet.</p>`;
    const last = latency.counts.findLastIndex((it) => it > 0);
    return html`<div class="bars">${latency.counts.map((it, at) => (at < first || at > last ? nothing : html`<div class="bar"><span class="num dim">${at < latency.bounds_us.length ? `≤ ${micros(latency.bounds_us[at])}` : 'slower'}</span><meter class="bar-meter" min="0" max=${most} value=${it} aria-label="${micros(latency.bounds_us[at])}"></meter><span class="num">${count(it)}</span></div>`))}</div>
      <p class="dim small under-bars">median ${micros(latency.p50_us) || '–'}, 99 % within ${micros(latency.p99_us) || '–'}, slowest ${micros(latency.max_us) || '–'}</p>`;
  }
}
customElements.define('view-health', ViewHealth);
