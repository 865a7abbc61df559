// Connect: the AI clients on this machine, the clients that called a tool recently, and the open
// consoles.

import { html, nothing } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { decideOne, dialog, fail, say } from '../lib/actions.js';
import { ago, count } from '../lib/format.js';
import { store, View } from '../lib/store.js';
import { homely, lines, name } from '../lib/text.js';
import { who } from '../parts/question.js';

/** @typedef {import('../contract.d.ts').ClientSetup} ClientSetup */

/** @type {Record<ClientSetup['state'], { word: string, kind: string }>} */
const STATES = {
  connected: { word: 'has an entry', kind: 'good' }, not_connected: { word: 'has no entry', kind: 'warn' },
  not_installed: { word: 'not on this machine', kind: '' }, unreadable: { word: 'its file cannot be read', kind: 'bad' },
};

class ViewConnect extends View {
  static topics = ['call.ended', 'sessions'];
  static properties = { answer: { state: true }, sessions: { state: true } };

  constructor() {
    super();
    /** @type {import('../contract.d.ts').Reads['clients']['answer'] | null} */
    this.answer = null;
    /** @type {import('../contract.d.ts').SessionNow[]} */
    this.sessions = [];
  }

  connectedCallback() {
    super.connectedCallback();
    this.load();
  }

  async load() {
    try {
      const [answer, sessions] = await Promise.all([api.read('clients', {}), api.read('sessions', {})]);
      this.answer = answer;
      this.sessions = sessions.sessions;
    } catch (error) {
      fail(error);
    }
  }

  /** @param {ClientSetup} client @param {boolean} connect */
  async set(client, connect) {
    const sure = await dialog(connect ? `Connect ${client.title}?` : `Disconnect ${client.title}?`, html`<p>${connect ? 'Conductor adds this entry to' : 'Conductor removes its entry from'} <code>${name(homely(client.file ?? ''), 120)}</code>. Other entries stay as they are.</p>${connect ? html`<pre class="code">${lines(client.snippet)}</pre>` : nothing}`, [{ label: 'Cancel', value: '' }, { label: connect ? 'Write the file' : 'Remove the entry', value: 'yes', kind: 'primary' }]);
    if (sure !== 'yes') return;
    if (await decideOne(connect ? { decision: 'connect_client', client: client.client } : { decision: 'disconnect_client', client: client.client })) say(connect ? `Restart ${client.title} to connect it to Conductor.` : 'The entry is removed.');
    await this.load();
  }

  /** @param {string} session */
  async revoke(session) {
    if (await decideOne({ decision: 'revoke_session', session })) await this.load();
  }

  /** @param {ClientSetup} client */
  show(client) {
    dialog(client.title, html`<p>Add this entry to the MCP configuration of the client:</p><pre class="code">${lines(client.snippet)}</pre>`, [{ label: 'Close', value: '' }]);
  }

  render() {
    const answer = this.answer;
    if (!answer) return html`<div class="head"><h1>Connect</h1></div>`;
    return html`<div class="head"><h1>Connect</h1><span class="sub hide-narrow">AI clients that can use this studio</span></div><div class="stack gap">
      <section class="panel scroll" aria-label="Clients of this studio" tabindex="0"><header><h2>Used lately</h2></header>${answer.connected.length ? html`<table><thead><tr><th>Client</th><th class="num">Calls</th><th class="num">Last seen</th></tr></thead><tbody>${answer.connected.slice(0, 100).map((it) => html`<tr><td><strong>${name(who(it.principal).client, 40)}</strong> <span class="dim small">${name(it.principal, 60)}</span></td><td class="num">${count(it.calls)}</td><td class="num dim">${ago(store.now() - Date.parse(it.last_seen))}</td></tr>`)}</tbody></table>` : html`<div class="empty"><p>No client has called a tool yet. Connect one below, restart it, and ask it about your studio.</p></div>`}</section>
      <section class="panel" aria-label="On this machine"><header><h2>On this machine</h2></header><ul>${answer.clients.map((it) => html`<li class="client"><span class="grow"><strong>${name(it.title, 40)}</strong> <span class="chip ${STATES[it.state].kind}">${STATES[it.state].word}</span><br><span class="dim small">${it.detail ? lines(homely(it.detail)) : name(homely(it.file ?? 'has no file that Conductor can write'), 120)}</span></span>
        ${it.state === 'connected' ? html`<button class="btn small" type="button" @click=${() => this.set(it, false)}>Remove…</button>` : it.file && it.state === 'not_connected' ? html`<button class="btn small primary" type="button" @click=${() => this.set(it, true)}>Connect…</button>` : html`<button class="btn small" type="button" @click=${() => this.show(it)}>Show the entry</button>`}</li>`)}</ul></section>
      <section class="panel" aria-label="Open consoles"><header><h2>Open consoles</h2></header><ul>${this.sessions.map((it) => html`<li class="client"><span class="grow"><code>${name(it.session, 40)}</code> ${it.session === store.state?.session.session ? html`<span class="chip accent">this page</span>` : nothing}<br><span class="dim small">last used ${ago(store.now() - Date.parse(it.last_seen))}</span></span><button class="btn small danger" type="button" @click=${() => this.revoke(it.session)}>Revoke</button></li>`)}</ul></section></div>`;
  }
}
customElements.define('view-connect', ViewConnect);
