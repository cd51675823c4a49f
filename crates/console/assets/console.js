// Times, copy buttons, theme switch and popups of all pages. Pages work without it.
'use strict';

(() => {
  const MINUTE = 60;
  const HOUR = 60 * MINUTE;
  const DAY = 24 * HOUR;
  const NOW_SECONDS = 10;
  /** A time that is less than this in the future may be due to a difference between the clocks. */
  const CLOCK_SECONDS = 2;
  const UPDATE_INTERVAL_MS = 10_000;
  const COPIED_MS = 2000;

  // Times

  const two = (number) => String(number).padStart(2, '0');
  const date = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const zone = (at) => new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts(at)
    .find(({ type }) => type === 'timeZoneName').value;
  const local = (at) => `${date(at)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

  const relative = (at) => {
    const seconds = Math.round((Date.now() - at.getTime()) / 1000);
    const size = Math.abs(seconds);
    if (seconds < NOW_SECONDS && seconds > -CLOCK_SECONDS) return 'just now';
    if (size >= 30 * DAY) return date(at);
    const [unit, name] = [[DAY, 'd'], [HOUR, 'h'], [MINUTE, 'min'], [1, 's']].find(([unit]) => size >= unit);
    const text = `${Math.floor(size / unit)} ${name}`;
    return seconds < 0 ? `in ${text}` : `${text} ago`;
  };

  const showTime = (element) => {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) return;
    const isExact = 'exact' in element.dataset;
    const text = isExact ? `${local(at)}.${String(at.getMilliseconds()).padStart(3, '0')}` : relative(at);
    if (element.textContent !== text) element.textContent = text;
    element.title = isExact ? `${at.toISOString().slice(0, 23).replace('T', ' ')} UTC` : `${local(at)} ${zone(at)}`;
  };

  // Copy buttons: `data-copy` is the text, `data-copies` the id of the element with the text.

  const textToCopy = (button) => button.dataset.copy
    ?? document.getElementById(button.dataset.copies)?.textContent.trim();

  const copy = async (button) => {
    const text = textToCopy(button);
    if (text === undefined || button.dataset.copied !== undefined) return;
    await navigator.clipboard.writeText(text);
    button.dataset.copied = '';
    const [shown, name] = [button.textContent, button.getAttribute('aria-label')];
    const isIcon = button.dataset.copy !== undefined;
    if (!isIcon) button.textContent = 'Copied';
    if (!isIcon && name) button.setAttribute('aria-label', `Copied: ${name}`);
    setTimeout(() => {
      delete button.dataset.copied;
      if (!isIcon) button.textContent = shown;
      if (!isIcon && name) button.setAttribute('aria-label', name);
    }, COPIED_MS);
  };

  document.addEventListener('click', ({ target }) => {
    const button = target.closest('button[data-copy], button[data-copies]');
    if (button) copy(button);
  });

  const enhance = (root) => {
    root.querySelectorAll('time[datetime]').forEach(showTime);
    if (!navigator.clipboard) return;
    for (const button of root.querySelectorAll('button[data-copy], button[data-copies]')) button.hidden = false;
  };

  // Theme switch: system, light, dark.

  const THEMES = ['system', 'light', 'dark'];
  const themeSwitch = document.querySelector('[data-theme-switch]');
  const currentTheme = () => document.documentElement.dataset.theme ?? 'system';

  const showTheme = () => {
    const label = `Theme: ${currentTheme()}`;
    themeSwitch.setAttribute('aria-label', label);
    themeSwitch.title = label;
    themeSwitch.dataset.current = currentTheme();
  };

  const setTheme = (theme) => {
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem('theme', theme);
    } catch {
      // Storage is blocked: the choice applies to this page.
    }
    showTheme();
  };

  if (themeSwitch) {
    themeSwitch.addEventListener('click', () => {
      setTheme(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]);
    });
    showTheme();
    themeSwitch.hidden = false;
  }

  // The project switcher closes on Escape and on a click elsewhere.

  const switcher = document.querySelector('details.switcher');
  if (switcher) {
    document.addEventListener('click', ({ target }) => {
      if (!switcher.contains(target)) switcher.open = false;
    });
    switcher.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !switcher.open) return;
      switcher.open = false;
      switcher.querySelector('summary').focus();
    });
  }

  enhance(document);
  setInterval(() => document.querySelectorAll('time[datetime]').forEach(showTime), UPDATE_INTERVAL_MS);
  // Also handles rows that other scripts insert later.
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) if (node instanceof Element) enhance(node);
    }
  }).observe(document.body, { childList: true, subtree: true });
})();
