// Tools: shows every tool with a form that is built from its schema. The person's calls go through
// the pipeline.

import { html, nothing, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { call, fail, review } from '../lib/actions.js';
import { ListView } from '../lib/store.js';
import { lines, name, plain, short } from '../lib/text.js';
import { picture } from '../parts/drawing.js';
import '../parts/drawing.js';
import { field } from '../parts/fields.js';
import { tier } from '../parts/question.js';

/** @typedef {import('../contract.d.ts').ToolNow} Tool */

/** @type {Record<Tool['decision'], string>} */
const DECISIONS = { allow: 'runs at once', ask: 'asks you first', plan: 'makes a plan', deny: 'is denied by policy' };

class ViewTools extends ListView {
  static topics = ['tools'];
  static properties = { tools: { state: true }, search: { state: true }, chosen: { state: true }, args: { state: true }, answer: { state: true }, busy: { state: true } };

  constructor() {
    super();
    /** @type {Tool[]} */
    this.tools = [];
    this.search = '';
    this.chosen = '';
    /** @type {import('../contract.d.ts').JsonObject} */
    this.args = {};
    /** @type {import('../contract.d.ts').CallAnswer | null} */
    this.answer = null;
    this.busy = false;
    this.onHash = () => {
      const wanted = new URLSearchParams(location.hash.split('?')[1] ?? '').get('name');
      if (wanted) this.choose(wanted);
    };
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener('hashchange', this.onHash);
    api.read('tools', {}).then((it) => {
      this.tools = it.tools.toSorted((a, b) => a.name.localeCompare(b.name));
      this.onHash();
    }, fail);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener('hashchange', this.onHash);
  }

  /** @param {string} tool */
  choose(tool) {
    this.chosen = tool;
    this.open = true;
    this.answer = null;
    this.args = { ...this.tools.find((it) => it.name === tool)?.example };
  }

  async run() {
    this.busy = true;
    this.answer = await call(this.chosen, this.args);
    this.busy = false;
    const plan = /** @type {any} */ (this.answer?.result)?.plan_id;
    if (typeof plan === 'string' && /** @type {any} */ (this.answer?.result)?.status === 'pending') await review(plan);
  }

  render() {
    const query = this.search.trim().toLowerCase();
    const found = this.tools.filter((it) => !query || `${it.name} ${it.title} ${it.toolset} ${it.tier}`.toLowerCase().includes(query));
    const tool = this.tools.find((it) => it.name === this.chosen) ?? null;
    return html`<div class="head"><h1>Tools</h1><input class="input search" type="search" aria-label="Search tools" placeholder="Search" @input=${(/** @type {InputEvent} */ event) => { this.search = /** @type {HTMLInputElement} */ (event.target).value; }}><span class="sub">${found.length} of ${this.tools.length}</span></div>
      <div class=${this.sides}><section class="panel scroll" aria-label="Tools" tabindex="0">${repeat(found.slice(0, 300), (it) => it.name, (it) => html`<button type="button" class="ask slim" aria-current=${it.name === this.chosen} @click=${() => this.choose(it.name)}><span class="top"><strong class="cut">${short(it.name, 40)}</strong></span><span class="row small dim"><span class="grow cut">${short(it.title, 50)}</span>${it.toolset}</span></button>`)}${found.length ? nothing : html`<div class="empty"><p>No tool has this name.</p></div>`}</section>
        <section class="panel detail" aria-label="Tool">${tool ? this.form(tool) : html`<div class="empty"><strong>Choose a tool</strong><p>These are the tools that AI clients see. Your own calls go through the same pipeline: they are validated, checked by policy and recorded.</p></div>`}</section></div>`;
  }

  /** @param {Tool} tool */
  form(tool) {
    const schema = /** @type {any} */ (tool.input_schema);
    const required = new Set(schema.required ?? []);
    const properties = Object.entries(/** @type {Record<string, any>} */ (schema.properties ?? {}));
    const image = picture(this.answer);
    return html`<div class="question"><div class="row wrap">${this.back()}<h2 class="grow">${name(tool.title, 60)}</h2>${tier(tool.tier)}<span class="chip">${DECISIONS[tool.decision] ?? ''}</span></div>
      <code>${name(tool.name, 80)}</code><p class="dim">${lines(tool.description)}</p>
      <form class="tool-form" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); this.run(); }}>${properties.map(([key, it]) => field(key, this.args[key], (value) => { const next = { ...this.args }; if (value === undefined) delete next[key]; else next[key] = value; this.args = next; }, { choices: this.choices(it), schema: { type: this.kind(it) }, required: required.has(key), help: plain(it.description ?? '', 240) }))}
        ${properties.length ? nothing : html`<p class="dim small">No arguments.</p>`}<div class="row"><button class="btn primary" type="submit" ?disabled=${this.busy || tool.decision === 'deny'}>${this.busy ? 'Running…' : 'Call'}</button></div></form>
      ${this.answer ? html`<div class="section" role="status"><h3>${this.answer.is_error ? 'Error' : 'Answer'}</h3><pre class="code" tabindex="0">${lines(JSON.stringify(this.answer.result, null, 2).slice(0, 60_000))}</pre>${image ? html`<console-drawing .blob=${image} .label=${'Picture of the answer'}></console-drawing>` : nothing}</div>` : nothing}</div>`;
  }

  /** The type of a property, without null. @param {any} schema */
  kind(schema) {
    const type = Array.isArray(schema.type) ? schema.type.find((/** @type {string} */ it) => it !== 'null') : schema.type;
    return type ?? 'object';
  }

  /** @param {any} schema @returns {string[] | undefined} */
  choices(schema) {
    const list = schema.enum ?? schema.oneOf?.map((/** @type {any} */ it) => it.const).filter((/** @type {any} */ it) => typeof it === 'string');
    return list?.length && list.every((/** @type {any} */ it) => typeof it === 'string' || it === null) ? list.filter((/** @type {any} */ it) => it !== null) : undefined;
  }
}
customElements.define('view-tools', ViewTools);
