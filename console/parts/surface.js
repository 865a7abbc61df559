// Draws a controller from its template. Without a template, draws the controls that its mappings
// and events use. Touched controls light up. A person can play the drawing; its events are treated
// as events from the network.

import { html, svg, nothing, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { fail } from '../lib/actions.js';
import { OUTCOMES, parse } from '../lib/events.js';
import { micros, noteName } from '../lib/format.js';
import { store, View } from '../lib/store.js';
import { name, plain } from '../lib/text.js';

/** @typedef {import('../contract.d.ts').Reads['controllers']['answer']['controllers'][number]} Controller */
/** @typedef {{ key: string, label: string, kind: 'pad' | 'fader' | 'knob' | 'button', rule: string }} Control */
/** @typedef {import('../contract.d.ts').ModeMappings} ModeMappings */

/** How long a touched control stays lit, in milliseconds. */
const GLOW = 220;
const MOST_CONTROLS = 160;
/** Shortest time between two drawings, in milliseconds. */
const REDRAW = 40;

/**
 * Controls that the rows of the configuration use for a device: their kind, and the first row that
 * uses each of them in the current mode.
 * @param {ModeMappings[]} modes
 * @param {string} device
 * @param {string} current
 */
function mappedKeys(modes, device, current) {
  /** @type {Map<string, string>} */
  const kinds = new Map();
  /** @type {Map<string, string>} */
  const rules = new Map();
  for (const mode of [...modes.filter((it) => it.mode !== '*'), ...modes.filter((it) => it.mode === '*')]) {
    const rows = [...mode.mappings.map((it) => ({ id: it.id, on: it.trigger })), ...mode.continuous.map((it) => ({ id: it.id, on: /** @type {any} */ (it).source ?? {} }))];
    for (const { id, on } of /** @type {{ id: string, on: any }[]} */ (rows)) {
      if (on.device && on.device !== device) continue;
      /** @param {string} key @param {string} kind */
      const add = (key, kind) => {
        if (kind === 'knob' || !kinds.has(key)) kinds.set(key, kind);
        if ((mode.mode === current || mode.mode === '*') && !rules.has(key)) rules.set(key, id);
      };
      for (const note of on.notes ?? (on.note === undefined ? [] : [on.note])) add(`on:${note}`, 'pad');
      const cc = on.cc ?? on.controller;
      if (cc !== undefined) add(`cc:${cc}`, String(on.type ?? '').startsWith('Encoder') ? 'knob' : 'fader');
      if (on.type === 'PitchBend') add('pb', 'knob');
      if (on.button !== undefined) add(`down:${on.button}`, 'button');
    }
  }
  return { kinds, rules };
}

class ConsoleSurface extends View {
  static properties = { device: {}, controllers: { attribute: false }, modes: { attribute: false } };

  constructor() {
    super();
    this.device = '';
    /** @type {Controller[]} */
    this.controllers = [];
    /** @type {ModeMappings[]} */
    this.modes = [];
    /** Last value of each control. @type {Map<string, number>} */
    this.values = new Map();
    /** When each control was touched. @type {Map<string, number>} */
    this.touched = new Map();
    /** Controls seen in events. @type {Set<string>} */
    this.seen = new Set();
    /** @type {Map<string, number>} */
    this.sending = new Map();
    this.glowTimer = 0;
    this.redrawTimer = 0;
    this.onChange = () => this.soon();
    /** The last event of the device. @type {import('../contract.d.ts').TraceRecord | null} */
    this.last = null;
    /** @param {Event} event */
    this.onRecords = (event) => this.touch(/** @type {CustomEvent} */ (event).detail);
  }

  connectedCallback() {
    super.connectedCallback();
    store.addEventListener('records', this.onRecords);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    store.removeEventListener('records', this.onRecords);
    clearTimeout(this.glowTimer);
    clearTimeout(this.redrawTimer);
    this.redrawTimer = 0;
  }

  /** Draws again, at most every REDRAW ms. */
  soon() {
    this.redrawTimer ||= setTimeout(() => { this.redrawTimer = 0; this.requestUpdate(); }, REDRAW);
  }

  /** @param {Map<PropertyKey, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has('device')) return;
    this.values.clear();
    this.touched.clear();
    this.seen.clear();
    this.last = null;
    for (const record of store.state?.trace ?? []) this.note(record, false);
  }

  /**
   * @param {import('../contract.d.ts').TraceRecord} record
   * @param {boolean} glow
   */
  note(record, glow) {
    if (record.device !== this.device || !record.event) return false;
    const { key, kind, value } = parse(record.event);
    if (kind !== 'off' && kind !== 'up') this.last = record;
    if (this.seen.size < MOST_CONTROLS) this.seen.add(key);
    if (kind !== 'off' && value !== null) this.values.set(key, value);
    if (glow && kind !== 'off' && kind !== 'up') this.touched.set(key, performance.now());
    return true;
  }

  /** @param {import('../contract.d.ts').TraceRecord[]} records */
  touch(records) {
    let any = false;
    for (const record of records) any = this.note(record, true) || any;
    if (!any) return;
    this.soon();
    clearTimeout(this.glowTimer);
    this.glowTimer = setTimeout(() => this.requestUpdate(), GLOW + 20);
  }

  /** @returns {{ controls: Control[], columns: number }} */
  layout() {
    const own = this.controllers.find((it) => it.device_id === this.device);
    const { kinds, rules } = mappedKeys(this.modes, this.device, store.state?.modes.current ?? '');
    if (own?.controls.length) {
      const controls = own.controls.slice(0, MOST_CONTROLS).map((it) => /** @type {Control} */ ({
        key: it.event, label: it.name, rule: rules.get(it.event) ?? '',
        kind: it.kind === 'pad' ? 'pad' : it.kind === 'fader' ? 'fader' : it.event.startsWith('on:') || it.event.startsWith('down:') ? 'button' : 'knob',
      }));
      return { controls, columns: own.columns ?? 8 };
    }
    const keys = new Map([...[...this.seen].map((it) => /** @type {[string, string]} */ ([it, it.startsWith('on:') ? 'pad' : it.startsWith('down:') ? 'button' : 'fader'])), ...kinds]);
    const notes = [...keys.keys()].filter((it) => it.startsWith('on:')).map((it) => Number(it.slice(3)));
    /** @type {Control[]} */
    const controls = [];
    if (notes.length) {
      const low = Math.floor(Math.min(...notes) / 4) * 4;
      const high = Math.min(Math.max(Math.ceil((Math.max(...notes) + 1) / 4) * 4, low + 8), low + 64);
      for (let note = low; note < high; note += 1) controls.push({ key: `on:${note}`, label: noteName(note), kind: 'pad', rule: rules.get(`on:${note}`) ?? '' });
    }
    for (const [key, kind] of keys) {
      if (key.startsWith('cc:')) controls.push({ key, label: `CC ${key.slice(3)}`, kind: kind === 'knob' ? 'knob' : 'fader', rule: rules.get(key) ?? '' });
      else if (key === 'pb') controls.push({ key, label: 'pitch bend', kind: 'knob', rule: rules.get(key) ?? '' });
      else if (key.startsWith('down:')) controls.push({ key, label: key.slice(5), kind: 'button', rule: rules.get(key) ?? '' });
    }
    return { controls, columns: notes.length > 32 ? 8 : 4 };
  }

  /** @param {string} events */
  send(events) {
    api.play(events, this.device || undefined).catch(fail);
  }

  /**
   * Sends the newest value of a control at most once per animation frame.
   * @param {string} key
   * @param {number} value
   */
  slide(key, value) {
    this.values.set(key, value);
    const first = this.sending.size === 0;
    this.sending.set(key, value);
    if (first) {
      requestAnimationFrame(() => {
        const events = [...this.sending].map(([it, to]) => (it === 'pb' ? `pb:${to}` : `${it}=${to}`)).join(' ');
        this.sending.clear();
        this.send(events);
      });
    }
    this.requestUpdate();
  }

  /** @param {string} key */
  lit(key) {
    const held = store.state?.meters.held[this.device] ?? [];
    return held.some((it) => it.split(/[@/]/)[0] === key) || performance.now() - (this.touched.get(key) ?? -GLOW) < GLOW;
  }

  /** @param {Control} control */
  pad(control) {
    const down = control.key.startsWith('down:') ? control.key : `${control.key}@100`;
    const up = control.key.startsWith('down:') ? control.key.replace('down:', 'up:') : control.key.replace('on:', 'off:');
    let isDown = false;
    const press = () => {
      if (isDown) return;
      isDown = true;
      this.send(down);
    };
    const release = () => {
      if (!isDown) return;
      isDown = false;
      this.send(up);
    };
    /** @param {KeyboardEvent} event */
    const key = (event) => {
      if (event.key !== ' ' && event.key !== 'Enter') return;
      event.preventDefault();
      if (event.type === 'keydown') press();
      else release();
    };
    const number = control.key.startsWith('on:') ? control.key.slice(3) : '';
    return html`<button type="button" class="pad ${control.rule ? 'mapped' : ''} ${this.lit(control.key) ? 'lit' : ''}" data-control=${control.key} title=${plain(control.rule, 80)}
      @pointerdown=${(/** @type {PointerEvent} */ event) => { /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId); press(); }} @pointerup=${release} @pointercancel=${release} @keydown=${key} @keyup=${key} @blur=${release}><span class="sr">Play</span><span class="note">${number || control.label}</span><span class="rule">${plain(control.rule, 24)}</span></button>`;
  }

  /** @param {Control} control */
  slider(control) {
    const most = control.key === 'pb' ? 16383 : 127;
    const value = this.values.get(control.key) ?? (control.key === 'pb' ? 8192 : 0);
    const hot = performance.now() - (this.touched.get(control.key) ?? -GLOW) < GLOW;
    const turn = Math.min(1, Math.max(0, value / most));
    const input = html`<input type="range" min="0" max=${most} .value=${String(value)} aria-label="Move ${control.label}" data-control=${control.key} @input=${(/** @type {InputEvent} */ event) => this.slide(control.key, Number(/** @type {HTMLInputElement} */ (event.target).value))}>`;
    if (control.kind === 'fader') return html`<div class="control ${hot ? 'hot' : ''}">${input}<output>${value}</output><span>${control.label}</span><span class="rule">${plain(control.rule, 20)}</span></div>`;
    return html`<div class="control knob-control ${hot ? 'hot' : ''}"><svg class="knob" viewBox="0 0 46 46" aria-hidden="true"><path class="track" d="M11.3 34.7A16.5 16.5 0 1134.7 34.7"/>${turn > 0 ? svg`<path class="value" d="M11.3 34.7A16.5 16.5 0 1134.7 34.7" pathLength="100" stroke-dasharray="${turn * 100} 200"/>` : nothing}</svg>${input}<output>${value}</output><span>${control.label}</span><span class="rule">${plain(control.rule, 20)}</span></div>`;
  }

  render() {
    const { controls, columns } = this.layout();
    if (!controls.length) {
      return html`<div class="empty"><strong>Touch a control</strong><p>Controls of this device appear here as soon as you play them, or when a mapping uses them.</p></div>`;
    }
    const pads = controls.filter((it) => it.kind === 'pad');
    const buttons = controls.filter((it) => it.kind === 'button');
    const sliders = controls.filter((it) => it.kind === 'fader' || it.kind === 'knob');
    // Rows of pads start at the bottom left, as on the hardware.
    const rows = [];
    for (let at = 0; at < pads.length; at += columns) rows.unshift(pads.slice(at, at + columns));
    return html`<div class="surface" role="group" aria-label="Controls of ${plain(this.device)}">
      ${pads.length ? html`<div class="pads columns-${columns} ${pads.length > 32 ? 'dense' : ''}">${repeat(rows.flat(), (it) => it.key, (it) => this.pad(it))}</div>` : nothing}
      ${buttons.length ? html`<div class="pads columns-8 buttons">${repeat(buttons, (it) => it.key, (it) => this.pad(it))}</div>` : nothing}
      ${sliders.length ? html`<div class="controls">${repeat(sliders, (it) => it.key, (it) => this.slider(it))}</div>` : nothing}
      ${this.latest()}
    </div>`;
  }

  /** The last event of this device and its result, as a sentence. */
  latest() {
    const record = this.last;
    if (!record) return html`<div class="what"><span>No control was touched yet.</span></div>`;
    const outcome = OUTCOMES[record.outcome];
    return html`<div class="what" aria-live="off">
      <span>Last touched</span>
      <span class="last">${name(parse(record.event).text, 40)}</span>
      <span class="row wrap"><span class="chip ${outcome.kind}">${outcome.word}</span>${record.mapping_id ? name(record.mapping_id, 30) : record.reason || outcome.help}</span>
      ${record.action ? html`<span>${name(record.action, 80)}</span>` : nothing}
      <span class="row">${record.latency_us === null ? nothing : html`<span>${micros(record.latency_us)}</span>`}<a href="#/why?seq=${record.seq}">Why?</a></span>
    </div>`;
  }
}
customElements.define('console-surface', ConsoleSurface);
