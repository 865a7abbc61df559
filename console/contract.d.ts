/**
 * Everything that the console's page reads from the daemon and sends to it.
 *
 * Static files: `GET /` is `console/index.html`, and `GET /assets/PATH` is `console/PATH` (html, js, css, svg,
 * png and woff2 files). No file needs a login.
 *
 * Every other route needs two headers: `X-Conductor-Key` with the key of the session, and
 * `Sec-Fetch-Site: same-origin`, which the browser adds. There is no cookie. A request with a body is a POST with
 * `Content-Type: application/json`. Every answer is JSON, except the event stream and the export.
 *
 * | route | body | answer |
 * |---|---|---|
 * | POST /console/login | Login | LoggedIn (the only route without a key) |
 * | POST /console/logout | {} | {} |
 * | GET /console/state | | State |
 * | GET /console/events?since=SEQ | | text/event-stream of ConsoleEvent |
 * | POST /console/call/TOOL | CallRequest | CallAnswer, or Fault |
 * | POST /console/decide | Decide | Decided |
 * | POST /console/play | Play | Played |
 * | POST /console/front | Front | {} |
 * | POST /console/read/NAME | Reads[NAME]["params"] | Reads[NAME]["answer"] |
 *
 * Status codes: 400 BAD_INPUT, 401 no key or an ended session (go back to the login view), 403 a refused Host,
 * Origin or Sec-Fetch-Site, 404 unknown name, 409 stale or expired, 429 RATE_LIMITED, 503 offline or busy, 202
 * APPROVAL_REQUIRED. The body of every error is a Fault, except for 403, which is {error: string}.
 *
 * All texts are untrusted: show them in text nodes only.
 */

/** RFC 3339, UTC, milliseconds. */
export type Timestamp = string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };
export type Tier = 'ReadOnly' | 'Stateful' | 'ConfigChange' | 'HardwareIO';

/* ---------------------------------------------------------------- login */

/**
 * The one-time link is `http://127.0.0.1:PORT/#login=SECRET`. The page removes the fragment from the address
 * bar, then exchanges the secret. Loading the page does not use up the link.
 */
export interface Login { secret: string }

export interface LoggedIn {
  /** The key of the session. Keep the key in `sessionStorage` and send it as `X-Conductor-Key`. */
  key: string;
  /** Public name of the session, as in `conductor console sessions`. */
  session: string;
  /** Latest end of the session. */
  expires_at: Timestamp;
  /** The session also ends after this time without a request or an open event stream. */
  idle_ms: number;
}

/* ---------------------------------------------------------------- errors */

export type Code =
  | 'BAD_INPUT' | 'NOT_FOUND' | 'STALE_REFERENCE' | 'WRONG_TYPE' | 'UNSUPPORTED' | 'SDK_REJECTED'
  | 'HOST_OFFLINE' | 'TIMEOUT' | 'DENIED' | 'APPROVAL_REQUIRED' | 'PLAN_EXPIRED' | 'PLAN_STALE'
  | 'CIRCUIT_OPEN' | 'RATE_LIMITED' | 'BUSY' | 'PIN_MISMATCH' | 'AUDIT_UNAVAILABLE' | 'INTERNAL';

export interface Fault {
  code: Code;
  message: string;
  hint: string;
  subject: string | null;
  retry_after_ms?: number;
  cause?: { code: Code; message: string };
  effect?: 'none' | 'done' | 'unknown';
  violations?: { path: string; message: string }[];
  by?: 'policy' | 'person' | 'limit';
  did_you_mean?: string[];
  /** With APPROVAL_REQUIRED: the question. */
  approval_id?: string;
  short?: string;
  expires_at?: Timestamp;
  summary?: string;
  [more: string]: Json | undefined;
}

/* ---------------------------------------------------------------- state */

