'use strict';
// Sends the browser to the operator, asks the phone's wallet, follows the verification, tells the company how it ended,
// and copies texts.
// The server makes other browsers wait for the same time.
const OPERATOR_TIMEOUT_MS = 8000;
const RETURN_AFTER_MS = 1500;
// If the company's page handles a message, it closes this window earlier.
const UNHANDLED_AFTER_MS = 3000;
// The server sends the first event at once. A proxy that buffers responses holds it back.
const BUFFERED_AFTER_MS = 5000;
const POLL_INTERVAL_MS = 5000;
const POLL_TIMEOUT_MS = 10000;
const COUNTDOWN_SECONDS = 120;
const WALLET_PROTOCOL = 'openid4vp-v1-unsigned';
// Longer than a user needs, shorter than the check lives.
const WALLET_TIMEOUT_MS = 90000;
// Longer than the server waits for the operator.
const ANSWER_TIMEOUT_MS = 20000;
const WALLET_FAILURES = { NotAllowedError: 'declined', NotFoundError: 'no_sim', AbortError: 'timed_out', TimeoutError: 'timed_out' };
const { state, events, poll: stateUrl, operator, returnTo, page, origins, event: endEvent, result } = document.body.dataset;
const { wallet, walletRequest, walletSeconds, start, handset } = document.body.dataset;
const stepEndsAt = Date.now() + walletSeconds * 1000;
// The company's page, if its library (sdks/web) opened and named this window or frame.
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

// Reports a success by itself, and a failure when the user taps to return.
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

// Aborted when the page loads another state.
const loading = new AbortController();
let sendsAnswer = false;
if (wallet) offerWallet();
if (operator) leave();
else if (events) follow();

// The page stays visible while the browser goes to the operator, and offers a way out if that takes too long.
function leave() {
  const [leaving, stalled] = ['leaving', 'stalled'].map((id) => document.getElementById(id));
  stalled.hidden = true;
  const giveUp = () => {
    if (!stalled.hidden) return;
    window.stop();
    leaving.hidden = true;
    stalled.hidden = false;
    // The page offers the wallet after a redirect without an answer. It must not load before the server can be reached:
    // if mobile data is dead, the browser's error page would replace the ways that are shown now.
    follow(wallet ? null : state);
  };
  // After the page has loaded, so that it stays in the history. Timers stop while it is in the browser's cache.
  const go = () => setTimeout(() => {
    location.href = operator;
    setTimeout(giveUp, OPERATOR_TIMEOUT_MS);
  });
  addEventListener('pageshow', (event) => (event.persisted ? giveUp() : go()));
}

// Offers the wallet if this browser can ask it. Otherwise, the page works as without JavaScript.
function offerWallet() {
  const allows = window.DigitalCredential?.userAgentAllowsProtocol;
  const isAble = handset === '' || (window.DigitalCredential && (allows?.(WALLET_PROTOCOL) ?? true));
  // With this parameter, a redirect that fails leads back here.
  const marked = (url) => {
    const { pathname, searchParams } = new URL(url, location.href);
    if (isAble) searchParams.set('wallet', '1');
    return `${pathname}?${searchParams}`;
  };
  for (const form of document.querySelectorAll('form[action*="/silent"]')) form.action = marked(form.action);
  const section = document.getElementById('wallet');
  if (isAble && section) {
    section.hidden = false;
    // After a redirect without an answer, the user may also try that again.
    document.getElementById('without-wallet').hidden = state !== 'stalled';
    useButton(section.querySelector('button'), section.querySelector('[role=status]'));
    return;
  }
  if (start) location.replace(marked(start));
}

// Asks the wallet on a tap, and goes on with its answer. The button keeps the focus.
function useButton(button, status) {
  const show = (text, isBusy) => {
    button.setAttribute('aria-disabled', isBusy);
    status.classList.toggle('busy', isBusy);
    status.textContent = text;
  };
  let request = null;
  const ask = async () => {
    if (!request) request = await requestWallet().catch(() => null);
    if (loading.signal.aborted) return;
    // Browsers open the wallet only within seconds of a tap. A late response needs another one.
    if (request && handset !== '' && navigator.userActivation?.isActive === false) {
      button.textContent = button.dataset.again;
      // Screen readers do not announce the button's new text.
      show(status.dataset.again, false);
      return;
    }
    const answer = request ? await (handset === '' ? askSimulatedWallet : askBrowser)(request) : { error: 'unavailable' };
    if (loading.signal.aborted) return;
    sendsAnswer = true;
    location.replace(await sendAnswer(answer));
  };
  button.addEventListener('click', () => {
    if (button.getAttribute('aria-disabled') === 'true') return;
    show(status.dataset.busy, true);
    ask().catch(() => location.replace(page));
  });
}

