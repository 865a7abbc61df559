// Now: what happens in the studio at this moment, and the controls to play with.

import { html, nothing, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { call, decideOne, dialog, fail, say } from '../lib/actions.js';
import { OUTCOMES, parse } from '../lib/events.js';
import { ago, clockTime, count, micros, noteName } from '../lib/format.js';
import { store, View } from '../lib/store.js';
import { name, plain, short } from '../lib/text.js';
import '../parts/surface.js';

/** Maximum number of rows of the stream that are drawn. */
const ROWS = 60;
/** A device's light is on this long after an event, in milliseconds. */
const ACTIVE = 250;
/** Shortest time between two drawings of the stream, in milliseconds. */
const REDRAW = 100;
/** Maximum fraction of the time that drawings take. A slow machine therefore draws less often. */
const SHARE = 0.15;
const SLOWEST_REDRAW = 800;
/** Number of seconds that the strip above the stream shows. */
const SECONDS = 90;

/** The colour names of the configuration that the page can show. */
const COLOURS = new Set(['red', 'orange', 'yellow', 'green', 'cyan', 'blue', 'purple', 'pink', 'white']);

/** @typedef {import('../contract.d.ts').TraceRecord} TraceRecord */

/** A row of the stream. @param {TraceRecord} record */
export function eventRow(record) {
  const outcome = OUTCOMES[record.outcome];
  const wall = store.wall(record.at_us);
  const parsed = parse(record.event);
  const what = record.mapping_id
    ? html`${name(record.mapping_id, 28)}${record.action ? html` <span class="dim">→ ${name(record.action, 60)}</span>` : nothing}${record.reason ? html` <span class="dim">${record.reason}</span>` : nothing}`
    : html`<span class="dim">${record.action ? name(record.action, 60) : record.reason || outcome.help}</span>`;
  return html`<div class="ev" role="row" data-seq=${record.seq}>
    <span class="time" role="cell">${clockTime(wall)}<span class="opt">.${String(Math.floor(wall % 1000)).padStart(3, '0')}</span></span>
    <span class="opt" role="cell">${name(record.device, 24)}</span>
    <span role="cell"><a class="cover" href="#/why?seq=${record.seq}" aria-label="${plain(parsed.text || record.gesture, 60)}, why?">${record.event ? short(parsed.text, 40) : html`<span class="dim">${record.gesture}</span>`}</a>${record.coalesced ? html` <span class="dim small">×${record.coalesced + 1}</span>` : nothing}</span>
    <span role="cell"><span class="chip ${outcome.kind}">${outcome.word}</span></span>
    <span class="opt" role="cell">${what}</span>
    <span class="lat opt" role="cell">${micros(record.latency_us)}</span>
  </div>`;
}

class ViewNow extends View {
  static topics = ['trace', 'meters', 'status', 'modes', 'bindings', 'config', 'learning', 'stream'];
  static properties = { device: { state: true }, filter: { state: true }, controllers: { state: true }, mappings: { state: true } };

  constructor() {
    super();
    this.device = '';
    this.filter = 'all';
    /** @type {import('../parts/surface.js').Controller[]} */
    this.controllers = [];
    /** @type {import('../contract.d.ts').ModeMappings[]} */
    this.mappings = [];
    /** For each second, the number of events that fired a mapping, and of all other events. @type {Map<number, { fired: number, other: number }>} */
    this.seconds = new Map();
    /** @param {Event} event */
    this.onRecords = (event) => this.note(/** @type {CustomEvent<TraceRecord[]>} */ (event).detail);
    this.lastDraw = 0;
    this.pause_ms = REDRAW;
    this.timer = 0;
    this.tick = 0;
    /** Draws the view, but not more often than `pause_ms` allows. @param {Event} event */
    this.onChange = (event) => {
      const topics = /** @type {CustomEvent<Set<string>>} */ (event).detail;
      if (topics.has('config') || topics.has('all')) this.load();
      const wait = this.pause_ms - (performance.now() - this.lastDraw);
      if (wait <= 0) this.requestUpdate();
      else if (!this.timer) this.timer = setTimeout(() => { this.timer = 0; this.requestUpdate(); }, wait);
    };
    this.onHash = () => {
      const wanted = new URLSearchParams(location.hash.split('?')[1] ?? '').get('device');
      if (wanted) this.device = wanted;
    };
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener('hashchange', this.onHash);
    store.addEventListener('records', this.onRecords);
    this.seconds.clear();
    this.note(store.state?.trace ?? []);
    this.onHash();
    this.tick = setInterval(() => this.requestUpdate(), 1000);
    this.load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener('hashchange', this.onHash);
    store.removeEventListener('records', this.onRecords);
    clearInterval(this.tick);
    clearTimeout(this.timer);
    this.timer = 0;
  }

  async load() {
    try {
      const [controllers, mappings] = await Promise.all([api.read('controllers', {}), api.read('mappings', {})]);
      this.controllers = controllers.controllers;
      this.mappings = mappings.modes;
    } catch (error) {
      fail(error);
    }
  }

  /** Devices that mappings use or that sent an event; all configured devices if there are none. */
  inputs() {
    const bindings = store.state?.bindings.device_bindings ?? [];
    const used = new Set(this.mappings.flatMap((it) => [...it.mappings.map((row) => row.trigger.device), ...it.continuous.map((row) => /** @type {any} */ (row).source?.device)]));
    const shown = bindings.filter((it) => used.has(it.device_id) || (store.state?.meters.devices[it.device_id] && it.is_configured));
    return shown.length ? shown : bindings.filter((it) => it.is_configured);
  }

  updated() {
    const cost = performance.now() - this.lastDraw;
    this.pause_ms = Math.min(SLOWEST_REDRAW, Math.max(REDRAW, cost / SHARE));
  }

  render() {
    this.lastDraw = performance.now();
    const state = store.state;
    if (!state) return nothing;
    const inputs = this.inputs();
    const device = inputs.some((it) => it.device_id === this.device) ? this.device : inputs[0]?.device_id ?? '';
    return html`
      <div class="head"><h1>Now</h1>
        <div class="segments" role="group" aria-label="Mode">${state.modes.modes.map((mode) => html`<button type="button" aria-pressed=${mode.name === state.modes.current} title="Switch to ${plain(mode.name, 200)}" @click=${() => this.switchMode(mode.name)}><span class="dot colour-${COLOURS.has(mode.color ?? '') ? mode.color : 'none'}"></span>${short(mode.name, 24)}</button>`)}</div>
        ${state.learning ? html`<a class="chip accent" href="#/mappings?learn">learning</a>` : nothing}
        <span class="grow"></span>
        ${state.status.performance_lock ? nothing : html`<button class="btn quiet hide-narrow" type="button" title="AI clients cannot change modes or send MIDI" @click=${() => decideOne({ decision: 'performance_lock', on: true })}>Performance lock</button>`}
        <button class="btn danger" type="button" @click=${() => this.panic()}>Panic</button>
      </div>
      <div class="now-grid">
        <section class="panel" aria-label="Controller">
          <header>
            ${inputs.length > 1 ? html`<div class="segments" role="group" aria-label="Controller">${inputs.map((it) => html`<button type="button" aria-pressed=${it.device_id === device} @click=${() => { this.device = it.device_id; }}>${short(it.device_id, 24)}</button>`)}</div>` : html`<h2>${device ? name(device, 40) : 'Controller'}</h2>`}
            <span class="grow"></span><span class="dim small hide-narrow">Events that you play here count as events from the network.</span>
          </header>
          ${device ? html`<console-surface .device=${device} .controllers=${this.controllers} .modes=${this.mappings}></console-surface>` : html`<div class="empty"><strong>No controller yet</strong><p>Connect one, then name it in config.toml, or start the demo with <code>conductor up --demo</code>.</p></div>`}
        </section>
        ${this.stream(state)}
        <div class="side">
          ${this.devices(state)}
          ${this.figures(state)}
          ${this.held(state)}
        </div>
      </div>`;
  }

  /** Counts events by their second. @param {TraceRecord[]} records */
  note(records) {
    for (const record of records) {
      if (!record.event) continue;
      const second = Math.floor(store.wall(record.at_us) / 1000);
      const bar = this.seconds.get(second) ?? { fired: 0, other: 0 };
      bar[record.outcome === 'fired' ? 'fired' : 'other'] += 1 + (record.coalesced ?? 0);
      this.seconds.set(second, bar);
    }
    const oldest = Math.floor(store.now() / 1000) - SECONDS;
    for (const second of this.seconds.keys()) if (second < oldest) this.seconds.delete(second);
  }

  /** The last seconds as bars: events that fired below, the others above. */
  activity() {
    const last = Math.floor(store.now() / 1000);
    const most = Math.max(6, ...[...this.seconds.values()].map((it) => it.fired + it.other));
    let fired = '';
    let other = '';
    let total = 0;
    for (const [second, bar] of this.seconds) {
      const x = SECONDS - 1 - (last - second);
      if (x < 0 || x >= SECONDS) continue;
      total += bar.fired + bar.other;
      const low = 100 - (bar.fired / most) * 100;
      const high = low - (bar.other / most) * 100;
      if (bar.fired) fired += `M${x + 0.15} 100V${low}h.7V100z`;
      if (bar.other) other += `M${x + 0.15} ${low}V${high}h.7V${low}z`;
    }
    return html`<div class="activity" role="img" aria-label="${total} events in the last ${SECONDS} seconds"><svg viewBox="0 0 ${SECONDS} 100" preserveAspectRatio="none" aria-hidden="true"><path class="fired" d=${fired}/><path class="other" d=${other}/></svg><span aria-hidden="true">last ${SECONDS} s</span></div>`;
  }

  /** @param {import('../contract.d.ts').State} state */
  stream(state) {
    // Rows are not keyed: under load every row changes, and new text is cheaper than new elements.
    const quiet = this.filter === 'quiet';
    const rows = store.shownTrace.filter((it) => this.filter === 'all' || (this.filter === 'fired' ? it.outcome === 'fired' : it.outcome !== 'fired')).slice(-ROWS).reverse();
    return html`<section class="panel stream" aria-label="Event stream">
      <header><h2>Events</h2>
        <div class="segments" role="group" aria-label="Filter">${[['all', 'All'], ['fired', 'Fired'], ['quiet', 'Did nothing']].map(([id, label]) => html`<button type="button" aria-pressed=${this.filter === id} @click=${() => { this.filter = id ?? 'all'; }}>${label}</button>`)}</div>
        <span class="grow"></span>
        <button class="btn small" type="button" aria-pressed=${store.paused} @click=${() => this.pause()}>${store.paused ? (store.heldBack ? `Resume (${count(store.heldBack)} new)` : 'Resume') : 'Pause'}</button>
      </header>
      ${this.activity()}
      <div class="rows" role="table" aria-label="Events, newest first" tabindex="0">
        <div class="ev head-row opt-head" role="row"><span role="columnheader">time</span><span class="opt" role="columnheader">device</span><span role="columnheader">event</span><span role="columnheader">outcome</span><span class="opt" role="columnheader">mapping and action</span><span class="lat opt" role="columnheader">latency</span></div>
        ${rows.length ? rows.map(eventRow) : html`<div class="empty"><strong>${quiet ? 'Every event did something' : 'Nothing has been played'}</strong><p>${state.trace.length ? 'No event of this kind is among the last 500.' : html`Touch a pad, or press one above. From a terminal: <code>conductor send "pads hand" on:36</code>`}</p></div>`}
      </div>
    </section>`;
  }

  /** @param {import('../contract.d.ts').State} state */
  devices(state) {
    const list = state.bindings.device_bindings;
    return html`<section class="panel" aria-label="Devices"><header><h2>Devices</h2><span class="grow"></span><span class="dim small">${state.bindings.connected_count} of ${state.bindings.total_devices} connected</span></header>
      ${list.length ? html`<ul>${repeat(list.slice(0, 60), (it) => it.device_id, (it) => {
        const meter = state.meters.devices[it.device_id];
        const age = meter ? store.now() - store.wall(meter.last_us) : Infinity;
        const status = !it.connected ? 'not connected' : !it.enabled ? 'muted' : 'connected';
        return html`<li class="device"><span class="light ${it.connected ? (it.enabled ? 'connected' : 'muted') : ''} ${it.connected && age < ACTIVE ? 'active' : ''}" role="img" aria-label=${status}></span>
          <span class="cut" title=${plain(it.description ?? it.port_name ?? '', 200)}><strong>${name(it.device_id, 26)}</strong>${it.tainted ? html` <span class="chip" title="Any program can send to this port, so its events do not count as played by a person">open port</span>` : nothing}</span>
          ${it.connected ? html`<button class="btn small quiet" type="button" aria-pressed=${!it.enabled} aria-label="${it.enabled ? 'Mute' : 'Unmute'} ${plain(it.device_id, 40)}" @click=${() => this.mute(it.device_id, !it.enabled)}>${it.enabled ? 'Mute' : 'Muted'}</button>` : html`<span class="dim small">absent</span>`}
          <span></span><span class="dim small">${meter ? html`${count(meter.events)} ${meter.events === 1 ? 'event' : 'events'}, ${ago(age)}` : 'no event yet'}</span><span></span></li>`;
      })}</ul>` : html`<div class="empty"><p>No device. Connect a controller; it appears here by itself.</p></div>`}
    </section>`;
  }

  /** @param {import('../contract.d.ts').State} state */
  figures(state) {
    const { statistics, latency } = state.meters;
    const drops = statistics.events_dropped + state.meters.trace_lost;
    return html`<section class="figures" aria-label="Counters">
      <div><b>${count(statistics.events_processed)}</b><span>events</span></div>
      <div><b>${count(statistics.actions_executed)}</b><span>actions</span></div>
      <div><b>${latency.p50_us === null ? '–' : micros(latency.p50_us)}</b><span>median latency</span></div>
      <div><b class=${drops ? 'warn' : ''}>${count(drops)}</b><span>drops</span></div>
    </section>`;
  }

  /** @param {import('../contract.d.ts').State} state */
  held(state) {
    const held = Object.entries(state.meters.held).flatMap(([device, keys]) => keys.map((it) => ({ device, it }))).slice(0, 40);
    return html`<section class="panel" aria-label="Held notes"><header><h2>Held</h2></header><div class="body held">${held.length
      ? held.map(({ device, it }) => { const parsed = parse(it); return html`<span class="chip accent">${parsed.kind === 'on' ? noteName(Number(parsed.control)) : name(parsed.text, 20)} <span class="dim">${name(device, 16)}</span></span>`; })
      : html`<span class="dim small">No note and no button is down.</span>`}</div></section>`;
  }

  pause() {
    store.paused = !store.paused;
    store.heldBack = 0;
    if (!store.paused && store.state) store.shownTrace = store.state.trace;
    store.touch('stream');
  }

  /** @param {string} mode */
  async switchMode(mode) {
    await call('conductor_switch_mode', { mode });
  }

  /**
   * @param {string} device_id
   * @param {boolean} enabled
   */
  async mute(device_id, enabled) {
    const done = await call('conductor_set_device_enabled', { device_id, enabled });
    if (done) say(enabled ? `${plain(device_id, 40)} is no longer muted.` : `${plain(device_id, 40)} is muted.`);
  }

  async panic() {
    if (store.state?.status.performance_lock) {
      const answer = await dialog('Panic during a performance?', html`<p>Every note and key is released and every output is silenced.</p>`, [{ label: 'Cancel', value: '' }, { label: 'Panic', value: 'yes', kind: 'primary' }]);
      if (answer !== 'yes') return;
    }
    const done = await call('conductor_panic');
    if (done) say('Every note and key is released.');
  }
}
customElements.define('view-now', ViewNow);
