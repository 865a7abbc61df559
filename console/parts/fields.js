// Form fields for the members of a JSON object: text, numbers, switches and choices; everything else
// as JSON text.

import { html, live } from '../vendor/lit.js';
import { say } from '../lib/actions.js';
import { plain } from '../lib/text.js';

/** @typedef {import('../contract.d.ts').Json} Json */
/** @typedef {import('../contract.d.ts').JsonObject} JsonObject */

/**
 * One field. `change` gets the new value.
 * @param {string} label
 * @param {Json | undefined} value
 * @param {(value: Json | undefined) => void} change
 * @param {{ choices?: string[], schema?: any, required?: boolean, help?: string }} [options]
 */
export function field(label, value, change, { choices, schema = {}, required = false, help = '' } = {}) {
  const title = html`<span>${plain(label, 60)}${required && !choices ? html` <span class="must" title="required" aria-label="required">*</span>` : ''}</span>`;
  const hint = help ? html`<span class="small">${help}</span>` : '';
  const type = schema.type ?? typeof value;
  if (choices) {
    return html`<label class="field">${title}<select @change=${(/** @type {Event} */ event) => change(/** @type {HTMLSelectElement} */ (event.target).value || undefined)}>
      ${required ? '' : html`<option value="" ?selected=${value === undefined}></option>`}${choices.map((it) => html`<option value=${it} ?selected=${it === value}>${plain(it, 60)}</option>`)}</select>${hint}</label>`;
  }
  if (type === 'boolean') {
    return html`<label class="check small"><input type="checkbox" .checked=${live(value === true)} @change=${(/** @type {Event} */ event) => change(/** @type {HTMLInputElement} */ (event.target).checked)}> ${title}${hint}</label>`;
  }
  if (type === 'number' || type === 'integer') {
    return html`<label class="field">${title}<input type="number" step=${type === 'integer' ? 1 : 'any'} ?required=${required} .value=${value === undefined || value === null ? '' : String(value)} @input=${(/** @type {Event} */ event) => { const text = /** @type {HTMLInputElement} */ (event.target).value; change(text === '' ? undefined : Number(text)); }}>${hint}</label>`;
  }
  if (type === 'string') {
    return html`<label class="field">${title}<input type="text" autocomplete="off" spellcheck="false" ?required=${required} .value=${live(typeof value === 'string' ? value : '')} @input=${(/** @type {Event} */ event) => change(/** @type {HTMLInputElement} */ (event.target).value || undefined)}>${hint}</label>`;
  }
  const text = value === undefined ? '' : JSON.stringify(value);
  return html`<label class="field">${title}<textarea rows=${Math.min(6, Math.max(1, Math.ceil(text.length / 44)))} spellcheck="false" placeholder="JSON" .value=${text} @change=${(/** @type {Event} */ event) => {
    const written = /** @type {HTMLTextAreaElement} */ (event.target).value.trim();
    try {
      change(written ? JSON.parse(written) : undefined);
    } catch {
      say(`${plain(label, 40)} is not valid JSON.`, true);
    }
  }}></textarea>${hint}</label>`;
}

/**
 * Returns the object with a new value of one member. A cleared text becomes an empty text, so that
 * its field stays. A cleared number returns null: the old number stays until a new one is typed.
 * @param {JsonObject} value
 * @param {string} key
 * @param {Json | undefined} to
 */
function replaced(value, key, to) {
  const old = value[key];
  if (to === undefined && typeof old === 'number') return null;
  const next = { ...value };
  if (to !== undefined) next[key] = to;
  else if (typeof old === 'string') next[key] = '';
  else delete next[key];
  return next;
}

/**
 * A typed object of the configuration: its type, then its members.
 * @param {string} title
 * @param {JsonObject} value
 * @param {Record<string, JsonObject>} types
 * @param {(value: JsonObject) => void} change
 */
export function typed(title, value, types, change) {
  const names = [...new Set([String(value.type), ...Object.keys(types)])];
  const members = Object.entries(value).filter(([key]) => key !== 'type');
  return html`<fieldset class="typed"><legend>${title}</legend>
    ${field('type', value.type, (type) => { const next = String(type); change({ type: next, ...types[next], ...(value.device ? { device: value.device } : {}) }); }, { choices: names, required: true })}
    ${members.map(([key, it]) => field(key, it, (to) => { const next = replaced(value, key, to); if (next) change(next); }))}
  </fieldset>`;
}
