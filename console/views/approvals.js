// Approvals: every waiting call and plan with all its facts, the buttons to decide, and the
// history.

import { html, nothing, ref, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { decideOne, dialog, fail, say } from '../lib/actions.js';
import { countdown, dayTime } from '../lib/format.js';
import { ListView, store } from '../lib/store.js';
import { lines, name, plain, short } from '../lib/text.js';
import { allFacts, diff, facts, tier, who } from '../parts/question.js';

/** @typedef {import('../contract.d.ts').Question} Question */
/** @typedef {import('../contract.d.ts').Decision} Decision */

const MOST = 200;
const NOTIFY = 'conductor-notify';

/** @type {Record<Question['state'], { word: string, kind: string }>} */
const STATES = {
  pending: { word: 'waiting', kind: 'accent' },
  allowed: { word: 'allowed', kind: 'good' },
  used: { word: 'done', kind: 'good' },
  denied: { word: 'denied', kind: 'bad' },
  expired: { word: 'expired', kind: '' },
  stale: { word: 'out of date', kind: 'warn' },
  undone: { word: 'undone', kind: '' },
};

class ViewApprovals extends ListView {
  static topics = ['question', 'config', 'status'];
  static properties = {
    chosen: { state: true }, marked: { state: true }, tab: { state: true }, history: { state: true }, full: { state: true },
    reasoning: { state: true }, asksToNotify: { state: true }, waitingConfig: { state: true },
  };

  constructor() {
    super();
    this.chosen = '';
    /** @type {Set<string>} */
    this.marked = new Set();
    this.tab = 'waiting';
    /** @type {Question[]} */
    this.history = [];
    /** Full facts of questions whose facts are shortened. @type {Map<string, import('../contract.d.ts').Fact[]>} */
    this.full = new Map();
    /** The question whose reason is being written. */
    this.reasoning = '';
    this.asksToNotify = 'Notification' in window && Notification.permission === 'default';
    /** @type {import('../contract.d.ts').Reads['config_waiting']['answer'] | null} */
    this.waitingConfig = null;
    this.timer = 0;
    /** @param {KeyboardEvent} event */
    this.onKey = (event) => this.press(event);
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener('keydown', this.onKey);
    this.timer = setInterval(() => this.requestUpdate(), 1000);
    this.load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener('keydown', this.onKey);
    clearInterval(this.timer);
  }

  async load() {
    try {
      this.history = (await api.read('history', { limit: MOST })).questions;
    } catch (error) {
      fail(error);
    }
  }

  /** The history from the daemon, with the decisions made since it was read. */
  past() {
    const fresh = new Set(store.decided.map((it) => it.id));
    return [...store.decided, ...this.history.filter((it) => !fresh.has(it.id))].filter((it) => it.kind !== 'standing').slice(0, MOST);
  }

  list() {
    return this.tab === 'waiting' ? store.waiting : this.past();
  }

  current() {
    const list = this.list();
    return list.find((it) => it.id === this.chosen) ?? list[0] ?? null;
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, textarea, select, dialog')) return;
    const list = this.list();
    const at = list.findIndex((it) => it.id === this.current()?.id);
    const question = this.current();
    if (event.key === 'j' || event.key === 'k') {
      const next = list[Math.min(list.length - 1, Math.max(0, at + (event.key === 'j' ? 1 : -1)))];
      if (next) this.chosen = next.id;
      this.updateComplete.then(() => this.querySelector('.ask[aria-current=true]')?.scrollIntoView({ block: 'nearest' }));
    } else if (event.key === 'a' && question?.state === 'pending') {
      this.accept(question);
    } else if (event.key === 'd' && question?.state === 'pending') {
      this.reasoning = question.id;
      this.updateComplete.then(() => /** @type {HTMLElement | null} */ (this.querySelector('.reason input'))?.focus());
    } else if (event.key === 'x' && question?.state === 'pending') {
      this.mark(question.id);
    } else return;
    event.preventDefault();
  }

  /** @param {string} id */
  mark(id) {
    const marked = new Set(this.marked);
    if (!marked.delete(id)) marked.add(id);
    this.marked = marked;
  }

  /** Moves the selection to the neighbour before the question leaves the list. @param {string} id */
  leave(id) {
    const list = this.list();
    const at = list.findIndex((it) => it.id === id);
    const next = list[at + 1] ?? list[at - 1];
    this.reasoning = '';
    this.open = false;
    this.chosen = next?.id ?? '';
    const marked = new Set(this.marked);
    marked.delete(id);
    this.marked = marked;
  }

  /** @param {Question} question @param {'once' | 'session'} [scope] */
  async accept(question, scope = 'once') {
    const plan = question.kind === 'plan';
    const done = await decideOne(plan ? { decision: 'apply', id: question.id } : { decision: 'allow', id: question.id, scope });
    if (!done) return;
    this.leave(question.id);
    say(plan ? 'Applied. The change is in force; the history can undo it.' : scope === 'session' ? `Allowed for this session: ${plain(question.tool, 60)}` : `Allowed once: ${plain(question.tool, 60)}`);
  }

  /** @param {Question} question @param {string} reason */
  async refuse(question, reason) {
    const decision = question.kind === 'plan' ? 'reject' : 'deny';
    const done = await decideOne(reason ? { decision, id: question.id, reason } : { decision, id: question.id });
    if (!done) return;
    this.leave(question.id);
    const word = question.kind === 'plan' ? 'Rejected' : 'Denied';
    say(reason ? `${word}. The client sees your reason.` : `${word}.`);
  }

  /** @param {'yes' | 'no'} answer */
  async batch(answer) {
    const list = store.waiting.filter((it) => this.marked.has(it.id));
    const sure = await dialog(answer === 'yes' ? `Allow ${list.length} requests?` : `Deny ${list.length} requests?`, html`<ul class="stack">${list.map((it) => html`<li class="small"><strong>${name(it.tool, 60)}</strong> ${lines(it.summary)}</li>`)}</ul>`, [
      { label: 'Cancel', value: '' }, { label: answer === 'yes' ? 'Allow all' : 'Deny all', value: 'yes', kind: 'primary' },
    ]);
    if (sure !== 'yes') return;
    /** @type {Decision[]} */
    const decisions = list.map((it) => (it.kind === 'plan' ? { decision: answer === 'yes' ? 'apply' : 'reject', id: it.id } : answer === 'yes' ? { decision: 'allow', id: it.id, scope: 'once' } : { decision: 'deny', id: it.id }));
    try {
      const { results } = await api.decide(...decisions);
      const failed = results.filter((it) => !it.ok);
      for (const it of failed) if (!it.ok) say(it.fault.message, true);
      if (results.length > failed.length) say(`${results.length - failed.length} decided.`);
      this.marked = new Set();
    } catch (error) {
      fail(error);
    }
  }

  /** @param {Question} question */
  async undo(question) {
    const sure = await dialog('Undo this change?', html`<p class="dim">${lines(question.summary)}</p><p>The earlier text of the configuration or file is restored.</p>`, [
      { label: 'Keep it', value: '' }, { label: 'Undo', value: 'yes', kind: 'primary' },
    ]);
    if (sure !== 'yes') return;
    const done = await decideOne({ decision: 'undo', id: question.id, apply: true });
    if (!done) return;
    say('Undone.');
    this.load();
  }

  /** @param {Question} question */
  async showFull(question) {
    try {
      const all = await allFacts((from) => api.read('question', { id: question.id, from }));
      this.full = new Map(this.full).set(question.id, all);
    } catch (error) {
      fail(error);
    }
  }

  async acceptConfig() {
    try {
      const waiting = await api.read('config_waiting', {});
      const sure = await dialog('Put the whole config.toml in force?', html`<p class="dim">${plain(waiting.held.join(', '), 300)}</p>${diff(waiting.difference)}`, [
        { label: 'Not now', value: '' }, { label: 'Accept the file', value: 'yes', kind: 'primary' },
      ]);
      if (sure !== 'yes') return;
      if (await decideOne({ decision: 'accept_config', hash: waiting.hash })) say('The whole file is in force.');
    } catch (error) {
      fail(error);
    }
  }

  render() {
    const state = store.state;
    if (!state) return nothing;
    const list = this.list();
    const question = this.current();
    const waiting = store.waiting.length;
    return html`
      <div class="head"><h1>Approvals</h1>
        <div class="segments" role="group" aria-label="Show">
          <button type="button" aria-pressed=${this.tab === 'waiting'} @click=${() => { this.tab = 'waiting'; this.chosen = ''; }}>Waiting ${waiting ? html`<span class="dim">${waiting}</span>` : nothing}</button>
          <button type="button" aria-pressed=${this.tab === 'history'} @click=${() => { this.tab = 'history'; this.chosen = ''; this.load(); }}>History</button>
        </div>
        <span class="grow"></span>
        ${this.marked.size ? html`<span class="dim small">${this.marked.size} marked</span><button class="btn small" type="button" @click=${() => this.batch('yes')}>Allow</button><button class="btn small danger" type="button" @click=${() => this.batch('no')}>Deny</button>` : nothing}
        ${this.asksToNotify ? html`<button class="btn quiet hide-narrow" type="button" @click=${() => this.permitNotifications()}>Notify me in this browser</button>` : nothing}
      </div>
      ${state.waiting.needs_a_person ? html`<section class="panel config-waits"><header><h2>config.toml was changed outside Conductor</h2><span class="grow"></span><button class="btn small" type="button" @click=${() => this.acceptConfig()}>Review</button></header><div class="body small">These parts grant rights and are not in force until you accept them: ${name(state.waiting.held.join(', '), 200)}</div></section>` : nothing}
      ${question ? html`<div class=${this.sides}>
        <section class="panel list" aria-label=${this.tab === 'waiting' ? 'Waiting requests' : 'History'}>
          ${repeat(list, (it) => it.id, (it) => this.row(it, it.id === question.id))}
        </section>
        <section class="panel detail" aria-label="Request" aria-live="off">${this.detail(question)}</section>
      </div>` : this.empty()}`;
  }

  empty() {
    if (this.tab === 'history') return html`<div class="panel empty"><strong>No decision yet</strong><p>Calls and plans that you decided appear here, and applied changes can be undone here.</p></div>`;
    return html`<div class="panel empty"><strong>Nothing waits for you</strong><p>When an AI client wants to reach hardware or change the configuration, its request appears here with everything it would do.</p><p class="small">No client yet? <a href="#/connect">Connect one</a>.</p></div>`;
  }

  /** @param {Question} it @param {boolean} current */
  row(it, current) {
    const pending = it.state === 'pending';
    const left = pending && it.expires_at ? Date.parse(it.expires_at) - store.now() : null;
    const { client } = who(it.principal);
    return html`<button type="button" class="ask" aria-current=${current} @click=${() => { this.chosen = it.id; this.open = true; this.reasoning = ''; }}>
      <span class="top">${this.marked.has(it.id) ? html`<span class="chip accent">marked</span>` : nothing}<strong class="cut">${short(it.kind === 'plan' ? 'Plan' : it.tool, 34)}</strong>${pending
        ? html`<span class="left ${left !== null && left < 20_000 ? 'soon' : ''}">${left === null ? '' : countdown(left)}</span>`
        : html`<span class="left">${it.decided ? dayTime(it.decided.at) : dayTime(it.created_at)}</span>`}</span>
      <span class="line">${short(it.summary, 90)}</span>
      <span class="row small dim"><span class="cut">${short(client, 26)}</span>${pending ? (it.held ? html`<span class="chip accent">client waits</span>` : nothing) : html`<span class="chip ${STATES[it.state].kind}">${STATES[it.state].word}</span>`}</span>
    </button>`;
  }

  /** @param {Question} question */
  detail(question) {
    const pending = question.state === 'pending';
    const plan = question.kind === 'plan';
    const { client, kind } = who(question.principal);
    const whole = question.expires_at ? Date.parse(question.expires_at) - Date.parse(question.created_at) : 0;
    const left = question.expires_at ? Math.max(0, Date.parse(question.expires_at) - store.now()) : 0;
    const shown = this.full.get(question.id) ?? question.facts;
    const [target, ...others] = shown;
    // The head of the request already shows these facts.
    const rest = others.filter((it) => !['tool', 'tier', 'who', 'summary'].includes(it.label));
    return html`
      ${pending && whole > 0 ? html`<div class="timer" aria-hidden="true"><i ${ref((element) => { if (element) /** @type {HTMLElement} */ (element).style.transform = `scaleX(${Math.min(1, left / whole)})`; })}></i></div>` : nothing}
      <div class="question">
        <div class="row wrap">${this.back()}<h2 class="grow">${lines(question.summary)}</h2>${tier(question.tier)}</div>
        <dl class="facts">
          <dt>Asks</dt><dd><strong>${name(client, 60)}</strong> <span class="dim">over ${kind === 'http' ? 'HTTP' : kind === 'socket' ? 'MCP' : kind}</span></dd>
          <dt>Tool</dt><dd><code>${name(question.tool, 80)}</code></dd>
          ${target ? html`<dt>Effective target</dt><dd><strong>${lines(target.text)}</strong></dd>` : nothing}
          <dt>Id</dt><dd><code>${question.short}</code> <span class="dim">${dayTime(question.created_at)}</span></dd>
        </dl>
        ${question.warnings?.length ? html`<div class="section">${question.warnings.map((it) => html`<p class="warn small">${lines(it)}</p>`)}</div>` : nothing}
        ${(question.changes?.length ?? 0) > 1 ? html`<div class="section"><h3>${question.changes?.length} changes in one plan</h3><ol class="changes">${question.changes?.slice(0, 100).map((it) => html`<li>${lines(String(it.description ?? it.change_type ?? ''))}</li>`)}</ol></div>` : nothing}
        ${question.diff_preview ? html`<div class="section"><h3>Change</h3>${diff(question.diff_preview)}</div>` : nothing}
        ${rest.length ? html`<div class="section"><h3>${plan ? 'Facts' : 'Arguments'}</h3>${facts(rest)}${question.shortened && !this.full.has(question.id) ? html`<div><button class="btn small" type="button" @click=${() => this.showFull(question)}>Show everything</button></div>` : nothing}</div>` : nothing}
        ${question.decided ? html`<dl class="facts"><dt>Decision</dt><dd><span class="chip ${STATES[question.state].kind}">${STATES[question.state].word}</span> by ${name(who(question.decided.by).client, 40)} in the ${question.decided.channel === 'cli' ? 'terminal' : question.decided.channel}, ${dayTime(question.decided.at)}</dd>${question.decided.reason ? html`<dt>Reason</dt><dd>${lines(question.decided.reason)}</dd>` : nothing}</dl>` : nothing}
      </div>
      ${pending ? this.decision(question, plan) : question.undoable ? html`<div class="decide"><button class="btn" type="button" @click=${() => this.undo(question)}>Undo this change</button></div>` : nothing}`;
  }

  /** @param {Question} question @param {boolean} plan */
  decision(question, plan) {
    if (!question.answerable) return html`<div class="decide"><span class="dim">Policy requires the approval pad: answer there.</span></div>`;
    if (this.reasoning === question.id) {
      return html`<form class="decide reason" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); const field = /** @type {HTMLInputElement} */ (this.querySelector('.reason input')); this.refuse(question, field.value.trim()); }}>
        <input class="input grow" maxlength="500" aria-label="Reason, which the client sees" placeholder="Reason, which the client sees (optional)" @keydown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') this.reasoning = ''; }}>
        <button class="btn danger" type="submit">${plan ? 'Reject' : 'Deny'}</button><button class="btn quiet" type="button" @click=${() => { this.reasoning = ''; }}>Cancel</button></form>`;
    }
    return html`<div class="decide">
      <button class="btn primary" type="button" @click=${() => this.accept(question)}>${plan ? 'Apply' : 'Allow once'} <kbd>a</kbd></button>
      ${!plan && question.grantable ? html`<button class="btn" type="button" title="This tool with any arguments, until the client disconnects" @click=${() => this.accept(question, 'session')}>Allow for this session</button>` : nothing}
      <button class="btn danger" type="button" @click=${() => { this.reasoning = question.id; this.updateComplete.then(() => /** @type {HTMLElement | null} */ (this.querySelector('.reason input'))?.focus()); }}>${plan ? 'Reject' : 'Deny'}… <kbd>d</kbd></button>
      <span class="grow"></span>
      <label class="check small dim"><input type="checkbox" .checked=${this.marked.has(question.id)} @change=${() => this.mark(question.id)}> mark <kbd>x</kbd></label>
      <span class="dim small hide-narrow"><kbd>j</kbd> <kbd>k</kbd> next, previous</span>
    </div>`;
  }

  async permitNotifications() {
    const answer = await Notification.requestPermission();
    this.asksToNotify = answer === 'default';
    if (answer === 'granted') localStorage.setItem(NOTIFY, 'yes');
  }
}
customElements.define('view-approvals', ViewApprovals);

/** Shows a browser notification if the person asked for it and the page is hidden. @param {Question} question */
function notify(question) {
  if (localStorage.getItem(NOTIFY) !== 'yes' || document.visibilityState === 'visible' || !('Notification' in window) || Notification.permission !== 'granted') return;
  const note = new Notification('Conductor: a request waits for your answer', { body: plain(`${who(question.principal).client}: ${question.summary}`, 160), tag: question.id });
  note.onclick = () => {
    window.focus();
    location.hash = '#/approvals';
  };
}
store.addEventListener('asked', (event) => notify(/** @type {CustomEvent<Question>} */ (event).detail));
