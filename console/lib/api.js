// Requests to the daemon. The key of the session is in `sessionStorage` and is sent as a header;
// the event stream is read with `fetch`, because `EventSource` cannot send headers.

/** @typedef {import('../contract.d.ts').Fault} Fault */
/** @typedef {import('../contract.d.ts').Reads} Reads */

const KEY = 'conductor-key';

export const key = () => sessionStorage.getItem(KEY);

/** Called when the session has ended, for example after a 401. The store sets it. */
let ended = () => {};
/** @param {() => void} handler */
export const onEnded = (handler) => {
  ended = handler;
};

export function forget() {
  sessionStorage.removeItem(KEY);
}

/** An error that the daemon returned. */
export class RequestError extends Error {
  /**
   * @param {number} status
   * @param {Partial<Fault> & { error?: string }} fault
   */
  constructor(status, fault) {
    super(fault.message ?? fault.error ?? `the daemon answered ${status}`);
    this.status = status;
    this.fault = fault;
  }
}

/**
 * @param {string} path
 * @param {object | undefined} body
 * @param {AbortSignal} [signal]
 */
async function request(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { 'X-Conductor-Key': key() ?? '' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const response = await fetch(path, {
    method: body === undefined ? 'GET' : 'POST',
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: 'no-store',
    signal,
  });
  if (response.status === 401 && path !== '/console/login') {
    forget();
    ended();
  }
  return response;
}

/**
 * @param {string} path
 * @param {object} [body]
 */
async function json(path, body) {
  const response = await request(path, body);
  const value = await response.json().catch(() => ({}));
  if (!response.ok || response.status === 202) throw new RequestError(response.status, value);
  return value;
}

/** Exchanges the secret of a one-time link for a session. @param {string} secret */
export async function login(secret) {
  /** @type {import('../contract.d.ts').LoggedIn} */
  const opened = await json('/console/login', { secret });
  sessionStorage.setItem(KEY, opened.key);
  return opened;
}

export const logout = () => json('/console/logout', {});

/** @returns {Promise<import('../contract.d.ts').State>} */
export const state = () => json('/console/state');

/**
 * @template {keyof Reads} N
 * @param {N} name
 * @param {Reads[N]['params']} params
 * @returns {Promise<Reads[N]['answer']>}
 */
export const read = (name, params) => json(`/console/read/${name}`, params);

/** The audit log as a file. @param {Reads['audit_export']['params']} params */
export async function exportAudit(params) {
  const response = await request('/console/read/audit_export', params);
  if (!response.ok) throw new RequestError(response.status, await response.json().catch(() => ({})));
  return response.blob();
}

/**
 * @param {string} tool
 * @param {import('../contract.d.ts').JsonObject} args
 * @param {string} [confirm]
 * @returns {Promise<import('../contract.d.ts').CallAnswer>}
 */
export const callOnce = (tool, args, confirm) =>
  json(`/console/call/${encodeURIComponent(tool)}`, confirm ? { arguments: args, confirm } : { arguments: args });

/**
 * @param {import('../contract.d.ts').Decision[]} decisions
 * @returns {Promise<import('../contract.d.ts').Decided>}
 */
export const decide = (...decisions) => json('/console/decide', { decisions });

/**
 * @param {string} events
 * @param {string} [device]
 */
export const play = (events, device) => json('/console/play', device ? { device, events } : { events });

/** @param {boolean} visible */
export const front = (visible) => json('/console/front', { visible });

/**
 * Reads the event stream until it ends or fails, or until `handle` returns false.
 * @param {number} since
 * @param {(event: import('../contract.d.ts').ConsoleEvent) => boolean} handle
 * @param {AbortSignal} signal
 * @param {() => void} opened
 */
export async function events(since, handle, signal, opened) {
  const response = await request(`/console/events?since=${since}`, undefined, signal);
  if (!response.ok || !response.body) throw new RequestError(response.status, await response.json().catch(() => ({})));
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      let type = '';
      let data = '';
      for (const line of block.split('\n')) {
        if (line.startsWith('event:')) type = line.slice(6).trim();
        else if (line.startsWith('data:')) data += line.slice(5).trimStart();
      }
      if (type && !handle(/** @type {any} */ ({ type, data: JSON.parse(data) }))) {
        await reader.cancel();
        return;
      }
    }
  }
}
