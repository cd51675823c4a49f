// npm `@rsql/parser` on the expressions of a file, after a warm-up: prints how many it parses in a second.
import { readFileSync } from 'node:fs';
import { parse } from '@rsql/parser';

const expressions = readFileSync(process.argv[2], 'utf8').trimEnd().split('\n');

function rate(milliseconds) {
  const begun = performance.now();
  let parsed = 0;
  while (performance.now() - begun < milliseconds) {
    for (const expression of expressions) parse(expression);
    parsed += expressions.length;
  }
  return (parsed * 1000) / (performance.now() - begun);
}

rate(1000);
console.log(rate(1000));
