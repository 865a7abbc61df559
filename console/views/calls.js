// Calls: the audit log, one call in detail, the check of the log, and its export.

import { html, nothing, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { decideOne, dialog, fail, say } from '../lib/actions.js';
import { bytes, count, dayTime, duration } from '../lib/format.js';
import { store, View } from '../lib/store.js';
import { lines, name, plain } from '../lib/text.js';
import { tier, who } from '../parts/question.js';

/** @typedef {import('../contract.d.ts').AuditRecord} AuditRecord */

const PAGE = 100;
const MOST = 1000;
/** Spans of the time range, in minutes. @type {[string, number][]} */
const SPANS = [['15 min', 15], ['1 h', 60], ['24 h', 1440], ['All', 0]];

class ViewCalls extends View {
  static topics = ['call.ended', 'call.started'];
  static properties = { records: { state: true }, filter: { state: true }, result: { state: true }, span: { state: true }, chosen: { state: true }, steps: { state: true }, verdict: { state: true }, more: { state: true }, checking: { state: true } };

  constructor() {
    super();
    /** @type {AuditRecord[] | null} */
    this.records = null;
    this.filter = '';
    this.result = '';
    this.span = 0;
    /** @type {AuditRecord | null} */
    this.chosen = null;
    /** @type {AuditRecord[]} */
    this.steps = [];
    /** @type {import('../contract.d.ts').AuditVerdict | null} */
    this.verdict = null;
    this.more = false;
    this.checking = false;
    this.reload = 0;
    const redraw = this.onChange;
    /** @param {Event} event */
    this.onChange = (event) => {
      redraw(event);
      if (!/** @type {CustomEvent<Set<string>>} */ (event).detail.has('call.ended') || this.reload) return;
      this.reload = setTimeout(() => { this.reload = 0; this.load(); }, 1000);
    };
  }

  connectedCallback() {
    super.connectedCallback();
    this.load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.reload);
    this.reload = 0;
  }

  /** @param {number} [before] */
  async load(before) {
    try {
      const since = this.span ? new Date(store.now() - this.span * 60_000).toISOString() : undefined;
      const { records } = await api.read('audit', { limit: PAGE, ...(before === undefined ? {} : { before }), ...(since ? { since } : {}), ...(this.result ? { result: this.result } : {}) });
      this.more = records.length >= PAGE;
      this.records = (before === undefined ? records : [...(this.records ?? []), ...records]).slice(0, MOST);
    } catch (error) {
      fail(error);
    }
  }

  /** @param {AuditRecord} record */
  async choose(record) {
    this.chosen = record;
    this.steps = [record];
    if (!record.call) return;
    try {
      const { records } = await api.read('audit', { call: record.call, limit: 50 });
      this.steps = records.toReversed();
    } catch (error) {
      fail(error);
    }
  }

  async verify() {
    this.checking = true;
    try {
      this.verdict = await api.read('audit_verify', {});
    } catch (error) {
      fail(error);
    }
    this.checking = false;
  }

  async acceptLog() {
    const sure = await dialog('Accept the log as it is?', html`<p>The faults stay in the log and are listed as accepted by you. New records are checked from here on.</p>`, [{ label: 'Cancel', value: '' }, { label: 'Accept', value: 'yes', kind: 'primary' }]);
    if (sure === 'yes' && (await decideOne({ decision: 'accept_log' }))) await this.verify();
  }

  async export() {
    try {
      const blob = await api.exportAudit(this.span ? { since: new Date(store.now() - this.span * 60_000).toISOString() } : {});
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = 'conductor-audit.jsonl';
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      say(`Exported ${bytes(blob.size)}.`);
    } catch (error) {
      fail(error);
    }
  }

  render() {
    const query = this.filter.trim().toLowerCase();
    const rows = (this.records ?? []).filter((it) => (it.phase === 'outcome' || it.phase === 'event' || it.phase === 'recovery') && (!query || `${it.tool ?? ''} ${it.principal ?? ''} ${it.event ?? ''} ${it.result ?? ''} ${it.code ?? ''}`.toLowerCase().includes(query)));
    return html`<div class="head"><h1>Calls</h1>
        <input class="input search" type="search" aria-label="Filter by tool, client or result" placeholder="Tool, client or result" @input=${(/** @type {InputEvent} */ event) => { this.filter = /** @type {HTMLInputElement} */ (event.target).value; }}>
        <div class="segments" role="group" aria-label="Time range">${SPANS.map(([label, minutes]) => html`<button type="button" aria-pressed=${this.span === minutes} @click=${() => { this.span = minutes; this.load(); }}>${label}</button>`)}</div>
        ${store.running.size ? html`<span class="chip accent">${store.running.size} running</span>` : nothing}
        <span class="grow"></span><button class="btn" type="button" @click=${() => this.export()}>Export</button><button class="btn primary" type="button" ?disabled=${this.checking} @click=${() => this.verify()}>${this.checking ? 'Checking…' : 'Verify the log'}</button></div>
      ${this.verdict ? this.judged(this.verdict) : nothing}
      <div class="two">
        <section class="panel scroll" aria-label="Calls" tabindex="0">${rows.length ? html`<table><thead><tr><th>Time</th><th>Tool</th><th class="hide-narrow">Caller</th><th>Result</th><th class="num hide-narrow">Duration</th></tr></thead><tbody>${repeat(rows, (it) => it.seq, (it) => html`<tr class="link" tabindex="0" aria-selected=${it.seq === this.chosen?.seq} @click=${() => this.choose(it)} @keydown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter') this.choose(it); }}>
            <td class="dim one">${dayTime(it.ts)}</td><td>${it.tool ? name(it.tool, 40) : html`<span class="dim">${name(it.event ?? it.phase, 40)}</span>`}</td><td class="hide-narrow">${name(who(it.principal ?? '').client, 30)}</td><td>${this.outcome(it)}</td><td class="num hide-narrow">${it.duration_ms === undefined ? '' : `${count(it.duration_ms)} ms`}</td></tr>`)}</tbody></table>
          ${this.more && (this.records?.length ?? 0) < MOST ? html`<div class="empty"><button class="btn" type="button" @click=${() => this.load(this.records?.at(-1)?.seq)}>Older calls</button></div>` : nothing}`
          : html`<div class="empty"><strong>${this.records ? 'No call' : ''}</strong><p>${this.records ? 'No call matches. Every call of a client is recorded here with its result.' : ''}</p></div>`}</section>
        <section class="panel" aria-label="Call">${this.chosen ? this.detail(this.chosen) : html`<div class="empty"><strong>Choose a call</strong><p>Its steps, its approval and the hash of its arguments are shown here.</p></div>`}</section>
      </div>`;
  }

  /** @param {AuditRecord} it */
  outcome(it) {
    if (!it.result) return nothing;
    const kind = it.result === 'ok' ? 'good' : it.result === 'denied' || it.result === 'rejected' ? 'warn' : 'bad';
    return html`<span class="chip ${kind}">${name(it.code ?? it.result, 24)}</span>`;
  }

  /** @param {import('../contract.d.ts').AuditVerdict} it */
  judged(it) {
    const good = it.verdict === 'INTACT' && it.faults.length === 0;
    return html`<section class="panel verdict-panel" role="status" aria-label="Verdict"><header><span class="dot ${good ? 'on' : 'bad'}"></span><h2 class=${good ? '' : 'bad'}>${good ? 'The log is complete and unchanged' : `The log is not intact: ${plain(it.verdict, 60)}`}</h2><span class="grow"></span>${good ? nothing : html`<button class="btn small" type="button" @click=${() => this.acceptLog()}>Accept…</button>`}<button class="btn small quiet" type="button" aria-label="Close" @click=${() => { this.verdict = null; }}>✕</button></header>
      <div class="body stack"><dl class="facts wide"><dt>Records</dt><dd>${count(it.records)} in ${it.segments} ${it.segments === 1 ? 'file' : 'files'}</dd><dt>Anchor</dt><dd>${it.anchored_through === null ? 'no checkpoint yet' : `signed through record ${count(it.anchored_through)}, ${count(it.unanchored)} newer`}, ${it.checkpoints} checkpoints; key held by ${name(it.key_held_by, 60)}</dd></dl>
      ${it.faults.length ? html`<ul>${it.faults.slice(0, 20).map((fault) => html`<li class="small"><strong class="bad">${name(fault.verdict, 40)}</strong> at record ${fault.seq}: expected <code>${name(fault.expected, 30)}</code>, found <code>${name(fault.found, 30)}</code></li>`)}</ul>` : nothing}</div></section>`;
  }

  /** @param {AuditRecord} it */
  detail(it) {
    const intent = this.steps.find((step) => step.phase === 'intent');
    return html`<header><h2 class="grow cut">${name(it.tool ?? it.event ?? it.phase, 50)}</h2>${it.tier ? tier(it.tier) : nothing}</header>
      <div class="body stack"><dl class="facts">
        <dt>Caller</dt><dd>${name(it.principal ?? '–', 80)}</dd><dt>Result</dt><dd>${this.outcome(it)} ${it.duration_ms === undefined ? nothing : duration(it.duration_ms) === '0 s' ? `${it.duration_ms} ms` : duration(it.duration_ms)}</dd>
        ${it.effect ? html`<dt>Effect</dt><dd>${name(it.effect, 40)}</dd>` : nothing}${it.approval ? html`<dt>Approved</dt><dd>by ${name(it.approval.by, 40)} in the ${name(it.approval.channel, 20)}</dd>` : nothing}
        ${it.output_bytes === undefined ? nothing : html`<dt>Answer</dt><dd>${bytes(it.output_bytes)}</dd>`}<dt>Arguments</dt><dd><code>${name(it.input_hash ?? intent?.input_hash ?? '–', 40)}</code></dd><dt>Record</dt><dd>${it.seq}, <code>${name(it.hash, 24)}</code></dd></dl>
        <div class="section"><h3>Steps</h3><ol class="steps">${this.steps.map((step) => html`<li><span class="dim one">${dayTime(step.ts)}</span><span>${step.phase}${step.event ? html` ${name(step.event, 40)}` : nothing}</span><span class="num dim">${step.duration_ms === undefined ? '' : `${step.duration_ms} ms`}</span></li>`)}</ol></div>
        ${intent?.input !== undefined || it.detail !== undefined ? html`<div class="section"><h3>${it.detail === undefined ? 'Arguments' : 'Detail'}</h3><pre class="code" tabindex="0">${lines(JSON.stringify(it.detail ?? intent?.input, null, 2))}</pre></div>` : nothing}</div>`;
  }
}
customElements.define('view-calls', ViewCalls);
