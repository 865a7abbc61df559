// Icons of the navigation: one stroke, 16 by 16.

import { svg, html } from '../vendor/lit.js';

/** @type {Record<string, import('../vendor/lit.js').TemplateResult>} */
const SHAPES = {
  now: svg`<path d="M1.5 8h3l2-5 3 10 2-5h3"/>`,
  approvals: svg`<path d="M8 1.8l5.2 2v3.9c0 3.2-2.2 5.4-5.2 6.5-3-1.1-5.2-3.3-5.2-6.5V3.8z"/><path d="M5.8 7.9l1.6 1.6 2.9-3"/>`,
  mappings: svg`<circle cx="3.5" cy="4" r="1.8"/><circle cx="12.5" cy="12" r="1.8"/><path d="M5.3 4H10a2 2 0 012 2v4.2"/><path d="M3.5 5.8v6.4"/>`,
  why: svg`<path d="M4.5 1.8v12.4M11.5 1.8v12.4M4.5 5h7M4.5 8h7M4.5 11h7"/>`,
  patches: svg`<rect x="1.8" y="2.2" width="6.5" height="3.6" rx="1"/><rect x="7.7" y="10.2" width="6.5" height="3.6" rx="1"/><path d="M4 5.8c0 3.6 6.8.6 6.8 4.4"/>`,
  sets: svg`<rect x="2" y="2.2" width="3" height="11.6" rx=".8"/><rect x="6.5" y="2.2" width="3" height="7" rx=".8"/><rect x="11" y="2.2" width="3" height="9.4" rx=".8"/>`,
  calls: svg`<path d="M3 3.5h10M3 8h10M3 12.5h6"/>`,
  health: svg`<path d="M8 13.6C4.4 11 1.8 8.8 1.8 5.9A3 3 0 018 4.6a3 3 0 016.2 1.3c0 2.9-2.6 5.1-6.2 7.7z"/>`,
  connect: svg`<path d="M6.2 9.8l3.6-3.6M7 4.6l1.5-1.5a3 3 0 014.3 4.3L11.3 9M9 11.4l-1.5 1.5a3 3 0 01-4.3-4.3L4.7 7"/>`,
  tools: svg`<path d="M10.2 2.2a3.6 3.6 0 00-3.5 4.6L2.2 11.3l2.5 2.5 4.5-4.5a3.6 3.6 0 004.5-4.6l-2.2 2.2-2.1-.3-.3-2.1 2.2-2.2a3.6 3.6 0 00-1.1-.1z"/>`,
  more: svg`<circle cx="3.5" cy="8" r=".9"/><circle cx="8" cy="8" r=".9"/><circle cx="12.5" cy="8" r=".9"/>`,
};

/** @param {string} name */
export const icon = (name) => html`<svg viewBox="0 0 16 16" aria-hidden="true">${SHAPES[name]}</svg>`;

export const logo = html`<svg viewBox="0 0 32 32" aria-hidden="true"><path d="M5 21V11M11 25V7M17 19v-6M23 23V9" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round"/><circle class="logo-dot" cx="28.5" cy="16" r="2.6"/></svg>`;
