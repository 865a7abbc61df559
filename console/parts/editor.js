// A text editor for TOML: CodeMirror, loaded when it is first shown. The editor is inside a shadow
// root, because its styles are then constructed style sheets, which the content security policy
// allows.

/** @type {Promise<typeof import('../vendor/codemirror.js')> | null} */
let library = null;

class TextEditor extends HTMLElement {
  /** @type {import('../vendor/codemirror.js').EditorView | null} */
  #view = null;
  #value = '';

  get value() {
    return this.#view ? this.#view.state.doc.toString() : this.#value;
  }

  set value(text) {
    if (text === this.#value && this.#view) return;
    this.#value = text;
    this.#view?.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } });
  }

  async connectedCallback() {
    // A value that was set before this class was loaded is a plain property of the element.
    if (Object.hasOwn(this, 'value')) {
      const early = /** @type {any} */ (this).value;
      delete (/** @type {any} */ (this).value);
      this.value = early;
    }
    library ??= import('../vendor/codemirror.js');
    const cm = await library;
    if (this.#view || !this.isConnected) return;
    const root = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    const style = cm.HighlightStyle.define([
      { tag: cm.tags.propertyName, color: 'var(--accent)' }, { tag: cm.tags.string, color: 'var(--good)' }, { tag: cm.tags.number, color: 'var(--warn)' },
      { tag: cm.tags.bool, color: 'var(--warn)' }, { tag: cm.tags.comment, color: 'var(--dim)' }, { tag: cm.tags.atom, color: 'var(--accent)' },
    ]);
    this.#view = new cm.EditorView({
      root,
      parent: root,
      state: cm.EditorState.create({
        doc: this.#value,
        extensions: [
          cm.lineNumbers(), cm.history(), cm.drawSelection(), cm.highlightActiveLine(), cm.EditorView.lineWrapping, cm.StreamLanguage.define(cm.toml), cm.syntaxHighlighting(style),
          cm.keymap.of([...cm.defaultKeymap, ...cm.historyKeymap]), cm.EditorView.contentAttributes.of({ 'aria-label': this.getAttribute('label') ?? 'Text' }),
          cm.EditorView.updateListener.of((update) => { if (update.docChanged) { this.#value = update.state.doc.toString(); this.dispatchEvent(new Event('input')); } }),
          cm.EditorView.theme({
            '&': { backgroundColor: 'var(--sunken)', color: 'var(--text)', fontSize: '12.5px', minHeight: '160px', maxHeight: '46vh' },
            '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--accent)' }, '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--dim)', border: 'none' },
            '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--line) 40%, transparent)' }, '.cm-activeLineGutter': { backgroundColor: 'transparent' }, '.cm-scroller': { overflow: 'auto' },
            '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--accent-soft)' }, '.cm-cursor': { borderLeftColor: 'var(--accent)' },
          }),
        ],
      }),
    });
  }

  disconnectedCallback() {
    this.#view?.destroy();
    this.#view = null;
    this.shadowRoot?.replaceChildren();
  }
}
customElements.define('text-editor', TextEditor);

export {};
