// Replaces a part of the page with its current version every few seconds, while the page is visible.
'use strict';

(() => {
  const part = document.querySelector('[data-refresh-seconds]');
  if (!part || !part.id) return;
  const bar = document.querySelector('[data-refresh-bar]');
  const state = bar.querySelector('[data-refresh-state]');
  const pause = bar.querySelector('[data-refresh-pause]');
  const interval = Number(part.dataset.refreshSeconds) * 1000;
  let timer = null;
  let isPaused = false;

  // Only changes are announced to screen readers.
  const setState = (text) => {
    if (state.textContent !== text) state.textContent = text;
  };

  const schedule = () => {
    clearTimeout(timer);
    timer = isPaused || document.hidden ? null : setTimeout(refresh, interval);
  };

  /** Whether the user is reading or typing in the part, which a replacement would interrupt. */
  const isInUse = () => part.contains(document.activeElement) || String(document.getSelection()) !== '';

  const detailsOpenStates = (root) => [...root.querySelectorAll('details')].map((details) => details.open);

  const stop = (text) => {
    isPaused = true;
    pause.textContent = 'Resume';
    setState(text);
    schedule();
  };

  const refresh = async () => {
    if (isInUse()) {
      schedule();
      return;
    }
    try {
      const response = await fetch(window.location.href, {
        // Marks a request without an action of the user, which does not keep the session alive.
        headers: { accept: 'text/html', 'x-background-request': '1' },
      });
      if (response.redirected) {
        stop('Your session has ended. Reload the page to sign in.');
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const current = page.getElementById(part.id);
      if (current && !isPaused && !isInUse()) {
        const open = detailsOpenStates(part);
        part.replaceChildren(...current.childNodes);
        part.querySelectorAll('details').forEach((details, index) => { details.open = open[index] ?? false; });
      }
      if (!isPaused) setState('Updates by itself.');
    } catch {
      if (!isPaused) setState('The server does not respond. Trying again…');
    }
    schedule();
  };

  pause.addEventListener('click', () => {
    if (!isPaused) {
      stop('Paused.');
      return;
    }
    isPaused = false;
    pause.textContent = 'Pause';
    setState('Updates by itself.');
    refresh();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden || isPaused) schedule();
    else refresh();
  });
  bar.hidden = false;
  schedule();
})();
