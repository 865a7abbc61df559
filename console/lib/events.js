// Describes event tokens of the event script, such as `on:36@100/1` or `cc:7=64`, and outcomes in
// words.

import { noteName } from './format.js';

/** @typedef {{ kind: string, control: string, value: number | null, channel: number, text: string, key: string }} Parsed */

/**
 * Reads a token. `key` identifies the control: `on:36`, `cc:7`, `pb`, `down:south`.
 * @param {string} token
 * @returns {Parsed}
 */
export function parse(token) {
  const at = token.indexOf(':');
  const kind = at < 0 ? token : token.slice(0, at);
  let rest = at < 0 ? '' : token.slice(at + 1);
  let channel = 0;
  if (['on', 'off', 'cc', 'pat', 'pb', 'at', 'pc'].includes(kind)) {
    const slash = rest.lastIndexOf('/');
    if (slash >= 0) {
      channel = Number(rest.slice(slash + 1));
      rest = rest.slice(0, slash);
    }
  }
  const [control = '', written] = rest.split(/[@=]/, 2);
  const value = written === undefined ? null : Number(written);
  const on = channel ? `, channel ${channel + 1}` : '';
  const base = { kind, control, value, channel };
  switch (kind) {
    case 'on':
      return { ...base, key: `on:${control}`, text: `note ${control} ${noteName(Number(control))}${value === null ? '' : `, ${value}`}${on}` };
    case 'off':
      return { ...base, key: `on:${control}`, text: `note ${control} ${noteName(Number(control))} up${on}` };
    case 'cc':
      return { ...base, key: `cc:${control}`, text: `CC ${control}${value === null ? '' : ` = ${value}`}${on}` };
    case 'pat':
      return { ...base, key: `on:${control}`, text: `pressure ${control} = ${value}${on}` };
    case 'pb':
      return { ...base, value: Number(control), key: 'pb', text: `pitch bend ${control}${on}` };
    case 'at':
      return { ...base, value: Number(control), key: 'at', text: `pressure ${control}${on}` };
    case 'pc':
      return { ...base, value: Number(control), key: 'pc', text: `program ${control}${on}` };
    case 'down':
      return { ...base, key: `down:${control}`, text: `${control.replaceAll('_', ' ')} down` };
    case 'up':
      return { ...base, key: `down:${control}`, text: `${control.replaceAll('_', ' ')} up` };
    case 'axis':
    case 'trig':
      return { ...base, key: `${kind}:${control}`, text: `${control.replaceAll('_', ' ')} ${value === null ? '' : value.toFixed(2)}` };
    case 'osc':
      return { ...base, key: `osc:${control}`, text: rest.replace('=', ' ') };
    default:
      return { ...base, key: token, text: token };
  }
}

/** @type {Record<import('../contract.d.ts').TraceRecord['outcome'], { word: string, kind: string, help: string }>} */
export const OUTCOMES = {
  fired: { word: 'fired', kind: 'good', help: 'the action was performed' },
  no_match: { word: 'no match', kind: '', help: 'no mapping uses this event' },
  deferred: { word: 'waits', kind: 'accent', help: 'a longer gesture is still possible' },
  cancelled: { word: 'cancelled', kind: 'warn', help: 'a reload, a panic, a mute or a lost device cancelled the gesture' },
  condition_false: { word: 'condition', kind: 'warn', help: 'the condition of the action is false' },
  muted: { word: 'muted', kind: 'warn', help: 'the device is muted' },
  tainted: { word: 'needs a person', kind: 'warn', help: 'the action needs a person’s input, but another source caused the event' },
  learning: { word: 'learning', kind: 'accent', help: 'a learn session is active' },
  rate_limited: { word: 'limited', kind: 'bad', help: 'dropped by a rate limit' },
  queue_full: { word: 'queue full', kind: 'bad', help: 'too many presses wait for a running action' },
  failed: { word: 'failed', kind: 'bad', help: 'the action failed' },
};
