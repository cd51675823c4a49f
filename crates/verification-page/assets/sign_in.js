'use strict';
// Translates and sorts the countries, selects the country of an international number, and sends the browser to the
// operator, by itself if the page says so. Everything else works without it.
// The server makes other browsers wait for the same time.
const OPERATOR_TIMEOUT_MS = 8000;
const countries = document.getElementById('country');
const number = document.getElementById('number');
const { operator } = document.body.dataset;

if (countries) {
  translate();
  number.addEventListener('input', selectCountry);
  // Browsers restore what the user typed after this script has run.
  addEventListener('pageshow', selectCountry);
}
const starting = document.getElementById('starting');
// Safari before 16 lacks `requestSubmit`.
if (starting) (starting.requestSubmit ?? starting.submit).call(starting);
if (operator) leave();
preventSecondSubmit();

// The server has the English names only.
function translate() {
  const { lang, dir } = document.documentElement;
  const chosen = countries.value;
  const options = [...countries.options].filter(({ value }) => value);
  try {
    const names = new Intl.DisplayNames(lang, { type: 'region' });
    // The dialling code is written from left to right in all languages.
    const label = ({ value, dataset }) => `${names.of(value)} (\u2066+${dataset.code}\u2069)`;
    const labels = new Map(options.map((option) => [option, label(option)]));
    const { compare } = new Intl.Collator(lang);
    options.sort((one, other) => compare(labels.get(one), labels.get(other)));
    for (const option of options) option.textContent = labels.get(option);
  } catch {
    return; // An old browser without these names keeps the English ones.
  }
  countries.append(...options);
  countries.value = chosen;
  countries.lang = lang;
  countries.dir = dir;
}

// Some dialling codes are shared by several countries. Keeps the user's choice if it fits, otherwise selects the main
// country.
function selectCountry() {
  const [, digits] = /^(?:\+|00)(\d+)/.exec(number.value.normalize('NFKC').replace(/[^\d+]/g, '')) ?? [];
  if (!digits) return;
  const fits = ({ dataset }) => dataset.code && digits.startsWith(dataset.code);
  if (fits(countries.selectedOptions[0])) return;
  const main = [...countries.options].find((option) => 'main' in option.dataset && fits(option));
  if (main) countries.value = main.value;
}

// The page stays visible while the browser goes to the operator, and offers a way out if that takes too long.
function leave() {
  const [leaving, stalled] = ['leaving', 'stalled'].map((id) => document.getElementById(id));
  stalled.hidden = true;
  const giveUp = () => {
    if (!stalled.hidden) return;
    window.stop();
    leaving.hidden = true;
    stalled.hidden = false;
  };
  // After the page has loaded, so that it stays in the history. Timers stop while it is in the browser's cache.
  const go = () => setTimeout(() => {
    location.href = operator;
    setTimeout(giveUp, OPERATOR_TIMEOUT_MS);
  });
  addEventListener('pageshow', (event) => (event.persisted ? giveUp() : go()));
}

// A double click would use up two attempts.
function preventSecondSubmit() {
  let sent = null;
  addEventListener('submit', (event) => {
    if (sent) return event.preventDefault();
    sent = event.target.querySelector('button');
    sent.setAttribute('aria-disabled', 'true');
  });
  // The user came back to a page from the browser's cache.
  addEventListener('pageshow', () => {
    sent?.removeAttribute('aria-disabled');
    sent = null;
  });
}