export interface State {
  /** Read the events after this number. Some of them may already be in this snapshot; applying them twice is harmless. */
  seq: number;
  version: string;
  /** The person of this session, such as `person:1000`. */
  person: string;
  session: SessionNow;
  /** Milliseconds since 1970 at `at_us` = 0 of the trace, to show the time of a record. */
  trace_epoch_ms: number;
  now: Timestamp;
  status: Status;
  modes: Modes;
  devices: Devices;
  bindings: Bindings;
  meters: Meters;
  /** The newest trace records, at most 500, sorted from old to new. */
  trace: TraceRecord[];
  /** Waiting calls and plans, oldest first. */
  questions: Question[];
  circuits: Circuit[];
  /** Changes to config.toml that wait for a person. */
  waiting: ConfigWaiting;
  learning: LearningNow | null;
}

export interface SessionNow { session: string; opened_at: Timestamp; last_seen: Timestamp; expires_at: Timestamp; is_open: boolean }

/** The same as the answer of `conductor_get_status`. */
export interface Status {
  daemon_running: boolean;
  lifecycle_state: 'Init' | 'Starting' | 'Running' | 'Reloading' | 'Degraded' | 'Reconnecting' | 'Stopping' | 'Stopped';
  connected: boolean;
  device_connected: boolean;
  device: { name: string; alias: string | null; port: number; last_event_at: number | null } | null;
  uptime_secs: number;
  input_mode: 'MidiOnly' | 'GamepadOnly' | 'Both';
  statistics: Statistics;
  running: boolean;
  current_mode: string;
  mode_index: number;
  last_event_at_iso: Timestamp | null;
  backends: Backend[];
  config: {
    hash: string | null; loaded_at: Timestamp; error: string | null; disabled_mappings: number; faults: number;
    fault_lines: string[]; held: string[]; held_since: Timestamp | null; closed: string | null; unprotected: string[];
  };
  performance_lock: boolean;
  learning: LearningNow | null;
  pid: number;
  pending_plans: number;
  audit: JsonObject;
}
export interface Statistics {
  events_processed: number; actions_executed: number; events_dropped: number; actions_failed: number; reloads_failed: number;
}
export interface Backend { name: string; state: 'ready' | 'missing'; reason: string | null }
export interface LearningNow { since: Timestamp; until: Timestamp; let_through: boolean }
export interface Modes { modes: { name: string; color: string | null; mapping_count: number }[]; current: string }
export interface Devices { midi_inputs: string[]; midi_outputs: string[]; gamepads: string[]; osc_listeners: string[]; backends: Backend[] }
export interface Bindings {
  device_bindings: {
    device_id: string; port_name: string | null; connected: boolean; enabled: boolean; is_configured: boolean;
    description?: string; tainted: boolean;
  }[];
  multi_device_active: boolean; total_devices: number; connected_count: number; muted_count: number;
}

/** One event and its outcome; the same record as in `conductor monitor` and `conductor_get_trace`. */
export interface TraceRecord {
  seq: number;
  /** Microseconds on the daemon's clock; see `trace_epoch_ms`. */
  at_us: number;
  device: string;
  /** A token of the event script, such as `on:36@100`, `cc:7=64`, `down:south` or `osc:/a/b=1.0`. Empty for a timer. */
  event: string;
  gesture: string;
  mode: string;
  mapping_id: string | null;
  outcome:
    | 'fired' | 'no_match' | 'deferred' | 'cancelled' | 'condition_false' | 'muted' | 'tainted' | 'learning'
    | 'rate_limited' | 'queue_full' | 'failed';
  action: string | null;
  latency_us: number | null;
  reason: string;
  /** Only in events of the stream: number of records of a continuous control that this record replaces. */
  coalesced?: number;
}

/** Counters, the activity of devices, and held controls; sent at most 30 times a second, and only after a change. */
export interface Meters {
  statistics: Statistics;
  /** Per device: number of events since the start of the feed, and the time of the last one (as `at_us`). */
  devices: { [device: string]: { events: number; last_us: number } };
  /**
   * Per `MODE/MAPPING_ID`: number of firings, and the time of the last one. Counting starts when the first page is opened, with
   * the records that are still in the trace. For a global mapping, MODE is the mode in which it fired.
   */
  firings: { [mode_and_id: string]: { count: number; last_us: number; mode: string } };
  /** Notes and buttons that are down, by device, as event tokens without a value, such as `on:36/0` or `down:south`. */
  held: { [device: string]: string[] };
  /** Latency from event to effect since the feed started: upper bound in microseconds and count of each bucket; p50 and p99 of the last 500. */
  latency: { bounds_us: number[]; counts: number[]; p50_us: number | null; p99_us: number | null; max_us: number | null };
  /** Number of records that were not sent to the pages, because too many came at once. */
  trace_lost: number;
}

