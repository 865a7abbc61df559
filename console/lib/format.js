// Formats numbers, times and durations as text. The style sheet gives all digits equal width.

/** @param {number} value */
export const count = (value) => (Number.isFinite(value) ? Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f') : '–');

/** @param {number | null | undefined} us microseconds */
export function micros(us) {
  if (us === null || us === undefined) return '';
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms`;
  return `${(us / 1_000_000).toFixed(2)} s`;
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, '0')} min` : `${Math.floor(hours / 24)} d`;
}

/** The time left as minutes and seconds. @param {number} ms */
export function countdown(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

/** How long ago, in words. @param {number} ms */
export function ago(ms) {
  if (ms < 1500) return 'now';
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** @param {number} bytes */
export function bytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** @param {number | string | Date} time */
export function clockTime(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? '' : clock.format(date);
}

/** The day and the time; without the day if it is today. @param {number | string} time */
export function dayTime(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return '';
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

const NOTES = ['C', 'C♯', 'D', 'D♯', 'E', 'F', 'F♯', 'G', 'G♯', 'A', 'A♯', 'B'];

/** The name of a MIDI note; note 60 is C4. @param {number} note */
export const noteName = (note) => `${NOTES[note % 12]}${Math.floor(note / 12) - 1}`;
