import { expect, test } from 'vitest';
import { findWords } from '../../../scripts/wording.ts';

function wordsOf(path: string, text: string): string[] {
  const words: string[] = [];
  findWords(
    path,
    () => text,
    (word, line) => words.push(`${line}: ${word}`),
  );
  return words;
}

test.each<[string, string, string[]]>([
  ['src/a.ts', '\n// Says how to mend it.', ['2: mend', '2: say']],
  ['docs/a.md', 'It is started anew.', ['1: anew']],
  ['demo/a.yaml', '# The database is away.', ['1: is away']],
  ['src/a.ts', "fail('proxyTo is no HTTP URL')", ['1: is no']],
  ['test/a.test.ts', '// The other has the lead.', ['1: lead']],
  ['src/a.ts', "'Begin again.'", ['1: begin again']],
  ['src/a.ts', '/** Needs of the page. */', ['1: needs']],
  ['src/a.ts', '/** Tells the caller. */', ['1: tell']],
  ['docs/a.md', 'The client is told.', ['1: tell']],
  ['src/a.ts', 'const told = 1;', ['1: tell']],
  ['docs/a.md', 'Whoever asks.', ['1: whoever']],
  ['docs/a.md', 'It is undone.', ['1: undone']],
  ['src/a.ts', 'const lacking = 1;', ['1: lacking']],
  ['src/a.ts', '// It is, as it were, late.', ['1: as it were']],
  ['scripts/a.ts', '// Closes of its own accord.', ['1: of its own accord']],
  ['src/a.ts', '  const known = 1;', ['1: participle']],
  ['src/a.ts', '  readonly #held = new Set();', ['1: participle']],
  ['src/a.ts', '  this.#seen(text);', ['1: participle']],
  ['src/a.ts', 'rows.find((found) => found.isNew);', ['1: participle']],
  ['src/a.ts', 'const MOST_ROWS = LEAST_ROWS;', ['1: MOST_', '1: MOST_']],
  ['src/a.ts', '/** Null where nobody answered at once. */', ['1: answer', '1: at once', '1: nobody', '1: where']],
  ['README.md', 'It is left out where it goes on.', ['1: goes on', '1: where']],
])('%s: %s', (path, text, words) => {
  expect(wordsOf(path, text)).toEqual(words);
});

test.each<[string, string]>([
  ['test/fixtures/a.txt', 'anew'],
  ['demo/a.yaml', '# nobody answers'],
  ['docs/a.md', 'A role that is taken away; a client that goes away; it is away from here. There is no URL.'],
  ['docs/a.md', 'amendment, newer, leads'],
  ['CHANGELOG.md', 'The log tells why.'],
  ['src/a.ts', '// Names that are known (given by the client) are sent; see docs/a.md#known.'],
  ['src/a.ts', 'return { held: 1, message: `(found ${count})` };'],
  ['test/a.test.ts', 'const found = 1;'],
])('%s: %s is accepted', (path, text) => {
  expect(wordsOf(path, text)).toEqual([]);
});
