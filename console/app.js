// The shell of the console: login, navigation, messages, and the view that the address names.

import { html, nothing, repeat } from './vendor/lit.js';
import * as api from './lib/api.js';
import { store, View } from './lib/store.js';
import { dialog, say, toasts } from './lib/actions.js';
import { icon, logo } from './lib/icons.js';
import { name, plain } from './lib/text.js';
import { duration } from './lib/format.js';
import { openPalette } from './parts/palette.js';
import './views/now.js';
import './views/approvals.js';

/** @typedef {{ id: string, title: string, group: string, secondary?: boolean, load: () => Promise<unknown>, tag: string }} Page */

/** @type {Page[]} */
const PAGES = [
  { id: 'now', title: 'Now', group: 'Studio', tag: 'view-now', load: async () => {} },
  { id: 'mappings', title: 'Mappings', group: 'Studio', tag: 'view-mappings', load: () => import('./views/mappings.js') },
  { id: 'why', title: 'Why', group: 'Studio', tag: 'view-why', secondary: true, load: () => import('./views/why.js') },
  { id: 'patches', title: 'Patches', group: 'Studio', tag: 'view-patches', secondary: true, load: () => import('./views/patches.js') },
  { id: 'sets', title: 'Sets', group: 'Studio', tag: 'view-sets', secondary: true, load: () => import('./views/sets.js') },
  { id: 'approvals', title: 'Approvals', group: 'AI clients', tag: 'view-approvals', load: async () => {} },
  { id: 'calls', title: 'Calls', group: 'AI clients', tag: 'view-calls', secondary: true, load: () => import('./views/calls.js') },
  { id: 'connect', title: 'Connect', group: 'AI clients', tag: 'view-connect', secondary: true, load: () => import('./views/connect.js') },
  { id: 'tools', title: 'Tools', group: 'AI clients', tag: 'view-tools', secondary: true, load: () => import('./views/tools.js') },
  { id: 'health', title: 'Health', group: 'Daemon', tag: 'view-health', load: () => import('./views/health.js') },
];

/** Why a session ended, and what to do. @type {Record<string, string>} */
const ENDS = {
  logout: 'You closed this session.',
  revoked: 'This session was revoked.',
  expired: 'This session has ended after 12 hours.',
  idle: 'This session has ended after two hours without use.',
  stopping: 'The daemon has stopped.',
  ended: 'This session has ended.',
};

class ConsoleApp extends View {
  static topics = ['status', 'question', 'toasts', 'config', 'circuit', 'learning', 'modes'];
  static properties = { page: { state: true }, loaded: { state: true }, loginError: { state: true }, expanded: { state: true } };

  constructor() {
    super();
    this.page = 'now';
    this.loaded = new Set(['now', 'approvals']);
    this.loginError = '';
    this.expanded = false;
    /** @type {HTMLElement | null} */
    this.element = null;
  }

  firstUpdated() {
    document.querySelector('.boot')?.remove();
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener('hashchange', () => this.route());
    addEventListener('keydown', (event) => this.shortcut(event));
    document.addEventListener('visibilitychange', () => this.reportVisibility());
    store.addEventListener('change', (event) => {
      if (/** @type {CustomEvent<Set<string>>} */ (event).detail.has('connection')) this.reportVisibility();
    });
    setInterval(() => this.requestUpdate(), 10_000);
    this.start();
  }

  async start() {
    const secret = new URLSearchParams(location.hash.slice(1)).get('login');
    if (secret) {
      // The secret must not stay in the address bar or in the history.
      history.replaceState(null, '', '/#/now');
      try {
        await api.login(secret);
      } catch (error) {
        this.loginError = error instanceof Error ? error.message : String(error);
      }
    }
    this.route();
    if (api.key()) store.open();
  }

  reportVisibility() {
    if (store.connection === 'open') api.front(document.visibilityState === 'visible').catch(() => {});
  }

  async route() {
    if (location.hash.startsWith('#login=')) {
      this.start();
      return;
    }
    const id = location.hash.replace(/^#\/?/, '').split('?')[0] || 'now';
    const page = PAGES.find((it) => it.id === id) ?? PAGES[0];
    if (!page) return;
    this.expanded = false;
    this.page = page.id;
    document.title = `${page.title} · Conductor`;
    if (this.loaded.has(page.id)) {
      this.requestUpdate();
      return;
    }
    await page.load();
    this.loaded.add(page.id);
    this.requestUpdate();
  }

  /** @param {KeyboardEvent} event */
  shortcut(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      if (store.state) openPalette(PAGES);
    }
  }

  updated() {
    const host = this.querySelector('.view');
    const page = PAGES.find((it) => it.id === this.page);
    if (!host || !page || !this.loaded.has(page.id)) return;
    if (this.element?.localName === page.tag && this.element.isConnected) return;
    this.element = document.createElement(page.tag);
    host.replaceChildren(this.element);
    host.scrollTop = 0;
  }