/** A waiting or decided call, plan, edit or standing grant. */
export interface Question {
  id: string;
  short: string;
  kind: 'call' | 'plan' | 'edit' | 'standing';
  state: 'pending' | 'allowed' | 'used' | 'denied' | 'expired' | 'stale' | 'undone';
  principal: string;
  tool: string;
  tier: Tier;
  pin: string;
  args_hash: string;
  summary: string;
  /** In fixed order; the effective target is first. Long values are shortened: see the read `question`. */
  facts: Fact[];
  changes?: JsonObject[];
  /** Unified diff of a plan. */
  diff_preview?: string;
  base_state_hash: string | null;
  result_state_hash?: string;
  warnings?: string[];
  policy_version: string;
  channel_floor: 'client' | 'local' | 'pad';
  uses_left: number | null;
  any_args?: boolean;
  created_at: Timestamp;
  expires_at: Timestamp | null;
  decided?: { by: string; channel: 'cli' | 'terminal' | 'console' | 'client' | 'pad' | 'rig' | 'phone'; at: Timestamp; reason?: string };
  /** Whether the call is held open now and its client waits. */
  held: boolean;
  /** Whether `scope: "session"` is possible. */
  grantable: boolean;
  /** Whether this console may answer; false if policy requires the approval pad. */
  answerable: boolean;
  /** Whether `undo` is possible: an applied plan, or an edit of a file. */
  undoable: boolean;
  /** Whether some facts are shortened. */
  shortened: boolean;
}
export interface Fact { label: string; text: string }

export interface Circuit {
  tool: string; state: 'Passing' | 'Probing' | 'Tripped'; failures: number; trips: number;
  targets: { target: string; state: string; failures: number; trips: number; cause: { code: Code; message: string } | null }[];
}

export interface ConfigWaiting {
  needs_a_person: boolean; held: string[]; since: Timestamp | null; closed: string | null;
  /** Unified diff of the accepted text and the file. */
  difference: string;
  unprotected: string[];
}

/* ---------------------------------------------------------------- events */

/**
 * One server-sent event: `id: SEQ`, `event: TYPE`, `data: JSON`. Resume with `?since=SEQ` or `Last-Event-ID`.
 * A comment line comes every 15 s. The stream ends with the session.
 */
export type ConsoleEvent =
  | { type: 'trace'; data: { records: TraceRecord[] } }
  /** Only the members that changed; merge `devices`, `firings` and `held` by key. An empty `held` list means none. */
  | { type: 'meters'; data: Partial<Meters> }
  | { type: 'status'; data: Status }
  | { type: 'modes'; data: Modes }
  | { type: 'bindings'; data: { bindings: Bindings; devices: Devices } }
  | { type: 'learning'; data: { learning: LearningNow | null } }
  /** A new question or plan, or one whose state changed. Never coalesced. */
  | { type: 'question'; data: Question }
  | { type: 'call.started'; data: { call: string; tool: string; principal: string } }
  | { type: 'call.ended'; data: { call: string; tool: string; principal: string; result: string; code: Code | null; duration_ms: number } }
  | { type: 'circuit'; data: { tool: string; target: string | null; state: 'Passing' | 'Probing' | 'Tripped' } }
  | { type: 'plugin'; data: { plugin: string; status: 'disabled' | 'ready' | 'not_configured' | 'init_failed' | 'pin_mismatch' } }
  | { type: 'checkpoint'; data: JsonObject }
  /** config.toml was read again; mappings, modes and `config` may have changed. */
  | { type: 'config'; data: { hash: string | null; waiting: ConfigWaiting } }
  /** The resource with this URI changed, such as `patch://…`, `ableton://sets` or `conductor://plans`; read it again. */
  | { type: 'changed'; data: { uri: string } }
  | { type: 'tools'; data: Record<string, never> }
  | { type: 'health'; data: HealthSample }
  | { type: 'sessions'; data: { sessions: SessionNow[] } }
  /** Events were lost: this page was too slow, or `since` is too old. Read `/console/state` again and continue from its `seq`. */
  | { type: 'behind'; data: { missed: number } }
  /** The last event: the session has ended. */
  | { type: 'ended'; data: { reason: 'logout' | 'revoked' | 'expired' | 'idle' | 'stopping' } };

