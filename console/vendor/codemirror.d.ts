// The part of CodeMirror that the console uses, without the types of its extensions.
export interface Text { toString(): string }
export class EditorState {
  static create(options: object): EditorState;
  static readOnly: { of(value: boolean): unknown };
  readonly doc: Text & { length: number };
}
export class EditorView {
  constructor(options: object);
  readonly state: EditorState;
  readonly dom: HTMLElement;
  static theme(rules: object, options?: { dark?: boolean }): unknown;
  static lineWrapping: unknown;
  static updateListener: { of(listener: (update: { docChanged: boolean; state: EditorState }) => void): unknown };
  static contentAttributes: { of(attributes: Record<string, string>): unknown };
  dispatch(transaction: object): void;
  destroy(): void;
}
export const keymap: { of(keys: readonly unknown[]): unknown };
export function lineNumbers(): unknown;
export function highlightActiveLine(): unknown;
export function drawSelection(): unknown;
export const defaultKeymap: readonly unknown[];
export function history(): unknown;
export const historyKeymap: readonly unknown[];
export const StreamLanguage: { define(mode: unknown): unknown };
export function syntaxHighlighting(style: unknown): unknown;
export const HighlightStyle: { define(rules: object[]): unknown };
export const toml: unknown;
export const tags: Record<string, any>;