  render() {
    if (store.connection === 'login' || !store.state) return this.outside();
    return html`<div class="shell">
      ${this.navigation()}
      <main class="main">
        ${this.notices()}
        <div class="view" tabindex="-1"></div>
      </main>
    </div>
    <div class="toasts" role="status" aria-live="polite">${repeat(toasts, (it) => it.id, (it) => html`<div class="toast ${it.bad ? 'bad' : ''}">${name(it.text, 400)}</div>`)}</div>`;
  }

  outside() {
    if (api.key() && store.connection !== 'login') {
      return html`<main class="login"><p class="dim" role="status">${store.connection === 'lost' ? 'The daemon cannot be reached. Trying again…' : 'Opening the studio…'}</p></main>`;
    }
    return html`<main class="login"><section class="panel">
      <div class="brand">${logo} Conductor</div>
      <h1>${this.loginError ? 'This link cannot be used' : store.endReason ? 'Signed out' : 'Open the console from your terminal'}</h1>
      ${this.loginError ? html`<p class="bad" role="alert">${name(this.loginError, 200)}</p>` : nothing}
      ${store.endReason && !this.loginError ? html`<p role="status">${ENDS[store.endReason] ?? ENDS.ended}</p>` : nothing}
      <p>This command prints a link that opens this page. The link works once, for 60 seconds.</p>
      <pre class="code">conductor console --open</pre>
      <p class="dim small">There is no password. Only a person at a terminal can open a session; programs cannot.</p>
    </section></main>`;
  }

  navigation() {
    const waiting = store.waiting.length;
    const held = store.state?.waiting.needs_a_person ? 1 : 0;
    const tripped = store.state?.circuits.filter((it) => it.state === 'Tripped').length ?? 0;
    /** @type {Record<string, import('./vendor/lit.js').TemplateResult | typeof nothing>} */
    const badges = {
      approvals: waiting + held ? html`<span class="badge" aria-label="${waiting + held} waiting">${waiting + held}</span>` : nothing,
      health: tripped ? html`<span class="badge bad-badge" aria-label="${tripped} breakers open">${tripped}</span>` : nothing,
    };
    const groups = [...new Set(PAGES.map((it) => it.group))];
    return html`<nav class="nav" aria-label="Views">
      <div class="brand">${logo} Conductor</div>
      ${groups.map((group) => html`<div class="nav-group">${group}</div>
        ${PAGES.filter((it) => it.group === group).map((it) => html`<a class=${it.secondary ? 'secondary' : ''} href="#/${it.id}" aria-current=${this.page === it.id ? 'page' : 'false'}>${icon(it.id)}<span>${it.title}</span>${badges[it.id] ?? nothing}</a>`)}`)}
      <button class="more-nav" type="button" @click=${() => openPalette(PAGES)}>${icon('more')}<span>More</span></button>
      <div class="nav-foot">
        <button class="palette-hint" type="button" @click=${() => openPalette(PAGES)}><span>Find anything</span><kbd>Ctrl K</kbd></button>
        <div class="row"><span class="dot ${store.connection === 'open' ? 'on' : 'bad'}"></span><span class="grow">${store.connection === 'open' ? `up ${duration(store.now() - store.startedAt)}` : 'not connected'}</span>
        <button class="btn quiet small" type="button" @click=${() => this.leave()}>Sign out</button></div>
      </div>
    </nav>`;
  }

  async leave() {
    const answer = await dialog('Sign out?', html`<p>To open the console again, you need a new link from your terminal: <code>conductor console</code></p>`, [
      { label: 'Stay', value: '' }, { label: 'Sign out', value: 'yes', kind: 'primary' },
    ]);
    if (answer !== 'yes') return;
    await api.logout().catch(() => say('The daemon cannot be reached.', true));
    api.forget();
    store.end('logout');
  }

  notices() {
    const state = store.state;
    if (!state) return nothing;
    const { config, performance_lock } = state.status;
    return html`
      ${store.connection === 'lost' ? html`<div class="notice bad" role="alert">The daemon cannot be reached. The page shows the last known state and tries again.</div>` : nothing}
      ${store.missed ? html`<div class="notice" role="status">This page was too slow and missed ${store.missed} events. It shows the current state again.<button class="btn small" @click=${() => { store.missed = 0; store.touch('connection'); }}>Dismiss</button></div>` : nothing}
      ${config.error ? html`<div class="notice bad" role="alert"><span>config.toml is not in force: ${name(config.error, 160)}</span></div>` : nothing}
      ${state.waiting.needs_a_person && this.page !== 'approvals' ? html`<div class="notice" role="status"><span>A change to config.toml waits for you: ${plain(state.waiting.held.join(', '), 120)}</span><a class="btn small" href="#/approvals">Review</a></div>` : nothing}
      ${performance_lock ? html`<div class="notice" role="status">Performance lock: AI clients cannot change modes or send MIDI.<button class="btn small" @click=${() => api.decide({ decision: 'performance_lock', on: false })}>Unlock</button></div>` : nothing}`;
  }
}
customElements.define('console-app', ConsoleApp);
