// Saves a part of the settings without leaving the page, so that what is typed in other parts is kept.
'use strict';

(() => {
  const main = document.querySelector('main');
  const showFailure = (part, text) => {
    const alert = document.createElement('p');
    alert.className = 'alert';
    alert.setAttribute('role', 'alert');
    alert.textContent = text;
    part.querySelector('.result').replaceChildren(alert);
  };

  const send = async (form) => {
    const fields = new FormData(form);
    const body = form.enctype === 'multipart/form-data' ? fields : new URLSearchParams(fields);
    const response = await fetch(form.action, { method: 'POST', body });
    return new DOMParser().parseFromString(await response.text(), 'text/html');
  };

  /** Takes the result, the form and the project's name from the page that the server has sent. */
  const show = (part, form, page) => {
    const received = page.getElementById(part.id);
    const replacement = received?.querySelector('form[data-in-place]');
    if (!replacement) return false;
    form.replaceWith(replacement);
    part.querySelector('.result').replaceChildren(...received.querySelector('.result').childNodes);
    const name = page.querySelector('[data-project-name]')?.textContent;
    if (name) document.querySelectorAll('[data-project-name]').forEach((element) => { element.textContent = name; });
    document.title = page.title;
    (replacement.querySelector('[aria-invalid]') ?? replacement.querySelector('button:not([name])')).focus();
    part.dispatchEvent(new Event('replaced', { bubbles: true }));
    return true;
  };

  main.addEventListener('submit', async (event) => {
    const form = event.target;
    if (!form.matches('[data-in-place]')) return;
    event.preventDefault();
    if (form.ariaBusy === 'true') return;
    const part = form.closest('.part');
    form.ariaBusy = 'true';
    part.querySelector('.result').replaceChildren();
    try {
      // Without the part, the page is another one, such as the sign-in: the browser opens it.
      if (!show(part, form, await send(form))) form.submit();
    } catch {
      showFailure(part, 'No changes were saved. The server cannot be reached; try again.');
    } finally {
      form.ariaBusy = null;
    }
  });
})();
