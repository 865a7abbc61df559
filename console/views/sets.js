// Sets: the session grid of the current Live Set, the notes of a clip, parameters with their values.

import { html, nothing, ref, repeat } from '../vendor/lit.js';
import { call, dialog, say } from '../lib/actions.js';
import { DocumentView } from '../lib/store.js';
import { name, plain, short } from '../lib/text.js';
import { picture } from '../parts/drawing.js';

const MOST_TRACKS = 64;
const MOST_SCENES = 200;
const MOST_PARAMS = 60;

/** @typedef {any} Track the answer of live_get_track */

class ViewSets extends DocumentView {
  static scheme = 'ableton:';
  static properties = { overview: { state: true }, tracks: { state: true }, scenes: { state: true }, clip: { state: true }, roll: { state: true }, missing: { state: true }, chosen: { state: true } };

  constructor() {
    super();
    /** @type {any} */
    this.overview = null;
    /** @type {Track[]} */
    this.tracks = [];
    /** @type {any[]} */
    this.scenes = [];
    this.clip = '';
    /** @type {Blob | null} */
    this.roll = null;
    this.missing = '';
    this.chosen = 0;
    this.path = '';
  }

  async readAll() {
    try {
      this.overview = (await call('live_get_song_overview', {}, { quiet: true }))?.result ?? null;
      this.missing = '';
    } catch (error) {
      this.overview = null;
      this.missing = error instanceof Error ? error.message : String(error);
      return;
    }
    const [scenes, ...tracks] = await Promise.all([
      call('live_list_scenes', {}, { quiet: true }).catch(() => null),
      ...this.overview.tracks.slice(0, MOST_TRACKS).map((/** @type {any} */ it) => call('live_get_track', { trackId: it.id }, { quiet: true }).catch(() => null)),
    ]);
    this.scenes = (/** @type {any} */ (scenes?.result)?.scenes ?? []).slice(0, MOST_SCENES);
    this.tracks = tracks.map((it) => it?.result ?? null);
    if (this.clip) await this.showClip(this.clip);
  }

  /** @param {string} id */
  async showClip(id) {
    this.clip = id;
    this.roll = picture(await call('live_render_clip', { clipId: id, format: 'svg' }, { quiet: true }).catch(() => null));
  }

  /** @param {string} tool @param {string} done */
  async act(tool, done) {
    if (await call(tool)) {
      say(done);
      await this.load();
    }
  }

  async open() {
    const answer = await dialog('Open a Set', html`<label class="field">path of a .als file, from the sets folder of your studio<input name="path" placeholder="demo.als" autofocus @input=${(/** @type {Event} */ event) => { this.path = /** @type {HTMLInputElement} */ (event.target).value; }}></label>`, [{ label: 'Cancel', value: '' }, { label: 'Open', value: 'open', kind: 'primary' }]);
    if (answer === 'open' && this.path && (await call('live_open_set', { path: this.path }))) await this.load();
  }

