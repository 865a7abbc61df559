// The state of the page: a snapshot of the daemon, kept current by the event stream. Views subscribe
// and are drawn at most once per animation frame.

import * as api from './api.js';
import { html, LitElement } from '../vendor/lit.js';

/** @typedef {import('../contract.d.ts').State} State */
/** @typedef {import('../contract.d.ts').ConsoleEvent} ConsoleEvent */
/** @typedef {import('../contract.d.ts').Question} Question */
/** @typedef {import('../contract.d.ts').TraceRecord} TraceRecord */

/** Maximum number of trace records that the page keeps. */
const TRACE = 500;
/** Maximum number of decided questions that the page keeps. */
const DECIDED = 200;
/** Maximum number of samples that the page keeps: two hours, at one every two seconds. */
const SAMPLES = 3600;

class Store extends EventTarget {
  /** @type {State | null} */
  state = null;
  /** @type {'login' | 'connecting' | 'open' | 'lost'} */
  connection = 'login';
  /** Why the last session ended. */
  endReason = '';
  /** Questions decided since the page was opened, newest first. @type {Question[]} */
  decided = [];
  /** @type {import('../contract.d.ts').HealthSample[]} */
  samples = [];
  /** Calls that run now. @type {Map<string, { tool: string, principal: string }>} */
  running = new Map();
  /** Number of events that this slow page has missed since it was opened. */
  missed = 0;
  /** Difference between the daemon's clock and this page's clock, in milliseconds. */
  skew = 0;
  /** When the daemon started, on its own clock. */
  startedAt = 0;
  /** Whether the stream is paused: new records are kept, but not drawn. */
  paused = false;
  /** Number of records that arrived while the stream was paused. */
  heldBack = 0;
  /** The trace as the stream shows it. @type {TraceRecord[]} */
  shownTrace = [];

  #seq = 0;
  /** Whether events were lost, so that the page needs a new snapshot. */
  #behind = false;
  /** @type {AbortController | null} */
  #abort = null;
  #frame = 0;
  /** @type {Set<string>} */
  #topics = new Set();

  /** The daemon's time now. */
  now() {
    return Date.now() + this.skew;
  }

  /** The wall-clock time of a trace record. @param {number} us */
  wall(us) {
    return (this.state?.trace_epoch_ms ?? 0) + us / 1000;
  }

  /** Questions that wait for an answer. */
  get waiting() {
    return this.state?.questions ?? [];
  }

  /** @param {string[]} topics */
  touch(...topics) {
    for (const topic of topics) this.#topics.add(topic);
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#flush());
  }

  #flush() {
    this.#frame = 0;
    const topics = new Set(this.#topics);
    this.#topics.clear();
    this.dispatchEvent(new CustomEvent('change', { detail: topics }));
  }

  /** Reads a snapshot, then the event stream. Repeats both after each lost connection. */
  async open() {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.connection = 'connecting';
    this.touch('connection');
    let wait = 250;
    while (!abort.signal.aborted && api.key()) {
      try {
        await this.#snapshot();
        await api.events(this.#seq, (event) => this.#receive(event), abort.signal, () => {
          wait = 250;
          this.connection = 'open';
          this.touch('connection');
        });
        // A page that fell behind starts again with a snapshot; older events must not replace newer state.
        if (this.#behind) {
          this.#behind = false;
          await new Promise((done) => setTimeout(done, 100));
          continue;
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error instanceof api.RequestError && error.status === 401) return;
      }
      if (abort.signal.aborted || !api.key()) return;
      this.connection = 'lost';
      this.touch('connection');
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 4000);
    }
  }

  /** @param {string} reason */
  end(reason) {
    this.#abort?.abort();
    this.state = null;
    this.connection = 'login';
    this.endReason = reason;
    this.touch('connection');
  }

  async #snapshot() {
    const state = await api.state();
    this.skew = Date.parse(state.now) - Date.now();
    this.state = state;
    this.startedAt = Date.parse(state.now) - state.status.uptime_secs * 1000;
    this.#seq = state.seq;
    if (!this.paused) this.shownTrace = state.trace;
    // Calls may have ended and documents may have changed without an event for this page.
    this.running.clear();
    this.dispatchEvent(new CustomEvent('changed', { detail: '' }));
    this.touch('all');
  }

  /** Applies an event. Returns whether the page continues to read. @param {ConsoleEvent} event */
  #receive(event) {
    const state = this.state;
    if (!state) return false;
    switch (event.type) {
      case 'trace': {
        const last = state.trace.at(-1)?.seq ?? -1;
        const fresh = event.data.records.filter((it) => it.seq > last);
        state.trace = [...state.trace, ...fresh].slice(-TRACE);
        if (this.paused) this.heldBack += fresh.length;
        else this.shownTrace = state.trace;
        this.dispatchEvent(new CustomEvent('records', { detail: fresh }));
        break;
      }
      case 'meters': {
        const { devices, firings, held, ...rest } = event.data;
        Object.assign(state.meters, rest);
        Object.assign(state.meters.devices, devices);
        Object.assign(state.meters.firings, firings);
        Object.assign(state.meters.held, held);
        if (rest.statistics) state.status.statistics = rest.statistics;
        break;
      }
      case 'status':
        state.status = event.data;
        break;
      case 'modes':
        state.modes = event.data;
        break;
      case 'bindings':
        state.bindings = event.data.bindings;
        state.devices = event.data.devices;
        break;
      case 'learning':
        state.learning = event.data.learning;
        break;
      case 'question':
        this.#question(event.data);
        break;
      case 'call.started':
        this.running.set(event.data.call, event.data);
        break;
      case 'call.ended':
        this.running.delete(event.data.call);
        break;
      case 'circuit': {
        const known = state.circuits.find((it) => it.tool === event.data.tool);
        if (known) known.state = event.data.state;
        else state.circuits.push({ tool: event.data.tool, state: event.data.state, failures: 0, trips: 0, targets: [] });
        break;
      }
      case 'config':
        state.waiting = event.data.waiting;
        break;
      case 'health':
        this.samples = [...this.samples, event.data].slice(-SAMPLES);
        break;
      case 'behind':
        this.missed += event.data.missed;
        this.#behind = true;
        return false;
      case 'ended':
        api.forget();
        this.end(event.data.reason);
        return false;
      case 'changed':
        this.dispatchEvent(new CustomEvent('changed', { detail: event.data.uri }));
        break;
      case 'plugin':
      case 'checkpoint':
      case 'tools':
      case 'sessions':
        break;
    }
    this.touch(event.type);
    return true;
  }

  /** @param {Question} question */
  #question(question) {
    const state = this.state;
    if (!state) return;
    const at = state.questions.findIndex((it) => it.id === question.id);
    if (question.state === 'pending') {
      state.questions = at < 0 ? [...state.questions, question] : state.questions.with(at, question);
      if (at < 0) this.dispatchEvent(new CustomEvent('asked', { detail: question }));
      return;
    }
    if (at >= 0) state.questions = state.questions.toSpliced(at, 1);
    this.decided = [question, ...this.decided.filter((it) => it.id !== question.id)].slice(0, DECIDED);
  }
}

