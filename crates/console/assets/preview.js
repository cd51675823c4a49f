// Shows the hosted page with the brand that is typed in the settings form, before it is saved.
'use strict';

(() => {
  const preview = document.querySelector('[data-preview]');
  if (!preview) return;
  const UPDATE_DELAY_MS = 300;
  const BRAND = ['name', 'logo_url', 'support_url', 'colour'];
  const frame = preview.querySelector('iframe');
  const [state, language] = preview.querySelectorAll('select');
  const form = preview.closest('form');
  let timer = null;

  const buildUrl = (read) => {
    const query = new URLSearchParams({ state: state.value, lang: language.value });
    for (const member of BRAND) {
      const field = form.elements.namedItem(`verification.brand.${member}`);
      // In read-only forms, URLs lack their queries. Without parameters, the server uses the saved brand.
      if (!field.matches(':disabled')) query.set(member, read(field).trim());
    }
    if (query.get('name') === '') query.set('name', read(form.elements.namedItem('name')));
    return `${preview.dataset.preview}?${query}`;
  };

  // The frame that the server has rendered shows the saved brand.
  let shown = buildUrl((field) => field.defaultValue);

  const update = () => {
    const url = buildUrl((field) => field.value);
    if (url === shown) return;
    shown = url;
    // A changed `src` would add an entry to the history.
    frame.contentWindow.location.replace(url);
  };

  form.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(update, UPDATE_DELAY_MS);
  });
  // The browser may have restored what was typed before.
  window.addEventListener('pageshow', update);
  preview.querySelector('[data-preview-choices]').hidden = false;
})();
