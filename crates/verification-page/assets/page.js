'use strict';
// Goes to the operator, follows the verification, returns to the company at its end or reports it to the company's
// page, and copies texts.
// The server lets other browsers wait as long.
const OPERATOR_TIMEOUT_MS = 8000;
const RETURN_AFTER_MS = 1500;
// If the company's page has handled a message, this window is closed by then.
const UNHANDLED_AFTER_MS = 3000;
const POLL_AFTER_MS = 5000;
const { state, events, operator, returnTo, page, origins, event: endEvent, result } = document.body.dataset;
// The company's page, if it opened this window or frame by the library (sdks/web), which names it so.
const host = origins && window.name === 'ringtrue-verify' && (parent === window ? opener : parent);

const forward = () => returnTo && location.replace(returnTo);
// The browser delivers a message only to a page of the given origin.
const post = (message) => origins.split(' ').forEach((origin) => {
  host.postMessage({ source: 'ringtrue', ...message }, origin);
});

if (host) {
  post({ event: 'ready' });
  // Keys that are pressed in a frame do not reach the page around it.
  addEventListener('keydown', ({ key }) => key === 'Escape' && host === parent && post({ event: 'close' }));
}
if (host && result) report();
else if (returnTo) setTimeout(forward, state === 'confirming' ? 0 : RETURN_AFTER_MS);

// Reports a success by itself, and anything else when the user taps to return.
function report() {
  const message = { event: endEvent, ...Object.fromEntries(new URLSearchParams(result)) };
  const back = document.getElementById('return');
  back.hidden = false;
  const onTap = (tap) => {
    tap.preventDefault();
    post(message);
    setTimeout(() => back.firstElementChild.click(), UNHANDLED_AFTER_MS);
  };
  back.addEventListener('click', onTap, { once: true });
  if (endEvent !== 'verified') return;
  setTimeout(() => {
    post(message);
    setTimeout(forward, UNHANDLED_AFTER_MS);
  }, state === 'confirming' ? 0 : RETURN_AFTER_MS);
}

if (operator) leave();
else if (events) follow();

// The page stays visible while the browser goes to the operator, and offers a way out if it does not get there.
function leave() {
  const [leaving, stalled] = ['leaving', 'stalled'].map((id) => document.getElementById(id));
  stalled.hidden = true;
  const giveUp = () => {
    if (!stalled.hidden) return;
    window.stop();
    leaving.hidden = true;
    stalled.hidden = false;
    follow();
  };
  // After the page has loaded, so that it stays in the history. The timers of a page in the cache of the browser stop.
  const go = () => setTimeout(() => {
    location.href = operator;
    setTimeout(giveUp, OPERATOR_TIMEOUT_MS);
  });
  addEventListener('pageshow', (event) => (event.persisted ? giveUp() : go()));
}

function follow() {
  const source = new EventSource(events);
  // The event of what a form starts could arrive before its response, and cancel the navigation.
  // A form that opens another tab leaves this page open.
  addEventListener('submit', ({ target: form }) => form.target !== '_blank' && source.close());
  // Such a page may come from the cache of the browser.
  addEventListener('pageshow', (event) => event.persisted && location.replace(page));
  source.addEventListener('state', (event) => {
    if (event.data === state) return;
    source.close();
    location.replace(page);
  });
  // The browser reconnects by itself unless the stream was refused.
  source.addEventListener('error', () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.replace(page), POLL_AFTER_MS);
  });
}

for (const button of document.querySelectorAll('[data-copy]')) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    document.getElementById('copied').textContent = button.dataset.copied;
  });
}
