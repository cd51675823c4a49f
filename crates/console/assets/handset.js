// Plays the wallet of the simulated phone: the hosted page in its frame asks for a credential, and the console's user
// confirms or declines.
'use strict';

(() => {
  const sheet = document.querySelector('dialog[data-wallet]');
  if (!sheet) return;
  const frame = document.querySelector('iframe.hosted-page');
  const status = document.querySelector('[data-wallet-status]');
  const form = sheet.querySelector('form');
  const part = (name) => sheet.querySelector(`[data-wallet-${name}]`);
  const { sim, forgery, form_token: token } = form.elements;
  /** The request that waits for an answer. */
  let request = null;

  const close = () => {
    request = null;
    if (!sheet.open) return;
    sheet.close();
    frame.inert = false;
    frame.focus();
  };

  const answer = (wallet, text) => {
    close();
    status.textContent = text;
    frame.contentWindow.postMessage({ source: 'ringtrue-handset', wallet }, location.origin);
  };

  const stayQuiet = (text) => {
    close();
    status.textContent = text;
  };

  const post = async (action, fields) => {
    const body = new URLSearchParams({ form_token: token.value, request: JSON.stringify(request), ...fields });
    const response = await fetch(`${sheet.dataset.wallet}/${action}`, { method: 'POST', body });
    return response.json();
  };

  /** Posts to the server, and handles failures. Returns null if another request or page has come in the meantime. */
  const exchange = async (action, fields) => {
    const asked = request;
    const unreachable = { error: 'unavailable', text: 'The console did not respond.' };
    const reply = await post(action, fields).catch(() => unreachable);
    if (request !== asked) return null;
    if (!reply.error) return reply;
    if (reply.error === 'no_answer') stayQuiet(reply.text);
    else answer({ error: reply.error }, reply.text);
    return null;
  };

  const open = async () => {
    // The page's request does not contain the number.
    const shown = await exchange('request', { own_sim: new URL(frame.src).searchParams.get('sim') ?? '' });
    if (!shown) return;
    part('consent').textContent = shown.consent_text;
    const policy = part('policy');
    policy.textContent = shown.policy_text;
    policy.hidden = !shown.policy_link;
    if (shown.policy_link) policy.href = shown.policy_link;
    const noSim = new Option('No SIM in this phone', '');
    sim.replaceChildren(...shown.sims.map(({ number, name }) => new Option(`${number} · ${name}`, number)), noSim);
    sim.selectedIndex = 0;
    part('faults').open = false;
    status.textContent = '';
    frame.inert = true;
    sheet.show();
  };

  const confirm = async (fields) => {
    if (sim.value === '') {
      answer({ error: 'no_sim' }, 'The wallet has no SIM.');
      return;
    }
    for (const button of sheet.querySelectorAll('button')) button.disabled = true;
    const reply = await exchange('confirm', { sim: sim.value, ...fields });
    for (const button of sheet.querySelectorAll('button')) button.disabled = false;
    if (reply) answer(reply, fields.forgery ? 'The wallet has sent a forged answer.' : 'The wallet has confirmed.');
  };

  const decline = () => answer({ error: 'declined' }, 'The wallet has declined.');

  addEventListener('message', ({ source, origin, data }) => {
    if (source !== frame.contentWindow || origin !== location.origin) return;
    if (data?.source !== 'ringtrue' || !data.wallet) return;
    close();
    request = data.wallet;
    open();
  });
  // A new page in the frame does not wait for the answer.
  frame.addEventListener('load', close);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    confirm({});
  });
  sheet.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') decline();
  });
  part('decline').addEventListener('click', decline);
  part('forge').addEventListener('click', () => confirm({ forgery: forgery.value }));
  part('hang').addEventListener('click', () => stayQuiet('The wallet does not answer.'));
})();
