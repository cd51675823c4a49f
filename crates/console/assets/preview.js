// Shows the hosted page with the brand that is typed in the settings form, before it is saved.
'use strict';

(() => {
  const preview = document.querySelector('[data-preview]');
  if (!preview) return;
  const UPDATE_DELAY_MS = 300;
  const BRAND = ['name', 'logo_url', 'support_url', 'colour'];
  let frame = preview.querySelector('iframe');
  const [state, language] = preview.querySelectorAll('select');
  const part = preview.closest('.part');
  // Saving the part replaces its form.
  const field = (name) => part.querySelector('form').elements.namedItem(name);
  const projectName = () => document.getElementById('name');
  let timer = null;

  const chosenLogo = () => field('logo').files[0];

  const buildUrl = (read) => {
    const query = new URLSearchParams({ state: state.value, lang: language.value });
    for (const member of BRAND) {
      const input = field(`verification.brand.${member}`);
      // In read-only forms, URLs lack their queries. Without parameters, the server uses the saved brand.
      if (!input.matches(':disabled')) query.set(member, read(input).trim());
    }
    if (query.get('name') === '') query.set('name', read(projectName()));
    return `${preview.dataset.preview}?${query}`;
  };

  // The frame that the server has rendered shows the saved brand.
  let shown = buildUrl((input) => input.defaultValue);

  /** Posts a form with the file to a new frame. The first page of a frame adds no entry to the history. */
  const showWithFile = (url, file) => {
    const form = document.createElement('form');
    Object.assign(form, {
      method: 'post', enctype: 'multipart/form-data', action: preview.dataset.preview, target: 'preview-with-file', hidden: true,
    });
    const add = (properties) => form.append(Object.assign(document.createElement('input'), properties));
    for (const [name, value] of new URLSearchParams(url.split('?')[1])) add({ name, value });
    add({ name: 'form_token', value: field('form_token').value });
    const files = new DataTransfer();
    files.items.add(file);
    add({ type: 'file', name: 'logo', files: files.files });
    const fresh = frame.cloneNode();
    fresh.removeAttribute('src');
    fresh.name = form.target;
    frame.replaceWith(fresh);
    frame = fresh;
    document.body.append(form);
    form.submit();
    form.remove();
  };

  const update = () => {
    const [url, file] = [buildUrl((input) => input.value), chosenLogo()];
    const wanted = file ? `${url} ${file.name} ${file.size} ${file.lastModified}` : url;
    if (wanted === shown) return;
    shown = wanted;
    if (file) showWithFile(url, file);
    // A changed `src` would add an entry to the history.
    else frame.contentWindow.location.replace(url);
  };

  // Also listens to the project's name, which is in another part.
  document.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(update, UPDATE_DELAY_MS);
  });
  document.addEventListener('replaced', update);
  // The browser may have restored what was typed before.
  window.addEventListener('pageshow', update);
  preview.querySelector('[data-preview-choices]').hidden = false;
})();
