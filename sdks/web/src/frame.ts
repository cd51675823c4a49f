// The hosted page in a frame over this page. A modal dialog keeps the focus, closes by Escape, and gives the focus back.
import { type FrameLabels, type View, type ViewEvents, WINDOW_NAME } from './view.js';

/** Time for the page's first message after it has loaded. A page that refuses the frame sends none. */
const READY_TIMEOUT_MS = 1500;

/** Opens an empty frame. `undefined`: the browser is too old. */
export function openFrame(
  { closed, refused }: ViewEvents,
  { label = 'Phone number verification', closeLabel = 'Close' }: FrameLabels,
): View | undefined {
  const dialog = document.createElement('dialog');
  if (!dialog.showModal) return undefined;
  const button = document.createElement('button');
  const frame = document.createElement('iframe');
  // Styles are set by properties, because a content security policy may forbid style elements and attributes.
  dialog.style.cssText =
    'position:fixed;inset:0;box-sizing:border-box;display:flex;flex-direction:column;width:100%;max-width:480px;' +
    'height:100%;max-height:100%;margin:0 auto;padding:0;border:0;background:Canvas;color:CanvasText;' +
    'box-shadow:0 0 0 100vmax rgba(0,0,0,.5)';
  dialog.setAttribute('aria-modal', 'true');
  dialog.setAttribute('aria-label', label);
  button.type = 'button';
  button.textContent = '\u00d7';
  button.setAttribute('aria-label', closeLabel);
  button.style.cssText =
    'align-self:flex-end;flex:none;width:44px;height:44px;padding:0;border:0;background:none;color:inherit;' +
    'font:24px/1 sans-serif;cursor:pointer';
  button.onclick = closed;
  frame.name = WINDOW_NAME;
  frame.title = label;
  // The page has buttons that copy the text message.
  frame.allow = 'clipboard-write';
  frame.style.cssText = 'flex:1;width:100%;min-height:0;border:0';
  dialog.append(button, frame);
  dialog.onclose = closed;
  document.body.append(dialog);
  const { style } = document.documentElement;
  const { overflow } = style;
  style.overflow = 'hidden';
  dialog.showModal();
  return {
    window: frame.contentWindow,
    load(url) {
      frame.onload = () => setTimeout(refused, READY_TIMEOUT_MS);
      frame.src = url;
    },
    focus() {},
    close() {
      dialog.onclose = null;
      dialog.close();
      dialog.remove();
      style.overflow = overflow;
    },
  };
}
