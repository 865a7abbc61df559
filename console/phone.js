// The page of a paired phone: pairs the phone, shows one waiting request at a time, and sends the answer.
//
// The key of the phone is in `localStorage`, so that the phone stays paired. The one-time secret is in the fragment of the link; it is
// removed from the address at once, and sent only when the person presses the button.

import { html, LitElement, nothing, ref } from './vendor/lit.js';
import { countdown, dayTime } from './lib/format.js';
import { lines, name, plain } from './lib/text.js';
import { allFacts, diff, facts, tier, tierWords, who } from './parts/question.js';

/** @typedef {import('./contract.d.ts').PhoneQuestion} Question */
/** @typedef {import('./contract.d.ts').PhoneState} State */

const KEY = 'conductor-phone';
/** After another request is shown, buttons are disabled for this time, so that a tap never answers a request that just appeared. */
const SETTLE_MS = 700;
const RETRY_MS = 2000;
const SOON_MS = 20_000;

class RequestError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} path
 * @param {object} [body]
 * @param {AbortSignal} [signal]
 */
async function request(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { 'X-Conductor-Phone': localStorage.getItem(KEY) ?? '' };
  if (body) headers['Content-Type'] = 'application/json';
  const response = await fetch(path, { method: body ? 'POST' : 'GET', headers, body: body ? JSON.stringify(body) : undefined, cache: 'no-store', signal });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new RequestError(response.status, String(answer.message ?? answer.error ?? `the studio answered ${response.status}`));
  return answer;
}

/** The word for the kind of connection of a principal. @param {string} kind */
const over = (kind) => ({ http: 'over HTTP', oauth: 'over HTTP, signed in', socket: 'over MCP', webhook: 'webhook', plugin: 'plugin', mapping: 'mapping', cli: 'command line', person: 'person' })[kind] ?? kind;

class PhoneApp extends LitElement {
  static properties = {
    view: { state: true }, state: { state: true }, chosen: { state: true }, online: { state: true }, busy: { state: true }, settled: { state: true },
    reasoning: { state: true }, problem: { state: true }, said: { state: true }, full: { state: true }, about: { state: true },
  };

  constructor() {
    super();
    const fragment = new URLSearchParams(location.hash.slice(1));
    /** The one-time secret of the link. */
    this.secret = fragment.get('pair') ?? '';
    if (location.hash) history.replaceState(null, '', location.pathname);
    /** @type {'pair' | 'paired' | 'none' | 'revoked'} */
    this.view = this.secret ? 'pair' : localStorage.getItem(KEY) ? 'paired' : 'none';
    /** @type {State | null} */
    this.state = null;
    /** @type {import('./contract.d.ts').PhoneAbout | null} */
    this.about = null;
    /** The request that is shown. It stays until the person moves on. @type {Question | null} */
    this.chosen = null;
    this.online = true;
    this.busy = false;
    this.settled = true;
    this.reasoning = false;
    this.problem = '';
    this.said = '';
    /** @type {Map<string, import('./contract.d.ts').Fact[]>} */
    this.full = new Map();
    /** Difference between the studio's clock and this one. */
    this.offset = 0;
    /** @type {AbortController | null} */
    this.waiting = null;
    this.generation = 0;
  }

  createRenderRoot() {
    return this;
  }

  connectedCallback() {
    super.connectedCallback();
    setInterval(() => { if (this.chosen) this.requestUpdate(); }, 1000);
    // A hidden page does not count as a person who can answer.
    document.addEventListener('visibilitychange', () => this.follow());
    if (this.view === 'pair' || this.view === 'none') {
      request('/phone/about').then((about) => { this.about = about; }, (error) => { this.problem = error.message; });
    }
    this.follow();
  }

