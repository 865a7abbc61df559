// Patches: the drawing of an open patch, the boxes that changed since the person last looked, and
// the console lines.

import { html, nothing, repeat } from '../vendor/lit.js';
import { call, dialog, say } from '../lib/actions.js';
import { DocumentView } from '../lib/store.js';
import { lines, name, plain, short } from '../lib/text.js';
import { picture } from '../parts/drawing.js';

/** @typedef {{ patch_id: string, display_name: string, file_path: string | null, host: string, object_count: number, dirty: boolean, revision: number }} Patch */

/** Revisions that the person has looked at, by patch. @type {Map<string, number>} */
const looked = new Map();

/** Kinds of changes whose box still exists. */
const MARKED = new Set(['box_added', 'text_changed', 'moved', 'renamed', 'attributes_changed']);

class ViewPatches extends DocumentView {
  static scheme = 'patch:';
  static properties = { patches: { state: true }, chosen: { state: true }, blob: { state: true }, marks: { state: true }, console: { state: true } };

  constructor() {
    super();
    /** @type {Patch[] | null} */
    this.patches = null;
    this.chosen = new URLSearchParams(location.hash.split('?')[1] ?? '').get('id') ?? '';
    /** @type {Blob | null} */
    this.blob = null;
    /** Boxes that changed since the person last looked. @type {string[]} */
    this.marks = [];
    /** @type {{ level?: string, text?: string, message?: string }[]} */
    this.console = [];
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.seen();
  }

  /** Remembers the shown revision as seen. */
  seen() {
    const patch = this.current();
    if (patch) looked.set(patch.patch_id, patch.revision);
  }

  current() {
    return this.patches?.find((it) => it.patch_id === this.chosen) ?? this.patches?.[0] ?? null;
  }

  async readAll() {
    const answer = await call('list_active_patches');
    this.patches = /** @type {any} */ (answer?.result)?.patches ?? [];
    const patch = this.current();
    if (!patch) {
      this.blob = null;
      return;
    }
    const since = looked.get(patch.patch_id);
    if (since === undefined) looked.set(patch.patch_id, patch.revision);
    this.marks = since !== undefined && since !== patch.revision ? await this.changedSince(patch, since) : [];
    let drawn = await call('render_patch', { patch_id: patch.patch_id, format: 'svg', ...(this.marks.length ? { highlight: this.marks } : {}) }, { quiet: true }).catch(() => null);
    // A marked box may have been removed between the two calls.
    drawn ??= await call('render_patch', { patch_id: patch.patch_id, format: 'svg' });
    this.blob = picture(drawn);
    const log = await call('get_console_log', { lines: 100, patch_id: patch.patch_id }, { quiet: true }).catch(() => null);
    this.console = /** @type {any} */ (log?.result)?.entries ?? [];
  }

  /** @param {Patch} patch @param {number} revision */
  async changedSince(patch, revision) {
    const answer = await call('diff_patch', { patch_id: patch.patch_id, against: 'revision', revision }, { quiet: true }).catch(() => null);
    const changes = /** @type {any[]} */ (/** @type {any} */ (answer?.result)?.changes ?? []);
    return [...new Set(changes.filter((it) => MARKED.has(it.kind)).map((it) => String(it.subject)))].slice(0, 100);
  }

  /** @param {string} tool @param {string} done */
  async act(tool, done) {
    const patch = this.current();
    if (!patch) return;
    if (await call(tool, { patch_id: patch.patch_id })) {
      say(done);
      await this.load();
    }
  }

  async open() {
    const answer = await dialog('Open a patch', html`<label class="field">path of a .maxpat, .amxd or .pd file, from the patches folder of your studio<input name="path" placeholder="demo.maxpat" autofocus @input=${(/** @type {Event} */ event) => { this.path = /** @type {HTMLInputElement} */ (event.target).value; }}></label>`, [{ label: 'Cancel', value: '' }, { label: 'Open', value: 'open', kind: 'primary' }]);
    if (answer !== 'open' || !this.path) return;
    const opened = await call('open_patch', { path: this.path });
    const id = /** @type {any} */ (opened?.result)?.patch_id;
    if (id) {
      this.chosen = id;
      await this.load();
    }
  }

  async revert() {
    const patch = this.current();
    if (!patch?.file_path) return;
    const sure = await dialog('Go back to the saved file?', html`<p>All edits since the last save of ${name(patch.display_name, 60)} are lost.</p>`, [{ label: 'Keep the edits', value: '' }, { label: 'Revert', value: 'yes', kind: 'primary' }]);
    if (sure !== 'yes') return;
    if (!(await call('close_patch', { patch_id: patch.patch_id, discard: true }))) return;
    await call('open_patch', { path: patch.file_path });
    await this.load();
  }

  render() {
    const patch = this.current();
    if (!this.patches) return html`<div class="head"><h1>Patches</h1></div>`;
    return html`<div class="head"><h1>Patches</h1>
        ${this.patches.length ? html`<div class="segments" role="group" aria-label="Patch">${repeat(this.patches.slice(0, 20), (it) => it.patch_id, (it) => html`<button type="button" aria-pressed=${it === patch} @click=${() => { this.seen(); this.chosen = it.patch_id; this.load(); }}>${short(it.display_name, 30)}${it.dirty ? html`<span class="dot warn" title="not saved"></span>` : nothing}</button>`)}</div>` : nothing}
        <span class="grow"></span><button class="btn" type="button" @click=${() => this.open()}>Open…</button></div>
      ${patch ? html`<section class="panel" aria-label="Patch"><header class="wrap"><h2>${name(patch.display_name, 40)}</h2><span class="dim small">${patch.object_count} objects, revision ${patch.revision}${patch.dirty ? ', not saved' : ''}, in ${patch.host}</span>
          ${this.marks.length ? html`<span class="chip warn">${this.marks.length} changed since you looked</span><button class="btn small quiet" type="button" @click=${() => { this.seen(); this.load(); }}>Seen</button>` : nothing}
          <span class="grow"></span><button class="btn small" type="button" @click=${() => this.act('undo_patch', 'Undone.')}>Undo</button><button class="btn small" type="button" @click=${() => this.act('redo_patch', 'Redone.')}>Redo</button><button class="btn small" type="button" ?disabled=${!patch.dirty} @click=${() => this.act('save_patch', 'Saved.')}>Save</button><button class="btn small danger" type="button" ?disabled=${!patch.dirty} @click=${() => this.revert()}>Revert…</button></header>
          <console-drawing .blob=${this.blob} .label=${`Drawing of ${plain(patch.display_name, 60)}, revision ${patch.revision}`}></console-drawing></section>
        <section class="panel console-lines" aria-label="Console"><header><h2>Console</h2></header><div class="body mono">${this.console.length ? this.console.slice(-60).map((it) => html`<div class=${it.level === 'error' ? 'bad' : it.level === 'warning' ? 'warn' : ''}>${lines(it.text ?? it.message ?? '')}</div>`) : html`<span class="dim">No line from this patch.</span>`}</div></section>`
      : html`<div class="panel empty"><strong>No patch is open</strong><p>Open a Max or Pure Data file, or let an AI client open one. Its drawing appears here and follows every edit.</p><button class="btn primary" type="button" @click=${() => this.open()}>Open a patch</button></div>`}`;
  }
}
customElements.define('view-patches', ViewPatches);
