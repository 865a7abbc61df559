// Type definitions for Conductor plugins. Keep this file next to your plugin, so that editors find it. See docs/plugins.md.

declare namespace Conductor {
  type JSONSchema = { [keyword: string]: unknown };

  /** The default export of the file, or `module.exports`. A class is constructed without arguments. */
  interface Plugin {
    /** Must be unique. May contain a-z, 0-9, - and _, and begins with a letter. */
    name: string;
    version: string;
    description: string;
    /** The schema of `[plugins.NAME] config`. A property with `secret: true` is a `Secret`, set with `conductor secrets set NAME.FIELD`. */
    configSchema?: JSONSchema;
    tools: ToolDefinition[];
    /** Called before the first tool call, in every new process of this plugin. */
    onLoad?(config: any): void | Promise<void>;
    /** Called before the process is stopped. */
    onUnload?(): void | Promise<void>;
  }

  interface ToolDefinition {
    /** Begins with the plugin's name and a dot. */
    name: string;
    title?: string;
    /** At most 1024 characters on one line. Shown to people and models. */
    description: string;
    /** An object schema. The handler is called only with arguments that match this schema. */
    inputSchema: JSONSchema;
    /** true: a person must approve every call. */
    requiresApproval?: boolean;
    /** true: running twice has the same effect as running once, so a failed call may be retried. */
    idempotent?: boolean;
    handler(input: any, config: any): Result | Promise<Result>;
  }

  /** A text, a complete MCP result, or any other value, which is sent as structured content. */
  type Result = string | CallToolResult | { [key: string]: unknown } | number | boolean | null | unknown[];

  interface CallToolResult {
    content: ContentBlock[];
    structuredContent?: { [key: string]: unknown };
    isError?: boolean;
  }

  type ContentBlock =
    | { type: "text"; text: string }
    | { type: "image" | "audio"; data: string; mimeType: string }
    | { type: "resource"; resource: { uri: string; mimeType?: string; text?: string; blob?: string } };

  /** Throw an error with a `code` such as NOT_FOUND, BAD_INPUT, UNSUPPORTED or HOST_OFFLINE to report the cause. Any other error is INTERNAL. */
  interface CodedError extends Error {
    code?: string;
  }

  /** A handle to a secret. In a header of `fetch`, the daemon replaces the handle with the value. The plugin cannot read the value. */
  interface Secret {
    toString(): string;
  }

  interface Entry {
    name: string;
    kind: "file" | "directory" | "link" | "other";
    size: number;
    mtime_ms: number;
  }

  interface Response {
    url: string;
    status: number;
    ok: boolean;
    headers: Headers;
    /** true: the body was truncated, because it is longer than the limit (1 MiB). */
    truncated: boolean;
    text(): Promise<string>;
    json(): Promise<any>;
    bytes(): Promise<Uint8Array>;
    arrayBuffer(): Promise<ArrayBuffer>;
  }
}

/** Writes to the daemon's log, at most 8 KiB per call. */
declare const console: { log(...it: unknown[]): void; info(...it: unknown[]): void; debug(...it: unknown[]): void; warn(...it: unknown[]): void; error(...it: unknown[]): void };

/** Timers are cancelled at the end of the call that started them. */
declare function setTimeout(run: (...it: any[]) => void, ms?: number, ...it: any[]): number;
declare function setInterval(run: (...it: any[]) => void, ms?: number, ...it: any[]): number;
declare function clearTimeout(id: number): void;
declare function clearInterval(id: number): void;

/** Fetches only from hosts listed in `net`, over https except for hosts in `[tools.web] http_hosts`. At most four requests run at once. */
declare function fetch(
  url: string | URL,
  init?: { method?: string; headers?: { [name: string]: string | Conductor.Secret }; body?: string | Uint8Array | ArrayBuffer | URLSearchParams },
): Promise<Conductor.Response>;

declare const secrets: {
  /** Returns a handle to a secret that is listed in `secrets`. */
  get(name: string): Promise<Conductor.Secret>;
};

/** Access to files under the roots listed in `files_read` and `files_write`. A path is relative to `root`, or else to the first granted root. */
declare const files: {
  read(path: string, options?: { root?: string; encoding?: "utf-8" }): Promise<string>;
  read(path: string, options: { root?: string; encoding: "bytes" }): Promise<Uint8Array>;
  write(path: string, data: string | Uint8Array | ArrayBuffer, options?: { root?: string }): Promise<{ path: string; size: number }>;
  list(path?: string, options?: { root?: string }): Promise<Conductor.Entry[]>;
  stat(path: string, options?: { root?: string }): Promise<Conductor.Entry>;
};
