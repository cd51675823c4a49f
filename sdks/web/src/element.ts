// <ringtrue-verify url="…" mode="popup">Verify</ringtrue-verify>: a button that opens the hosted page.
import { type Mode, type OpenVerification, openVerification, type Result, type VerificationUrl } from './open.js';

/** A URL, or a function that gets one from your backend when the user taps the button. */
export type UrlSource = VerificationUrl | (() => VerificationUrl);

// Servers that render pages have no elements.
const Base = (globalThis.HTMLElement ?? class {}) as typeof HTMLElement;

/** Dispatches `verified` and `failed` with the report as `detail`, `closed`, and `error` if there is no URL to open. */
export class RingtrueVerify extends Base {
  private source: UrlSource = '';
  private opened: OpenVerification | undefined;
  private readonly button: HTMLButtonElement;

  static get observedAttributes() {
    return ['url', 'disabled'];
  }

  constructor() {
    super();
    const root = this.attachShadow({ mode: 'open', delegatesFocus: true });
    this.button = document.createElement('button');
    this.button.type = 'button';
    this.button.setAttribute('part', 'button');
    this.button.style.font = 'inherit';
    this.button.onclick = () => this.open();
    this.button.append(document.createElement('slot'));
    root.append(this.button);
  }

  get url(): UrlSource {
    return this.source;
  }

  set url(source: UrlSource) {
    this.source = source;
  }

  get mode(): Mode {
    const mode = this.getAttribute('mode');
    return mode === 'redirect' || mode === 'frame' ? mode : 'popup';
  }

  set mode(mode: Mode) {
    this.setAttribute('mode', mode);
  }

  get disabled(): boolean {
    return this.hasAttribute('disabled');
  }

  set disabled(disabled: boolean) {
    this.toggleAttribute('disabled', disabled);
  }

  connectedCallback() {
    // A framework may have set properties before this class was defined. They hide the accessors.
    for (const name of ['url', 'mode', 'disabled'] as const) {
      if (!Object.getOwnPropertyDescriptor(this, name)) continue;
      const { [name]: value } = this;
      delete (this as Partial<this>)[name];
      Object.assign(this, { [name]: value });
    }
  }

  disconnectedCallback() {
    // An element that is moved is connected again at once.
    queueMicrotask(() => this.isConnected || this.opened?.close());
  }

  attributeChangedCallback(name: string, _: string | null, value: string | null) {
    if (name === 'url') this.source = value ?? '';
    else this.button.disabled = value !== null;
  }

  /** Opens the page, as a tap on the button does. If it is open, brings its window to the front. */
  open() {
    if (this.opened) return this.opened.focus();
    const { source, mode } = this;
    const opened = openVerification({ url: start(source), mode });
    this.opened = opened;
    opened.result.then(
      ({ event, ...detail }: Result) => this.end(event, detail),
      (reason) => this.end('error', reason),
    );
  }

  private end(event: string, detail: unknown) {
    this.opened = undefined;
    this.dispatchEvent(new CustomEvent(event, { detail, bubbles: event !== 'error', composed: true }));
  }
}

async function start(source: UrlSource) {
  const url = await (typeof source === 'function' ? source() : source);
  if (!url) throw new TypeError('<ringtrue-verify> has no url');
  return url;
}

if (globalThis.customElements && !customElements.get('ringtrue-verify')) {
  customElements.define('ringtrue-verify', RingtrueVerify);
}

declare global {
  interface HTMLElementTagNameMap {
    'ringtrue-verify': RingtrueVerify;
  }
}
