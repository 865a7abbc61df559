// Untrusted text: names from devices, files, clients and models. A name becomes text nodes only.
// Characters that change the direction of text, or that cannot be seen, are shown as their code.

import { html, nothing, LitElement } from '../vendor/lit.js';

// Bidirectional controls, zero-width characters, line separators, C0 and C1 controls, tags.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/gu;
const HIDDEN_IN_LINE = /[\u0009\u000a\u000d]/g;

/** @param {string} character */
const code = (character) => {
  const point = character.codePointAt(0) ?? 0;
  return `U+${point.toString(16).toUpperCase().padStart(4, '0')}`;
};

/**
 * The text as a list of visible pieces: strings, and codes of hidden characters.
 * @param {string} text
 * @param {boolean} lines whether line breaks and tabs stay as they are
 * @returns {{ text: string, hidden: boolean }[]}
 */
export function pieces(text, lines = false) {
  const source = lines ? text.replaceAll('\r\n', '\n') : text;
  const marks = [...source.matchAll(HIDDEN), ...(lines ? [] : source.matchAll(HIDDEN_IN_LINE))]
    .sort((a, b) => (a.index ?? 0) - (b.index ?? 0));
  const out = [];
  let at = 0;
  for (const mark of marks) {
    const index = mark.index ?? 0;
    if (index > at) out.push({ text: source.slice(at, index), hidden: false });
    out.push({ text: code(mark[0]), hidden: true });
    at = index + mark[0].length;
  }
  if (at < source.length) out.push({ text: source.slice(at), hidden: false });
  return out;
}

/**
 * A text as one string with the codes of hidden characters, for attributes such as labels.
 * @param {unknown} text
 * @param {number} limit
 */
export function plain(text, limit = 120) {
  const whole = pieces(String(text ?? '')).map((it) => (it.hidden ? `[${it.text}]` : it.text)).join('');
  return cut(whole, limit);
}

/**
 * @param {string} text
 * @param {number} limit
 */
function cut(text, limit) {
  const letters = [...text];
  return letters.length > limit ? `${letters.slice(0, limit - 1).join('')}…` : text;
}

/** @param {{ text: string, hidden: boolean }[]} list */
const spans = (list) => list.map((it) => (it.hidden ? html`<span class="hidden-char" title="a hidden character">${it.text}</span>` : it.text));

/**
 * An untrusted name as nodes. A long name is truncated; a button shows the rest.
 * @param {unknown} text
 * @param {number} limit in characters
 */
export function name(text, limit = 48) {
  const whole = String(text ?? '');
  if ([...whole].length <= limit) return html`<bdi class="name">${spans(pieces(whole))}</bdi>`;
  return html`<long-text .text=${whole} .limit=${limit}></long-text>`;
}

/**
 * An untrusted name inside a button, link or option. A long name is truncated without a button to
 * show the rest, because these elements cannot contain one.
 * @param {unknown} text
 * @param {number} limit in characters
 */
export function short(text, limit = 48) {
  return html`<bdi class="name">${spans(pieces(cut(String(text ?? ''), limit)))}</bdi>`;
}

/**
 * A complete untrusted text, with its line breaks.
 * @param {unknown} text
 */
export function lines(text) {
  return spans(pieces(String(text ?? ''), true));
}

/** A long name, truncated until the person presses its button. */
class LongText extends LitElement {
  static properties = { text: {}, limit: { type: Number }, open: { state: true } };

  constructor() {
    super();
    this.text = '';
    this.limit = 48;
    this.open = false;
  }

  createRenderRoot() {
    return this;
  }

  render() {
    const letters = [...this.text];
    const shown = this.open ? this.text : letters.slice(0, this.limit).join('');
    /** @param {Event} event */
    const toggle = (event) => {
      event.stopPropagation();
      event.preventDefault();
      this.open = !this.open;
    };
    return html`<bdi class="name ${this.open ? 'whole' : ''}">${spans(pieces(shown))}</bdi>${
      letters.length > this.limit
        ? html`<button class="more" type="button" aria-expanded=${this.open} aria-label=${this.open ? 'Show less' : `Show all ${letters.length} characters`} @click=${toggle}>${this.open ? 'less' : '…'}</button>`
        : nothing}`;
  }
}
customElements.define('long-text', LongText);

/** A text with the person's home folder as `~`. @param {string} text */
export const homely = (text) => text.replace(/(^|[\s'"(])(?:\/root|\/(?:home|Users)\/[^/\s]+)(?=\/)/g, '$1~');