/* ---------------------------------------------------------------- calls */

/**
 * A call by the person. It goes through the pipeline: it is validated, checked by policy and recorded. If policy
 * requires an approval, the answer is 202 with a Fault (APPROVAL_REQUIRED, `approval_id`): show the facts of the
 * question (read `question`), and repeat the identical call with `confirm`. A ConfigChange tool returns a plan,
 * which `decide` applies.
 */
export interface CallRequest { arguments?: JsonObject; confirm?: string }
export interface CallAnswer {
  result: Json;
  /** Pictures and texts of the result, such as those of render_patch. */
  content?: ({ type: 'text'; text: string } | { type: 'image'; mimeType: string; data: string } | JsonObject)[];
  is_error?: boolean;
}

/* ---------------------------------------------------------------- decisions */

export type Decision =
  /** `session`: this tool with any arguments, for the same caller, until its connection ends, at most 100 times in 12 h. */
  | { decision: 'allow'; id: string; scope?: 'once' | 'session' }
  | { decision: 'allow'; id: string; uses: number; for_ms?: number; any_args?: boolean }
  /** The model sees the reason (at most 500 characters). */
  | { decision: 'deny'; id: string; reason?: string }
  | { decision: 'apply'; id: string }
  | { decision: 'reject'; id: string; reason?: string }
  /** An applied plan or an edit. The undo of a plan is a new plan; `apply: true` applies it at once. */
  | { decision: 'undo'; id: string; apply?: boolean }
  /** `hash` is the hash that the read `config_waiting` returned. */
  | { decision: 'accept_config'; hash: string }
  | { decision: 'accept_log' }
  | { decision: 'reset_circuit'; tool: string | null }
  | { decision: 'performance_lock'; on: boolean }
  | { decision: 'auto_mode' }
  | { decision: 'connect_client'; client: string }
  | { decision: 'disconnect_client'; client: string }
  | { decision: 'revoke_session'; session: string };

/** At most 32 decisions, made in order. If one fails, the others are still made. */
export interface Decide { decisions: Decision[] }
export interface Decided {
  results: (
    | { ok: true; question?: Question; result?: Json }
    | { ok: false; fault: Fault }
  )[];
}

/* ---------------------------------------------------------------- playing */

/**
 * Events of virtual pads and faders. They are treated as events from the network, so they are tainted: they can
 * send MIDI and OSC, change the mode and be learned, but they cannot press keys or call tools.
 */
export interface Play {
  /** A `device_id` of the bindings. Absent: the first connected device, or `console` if there is none. */
  device?: string;
  /** Event tokens without `t:`, `dev:` and `mode:`, at most 64, such as `on:36@100` or `cc:7=64`. */
  events: string;
}
export interface Played { device: string; events: number }

/** Whether the page is visible. A desktop notification is sent only if no page is visible. */
export interface Front { visible: boolean }

/* ---------------------------------------------------------------- reads */

