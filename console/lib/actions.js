// Actions of a person in the page: tool calls (confirmed once if policy requires it), decisions, and
// short messages about their results.

import { html, render, nothing } from '../vendor/lit.js';
import * as api from './api.js';
import { store } from './store.js';
import { lines, name } from './text.js';
import { diff, facts } from '../parts/question.js';

/** @typedef {import('../contract.d.ts').JsonObject} JsonObject */
/** @typedef {import('../contract.d.ts').Question} Question */

/** @type {{ id: number, text: string, bad: boolean }[]} */
export let toasts = [];
let lastToast = 0;

/**
 * @param {string} text
 * @param {boolean} [bad]
 */
export function say(text, bad = false) {
  const id = ++lastToast;
  toasts = [...toasts, { id, text, bad }].slice(-4);
  store.touch('toasts');
  setTimeout(() => {
    toasts = toasts.filter((it) => it.id !== id);
    store.touch('toasts');
  }, bad ? 9000 : 4000);
}

/** @param {unknown} error */
export function fail(error) {
  if (error instanceof api.RequestError) {
    if (error.status === 401) return;
    const { hint, violations } = error.fault;
    const first = violations?.[0] ? ` ${violations[0].path}: ${violations[0].message}` : '';
    say(`${error.message}${first}${hint ? `. ${hint}` : ''}`, true);
    return;
  }
  say(error instanceof Error ? `The daemon cannot be reached: ${error.message}` : String(error), true);
}

/**
 * Shows a dialog and returns the value of the button that closed it.
 * @param {string} title
 * @param {unknown} body
 * @param {{ label: string, value: string, kind?: string }[]} buttons
 * @returns {Promise<string>}
 */
export function dialog(title, body, buttons) {
  const element = document.createElement('dialog');
  document.body.append(element);
  element.setAttribute('aria-label', title);
  render(
    html`<form method="dialog">
      <div class="body"><h1>${title}</h1>${body}</div>
      <footer>${buttons.map((it) => html`<button class="btn ${it.kind ?? ''}" value=${it.value}>${it.label}</button>`)}</footer>
    </form>`,
    element,
  );
  element.showModal();
  return new Promise((done) => {
    element.addEventListener('close', () => {
      const value = element.returnValue;
      element.remove();
      done(value);
    });
  });
}

/**
 * Calls a tool as the person. If policy requires an approval, shows the effective target once and
 * repeats the identical call with the confirmation. Returns null if the person cancels,
 * or after an error, which is shown.
 * @param {string} tool
 * @param {JsonObject} args
 * @param {{ quiet?: boolean }} [options] with `quiet`, errors are thrown instead of shown
 */
export async function call(tool, args = {}, { quiet = false } = {}) {
  try {
    try {
      return await api.callOnce(tool, args);
    } catch (error) {
      const approval = error instanceof api.RequestError && error.status === 202 ? error.fault.approval_id : undefined;
      if (!approval) throw error;
      const { question } = await api.read('question', { id: approval });
      const answer = await dialog('Run this call?', html`<p>${lines(question.summary)}</p>${facts(question.facts)}`, [
        { label: 'Cancel', value: '' },
        { label: 'Run it', value: 'yes', kind: 'primary' },
      ]);
      if (answer !== 'yes') {
        await api.decide({ decision: 'deny', id: approval });
        return null;
      }
      return await api.callOnce(tool, args, approval);
    }
  } catch (error) {
    if (quiet) throw error;
    fail(error);
    return null;
  }
}

/**
 * Sends one decision and shows the error, if there is one.
 * @param {import('../contract.d.ts').Decision} decision
 */
export async function decideOne(decision) {
  try {
    const { results } = await api.decide(decision);
    const [result] = results;
    if (result && !result.ok) {
      const { message, hint } = result.fault;
      say(hint ? `${message}. ${hint}` : message, true);
      return null;
    }
    return result ?? null;
  } catch (error) {
    fail(error);
    return null;
  }
}

/**
 * Proposes a change to the configuration with a tool, shows the plan's diff, and applies the plan
 * if the person agrees. Returns true if it was applied.
 * @param {string} tool
 * @param {JsonObject} args
 */
export async function propose(tool, args) {
  const answer = await call(tool, args);
  const result = /** @type {JsonObject | null} */ (answer?.result ?? null);
  const id = result?.plan_id;
  if (typeof id !== 'string') return false;
  return review(id);
}

/** Shows a plan and asks for a decision. @param {string} id */
export async function review(id) {
  try {
    const { question } = await api.read('question', { id });
    const choice = await dialog('Apply this change?', html`
      <p class="dim">${name(question.summary, 200)}</p>
      ${question.warnings?.map((it) => html`<p class="warn small">${lines(it)}</p>`) ?? nothing}
      ${diff(question.diff_preview ?? '')}`, [
      { label: 'Discard', value: 'reject' },
      { label: 'Decide later', value: '' },
      { label: 'Apply', value: 'apply', kind: 'primary' },
    ]);
    if (choice !== 'apply' && choice !== 'reject') return false;
    const done = await decideOne({ decision: choice, id });
    if (done && choice === 'apply') say('Applied. The change is in force; Approvals can undo it.');
    return Boolean(done) && choice === 'apply';
  } catch (error) {
    fail(error);
    return false;
  }
}
