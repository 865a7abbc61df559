// Why: the rules that were checked for one event, each with its condition and the actual value.

import { html, nothing, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { fail } from '../lib/actions.js';
import { OUTCOMES, parse } from '../lib/events.js';
import { clockTime, micros } from '../lib/format.js';
import { actionText, continuousText, triggerText } from '../lib/rules.js';
import { ListView, store } from '../lib/store.js';
import { lines, name, plain, short } from '../lib/text.js';

/** @typedef {import('../contract.d.ts').TraceRecord} TraceRecord */
/** @typedef {import('../contract.d.ts').Reads['explain']['answer']} Explanation */

const MOST = 80;

/** @type {Record<Explanation['verdict'], { word: string, kind: string }>} */
const VERDICTS = {
  fires: { word: 'A mapping fires', kind: 'good' },
  waits: { word: 'Waits for the rest of the gesture', kind: 'accent' },
  depends: { word: 'Depends on earlier values', kind: 'accent' },
  no_match: { word: 'Nothing happens', kind: 'warn' },
  muted: { word: 'The device is muted', kind: 'warn' },
  absent: { word: 'The device is not connected', kind: 'warn' },
  tainted: { word: 'Needs a person’s input', kind: 'warn' },
  refused: { word: 'Refused by the configuration', kind: 'bad' },
};

class ViewWhy extends ListView {
  static topics = ['trace', 'modes', 'bindings', 'config'];
  static reloadTopics = ['config'];
  static properties = { seq: { state: true }, event: { state: true }, device: { state: true }, mode: { state: true }, explanation: { state: true }, record: { state: true }, filter: { state: true }, problem: { state: true }, modes: { state: true } };

  constructor() {
    super();
    this.seq = -1;
    this.event = '';
    this.device = '';
    this.mode = '';
    /** @type {Explanation | null} */
    this.explanation = null;
    /** @type {TraceRecord | null} */
    this.record = null;
    this.filter = 'all';
    this.problem = '';
    /** @type {import('../contract.d.ts').ModeMappings[]} */
    this.modes = [];
    this.onHash = () => this.follow();
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener('hashchange', this.onHash);
    this.load();
    this.follow();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener('hashchange', this.onHash);
  }

  async load() {
    this.modes = (await api.read('mappings', {}).catch(() => null))?.modes ?? this.modes;
  }

  /** A rule in words: what the player does, and what happens then. @param {Explanation['candidates'][number]} rule */
  words(rule) {
    const mode = this.modes.find((it) => it.mode === rule.mode);
    const row = mode?.mappings.find((it) => it.id === rule.mapping_id);
    if (row) return { when: triggerText(row.trigger), then: actionText(row.action) };
    const moving = mode?.continuous.find((it) => it.id === rule.mapping_id);
    return { when: rule.gesture, then: moving ? continuousText(moving) : rule.action };
  }

  async follow() {
    if (!location.hash.startsWith('#/why')) return;
    const params = new URLSearchParams(location.hash.split('?')[1] ?? '');
    const seq = Number(params.get('seq') ?? -1);
    const event = params.get('event');
    if (event) {
      this.open = true;
      await this.explain(event, params.get('device') ?? '', params.get('mode') ?? '');
    } else if (seq >= 0) {
      let record = store.state?.trace.find((it) => it.seq === seq);
      record ??= (await api.read('trace', { since_seq: Math.max(0, seq - 1), limit: 2 }).catch(() => null))?.records.find((it) => it.seq === seq);
      this.open = true;
      if (record) await this.choose(record);
      else this.problem = 'This event is no longer in the trace. Play it again, or type it.';
    } else {
      const record = store.state?.trace.findLast((it) => it.event && it.outcome !== 'fired') ?? store.state?.trace.findLast((it) => it.event);
      if (record) await this.choose(record);
    }
  }

  /** @param {TraceRecord} record */
  async choose(record) {
    // A timer has no event of its own; its gesture began with the last event of the device.
    const source = record.event ? record : store.state?.trace.findLast((it) => it.seq < record.seq && it.device === record.device && it.event) ?? record;
    await this.explain(source.event, record.device, record.mode);
    this.seq = record.seq;
    this.record = record;
  }

  /**
   * @param {string} event
   * @param {string} device
   * @param {string} mode
   */
  async explain(event, device, mode) {
    Object.assign(this, { event, device, mode, record: null, seq: -1, problem: '' });
    if (!event) {
      this.explanation = null;
      return;
    }
    const known = store.state?.modes.modes.some((it) => it.name === mode);
    try {
      this.explanation = await api.read('explain', { event, ...(device ? { device } : {}), ...(known ? { mode } : {}) });
    } catch (error) {
      this.explanation = null;
      if (error instanceof api.RequestError) this.problem = `${error.message}${error.fault.hint ? `. ${error.fault.hint}` : ''}`;
      else fail(error);
    }
  }

  render() {
    const state = store.state;
    if (!state) return nothing;
    const list = state.trace.filter((it) => it.event && (this.filter === 'all' || it.outcome !== 'fired')).slice(-MOST).reverse();
    return html`
      <div class="head"><h1>Why</h1><span class="sub hide-narrow">Which mapping an event fires, and why the others do not</span></div>
      <div class=${this.sides}>
        <section class="panel" aria-label="Recent events"><header><h2>Recent events</h2><span class="grow"></span><div class="segments" role="group" aria-label="Filter"><button type="button" aria-pressed=${this.filter === 'all'} @click=${() => { this.filter = 'all'; }}>All</button><button type="button" aria-pressed=${this.filter !== 'all'} @click=${() => { this.filter = 'quiet'; }}>Did nothing</button></div></header>
          <div class="scroll">${list.length ? repeat(list, (it) => it.seq, (it) => html`<button type="button" class="ask heard-row" aria-current=${it.seq === this.seq} @click=${() => { this.open = true; this.choose(it); }}><span class="cut">${short(parse(it.event).text, 40)}<span class="dim small"> ${short(it.device, 20)}</span></span><span class="chip ${OUTCOMES[it.outcome].kind}">${OUTCOMES[it.outcome].word}</span><span class="dim small num">${clockTime(store.wall(it.at_us))}</span></button>`) : html`<div class="empty"><p>${state.trace.length ? 'Every recent event did something.' : 'Play something, then choose the event here.'}</p></div>`}</div>
        </section>
        <section class="panel detail" aria-label="Explanation">
          <form class="why-form" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); const form = new FormData(/** @type {HTMLFormElement} */ (event.target)); this.explain(String(form.get('event')).trim(), String(form.get('device')), String(form.get('mode'))); }}>
            ${this.back()}
            <label class="field grow"><span>event</span><input name="event" class="mono" .value=${this.event} placeholder="on:36@100, cc:7=64, down:south" required spellcheck="false" autocomplete="off"></label>
            <label class="field"><span>device</span><select name="device"><option value="">any</option>${state.bindings.device_bindings.map((it) => html`<option value=${it.device_id} ?selected=${it.device_id === this.device}>${plain(it.device_id, 40)}</option>`)}</select></label>
            <label class="field"><span>mode</span><select name="mode">${state.modes.modes.map((it) => html`<option value=${it.name} ?selected=${it.name === (this.mode || state.modes.current)}>${plain(it.name, 40)}</option>`)}</select></label>
            <button class="btn primary" type="submit">Explain</button></form>
          ${this.problem ? html`<p class="problem bad" role="alert">${lines(this.problem)}</p>` : nothing}
          ${this.explanation ? this.ladder(this.explanation) : this.problem ? nothing : html`<div class="empty"><strong>Choose an event</strong><p>Or type one, such as <code>on:36@100</code>, and see what it would do.</p></div>`}
        </section>
      </div>`;
  }

  /** @param {Explanation} it */
  ladder(it) {
    const verdict = VERDICTS[it.verdict];
    const record = this.record;
    return html`<div class="verdict" role="status"><span class="chip ${verdict.kind}">${it.verdict.replace('_', ' ')}</span><div class="grow"><div class="word">${verdict.word}</div><div class="dim">${lines(it.reason)}${it.waits_ms ? `; decided within ${it.waits_ms} ms` : ''}</div>
      ${record ? html`<div class="dim small">When it was played: <span class="chip ${OUTCOMES[record.outcome].kind}">${OUTCOMES[record.outcome].word}</span> ${record.mapping_id ? name(record.mapping_id, 40) : nothing} ${record.action ? html`→ ${name(record.action, 60)}` : nothing} ${record.reason ? lines(record.reason) : nothing} ${micros(record.latency_us)}</div>` : nothing}</div></div>
      ${it.candidates.length ? html`<ol class="ladder" aria-label="Rules in order">${it.candidates.slice(0, 60).map((rule) => {
        const passes = rule.failed.length === 0;
        const { when, then } = this.words(rule);
        return html`<li class="rung ${rule.wins ? 'wins' : passes ? 'open' : ''}"><span class="step">${rule.wins ? '✓' : rule.rank}</span><div>
          <div class="what-rule"><a href="#/mappings?mode=${encodeURIComponent(rule.mode)}&id=${encodeURIComponent(rule.mapping_id)}">${short(rule.mapping_id, 40)}</a><span class="dim small">${rule.mode === '*' ? 'global' : name(rule.mode, 30)}</span><span class="grow"></span>${rule.wins ? html`<span class="chip good">fires</span>` : passes ? html`<span class="chip accent">possible</span>` : html`<span class="chip">does not fit</span>`}</div>
          <div class="rule-words">${name(when, 80)} <span class="dim">→</span> ${name(then, 120)}</div>
          ${rule.failed.map((miss) => html`<div class="cond"><span class="dim">${miss.field}</span><span>wanted <strong>${name(miss.wanted, 80)}</strong></span><span class="warn">got ${name(miss.got, 80)}</span></div>`)}
          ${rule.note ? html`<div class="dim small">${lines(rule.note)}</div>` : nothing}</div></li>`;
      })}</ol>` : html`<div class="empty"><p>No mapping uses this control. <a href="#/mappings?learn">Learn it</a> to give it an action.</p></div>`}`;
  }
}
customElements.define('view-why', ViewWhy);