export interface Reads {
  /** Older trace records; see also `State.trace`. */
  trace: {
    params: { limit?: number; since_seq?: number; device?: string; mapping_id?: string; outcome?: TraceRecord['outcome'] };
    answer: { records: TraceRecord[]; next_seq: number; lost: number };
  };
  /** One question with one page of its full facts. The page starts at character `from`; `next` is the start of the next page. */
  question: { params: { id: string; from?: number }; answer: { question: Question; facts: Fact[]; next: number | null } };
  /** Decided calls, plans and edits, newest first. */
  history: { params: { limit?: number; before?: Timestamp }; answer: { questions: Question[] } };
  /** `mode` is `*` for global rows. Without `mode`, the answer contains all modes. */
  mappings: { params: { mode?: string }; answer: { modes: ModeMappings[]; problems: Problem[] } };
  /** `mapping_toml` converts a row to TOML, and `parse_mapping` converts TOML to a row. */
  mapping_toml: { params: { mode: string; id: string }; answer: { toml: string } };
  parse_mapping: { params: { toml: string }; answer: { row: JsonObject } };
  explain: {
    params: { event: string; mode?: string; device?: string };
    answer: {
      verdict: 'fires' | 'waits' | 'depends' | 'no_match' | 'muted' | 'absent' | 'tainted' | 'refused';
      candidates: {
        rank: number; mode: string; mapping_id: string; gesture: string; action: string; wins: boolean;
        failed: { field: string; wanted: string; got: string }[]; note: string;
      }[];
      waits_ms: number | null; device: string | null; reason: string; text: string;
    };
  };
  simulate: { params: { events: string; mode?: string }; answer: { trace: TraceRecord[]; text: string } };
  config: { params: {}; answer: { text: string | null; path: string; hash: string | null } };
  /** The daemon reads the file again before it answers. The decision `accept_config` needs the `hash`. */
  config_waiting: { params: {}; answer: ConfigWaiting & { hash: string; error: string | null } };
  /** The templates of the bound devices, from which the page draws the controllers. */
  controllers: {
    params: {};
    answer: {
      controllers: {
        device_id: string; template: string | null; description: string | null;
        /** Number of columns of the pads with lights. Rows start at the bottom left. */
        columns: number | null;
        /** `event` is the start of the event tokens that this control sends, such as `on:36` or `cc:7`. */
        controls: { name: string; kind: string; address: JsonObject; event: string }[];
      }[];
    };
  };
  /** Audit records, newest first; at most 1000. `before` is the `seq` of the oldest shown record. */
  audit: {
    params: {
      tool?: string; principal?: string; result?: string; since?: Timestamp; until?: Timestamp; before?: number;
      call?: string; limit?: number;
    };
    answer: { records: AuditRecord[] };
  };
  audit_verify: { params: {}; answer: AuditVerdict };
  /** The answer is `application/x-ndjson`, not JSON. */
  audit_export: { params: { since?: Timestamp; until?: Timestamp }; answer: string };
  health: {
    params: {};
    answer: {
      /** Samples of at most one hour, one per `interval_ms`, sorted from old to new. */
      samples: HealthSample[]; interval_ms: number;
      latency: Meters['latency']; circuits: Circuit[]; checks: Check[];
      /** Null without `[cluster]`. */
      rigs: Rigs | null;
    };
  };
  clients: { params: {}; answer: { clients: ClientSetup[]; connected: ConnectedClient[]; program: string } };
  tools: { params: {}; answer: { tools: ToolNow[] } };
  sessions: { params: {}; answer: { sessions: SessionNow[] } };
}

/** The rigs of `[cluster]`, as `conductor rigs` lists them. */
export interface Rigs { rig: string; connected: boolean; error: string | null; rigs: RigNow[] }
export interface RigNow {
  rig: string; state: 'up' | 'unknown'; version?: string; config_hash?: string; mode?: string | null; drops?: number | null;
  waiting?: number; last_seen?: string;
}

export interface ModeMappings {
  mode: string;
  mappings: { index: number; id: string; trigger: JsonObject; action: JsonObject; description?: string; enabled: boolean }[];
  continuous: ({ index: number; id: string; description?: string; enabled: boolean } & JsonObject)[];
}
/** A conflict, a wait or a fault of a row, as `conductor config check` reports it. */
export interface Problem { severity: 'error' | 'warning'; line: number | null; message: string; mode: string | null; mapping_id: string | null }

