// Draws a question: facts, arguments and diff.

import { html, nothing } from '../vendor/lit.js';
import { lines, name } from '../lib/text.js';

/** Maximum number of diff lines that are drawn at once. */
const MOST_LINES = 2000;

/** A unified diff. @param {string} text */
export function diff(text) {
  const all = text.split('\n').filter((it, at, list) => !(it === '' && at === list.length - 1));
  const body = all.filter((it) => !it.startsWith('--- ') && !it.startsWith('+++ '));
  if (!body.length) return html`<p class="dim small">The text does not change.</p>`;
  const shown = body.slice(0, MOST_LINES);
  return html`<div class="diff" role="group" aria-label="Diff" tabindex="0">${shown.map((line) => {
    const kind = line.startsWith('@@') ? 'hunk' : line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : '';
    return html`<div class=${kind}>${lines(line)}</div>`;
  })}${body.length > shown.length ? html`<div class="hunk">… ${body.length - shown.length} more lines</div>` : nothing}</div>`;
}

/** @param {import('../contract.d.ts').Fact[]} list */
export function facts(list) {
  return html`<dl class="facts">${list.map((fact) => html`<dt>${name(fact.label, 40)}</dt><dd>${fact.text.includes('\n') || fact.text.length > 160 ? html`<pre class="code" tabindex="0">${lines(fact.text)}</pre>` : lines(fact.text)}</dd>`)}</dl>`;
}

/** What a tier allows, in words. @type {Record<import('../contract.d.ts').Tier, { word: string, kind: string }>} */
const TIERS = {
  ReadOnly: { word: 'reads', kind: '' },
  Stateful: { word: 'changes state', kind: '' },
  ConfigChange: { word: 'changes the configuration', kind: 'accent' },
  HardwareIO: { word: 'reaches hardware or programs', kind: 'warn' },
};

/** @param {import('../contract.d.ts').Tier} value */
export const tierWords = (value) => TIERS[value]?.word ?? '';

/** @param {import('../contract.d.ts').Tier} value */
export const tier = (value) => html`<span class="chip ${TIERS[value]?.kind ?? ''}" title=${TIERS[value]?.word ?? ''}>${value}</span>`;

/** A principal such as `socket:1000/claude-code`, as the client's name and the kind of its connection. @param {string} principal */
export function who(principal) {
  const at = principal.indexOf(':');
  const kind = at < 0 ? principal : principal.slice(0, at);
  const rest = at < 0 ? '' : principal.slice(at + 1);
  const client = kind === 'socket' ? rest.slice(rest.indexOf('/') + 1) : kind === 'person' ? 'you' : kind === 'cli' ? 'command line' : rest;
  return { client, kind };
}

/**
 * All facts of a long question, which the daemon sends in pages. A fact that continues on the next page becomes one text.
 * @param {(from: number) => Promise<{ facts: import('../contract.d.ts').Fact[], next: number | null }>} readPage
 */
export async function allFacts(readPage) {
  /** @type {import('../contract.d.ts').Fact[]} */
  const all = [];
  let from = 0;
  for (let page = 0; page < 20; page += 1) {
    const answer = await readPage(from);
    for (const fact of answer.facts) {
      const last = all.at(-1);
      if (last && last.label === fact.label && page > 0) last.text += fact.text;
      else all.push({ ...fact });
    }
    if (answer.next === null) break;
    from = answer.next;
  }
  return all;
}
