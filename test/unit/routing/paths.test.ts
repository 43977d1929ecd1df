import fc from 'fast-check';
import { RE2JS } from 're2js';
import { expect, test } from 'vitest';
import { hasDotSegments, ProxiedPaths, splitTarget } from '../../../src/routing/statementProtocol.ts';

const paths = new ProxiedPaths({
  additionalStatementPaths: ['/api/sql/'],
  extraWhitelistPaths: [RE2JS.compile('/v1/extra|/x')],
});

test.each([
  ['/v1/statement', 'statement', true],
  ['/v1/statement/', 'statement', true],
  ['/v1/statement//', 'statement', true],
  ['/v1/statement;x=1', 'statement', true],
  ['/v1/statement;x=1/;y', 'statement', true],
  ['/api/sql', 'statement', true],
  ['/v1/statementX', 'statement', false],
  ['/v1/statement/x', 'statement', false],
  ['/v1/query/x', 'query', false],
  ['/ui', 'ui', false],
  ['/v1/extra', 'other', false],
  ['/v1/extra/more', null, false],
  ['/prefix/x', null, false],
  ['/v1//statement', null, false],
  ['/V1/statement', null, false],
  ['/v1/%73tatement', null, false],
])('%s is %s, a submission: %s', (path, kind, submission) => {
  expect(paths.kindOf(path)).toBe(kind);
  expect(paths.isSubmissionPath(path)).toBe(submission);
});

test.each([
  ['/a?b?c', { path: '/a', query: 'b?c' }],
  ['/a?', { path: '/a', query: '' }],
  ['http://h:1/a?b', { path: '/a', query: 'b' }],
  ['HTTPS://h', { path: '/', query: null }],
  ['http://h?x', { path: '/', query: 'x' }],
  ['*', null],
  ['h:443', null],
  ['', null],
])('the target %s', (target, expected) => {
  expect(splitTarget(target)).toEqual(expected);
});

test.each([
  ['/a/../b', true],
  ['/a/..', true],
  ['/./a', true],
  ['/a/%2e%2E/b', true],
  ['/a/.%2e', true],
  ['/a/%2e', true],
  ['/a/..;x/b', true],
  ['/a%2f..%2fb', true],
  ['/a\\..\\b', true],
  ['/a/...', false],
  ['/a/..b', false],
  ['/a/b..', false],
  ['/a/.b/c', false],
  ['/a/%2ex', false],
  ['/query.html', false],
  ['/a%20b', false],
])('dot segments in %s: %s', (path, expected) => {
  expect(hasDotSegments(path)).toBe(expected);
});

test('whatever a URL resolver would move is found', () => {
  const segment = fc.constantFrom('a', '.', '..', '%2e', '%2E.', '.%2e', 'b.c', '...', '');
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 6 }), (segments) => {
      const path = `/${segments.join('/')}`;
      if (new URL(`http://h${path.replace(/^\/+/, '/')}`).pathname !== path.replace(/^\/+/, '/')) {
        expect(hasDotSegments(path)).toBe(true);
      }
    }),
  );
});