export const store = new Store();
api.onEnded(() => store.end('ended'));

/** Base class of the views. A view has no shadow root, and is drawn again when one of its topics changes. */
export class View extends LitElement {
  /** Topics that this view shows; `null` means all. @type {string[] | null} */
  static topics = null;

  /** Topics that make this view load its data again. @type {string[]} */
  static reloadTopics = [];

  constructor() {
    super();
    /** @param {Event} event */
    this.onChange = (event) => {
      const topics = /** @type {CustomEvent<Set<string>>} */ (event).detail;
      const { topics: own, reloadTopics } = /** @type {typeof View} */ (this.constructor);
      if (reloadTopics.length > 0 && (topics.has('all') || reloadTopics.some((it) => topics.has(it)))) this.load();
      if (!own || topics.has('all') || topics.has('connection') || own.some((it) => topics.has(it))) this.requestUpdate();
    };
  }

  /** Loads the data of this view. @returns {Promise<void>} */
  async load() {}

  createRenderRoot() {
    return this;
  }

  connectedCallback() {
    super.connectedCallback();
    store.addEventListener('change', this.onChange);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    store.removeEventListener('change', this.onChange);
  }
}

/** A list next to the details of its chosen row. On a narrow screen, the details cover the list. */
export class ListView extends View {
  /** @type {typeof LitElement.properties} */
  static properties = { open: { state: true } };

  constructor() {
    super();
    /** Whether the details cover the list, on a narrow screen. */
    this.open = false;
  }

  /** CSS classes of the element that contains the list and the details. */
  get sides() {
    return `list-detail ${this.open ? 'open' : ''}`;
  }

  /** The button that returns from the details to the list, on a narrow screen. */
  back() {
    return html`<button class="btn small quiet back" type="button" @click=${() => { this.open = false; }}>‹ All</button>`;
  }
}

/** Base class of views that show documents. Reads them when the view appears, and again after each change. */
export class DocumentView extends View {
  static topics = ['changed'];
  /** Prefix of the URIs of these documents. */
  static scheme = '';

  constructor() {
    super();
    this.busy = false;
    this.again = false;
    /** @param {Event} event */
    this.onDocument = (event) => {
      const uri = String(/** @type {CustomEvent} */ (event).detail);
      // Without a URI, every document may have changed.
      if (!uri || uri.startsWith(/** @type {typeof DocumentView} */ (this.constructor).scheme)) this.load();
    };
  }

  connectedCallback() {
    super.connectedCallback();
    store.addEventListener('changed', this.onDocument);
    this.load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    store.removeEventListener('changed', this.onDocument);
  }

  async load() {
    // Changes that arrive during a read cause one more read, not one read each.
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    do {
      this.again = false;
      await this.readAll();
    } while (this.again);
    this.busy = false;
  }

  /** Reads the data that the view shows. */
  async readAll() {}
}