  /** Reads the waiting requests as long as the page is visible. */
  async follow() {
    this.generation += 1;
    const mine = this.generation;
    this.waiting?.abort();
    if (this.view !== 'paired' || document.visibilityState !== 'visible') return;
    let seen = '';
    while (mine === this.generation) {
      try {
        this.waiting = new AbortController();
        const state = /** @type {State} */ (await request(`/phone/state?seen=${seen}`, undefined, this.waiting.signal));
        if (mine !== this.generation) return;
        seen = state.tag;
        this.online = true;
        this.take(state);
      } catch (error) {
        if (mine !== this.generation) return;
        if (error instanceof RequestError && error.status === 401) {
          localStorage.removeItem(KEY);
          this.state = null;
          this.chosen = null;
          this.view = 'revoked';
          return;
        }
        this.online = false;
        seen = '';
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
  }

  /** @param {State} state */
  take(state) {
    this.offset = Date.parse(state.now) - Date.now();
    this.state = state;
    if (!this.chosen) this.choose(state.questions[0] ?? null);
  }

  /** Shows another request. @param {Question | null} question */
  choose(question) {
    if (question?.id === this.chosen?.id) return;
    this.chosen = question;
    this.reasoning = false;
    this.problem = '';
    if (!question) return;
    this.said = '';
    this.settled = false;
    setTimeout(() => { this.settled = true; }, SETTLE_MS);
    scrollTo({ top: 0 });
  }

  /** @param {number} step */
  move(step) {
    const list = this.state?.questions ?? [];
    const at = list.findIndex((it) => it.id === this.chosen?.id);
    this.choose(list[Math.min(list.length - 1, Math.max(0, at + step))] ?? null);
  }

  async pair() {
    this.busy = true;
    this.problem = '';
    try {
      const { key } = await request('/phone/pair', { secret: this.secret });
      localStorage.setItem(KEY, key);
      this.view = 'paired';
      this.follow();
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    this.secret = '';
    this.busy = false;
  }

  /** @param {Question} question @param {'allow' | 'deny'} answer @param {string} [reason] */
  async answer(question, answer, reason) {
    if (this.busy || !this.settled) return;
    this.busy = true;
    this.problem = '';
    try {
      await request('/phone/decide', reason ? { id: question.id, answer, reason } : { id: question.id, answer });
      const plan = question.kind === 'plan';
      const word = answer === 'allow' ? (plan ? 'Applied' : 'Allowed once') : (plan ? 'Rejected' : 'Denied');
      const rest = (this.state?.questions ?? []).filter((it) => it.id !== question.id);
      if (this.state) this.state = { ...this.state, questions: rest };
      this.choose(rest[0] ?? null);
      this.said = `${word}: ${plain(question.summary, 80)}`;
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    this.busy = false;
  }

  /** @param {Question} question */
  async showFull(question) {
    try {
      const all = await allFacts((from) => request('/phone/full', { id: question.id, from }));
      this.full = new Map(this.full).set(question.id, all);
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  render() {
    const device = this.state?.device;
    return html`
      <header class="bar"><img src="/assets/icon.svg" alt=""><h1>Conductor</h1>
        ${this.view === 'paired' ? html`<span class="state ${this.online ? '' : 'off'}" role="status"><i></i><span class="cut">${this.online ? (device ? plain(device, 24) : 'connecting') : 'not connected'}</span></span>` : nothing}</header>
      ${this.view === 'pair' ? this.pairing() : this.view === 'paired' ? this.paired() : this.unpaired()}`;
  }

  unpaired() {
    const revoked = this.view === 'revoked';
    return html`<main class="middle"><div class="done"><span class="ring stop" aria-hidden="true">!</span>
      <strong>${revoked ? 'This phone was revoked' : 'This phone is not paired'}</strong>
      <p>Run <code>conductor pair</code> at the studio, and scan the code that it shows.</p></div></main>`;
  }

  pairing() {
    const print = this.about?.fingerprint.replace(/^sha256:/, '').toUpperCase().match(/../g) ?? [];
    return html`<main><section class="card" aria-label="Pair this phone"><div class="in">
      <h2>Pair this phone?</h2>
      <p class="dim">The phone can then allow or deny requests of AI clients, and nothing else.</p>
      ${this.about?.self_signed ? html`
        <div class="section"><span class="label">SHA-256 fingerprint of the certificate</span>
          <div class="print" aria-label="Fingerprint">${print.map((it) => html`<span>${it}</span>`)}</div></div>
        <ol class="how"><li>Open the certificate of this page: tap the warning next to the address.</li>
          <li>Compare its SHA-256 fingerprint with the one in the terminal.</li>
          <li>If they differ, close this page: another machine answers.</li></ol>` : nothing}
      ${this.problem ? html`<p class="problem-line" role="alert">${lines(this.problem)}</p>` : nothing}
      <button class="btn primary big" type="button" ?disabled=${this.busy || !this.secret} @click=${() => this.pair()}>${this.about?.self_signed ? 'They are the same. Pair' : 'Pair'}</button>
    </div></section></main>`;
  }

  paired() {
    const list = this.state?.questions ?? [];
    const question = this.chosen;
    if (!question) return this.idle();
    const at = list.findIndex((it) => it.id === question.id);
    const left = question.expires_at ? Date.parse(question.expires_at) - (Date.now() + this.offset) : 0;
    // While the answer of this phone is sent, the request may leave the list.
    const gone = !this.busy && this.state !== null && at < 0;
    return html`<main>
      ${this.said ? html`<p class="last-line" role="status">${this.said}</p>` : nothing}
      ${list.length > 1 || (gone && list.length) ? html`<nav class="pager" aria-label="Requests"><button class="btn quiet" type="button" aria-label="Previous request" ?disabled=${at <= 0} @click=${() => this.move(-1)}>‹</button>
        <span class="note">${gone ? `${list.length} more` : `${at + 1} of ${list.length}`}</span>
        <button class="btn quiet" type="button" aria-label="Next request" ?disabled=${at === list.length - 1} @click=${() => this.move(1)}>›</button></nav>` : nothing}
      ${this.card(question, left)}
      ${this.others()}</main>
      ${gone || (left <= 0 && !this.busy) ? html`<div class="answer"><p class="note" role="status">This request has expired or was answered elsewhere.</p><button class="btn" type="button" @click=${() => this.choose(list.find((it) => it.id !== question.id) ?? null)}>${list.length ? 'Next request' : 'Close'}</button></div>` : this.decision(question)}`;
  }

  others() {
    const elsewhere = this.state?.elsewhere ?? 0;
    return elsewhere ? html`<p class="note">${elsewhere === 1 ? '1 more request can' : `${elsewhere} more requests can`} be answered only at the studio.</p>` : nothing;
  }

  idle() {
    return html`<main class="middle"><div class="done">${this.said
      ? html`<span class="ring" aria-hidden="true">✓</span><strong role="status">${this.said}</strong>`
      : html`<strong>Nothing waits for you</strong>`}
      <p>${this.state ? 'A new request appears here by itself.' : 'Connecting to the studio.'}</p></div>${this.others()}</main>`;
  }

  /** @param {Question} question @param {number} left */
  card(question, left) {
    const { client, kind } = who(question.principal);
    const whole = question.expires_at ? Date.parse(question.expires_at) - Date.parse(question.created_at) : 0;
    const shown = this.full.get(question.id) ?? question.facts;
    const [target, ...others] = shown;
    const rest = others.filter((it) => !['tool', 'tier', 'who', 'summary'].includes(it.label));
    const plan = question.kind === 'plan';
    const soon = left < SOON_MS;
    return html`<article class="card" aria-label="Request">
      ${whole > 0 ? html`<div class="timer ${soon ? 'soon' : ''}" aria-hidden="true"><i ${ref((element) => { if (element) /** @type {HTMLElement} */ (element).style.transform = `scaleX(${Math.max(0, Math.min(1, left / whole))})`; })}></i></div>` : nothing}
      <div class="in">
        <div class="topline"><span class="row">${tier(question.tier)}<span class="label">${tierWords(question.tier)}</span></span><span class="left ${soon ? 'soon' : ''}" role="timer">${question.expires_at ? countdown(left) : ''}</span></div>
        <h2>${lines(question.summary)}</h2>
        <div class="who"><span class="mark" aria-hidden="true">${plain(client, 60).slice(0, 1)}</span><div><strong>${name(client, 60)}</strong><span class="label">asks ${over(kind)}${question.held ? ', and waits for you' : ''}</span></div></div>
        ${target ? html`<div class="target"><span class="label">Effective target</span><strong>${lines(target.text)}</strong></div>` : nothing}
        ${question.warnings?.length ? html`<div class="section">${question.warnings.map((it) => html`<p class="warn small">${lines(it)}</p>`)}</div>` : nothing}
        ${(question.changes?.length ?? 0) > 1 ? html`<div class="section"><h3>${question.changes?.length} changes in one plan</h3><ol class="changes">${question.changes?.slice(0, 100).map((it) => html`<li>${lines(String(it.description ?? it.change_type ?? ''))}</li>`)}</ol></div>` : nothing}
        ${question.diff_preview ? html`<div class="section"><h3>Change</h3>${diff(question.diff_preview)}</div>` : nothing}
        ${rest.length ? html`<div class="section"><h3>${plan ? 'Facts' : 'Arguments'}</h3>${facts(rest)}</div>` : nothing}
        ${question.shortened && !this.full.has(question.id) ? html`<button class="btn" type="button" @click=${() => this.showFull(question)}>Show everything</button>` : nothing}
        <dl class="facts"><dt>Tool</dt><dd><code>${name(question.tool, 80)}</code></dd><dt>Id</dt><dd><code>${question.short}</code> <span class="dim">${dayTime(question.created_at)}</span></dd></dl>
      </div></article>`;
  }

  /** @param {Question} question */
  decision(question) {
    const plan = question.kind === 'plan';
    const off = this.busy || !this.settled;
    const problem = this.problem ? html`<p class="problem-line" role="alert">${lines(this.problem)}</p>` : nothing;
    if (this.reasoning) {
      return html`<form class="answer" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); this.answer(question, 'deny', /** @type {HTMLInputElement} */ (this.querySelector('.answer input')).value.trim()); }}>${problem}
        <input class="input" maxlength="500" aria-label="Reason, which the client sees" placeholder="Reason, which the client sees">
        <div class="two-buttons"><button class="btn quiet" type="button" @click=${() => { this.reasoning = false; }}>Back</button><button class="btn danger" type="submit" ?disabled=${off}>${plan ? 'Reject' : 'Deny'}</button></div></form>`;
    }
    return html`<div class="answer">${problem}<div class="two-buttons">
      <button class="btn danger" type="button" ?disabled=${off} @click=${() => { this.reasoning = true; this.updateComplete.then(() => /** @type {HTMLElement | null} */ (this.querySelector('.answer input'))?.focus()); }}>${plan ? 'Reject' : 'Deny'}…</button>
      <button class="btn primary" type="button" ?disabled=${off} @click=${() => this.answer(question, 'allow')}>${plan ? 'Apply' : 'Allow once'}</button></div></div>`;
  }
}
customElements.define('phone-app', PhoneApp);