export interface AuditRecord {
  seq: number; ts: Timestamp; phase: 'segment' | 'intent' | 'outcome' | 'event' | 'recovery'; id?: string; call?: string;
  principal?: string; conn?: number | string; tool?: string; tier?: Tier; pin?: string; input_hash?: string; input?: Json; via?: string;
  approval?: { id: string; by: string; channel: string };
  result?: string; code?: Code; effect?: string; attempts?: number; duration_ms?: number; output_bytes?: number;
  event?: string; detail?: Json; prev: string | null; hash: string;
  [more: string]: Json | undefined;
}
export interface AuditVerdict {
  verdict: string;
  faults: { verdict: string; seq: number; expected: string; found: string }[];
  accepted: { seq: number; faults: { verdict: string; seq: number; expected: string; found: string }[] }[];
  records: number; segments: number; begins_at_seq: number | null; last_seq: number | null; checkpoints: number;
  anchored_through: number | null; unanchored: number; key_held_by: string;
  /** Other places that store the last checkpoint. */
  remembered_by: string[]; keychain_fault: string | null;
}

export interface HealthSample {
  at_ms: number;
  /** Counters since the start of the daemon; draw their differences. */
  events: number; actions: number; dropped: number; failed: number; calls: number; call_errors: number;
  /** Gauges. */
  waiting: number; circuits_open: number; memory_bytes: number | null;
  /** Median and 99th percentile of the events since the last sample. */
  latency_p50_us: number | null; latency_p99_us: number | null;
  audit_records: number | null; audit_unanchored: number | null; audit_sync_ms: number | null;
}
/** A line of `conductor doctor`. */
export interface Check { check: string; grade: 'ok' | 'note' | 'bad'; detail: string; cure: string | null }

export interface ClientSetup {
  client: string; title: string;
  /** File that `connect_client` writes; null if this client has none (show `snippet`). */
  file: string | null;
  state: 'connected' | 'not_connected' | 'not_installed' | 'unreadable';
  detail: string | null;
  snippet: string;
}
/** A client that called a tool recently, according to the audit log. */
export interface ConnectedClient {
  /** The principal of the client, such as `socket:1000/claude-code` or `http:default`. */
  principal: string; calls: number; last_seen: Timestamp;
}

export interface ToolNow {
  name: string; title: string; description: string; tier: Tier; toolset: string; input_schema: JsonObject; output_schema: Json;
  /** The decision of policy for this person: `allow`, `ask`, `plan` or `deny`. */
  decision: 'allow' | 'ask' | 'plan' | 'deny';
  example: JsonObject | null;
}

/* Patches, Sets, learn, mode, mute, panic and mappings use `call` with the ordinary tools:
 * list_active_patches, open_patch, render_patch {format:"svg"}, get_console_log, undo_patch, redo_patch, save_patch;
 * live_list_sets, live_get_song_overview, live_list_scenes, live_list_clips, live_get_notes, live_get_track,
 * live_render_clip, live_render_track, live_fire_clip, live_fire_scene, live_undo, live_redo, live_save_set;
 * conductor_start_midi_learn, conductor_stop_midi_learn, conductor_switch_mode, conductor_set_device_enabled,
 * conductor_panic, conductor_create_mapping, conductor_update_mapping, conductor_delete_mapping,
 * conductor_plan_changes. docs/tools.md lists their arguments. */

// Routes of the listener for phones, which serves no route of the console.

/** `POST /phone/pair` with the one-time secret of the link. */
export interface PhonePair { secret: string }
export interface PhonePaired { key: string; name: string }
/** `GET /phone/about`: the certificate of the listener. */
export interface PhoneAbout { fingerprint: string; self_signed: boolean }
/** A waiting call or plan. */
export type PhoneQuestion = Omit<Question, 'grantable' | 'answerable' | 'undoable'>;
/** `GET /phone/state?seen=TAG`: waits until the state differs from the one with this tag, but at most 25 s. */
export interface PhoneState {
  tag: string; now: Timestamp; device: string; questions: PhoneQuestion[];
  /** The number of requests that phones may not answer. */
  elsewhere: number;
}
/** `POST /phone/full`: a page of all facts. */
export interface PhoneFull { id: string; from: number }
/** `POST /phone/decide`. A call is allowed once. */
export interface PhoneDecide { id: string; answer: 'allow' | 'deny'; reason?: string }
