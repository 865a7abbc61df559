// A picture from the daemon that can be zoomed and moved. The picture is shown as an image, so that
// no script in it can run.

import { html } from '../vendor/lit.js';
import { LitElement } from '../vendor/lit.js';
import { plain } from '../lib/text.js';

/** The picture of a tool's answer as a Blob. @param {import('../contract.d.ts').CallAnswer | null} answer */
export function picture(answer) {
  for (const part of /** @type {any[]} */ (answer?.content ?? [])) {
    if (part.type === 'resource' && part.resource?.text) return new Blob([part.resource.text], { type: 'image/svg+xml' });
    if (part.type === 'text' && String(part.text).startsWith('<svg')) return new Blob([part.text], { type: 'image/svg+xml' });
    if (part.type === 'image') return new Blob([Uint8Array.from(atob(part.data), (it) => it.charCodeAt(0))], { type: part.mimeType });
  }
  return null;
}

class ConsoleDrawing extends LitElement {
  static properties = { blob: { attribute: false }, label: {} };

  constructor() {
    super();
    /** @type {Blob | null} */
    this.blob = null;
    this.label = '';
    this.url = '';
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    /** Whether the person moved the picture. If so, a new picture keeps the position. */
    this.moved = false;
  }

  createRenderRoot() {
    return this;
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = '';
  }

  /** @param {Map<PropertyKey, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has('blob')) return;
    const old = this.url;
    this.url = this.blob ? URL.createObjectURL(this.blob) : '';
    if (old) setTimeout(() => URL.revokeObjectURL(old), 1000);
  }

  place() {
    const image = this.querySelector('img');
    if (image) image.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
  }

  /** Shows the whole picture in the middle. */
  fit() {
    const image = this.querySelector('img');
    const frame = this.querySelector('.drawing');
    if (!image || !frame || !image.naturalWidth) return;
    this.scale = Math.min(1.5, (frame.clientWidth - 32) / image.naturalWidth, (frame.clientHeight - 32) / image.naturalHeight);
    this.x = (frame.clientWidth - image.naturalWidth * this.scale) / 2;
    this.y = (frame.clientHeight - image.naturalHeight * this.scale) / 2;
    this.moved = false;
    this.place();
  }

  /** @param {number} factor @param {number} atX @param {number} atY */
  zoom(factor, atX, atY) {
    const next = Math.min(8, Math.max(0.1, this.scale * factor));
    this.x = atX - (atX - this.x) * (next / this.scale);
    this.y = atY - (atY - this.y) * (next / this.scale);
    this.scale = next;
    this.moved = true;
    this.place();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    this.zoom(event.deltaY < 0 ? 1.12 : 1 / 1.12, event.clientX - box.left, event.clientY - box.top);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (!(event.buttons & 1)) return;
    this.x += event.movementX;
    this.y += event.movementY;
    this.moved = true;
    this.place();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const frame = /** @type {Element} */ (event.currentTarget);
    const middle = /** @type {const} */ ([frame.clientWidth / 2, frame.clientHeight / 2]);
    if (event.key === '+') this.zoom(1.2, ...middle);
    else if (event.key === '-') this.zoom(1 / 1.2, ...middle);
    else if (event.key === '0') this.fit();
    else if (event.key.startsWith('Arrow')) {
      this.x += event.key === 'ArrowLeft' ? 40 : event.key === 'ArrowRight' ? -40 : 0;
      this.y += event.key === 'ArrowUp' ? 40 : event.key === 'ArrowDown' ? -40 : 0;
      this.place();
    } else return;
    event.preventDefault();
  }

  render() {
    return html`<div class="drawing" tabindex="0" role="group" aria-label="${plain(this.label, 100)}. Plus and minus zoom, arrows move, 0 shows all." @wheel=${this.wheel} @pointerdown=${(/** @type {PointerEvent} */ event) => /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId)} @pointermove=${this.drag} @dblclick=${() => this.fit()} @keydown=${this.key}>
      ${this.url ? html`<img src=${this.url} alt=${plain(this.label, 100)} draggable="false" @load=${() => (this.moved ? this.place() : this.fit())}>` : ''}</div>`;
  }
}
customElements.define('console-drawing', ConsoleDrawing);
