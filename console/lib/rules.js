// Triggers and actions of the configuration, in words.

import { noteName } from './format.js';

/** @typedef {import('../contract.d.ts').JsonObject} JsonObject */

/** @param {any} note */
const named = (note) => `${note} ${noteName(Number(note))}`;

/**
 * The trigger in words, without its device.
 * @param {JsonObject} trigger
 */
export function triggerText(trigger) {
  const it = /** @type {any} */ (trigger);
  switch (it.type) {
    case 'Note': return `press ${named(it.note)}`;
    case 'VelocityRange': return `press ${named(it.note)}, by velocity`;
    case 'LongPress': return `hold ${named(it.note)} for ${it.duration_ms ?? 500} ms`;
    case 'DoubleTap': return `double tap ${named(it.note)}`;
    case 'NoteChord': return `${(it.notes ?? []).map(named).join(' + ')} together`;
    case 'EncoderTurn': return `turn CC ${it.cc}${it.direction === 'Clockwise' ? ' right' : it.direction === 'CounterClockwise' ? ' left' : ''}`;
    case 'CC': return `CC ${it.cc}`;
    case 'PolyAftertouch': return `pressure on ${named(it.note)}`;
    case 'Aftertouch': return 'pressure';
    case 'PitchBend': return 'pitch bend';
    case 'ProgramChange': return `program ${it.program ?? 'any'}`;
    case 'GamepadButton': return `button ${it.button}`;
    case 'GamepadButtonChord': return `${(it.buttons ?? []).join(' + ')} together`;
    case 'Osc': return `OSC ${it.address ?? ''}`;
    default: return String(it.type ?? 'unknown');
  }
}

/**
 * The action in words.
 * @param {JsonObject} action
 * @returns {string}
 */
export function actionText(action) {
  const it = /** @type {any} */ (action);
  switch (it.type) {
    case 'SendMidi': {
      const what = it.message_type === 'CC' ? `CC ${it.controller} = ${it.value}` : it.note !== undefined ? `${it.message_type} ${named(it.note)}` : it.program !== undefined ? `program ${it.program}` : it.message_type;
      return `send ${what} to ${it.port}, channel ${Number(it.channel ?? 0) + 1}`;
    }
    case 'Keystroke': return `press ${[...(it.modifiers ?? []), it.keys].join(' + ')}`;
    case 'Text': return `type “${it.text}”`;
    case 'ModeChange': return `switch to ${it.mode}`;
    case 'OscSend': return `OSC ${it.address} to ${it.host}:${it.port}`;
    case 'Sequence': return `${(it.actions ?? []).length} actions in order`;
    case 'Repeat': return `repeat: ${it.action ? actionText(it.action) : ''}`;
    case 'Conditional': return `if ${it.condition?.type ?? 'a condition holds'}: ${it.then_action ? actionText(it.then_action) : ''}`;
    case 'VolumeControl': return `system volume ${String(it.operation).toLowerCase()}`;
    case 'Launch': return `launch ${it.app}`;
    case 'Shell': return `run ${Array.isArray(it.command) ? it.command.join(' ') : it.command ?? (it.argv ?? []).join(' ')}`;
    case 'CallTool': return `call ${it.tool}`;
    case 'Plugin': return `plugin ${it.plugin}`;
    case 'MidiForward': return `forward to ${it.port ?? 'its device'}`;
    case 'MouseClick': return `click ${it.button ?? 'left'}`;
    case 'Delay': return `wait ${it.ms ?? it.duration_ms} ms`;
    default: return String(it.type ?? 'unknown');
  }
}

/** The target of a continuous row, in words. @param {JsonObject} row */
export function continuousText(row) {
  const targets = /** @type {any[]} */ (row.targets ?? []);
  const words = targets.map((it) => (it.type === 'LiveParameter' ? `Live ${it.path}` : it.controller !== undefined ? `CC ${it.controller} of ${it.port}` : it.address ? `OSC ${it.address}` : String(it.type)));
  const curve = /** @type {any} */ (row.glue)?.curve;
  return `${words.join(', ')}${curve && curve !== 'linear' ? ` (${curve})` : ''}`;
}

/** A script of events that would trigger a rule, for a simulation. @param {JsonObject} trigger */
export function scriptFor(trigger) {
  const it = /** @type {any} */ (trigger);
  const device = it.device ? `dev:${it.device} ` : '';
  switch (it.type) {
    case 'Note':
    case 'VelocityRange': return `${device}on:${it.note}@100 t:100 off:${it.note}`;
    case 'LongPress': return `${device}on:${it.note}@100 t:${Number(it.duration_ms ?? 500) + 100} off:${it.note}`;
    case 'DoubleTap': return `${device}on:${it.note} t:60 off:${it.note} t:60 on:${it.note} t:60 off:${it.note}`;
    case 'NoteChord': return `${device}${(it.notes ?? []).map((/** @type {number} */ note) => `on:${note}`).join(' ')} t:100 ${(it.notes ?? []).map((/** @type {number} */ note) => `off:${note}`).join(' ')}`;
    case 'EncoderTurn': return `${device}cc:${it.cc}=1 t:20 cc:${it.cc}=1 t:20 cc:${it.cc}=1 t:20 cc:${it.cc}=1`;
    case 'CC': return `${device}cc:${it.cc}=0 t:20 cc:${it.cc}=127`;
    case 'PitchBend': return `${device}pb:12000`;
    case 'ProgramChange': return `${device}pc:${it.program ?? 0}`;
    case 'GamepadButton': return `${device}down:${it.button} t:100 up:${it.button}`;
    case 'Osc': return `${device}osc:${it.address ?? '/a'}=1.0`;
    default: return `${device}on:36`;
  }
}

/** The fields that a new trigger of each type starts with. @type {Record<string, JsonObject>} */
export const TRIGGERS = {
  Note: { note: 36 }, LongPress: { note: 36, duration_ms: 600 }, DoubleTap: { note: 36, timeout_ms: 300 }, NoteChord: { notes: [36, 37], timeout_ms: 80 },
  VelocityRange: { note: 36 }, CC: { cc: 1 }, EncoderTurn: { cc: 16, mode: 'twos_complement', direction: 'Clockwise' }, PitchBend: {}, Aftertouch: {}, PolyAftertouch: { note: 36 }, ProgramChange: { program: 0 }, GamepadButton: { button: 'south' }, Osc: { address: '/button' },
};

/** The fields that a new action of each type starts with. @type {Record<string, JsonObject>} */
export const ACTIONS = {
  SendMidi: { port: '', channel: 0, message_type: 'NoteOn', note: 36 }, Keystroke: { keys: 's', modifiers: ['cmd'] }, ModeChange: { mode: '' }, OscSend: { host: '127.0.0.1', port: 11000, address: '/live/song/start_playing' }, Text: { text: '' }, VolumeControl: { operation: 'Up' }, CallTool: { tool: 'live_fire_scene', arguments: { sceneId: 'scene:0' } }, Launch: { app: '' }, Shell: { command: [] }, MouseClick: { button: 'Left' }, Sequence: { actions: [] },
};
