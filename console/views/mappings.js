// Mappings: every row with its last firing. A row can be learned by touch, edited as a plan, and simulated.

import { html, nothing, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { call, fail, propose, say } from '../lib/actions.js';
import { OUTCOMES, parse } from '../lib/events.js';
import { ago, count, countdown, micros } from '../lib/format.js';
import { ACTIONS, TRIGGERS, actionText, continuousText, scriptFor, triggerText } from '../lib/rules.js';
import { store, View } from '../lib/store.js';
import { lines, name, plain, short } from '../lib/text.js';
import { field, typed } from '../parts/fields.js';

/** @typedef {import('../contract.d.ts').ModeMappings} ModeMappings */
/** @typedef {import('../contract.d.ts').JsonObject} JsonObject */
/** @typedef {{ mode: string, id: string, kind: 'mapping' | 'continuous', from: string, to: string, device: string, description: string, enabled: boolean, trigger: JsonObject, action: JsonObject }} Row */

const MOST_ROWS = 400;
const LEARN_MS = 30_000;

class ViewMappings extends View {
  static topics = ['meters', 'config', 'learning', 'modes', 'trace'];
  static reloadTopics = ['config'];
  static properties = {
    modes: { state: true }, problems: { state: true }, search: { state: true }, mode: { state: true }, chosen: { state: true }, draft: { state: true },
    tab: { state: true }, simulation: { state: true }, learning: { state: true }, learned: { state: true }, toml: { state: true }, file: { state: true },
  };

  constructor() {
    super();
    /** @type {ModeMappings[] | null} */
    this.modes = null;
    /** @type {import('../contract.d.ts').Problem[]} */
    this.problems = [];
    this.search = '';
    this.mode = '';
    /** `mode/id` of the chosen row. */
    this.chosen = '';
    /** The row that is edited in the form; a row without an id is new. @type {{ id: string, mode: string, description: string, enabled: boolean, trigger: JsonObject, action: JsonObject } | null} */
    this.draft = null;
    this.tab = 'form';
    this.toml = '';
    /** @type {import('../contract.d.ts').Reads['simulate']['answer'] | null} */
    this.simulation = null;
    /** Whether this page waits for a touch. */
    this.learning = false;
    /** @type {{ suggestions: JsonObject[], info: any[] } | null} */
    this.learned = null;
    /** The text of config.toml, if it is shown. @type {string | null} */
    this.file = null;
    /** Number of the last trace record before the learn session. */
    this.learnFrom = 0;
    this.timer = 0;
    this.settle = 0;
    /** @param {Event} event */
    this.onRecords = (event) => this.heard(/** @type {CustomEvent<import('../contract.d.ts').TraceRecord[]>} */ (event).detail);
    this.onHash = () => this.open();
  }

  connectedCallback() {
    super.connectedCallback();
    store.addEventListener('records', this.onRecords);
    addEventListener('hashchange', this.onHash);
    this.timer = setInterval(() => this.requestUpdate(), 1000);
    this.load().then(() => this.open());
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    store.removeEventListener('records', this.onRecords);
    removeEventListener('hashchange', this.onHash);
    clearInterval(this.timer);
    clearTimeout(this.settle);
    if (this.learning) this.stopLearning();
  }

  async load() {
    try {
      const answer = await api.read('mappings', {});
      this.modes = answer.modes;
      this.problems = answer.problems;
    } catch (error) {
      fail(error);
    }
  }

  /** Opens the row, the file or the learn session that the address names. */
  open() {
    const params = new URLSearchParams(location.hash.split('?')[1] ?? '');
    if (params.has('learn') && !this.learning) {
      history.replaceState(null, '', '#/mappings');
      this.learn();
    }
    if (params.has('file')) this.showFile();
    const row = this.rows().find((it) => it.id === params.get('id') && (!params.get('mode') || it.mode === params.get('mode')));
    if (row) this.choose(row);
  }

  async showFile() {
    try {
      this.file = (await api.read('config', {})).text ?? '';
      this.draft = null;
      this.chosen = '';
      await import('../parts/editor.js');
    } catch (error) {
      fail(error);
    }
  }

  /** @returns {Row[]} */
  rows() {
    return (this.modes ?? []).flatMap((mode) => [
      ...mode.mappings.map((it) => /** @type {Row} */ ({ mode: mode.mode, id: it.id, kind: 'mapping', from: triggerText(it.trigger), to: actionText(it.action), device: String(it.trigger.device ?? ''), description: it.description ?? '', enabled: it.enabled, trigger: it.trigger, action: it.action })),
      ...mode.continuous.map((it) => { const source = /** @type {JsonObject} */ (it.source ?? {}); return /** @type {Row} */ ({ mode: mode.mode, id: it.id, kind: 'continuous', from: triggerText(source), to: continuousText(it), device: String(source.device ?? ''), description: it.description ?? '', enabled: it.enabled, trigger: source, action: it }); }),
    ]);
  }

  /** @param {Row} row */
  choose(row) {
    this.chosen = `${row.mode}/${row.id}`;
    this.file = null;
    this.learned = null;
    this.simulation = null;
    this.tab = row.kind === 'mapping' ? 'form' : 'toml';
    this.draft = { id: row.id, mode: row.mode, description: row.description, enabled: row.enabled, trigger: { ...row.trigger }, action: { ...row.action } };
    if (this.tab === 'toml') this.showToml();
  }

  async showToml() {
    const draft = this.draft;
    if (!draft) return;
    this.tab = 'toml';
    try {
      const [answer] = await Promise.all([api.read('mapping_toml', { mode: draft.mode, id: draft.id }), import('../parts/editor.js')]);
      this.toml = answer.toml;
    } catch (error) {
      fail(error);
    }
  }

  async learn() {
    this.draft = null;
    this.chosen = '';
    this.file = null;
    this.learned = null;
    this.learnFrom = Math.max(0, store.state?.trace.at(-1)?.seq ?? -1);
    const started = await call('conductor_start_midi_learn', { timeout_ms: LEARN_MS });
    if (!started) return;
    this.learning = true;
  }

  /** Ends the session shortly after the last touch, so that a gesture is complete. @param {import('../contract.d.ts').TraceRecord[]} records */
  heard(records) {
    if (!this.learning || !records.some((it) => it.seq > this.learnFrom && it.event)) return;
    clearTimeout(this.settle);
    this.settle = setTimeout(() => this.stopLearning(), 900);
  }

  async stopLearning() {
    if (!this.learning) return;
    this.learning = false;
    clearTimeout(this.settle);
    const answer = await call('conductor_stop_midi_learn');
    const report = /** @type {any} */ (answer?.result);
    if (!report) return;
    if (!report.suggestions?.length) {
      say('Nothing was played. Touch the control while the page listens.', true);
      return;
    }
    this.learned = { suggestions: report.suggestions, info: report.suggestion_info ?? [] };
    this.take(report.suggestions[0]);
  }

  /** Starts a new row with a learned trigger. @param {JsonObject} trigger */
  take(trigger) {
    // A device that no trigger uses is most likely an instrument.
    const played = new Set(this.rows().map((it) => it.device));
    const devices = store.state?.bindings.device_bindings.filter((it) => it.is_configured && it.device_id !== trigger.device) ?? [];
    const port = (devices.find((it) => !played.has(it.device_id)) ?? devices[0])?.device_id ?? '';
    this.tab = 'form';
    this.simulation = null;
    this.draft = { id: '', mode: store.state?.modes.current ?? '', description: this.draft?.description ?? '', enabled: true, trigger, action: this.draft && !this.draft.id ? this.draft.action : { type: 'SendMidi', ...ACTIONS.SendMidi, port } };
  }

  /** @param {Partial<NonNullable<ViewMappings['draft']>>} change */
  edit(change) {
    if (this.draft) this.draft = { ...this.draft, ...change };
  }

  async save() {
    const draft = this.draft;
    if (!draft) return;
    let { trigger, action, description, enabled } = draft;
    if (this.tab === 'toml') {
      const editor = /** @type {HTMLElement & { value: string } | null} */ (this.querySelector('text-editor'));
      try {
        const { row } = await api.read('parse_mapping', { toml: editor?.value ?? '' });
        if (!row.trigger) {
          const { id } = draft;
          const applied = await propose('conductor_plan_changes', { description: `Change ${draft.id}`, changes: [{ change_type: 'DeleteContinuous', mode: draft.mode, id }, { change_type: 'CreateContinuous', mode: draft.mode, continuous: row }] });
          if (applied) this.load();
          return;
        }
        trigger = /** @type {JsonObject} */ (row.trigger);
        action = /** @type {JsonObject} */ (row.action);
        description = String(row.description ?? '');
        enabled = row.enabled !== false;
      } catch (error) {
        fail(error);
        return;
      }
    }
    const applied = draft.id
      ? await propose('conductor_update_mapping', { mode: draft.mode, id: draft.id, trigger, action, enabled, ...(description ? { description } : {}) })
      : await propose('conductor_create_mapping', { mode: draft.mode, trigger, action, ...(description ? { description } : {}) });
    if (!applied) return;
    if (!draft.id) this.draft = null;
    this.learned = null;
    await this.load();
  }

  async remove() {
    const draft = this.draft;
    if (!draft) return;
    const row = this.rows().find((it) => `${it.mode}/${it.id}` === this.chosen);
    const applied = row?.kind === 'continuous'
      ? await propose('conductor_plan_changes', { changes: [{ change_type: 'DeleteContinuous', mode: draft.mode, id: draft.id }] })
      : await propose('conductor_delete_mapping', { mode: draft.mode, id: draft.id });
    if (!applied) return;
    this.draft = null;
    this.chosen = '';
    await this.load();
  }

  /** @param {string} events */
  async simulate(events) {
    const draft = this.draft;
    if (!draft) return;
    try {
      this.simulation = await api.read('simulate', draft.mode === '*' ? { events } : { events, mode: draft.mode });
    } catch (error) {
      fail(error);
    }
  }

  render() {
    const state = store.state;
    if (!state || !this.modes) return html`<div class="head"><h1>Mappings</h1></div>`;
    const all = this.rows();
    const query = this.search.trim().toLowerCase();
    const found = all.filter((it) => (!this.mode || it.mode === this.mode) && (!query || `${it.id} ${it.from} ${it.to} ${it.device} ${it.description} ${it.mode}`.toLowerCase().includes(query)));
    const names = [...new Set(all.map((it) => it.mode))];
    return html`
      <div class="head"><h1>Mappings</h1>
        <input class="input search" type="search" aria-label="Search mappings" placeholder="Search" .value=${this.search} @input=${(/** @type {InputEvent} */ event) => { this.search = /** @type {HTMLInputElement} */ (event.target).value; }}>
        <div class="segments" role="group" aria-label="Mode"><button type="button" aria-pressed=${!this.mode} @click=${() => { this.mode = ''; }}>All</button>${names.map((it) => html`<button type="button" aria-pressed=${this.mode === it} @click=${() => { this.mode = it; }}>${it === '*' ? 'Global' : short(it, 24)}</button>`)}</div>
        <span class="grow"></span>
        <button class="btn quiet hide-narrow" type="button" @click=${() => this.showFile()}>config.toml</button>
        <button class="btn primary" type="button" @click=${() => this.learn()}>Learn by touching</button>
      </div>
      <div class="mapping-grid ${this.draft || this.learning || this.file !== null ? 'editing' : ''}">
        <section class="panel scroll" aria-label="Mappings" tabindex="0">${found.length ? html`<table><thead><tr><th>Control</th><th>Action</th><th class="hide-narrow">Mode</th><th class="num hide-narrow">Fired</th><th class="num">Last</th></tr></thead>
          <tbody>${repeat(found.slice(0, MOST_ROWS), (it) => `${it.mode}/${it.id}`, (it) => this.row(it, state))}</tbody></table>
          ${found.length > MOST_ROWS ? html`<p class="dim small more-rows">${found.length - MOST_ROWS} more rows: use the search.</p>` : nothing}` : html`<div class="empty"><strong>${all.length ? 'No mapping matches' : 'No mapping yet'}</strong><p>${all.length ? 'Try another word, or another mode.' : 'Press “Learn by touching”, touch a control, and choose what it does.'}</p></div>`}</section>
        <div class="side-panel">${this.learning ? this.listening(state) : this.file !== null ? this.fileView() : this.draft ? this.form() : this.hint(state)}</div>
      </div>`;
  }

  /** Firings of a row. A global row fires in every mode. @param {Row} it @param {import('../contract.d.ts').State} state */
  fired(it, state) {
    const modes = it.mode === '*' ? state.modes.modes.map((mode) => mode.name) : [it.mode];
    const found = modes.map((mode) => state.meters.firings[`${mode}/${it.id}`]).filter((firing) => firing !== undefined);
    if (!found.length) return null;
    return { count: found.reduce((sum, firing) => sum + firing.count, 0), last_us: Math.max(...found.map((firing) => firing.last_us)) };
  }

  /** @param {Row} it @param {import('../contract.d.ts').State} state */
  row(it, state) {
    const own = this.fired(it, state);
    const problems = this.problems.filter((problem) => problem.mapping_id === it.id && (!problem.mode || problem.mode === it.mode));
    const key = `${it.mode}/${it.id}`;
    return html`<tr class="link" aria-selected=${key === this.chosen} tabindex="0" data-mapping=${plain(key, 200)} @click=${() => this.choose(it)} @keydown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter') this.choose(it); }}>
      <td><div class="row"><strong>${name(it.id, 30)}</strong>${it.enabled ? nothing : html`<span class="chip warn">off</span>`}${problems.map((problem) => html`<span class="chip ${problem.severity === 'error' ? 'bad' : 'warn'}" title=${plain(problem.message, 300)}>${problem.severity === 'error' ? 'fault' : /wait|ms/.test(problem.message) ? 'waits' : 'conflict'}</span>`)}</div><span class="dim small">${name(it.from, 60)}${it.device ? html` on ${name(it.device, 24)}` : nothing}</span></td>
      <td><span>${name(it.to, 70)}</span>${it.description ? html`<br><span class="dim small">${name(it.description, 90)}</span>` : nothing}</td>
      <td class="hide-narrow dim one">${it.mode === '*' ? 'global' : name(it.mode, 20)}</td>
      <td class="num hide-narrow">${own ? count(own.count) : html`<span class="dim">–</span>`}</td><td class="num dim">${own ? ago(store.now() - store.wall(own.last_us)) : '–'}</td></tr>`;
  }

  /** @param {import('../contract.d.ts').State} state */
  hint(state) {
    const faults = state.status.config.fault_lines;
    return html`<section class="panel"><div class="empty"><strong>Choose a mapping</strong><p>Its trigger and action open here, as a form or as TOML. Every change is shown as a diff before it takes effect.</p></div></section>
      ${this.problems.length || faults.length ? html`<section class="panel"><header><h2>Conflicts and delays</h2></header><ul class="problems">${this.problems.slice(0, 50).map((it) => html`<li><span class="dot ${it.severity === 'error' ? 'bad' : 'warn'}"></span><span>${lines(it.message)}${it.line ? html` <span class="dim">line ${it.line}</span>` : nothing}</span></li>`)}</ul></section>` : nothing}`;
  }

  /** @param {import('../contract.d.ts').State} state */
  listening(state) {
    const left = state.learning ? Date.parse(state.learning.until) - store.now() : LEARN_MS;
    const last = state.trace.filter((it) => it.seq > this.learnFrom && it.event).slice(-5).reverse();
    return html`<section class="panel" aria-label="Learning" aria-live="polite"><header><span class="dot accent pulse"></span><h2>Touch a control</h2><span class="grow"></span><span class="dim">${countdown(left)}</span></header>
      <div class="body stack"><p>Press a pad, hold it, tap it twice, or turn a knob both ways. Actions are suspended. You can also play the pads of the <a href="#/now">Now</a> view in another window.</p>
        ${this.virtual()}
        <ul class="heard">${last.map((it) => html`<li><strong>${name(parse(it.event).text, 40)}</strong> <span class="dim">${name(it.device, 30)}</span></li>`)}</ul>
        <div class="row"><button class="btn" type="button" @click=${() => this.stopLearning()}>Done</button></div></div></section>`;
  }

  /** A few virtual pads, for a studio without hardware. */
  virtual() {
    const device = store.state?.bindings.device_bindings.find((it) => it.is_configured && it.connected)?.device_id;
    if (!device) return nothing;
    /** @param {number} note */
    const tap = (note) => api.play(`on:${note}@100`, device).then(() => api.play(`off:${note}`, device)).catch(fail);
    return html`<div class="section"><h3>Or tap a virtual pad of ${name(device, 30)}</h3><div class="row wrap">${[36, 40, 41, 46, 47, 48].map((note) => html`<button class="btn small" type="button" data-virtual=${note} @click=${() => tap(note)}>${note}</button>`)}</div></div>`;
  }

  form() {
    const draft = this.draft;
    if (!draft) return nothing;
    const isNew = !draft.id;
    const row = this.rows().find((it) => `${it.mode}/${it.id}` === this.chosen);
    const continuous = row?.kind === 'continuous';
    const modes = [...(store.state?.modes.modes.map((it) => it.name) ?? []), '*'];
    return html`<section class="panel" aria-label="Mapping"><header><h2 class="grow cut">${isNew ? 'New mapping' : name(draft.id, 40)}</h2>
        ${isNew || continuous ? nothing : html`<div class="segments" role="group" aria-label="Edit as"><button type="button" aria-pressed=${this.tab === 'form'} @click=${() => { this.tab = 'form'; }}>Form</button><button type="button" aria-pressed=${this.tab === 'toml'} @click=${() => this.showToml()}>TOML</button></div>`}
        <button class="btn small quiet" type="button" aria-label="Close" @click=${() => { this.draft = null; this.chosen = ''; this.learned = null; }}>✕</button></header>
      <div class="body stack">
        ${this.learned ? html`<div class="section"><h3>Learned</h3><div class="row wrap">${this.learned.suggestions.slice(0, 6).map((it) => html`<button class="btn small" type="button" aria-pressed=${JSON.stringify(it) === JSON.stringify(draft.trigger)} @click=${() => this.take(it)}>${short(triggerText(it), 40)}</button>`)}</div></div>` : nothing}
        ${this.tab === 'toml' ? html`<text-editor class="editor" label="TOML of the mapping" .value=${this.toml}></text-editor>` : html`
          <div class="pair">${isNew ? field('mode', draft.mode, (mode) => this.edit({ mode: String(mode) }), { choices: modes, required: true }) : html`<span class="field"><span>mode</span><span class="static">${draft.mode === '*' ? 'global' : name(draft.mode, 30)}</span></span>`}
          ${isNew ? nothing : html`<span class="field"><span>state</span>${field('enabled', draft.enabled, (enabled) => this.edit({ enabled: enabled === true }))}</span>`}</div>
          ${field('description', draft.description, (text) => this.edit({ description: String(text ?? '') }), { schema: { type: 'string' } })}
          ${typed('Trigger', draft.trigger, TRIGGERS, (trigger) => this.edit({ trigger }))}
          ${typed('Action', draft.action, ACTIONS, (action) => this.edit({ action }))}`}
        ${continuous ? nothing : this.tryOut(draft)}
      </div>
      <div class="decide"><button class="btn primary" type="button" @click=${() => this.save()}>Preview the change</button><span class="grow"></span>${isNew ? nothing : html`<button class="btn danger" type="button" @click=${() => this.remove()}>Delete…</button>`}</div>
    </section>`;
  }

  /** @param {NonNullable<ViewMappings['draft']>} draft */
  tryOut(draft) {
    const script = scriptFor(draft.trigger);
    return html`<div class="section"><h3>Simulate with the configuration in force</h3>
      <form class="row" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); this.simulate(/** @type {HTMLInputElement} */ (this.querySelector('.sim input')).value); }}>
        <span class="grow sim"><input class="input mono" aria-label="Event script" .value=${script} spellcheck="false"></span><button class="btn" type="submit">Simulate</button></form>
      ${this.simulation ? html`<ol class="sim-result">${this.simulation.trace.slice(0, 30).map((it) => html`<li><span class="num dim">${micros(it.at_us)}</span><span class="chip ${OUTCOMES[it.outcome].kind}">${OUTCOMES[it.outcome].word}</span><span class="cut">${name(it.mapping_id ?? parse(it.event).text, 40)} <span class="dim">${name(it.action ?? it.reason, 60)}</span></span></li>`)}${this.simulation.trace.length ? nothing : html`<li class="dim">Nothing would happen.</li>`}</ol>` : nothing}</div>`;
  }

  fileView() {
    return html`<section class="panel" aria-label="config.toml"><header><h2 class="grow">config.toml in force</h2><button class="btn small quiet" type="button" aria-label="Close" @click=${() => { this.file = null; }}>✕</button></header>
      <div class="body stack"><p class="dim small">Edit the file in your own editor: the daemon reads it after each save. Single rows can be edited here.</p><pre class="code file" tabindex="0">${lines(this.file)}</pre></div></section>`;
  }
}
customElements.define('view-mappings', ViewMappings);
