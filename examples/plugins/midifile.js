// Writes a phrase as a standard MIDI file. This plugin is a CommonJS module.
//
//   conductor plugins enable midifile --files-write studio

const { join } = require("path");

const TICKS = 480; // per quarter note

function variable(number) {
  const bytes = [number & 0x7f];
  for (let rest = number >> 7; rest > 0; rest >>= 7) bytes.unshift((rest & 0x7f) | 0x80);
  return bytes;
}

const big = (number, width) => Array.from({ length: width }, (_, i) => (number >>> (8 * (width - 1 - i))) & 0xff);
const letters = (text) => Array.from(text, (it) => it.charCodeAt(0));
const chunk = (name, bytes) => [...letters(name), ...big(bytes.length, 4), ...bytes];

function track(notes, tempo, channel) {
  const events = [];
  for (const { pitch, start, length, velocity = 96 } of notes) {
    events.push({ at: Math.round(start * TICKS), order: 1, bytes: [0x90 | channel, pitch, velocity] });
    events.push({ at: Math.round((start + length) * TICKS), order: 0, bytes: [0x80 | channel, pitch, 0] });
  }
  // Of two events at the same time, the note-off is written first: otherwise it would end the new
  // note of the same pitch.
  events.sort((a, b) => a.at - b.at || a.order - b.order);
  const bytes = [0, 0xff, 0x51, 3, ...big(Math.round(60_000_000 / tempo), 3)];
  let now = 0;
  for (const { at, bytes: event } of events) {
    bytes.push(...variable(at - now), ...event);
    now = at;
  }
  return [...bytes, 0, 0xff, 0x2f, 0];
}

module.exports = {
  name: "midifile",
  version: "1.0.0",
  description: "Writes notes as a standard MIDI file.",
  tools: [
    {
      name: "midifile.write",
      description: "Writes a phrase to NAME.mid in the granted folder. Starts and lengths are in quarter notes.",
      // Writing a file is an effect, so a person must approve it.
      requiresApproval: true,
      inputSchema: {
        type: "object",
        required: ["name", "notes"],
        properties: {
          name: { type: "string", pattern: "^[A-Za-z0-9 _-]{1,64}$", description: "Without .mid" },
          folder: { type: "string", maxLength: 200, description: "Inside the granted folder" },
          tempo: { type: "number", minimum: 20, maximum: 400 },
          channel: { type: "integer", minimum: 0, maximum: 15 },
          notes: {
            type: "array",
            minItems: 1,
            maxItems: 10000,
            items: {
              type: "object",
              required: ["pitch", "start", "length"],
              additionalProperties: false,
              properties: {
                pitch: { type: "integer", minimum: 0, maximum: 127 },
                start: { type: "number", minimum: 0, maximum: 100000 },
                length: { type: "number", exclusiveMinimum: 0, maximum: 100000 },
                velocity: { type: "integer", minimum: 1, maximum: 127 },
              },
            },
          },
        },
      },
      async handler({ name, folder = "", tempo = 120, channel = 0, notes }) {
        const head = chunk("MThd", [...big(0, 2), ...big(1, 2), ...big(TICKS, 2)]);
        const bytes = Uint8Array.from([...head, ...chunk("MTrk", track(notes, tempo, channel))]);
        const written = await files.write(join(folder, `${name}.mid`), bytes);
        return { path: written.path, bytes: written.size, notes: notes.length };
      },
    },
  ],
};
