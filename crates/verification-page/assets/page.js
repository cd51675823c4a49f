'use strict';
// Follows the verification, returns to the company at its end, and copies texts.
const RETURN_AFTER_MS = 1500;
const POLL_AFTER_MS = 5000;
const { state, events, returnTo, page } = document.body.dataset;

if (returnTo) setTimeout(() => location.replace(returnTo), RETURN_AFTER_MS);

if (events) {
  const source = new EventSource(events);
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
