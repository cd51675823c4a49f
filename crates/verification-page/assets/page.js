'use strict';
// Goes to the operator, follows the verification, returns to the company at its end, and copies texts.
// The server lets other browsers wait as long.
const OPERATOR_TIMEOUT_MS = 8000;
const RETURN_AFTER_MS = 1500;
const POLL_AFTER_MS = 5000;
const { state, events, operator, returnTo, page } = document.body.dataset;

if (returnTo) setTimeout(() => location.replace(returnTo), RETURN_AFTER_MS);

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
  addEventListener('submit', () => source.close());
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
