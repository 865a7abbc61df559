// The part of lit that the console uses.
export interface TemplateResult { readonly strings: TemplateStringsArray; readonly values: unknown[] }
export function html(strings: TemplateStringsArray, ...values: unknown[]): TemplateResult;
export function svg(strings: TemplateStringsArray, ...values: unknown[]): TemplateResult;
export const nothing: unique symbol;
export function render(value: unknown, container: HTMLElement | DocumentFragment): unknown;
export function repeat<T>(items: Iterable<T>, key: (item: T, index: number) => unknown, template: (item: T, index: number) => unknown): unknown;
export function ref(target: (element: Element | undefined) => void): unknown;
export function live(value: unknown): unknown;
export class LitElement extends HTMLElement {
  static properties: Record<string, { state?: boolean; type?: unknown; attribute?: string | boolean }>;
  readonly renderRoot: HTMLElement | DocumentFragment;
  readonly hasUpdated: boolean;
  readonly updateComplete: Promise<boolean>;
  createRenderRoot(): HTMLElement | DocumentFragment;
  requestUpdate(): void;
  connectedCallback(): void;
  disconnectedCallback(): void;
  protected willUpdate(changed: Map<PropertyKey, unknown>): void;
  protected updated(changed: Map<PropertyKey, unknown>): void;
  protected firstUpdated(changed: Map<PropertyKey, unknown>): void;
  protected render(): unknown;
}