  render() {
    const set = this.overview;
    if (!set) {
      return html`<div class="head"><h1>Sets</h1><span class="grow"></span><button class="btn" type="button" @click=${() => this.open()}>Open…</button></div>
        ${this.missing ? html`<div class="panel empty"><strong>No Set is open</strong><p>Open an .als file, or start Live with the bridge: <code>conductor bridge install live</code></p><p class="small">${name(this.missing, 200)}</p></div>` : nothing}`;
    }
    const file = String(set.path ?? set.host).split('/').pop() ?? '';
    const running = set.host !== 'document';
    return html`<div class="head"><h1>Sets</h1><span class="sub">${name(file, 40)}</span>${set.dirty ? html`<span class="chip warn">not saved</span>` : nothing}<span class="grow"></span>
        <button class="btn" type="button" @click=${() => this.act('live_undo', 'Undone.')}>Undo</button><button class="btn" type="button" @click=${() => this.act('live_redo', 'Redone.')}>Redo</button><button class="btn" type="button" ?disabled=${!set.dirty} @click=${() => this.act('live_save_set', 'Saved.')}>Save</button><button class="btn" type="button" @click=${() => this.open()}>Open…</button></div>
      <div class="stack gap">
      <section class="panel" aria-label="Session"><header><h2>Session</h2><span class="dim small">${set.tempo} BPM, ${set.timeSignature}, ${set.trackCount} tracks, ${set.sceneCount} scenes${running ? '' : '. Clips can be fired when Live runs.'}</span></header>
        <div class="session" tabindex="0" ${ref((element) => { if (element) /** @type {HTMLElement} */ (element).style.gridTemplateColumns = `repeat(${set.tracks.length}, minmax(110px, 200px)) 120px`; })}>
          ${set.tracks.slice(0, MOST_TRACKS).map((/** @type {any} */ track, /** @type {number} */ at) => html`<button type="button" class="track-head" aria-pressed=${at === this.chosen} @click=${() => { this.chosen = at; }} title=${plain(track.name, 200)}>${short(track.name, 20)} <span class="dim small">${track.type}</span></button>`)}<span class="dim small scene-head">Scenes</span>
          ${this.scenes.map((scene, row) => html`${set.tracks.slice(0, MOST_TRACKS).map((/** @type {any} */ _, /** @type {number} */ at) => this.cell(this.tracks[at], row, running))}<button type="button" class="clip none" ?disabled=${!running} @click=${() => this.fire('live_fire_scene', { sceneId: scene.id })}>${running ? '▸ ' : ''}${scene.name ? short(scene.name, 16) : row + 1}</button>`)}
        </div></section>
      ${this.roll ? html`<section class="panel" aria-label="Notes"><header><h2>Notes</h2><code class="dim">${this.clip}</code></header><console-drawing class="roll" .blob=${this.roll} .label=${'Piano roll'}></console-drawing></section>` : nothing}
      ${this.params()}</div>`;
  }

  /** @param {Track} track @param {number} row @param {boolean} running */
  cell(track, row, running) {
    const clip = track?.clips?.filter((/** @type {any} */ it) => it.location === 'session')[row];
    if (!clip || clip.kind === 'empty') return html`<span class="clip none" aria-hidden="true"></span>`;
    const colour = `#${Number(clip.color ?? 0).toString(16).padStart(6, '0')}`;
    return html`<button type="button" class="clip" title=${running ? 'Show the notes; double-click to launch' : 'Show the notes'} ${ref((element) => { if (element) /** @type {HTMLElement} */ (element).style.setProperty('--clip', colour); })} aria-pressed=${this.clip === clip.id} @click=${() => this.showClip(clip.id)} @dblclick=${() => running && this.fire('live_fire_clip', { clipId: clip.id })}>${clip.name ? short(clip.name, 22) : 'clip'}</button>`;
  }

  /** @param {string} tool @param {import('../contract.d.ts').JsonObject} args */
  async fire(tool, args) {
    if (await call(tool, args)) say('Launched.');
  }

  params() {
    const track = this.tracks[this.chosen];
    const info = this.overview?.tracks[this.chosen];
    if (!track || !info) return nothing;
    const params = [...(track.mixer ?? []), ...(track.params ?? [])].slice(0, MOST_PARAMS);
    return html`<section class="panel" aria-label="Parameters"><header><h2>${name(info.name, 40)}</h2><span class="dim small">${(track.devices ?? []).map((/** @type {any} */ it) => plain(it.name, 30)).join(', ')}</span></header>
      <table><thead><tr><th>Parameter</th><th class="num">Value</th><th class="hide-narrow">Range</th></tr></thead><tbody>${repeat(params, (it) => it.id, (it) => html`<tr><td>${name(it.name, 40)} ${it.automated ? html`<span class="chip">automated</span>` : nothing}</td><td class="num">${name(it.display ?? it.value, 24)}</td><td class="hide-narrow"><meter min=${it.min} max=${it.max} value=${it.value} aria-label=${plain(it.name, 40)}></meter></td></tr>`)}</tbody></table></section>`;
  }
}
customElements.define('view-sets', ViewSets);
