// Prints the parsing rate of npm `@rsql/parser` for the expressions of a file, after a warm-up.
import { readFileSync } from 'node:fs';
import { parse } from '@rsql/parser';

const expressions = readFileSync(process.argv[2], 'utf8').trimEnd().split('\n');

function rate(milliseconds) {
  const started = performance.now();
  let parsed = 0;
  while (performance.now() - started < milliseconds) {
    for (const expression of expressions) parse(expression);
    parsed += expressions.length;
  }
  return (parsed * 1000) / (performance.now() - started);
}

rate(1000);
console.log(rate(1000));
