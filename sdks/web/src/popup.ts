// The hosted page in a pop-up window. Phones open a tab instead.
import { type View, type ViewEvents, WINDOW_NAME } from './view.js';

const WIDTH = 480;
const HEIGHT = 720;
const POLL_INTERVAL_MS = 300;

/** Opens an empty window. `undefined`: the browser has blocked it. */
export function openPopup({ closed }: ViewEvents): View | undefined {
  const left = Math.round(screenX + (outerWidth - WIDTH) / 2);
  const top = Math.round(screenY + (outerHeight - HEIGHT) / 2);
  const popup = open('about:blank', WINDOW_NAME, `popup,width=${WIDTH},height=${HEIGHT},left=${left},top=${top}`);
  if (!popup || popup.closed) return undefined;
  let wasClosed = false;
  // No event says that another site's window was closed. The second look lets a last message arrive first.
  const poll = setInterval(() => {
    if (wasClosed) closed();
    wasClosed = popup.closed;
  }, POLL_INTERVAL_MS);
  return {
    window: popup,
    load: (url) => popup.location.replace(url),
    focus: () => popup.focus(),
    close() {
      clearInterval(poll);
      popup.close();
    },
  };
}
