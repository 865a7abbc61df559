// The command palette: finds a view, device, mode, mapping, tool, patch, track or setting.

import { html, render, repeat } from '../vendor/lit.js';
import * as api from '../lib/api.js';
import { call, decideOne, say } from '../lib/actions.js';
import { store } from '../lib/store.js';
import { short } from '../lib/text.js';

/** @typedef {{ kind: string, text: string, more?: string, run: () => void }} Entry */

const MOST = 50;

/** @param {string} hash */
const go = (hash) => () => {
  location.hash = hash;
};

/**
 * Entries that need no request: views, actions, modes and devices.
 * @param {{ id: string, title: string }[]} pages
 */
function known(pages) {
  /** @type {Entry[]} */
  const list = pages.map((it) => ({ kind: 'view', text: it.title, run: go(`#/${it.id}`) }));
  list.push(
    { kind: 'action', text: 'Panic: release every note and key', run: async () => { if (await call('conductor_panic')) say('Everything is released.'); } },
    { kind: 'action', text: 'Learn a control by touching it', run: go('#/mappings?learn') },
    { kind: 'action', text: 'Switch on the performance lock', run: () => decideOne({ decision: 'performance_lock', on: true }) },
  );
  const state = store.state;
  for (const mode of state?.modes.modes ?? []) list.push({ kind: 'mode', text: mode.name, more: 'switch to this mode', run: () => call('conductor_switch_mode', { mode: mode.name }) });
  for (const device of state?.bindings.device_bindings ?? []) list.push({ kind: 'device', text: device.device_id, more: device.description, run: go(`#/now?device=${encodeURIComponent(device.device_id)}`) });
  return list;
}

/** Entries read from the daemon. Parts that cannot be read are left out. */
async function more() {
  /** @type {Entry[]} */
  const list = [];
  const [mappings, tools, patches, tracks, config] = await Promise.allSettled([
    api.read('mappings', {}), api.read('tools', {}), api.callOnce('list_active_patches', {}), api.callOnce('live_get_song_overview', {}), api.read('config', {}),
  ]);
  if (mappings.status === 'fulfilled') {
    for (const mode of mappings.value.modes) for (const row of [...mode.mappings, ...mode.continuous]) list.push({ kind: 'mapping', text: row.id, more: row.description ?? mode.mode, run: go(`#/mappings?mode=${encodeURIComponent(mode.mode)}&id=${encodeURIComponent(row.id)}`) });
  }
  if (tools.status === 'fulfilled') for (const tool of tools.value.tools) list.push({ kind: 'tool', text: tool.name, more: tool.title, run: go(`#/tools?name=${encodeURIComponent(tool.name)}`) });
  const found = (/** @type {PromiseSettledResult<import('../contract.d.ts').CallAnswer>} */ it, /** @type {string} */ key) => {
    const result = it.status === 'fulfilled' ? /** @type {any} */ (it.value.result) : null;
    return Array.isArray(result?.[key]) ? result[key] : [];
  };
  for (const patch of found(patches, 'patches')) list.push({ kind: 'patch', text: String(patch.name ?? patch.path ?? patch.patch_id), run: go(`#/patches?id=${encodeURIComponent(patch.patch_id ?? patch.id ?? '')}`) });
  for (const track of found(tracks, 'tracks')) list.push({ kind: 'track', text: String(track.name ?? ''), run: go('#/sets') });
  if (config.status === 'fulfilled') {
    const sections = new Set([...(config.value.text ?? '').matchAll(/^\[+([\w.-]+)\]+/gm)].map((it) => it[1] ?? ''));
    for (const section of sections) list.push({ kind: 'setting', text: section, more: 'in config.toml', run: go(`#/mappings?file=${encodeURIComponent(section)}`) });
  }
  return list;
}

/**
 * Rank of an entry: how well its text contains the letters of the query, in order. Lower is better.
 * @param {Entry} entry
 * @param {string} query
 */
function rank(entry, query) {
  const text = `${entry.text} ${entry.kind} ${entry.more ?? ''}`.toLowerCase();
  const at = text.indexOf(query);
  if (at >= 0) return at;
  let from = 0;
  for (const letter of query) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return Infinity;
  }
  return 1000 + from;
}

/** @param {{ id: string, title: string }[]} pages */
export function openPalette(pages) {
  if (document.querySelector('dialog.palette')) return;
  const element = document.createElement('dialog');
  element.className = 'palette';
  element.setAttribute('aria-label', 'Find anything');
  document.body.append(element);
  let all = known(pages);
  let query = '';
  let at = 0;
  const matches = () => {
    if (!query) return all.slice(0, MOST);
    return all.map((it) => ({ it, rank: rank(it, query) })).filter((it) => it.rank < Infinity).sort((a, b) => a.rank - b.rank).slice(0, MOST).map((it) => it.it);
  };
  /** @param {Entry | undefined} entry */
  const choose = (entry) => {
    element.close();
    entry?.run();
  };
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    const list = matches();
    if (event.key === 'ArrowDown') at = Math.min(at + 1, list.length - 1);
    else if (event.key === 'ArrowUp') at = Math.max(at - 1, 0);
    else if (event.key === 'Enter') choose(list[at]);
    else return;
    event.preventDefault();
    draw();
    element.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  };
  const draw = () => {
    const list = matches();
    at = Math.min(at, Math.max(0, list.length - 1));
    render(html`
      <input type="text" role="combobox" aria-label="Find a device, mapping, tool, patch, track or setting" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${list.length ? `palette-${at}` : ''}
        placeholder="Find a device, mapping, tool, patch, track or setting" autofocus
        @input=${(/** @type {InputEvent} */ event) => { query = /** @type {HTMLInputElement} */ (event.target).value.trim().toLowerCase(); at = 0; draw(); }} @keydown=${press}>
      <ul id="palette-list" role="listbox" aria-label="Results">${list.length
        ? repeat(list, (_, index) => index, (it, index) => html`<li role="option" id="palette-${index}" aria-selected=${index === at} @click=${() => choose(it)}><span class="kind">${it.kind}</span><span class="cut">${short(it.text, 60)}</span>${it.more ? html`<span class="dim small cut">${short(it.more, 60)}</span>` : ''}</li>`)
        : html`<li role="option" aria-selected="false" aria-disabled="true" class="dim">No entry matches.</li>`}</ul>`, element);
  };
  draw();
  element.showModal();
  element.addEventListener('close', () => element.remove());
  more().then((list) => {
    all = [...all, ...list];
    if (element.isConnected) draw();
  });
}