const send = (url, body) => fetch(url, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(body),
  // Without a timeout, a response that never comes would leave the user here.
  signal: AbortSignal.timeout?.(ANSWER_TIMEOUT_MS),
});

async function requestWallet() {
  const response = await send(walletRequest, {});
  return response.ok ? response.json() : null;
}

// Sends the wallet's answer, or why there is none. Returns the URL to go to.
async function sendAnswer(answer) {
  const response = await send(wallet, answer).catch(() => null);
  if (response?.ok) return (await response.json()).location;
  // Without a response, or after a server error, the answer may have led to a verdict, which the page shows. A refused
  // answer has not, and would lead back to the button, again and again.
  const isRefused = response?.status >= 400 && response.status < 500;
  return isRefused && !answer.error ? sendAnswer({ error: 'unavailable' }) : page;
}

const walletTimeout = () => Math.max(0, Math.min(WALLET_TIMEOUT_MS, stepEndsAt - Date.now()));

async function askBrowser(request) {
  try {
    const { protocol, data } = await navigator.credentials.get({
      digital: { requests: [request] },
      mediation: 'required',
      signal: AbortSignal.any([loading.signal, AbortSignal.timeout(walletTimeout())]),
    });
    return { digital_credential: { protocol, data } };
  } catch (failure) {
    return { error: WALLET_FAILURES[failure?.name] ?? 'unavailable' };
  }
}

// The console's handset plays the phone around this frame.
function askSimulatedWallet(request) {
  return new Promise((resolve) => {
    addEventListener('message', ({ source, origin, data }) => {
      if (source !== parent || origin !== location.origin || data.source !== 'ringtrue-handset') return;
      const { credential, error } = data.wallet;
      resolve(credential ? { digital_credential: credential } : { error });
    });
    setTimeout(() => resolve({ error: 'timed_out' }), walletTimeout());
    parent.postMessage({ source: 'ringtrue', wallet: request }, location.origin);
  });
}

// Reloads the page when the state is another one than shown. `null`: as soon as the server can be reached.
function follow(shown = state) {
  const source = new EventSource(events);
  let timer = setTimeout(poll, BUFFERED_AFTER_MS);
  const stop = () => {
    source.close();
    clearTimeout(timer);
    timer = null;
  };
  const compare = (current) => {
    // The response to the wallet's answer leads on. A reload would cancel its navigation.
    if (current === shown || sendsAnswer) return;
    stop();
    loading.abort();
    location.replace(page);
  };
  async function poll() {
    source.close();
    // Without a timeout, a response that never comes would be the last one. Old browsers have none.
    const signal = AbortSignal.timeout?.(POLL_TIMEOUT_MS);
    const read = (response) => (response.ok ? response.text() : null);
    const current = await fetch(stateUrl, { signal }).then(read).catch(() => null);
    if (timer !== null && current !== null) compare(current);
    if (timer !== null) timer = setTimeout(poll, POLL_INTERVAL_MS);
  }
  // A reload on the event that a form causes would cancel the form's navigation.
  // A form that opens another tab does not navigate this page.
  addEventListener('submit', ({ target: form }) => form.target !== '_blank' && stop());
  // A page from the browser's cache may be outdated.
  addEventListener('pageshow', (event) => event.persisted && location.replace(page));
  source.addEventListener('state', (event) => {
    clearTimeout(timer);
    compare(event.data);
  });
  // The browser reconnects by itself unless the stream was refused.
  source.addEventListener('error', () => {
    if (source.readyState !== EventSource.CLOSED || timer === null) return;
    clearTimeout(timer);
    timer = setTimeout(poll, POLL_INTERVAL_MS);
  });
}

const countdown = document.getElementById('time-left');
if (countdown) {
  const endsAt = Date.now() + countdown.dataset.seconds * 1000;
  const show = () => {
    const left = Math.max(0, Math.round((endsAt - Date.now()) / 1000));
    countdown.hidden = left > COUNTDOWN_SECONDS;
    countdown.lastElementChild.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
  };
  show();
  setInterval(show, 1000);
}

const copied = document.getElementById('copied');
for (const button of document.querySelectorAll('[data-copy]')) {
  const text = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener('click', async () => {
    copied.textContent = '';
    const isCopied = await copy(text);
    copied.textContent = isCopied ? copied.dataset.copied : copied.dataset.failed;
  });
}

// Browsers permit the first way only on some pages, and the second one only in some frames.
async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return document.execCommand('copy');
  }
}
