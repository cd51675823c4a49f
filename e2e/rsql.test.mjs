// Filters built by npm `@rsql/builder` (with `@rsql/emitter`) and `rsql-builder`, unmodified, are accepted for all
// filter fields.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import builder from '@rsql/builder';
import { emit } from '@rsql/emitter';
import * as rsql from 'rsql-builder';
import { startRingtrue } from './ringtrue.mjs';

const LISTS = {
  reverse_sms: '/v1/number-verification/reverse-sms-checks',
  secure_sna: '/v1/number-verification/secure-sna-checks',
  discovery: '/v1/number-verification/discovery-checks',
  sim_swap: '/v1/sim-swap-checks',
};
// Values that need quotes, escapes or neither.
const TEXTS = [
  ...['order-1', 'two words', "it's", '"quoted"', `both ' and "`, 'back\\slash', 'a\\"b', 'ends in \\', 'a,b;c', '(x)'],
  ...['a=b', '!~<>', '%_', 'and', 'or', 'ü漢🙂', '12', '', 'with*star'],
];
const INSTANTS = ['2026-01-01T00:00:00Z', '2026-01-01T01:00:00.5+01:00', new Date(0).toISOString()];
const FIELDS = {
  status: ['ACCEPTED', 'PENDING', 'COMPLETED', 'EXPIRED', 'ERROR'],
  verified: [true, false],
  network_id: TEXTS,
  error_code: ['internal_error', ...TEXTS],
  reference_id: TEXTS,
  created_at: INSTANTS,
  updated_at: INSTANTS,
};
const hasOrder = (field) => field !== 'verified';
// References without wildcards.
const REFERENCES = TEXTS.filter((text) => text !== '' && !text.includes('*'));

// Filters that each library can build.
const LIBRARIES = {
  '@rsql/builder': {
    equal: (field, value) => emit(builder.eq(field, value)),
    comparisons(field, values) {
      const single = hasOrder(field) ? ['eq', 'neq', 'le', 'lt', 'ge', 'gt'] : ['eq', 'neq'];
      const verbose = hasOrder(field) ? ['=le=', '=lt=', '=ge=', '=gt='] : [];
      return [
        ...values.flatMap((value) => single.map((name) => builder[name](field, value))),
        ...values.flatMap((value) => verbose.map((operator) => builder.comparison(field, operator, value))),
        ...['in', 'out'].flatMap((name) => [builder[name](field, values), builder[name](field, [values[0]])]),
      ];
    },
    // With either kind of quote.
    write: (node) => [emit(node), emit(node, { preferredQuote: "'" }), emit(node, { optimizeQuotes: false })],
    both: (one, other) => [
      builder.and(one, other),
      builder.or(one, other),
      builder.and(builder.or(one, other), one),
      builder.or(builder.and(one, other), other),
      builder.logic([one, other], 'and'),
      builder.logic([one, other], 'or'),
    ],
  },
  'rsql-builder': {
    equal: (field, value) => rsql.cmp(field, rsql.eq(value)).toString(),
    comparisons(field, values) {
      const { eq, ne, le, lt, ge, gt, inList, outList, cmp } = rsql;
      const single = hasOrder(field) ? [eq, ne, le, lt, ge, gt] : [eq, ne];
      return [
        ...values.flatMap((value) => single.map((operator) => cmp(field, operator(value)))),
        ...[inList, outList].flatMap((operator) => [cmp(field, operator, ...values), cmp(field, operator(values[0]))]),
      ];
    },
    write: (comparison) => [comparison.toString()],
    both: (one, other) => [
      rsql.and(one, other),
      rsql.or(one, other),
      rsql.and(rsql.or(one, other), one),
      rsql.or(rsql.and(one, other), other),
    ],
  },
};

let ringtrue;
const tokens = {};
before(async () => {
  // Rate limits must not stop the test.
  ringtrue = await startRingtrue({
    RINGTRUE_RATE_LIMITS__READ: '1000000',
    RINGTRUE_RATE_LIMITS__CREATE: '1000000',
    RINGTRUE_RATE_LIMITS__TOKEN: '1000000',
  });
  for (const scope of Object.keys(LISTS)) tokens[scope] = await token(scope);
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

async function token(scope) {
  const { client_id, client_secret } = ringtrue.project;
  const response = await fetch(`${ringtrue.base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope }),
  });
  assert.equal(response.status, 200);
  return (await response.json()).access_token;
}

// Returns the number of checks that match a filter.
async function countMatches(scope, search) {
  const url = `${ringtrue.base_url}${LISTS[scope]}?${new URLSearchParams({ search, size: '1' })}`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${tokens[scope]}` } });
  const text = await response.text();
  assert.equal(response.status, 200, `${search}: ${text}`);
  return JSON.parse(text).page.total_elements;
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: all comparisons of all fields are accepted`, async () => {
    for (const [field, values] of Object.entries(FIELDS)) {
      for (const comparison of library.comparisons(field, values)) {
        for (const search of library.write(comparison)) await countMatches('reverse_sms', search);
      }
    }
  });

  test(`${name}: combined comparisons are accepted for every product`, async () => {
    const fields = Object.entries(FIELDS);
    for (const scope of Object.keys(LISTS)) {
      for (const [at, [field, values]] of fields.entries()) {
        const [other, others] = fields[(at + 1) % fields.length];
        const one = library.comparisons(field, values)[0];
        const next = library.comparisons(other, others).at(-1);
        for (const joined of library.both(one, next)) {
          for (const search of library.write(joined)) await countMatches(scope, search);
        }
      }
    }
  });

  test(`${name}: filter finds a reference with special characters`, async () => {
    for (const [index, reference] of REFERENCES.entries()) {
      const reference_id = `${name} ${reference}`;
      const response = await fetch(ringtrue.base_url + LISTS.reverse_sms, {
        method: 'POST',
        headers: { authorization: `Bearer ${tokens.reverse_sms}`, 'content-type': 'application/json' },
        body: JSON.stringify({ phone_number: `+9901${String(index).padStart(6, '0')}00`, reference_id }),
      });
      assert.equal(response.status, 201, await response.text());
      assert.equal(await countMatches('reverse_sms', library.equal('reference_id', reference_id)), 1, reference_id);
    }
  });
}
