import { describe, expect, test } from 'vitest';
import { clusterText, engineLink } from '../../../src/ui/pages/history/clusterOfRow.ts';
import { filtersOf, noFilters, pageOf, parametersOf, requestOf } from '../../../src/ui/pages/history/filters.ts';

const row = { queryId: '20260101_000000_00001_abcde', queryText: 'SELECT 1', backendUrl: 'http://a:1', captureTime: 1 };
const clusters = [
  { name: 'a', proxyTo: 'http://a:1' },
  { name: 'twin', proxyTo: 'http://a:1' },
  { name: 'b', proxyTo: 'http://b:1' },
];

describe('the cluster of a query', () => {
  test('is the one stored with it, else every one of its address, else the address', () => {
    expect(clusterText({ ...row, cluster: 'gone' }, clusters)).toBe('gone');
    expect(clusterText(row, clusters)).toBe('a or twin');
    expect(clusterText({ ...row, backendUrl: 'http://c:1' }, clusters)).toBe('http://c:1');
  });

  test('has a page for it, at the address for people', () => {
    expect(engineLink(row)).toBe(`http://a:1/ui/query.html?${row.queryId}`);
    expect(engineLink({ ...row, externalUrl: 'https://e', queryId: 'a b' })).toBe('https://e/ui/query.html?a%20b');
  });
});

describe('filters in the address', () => {
  test('survive the way there and back', () => {
    const filters = { ...noFilters, cluster: 'a&b', text: '100%', from: '1767225600000' };
    const parameters = parametersOf(filters, 3);
    expect(parameters.toString()).toBe('cluster=a%26b&text=100%25&from=1767225600000&page=3');
    expect([filtersOf(parameters), pageOf(parameters)]).toEqual([filters, 3]);
    expect(requestOf(filters, 3, 25)).toEqual({
      ...{ cluster: 'a&b', text: '100%', from: 1_767_225_600_000, to: null },
      ...{ match: 'prefix', page: 3, size: 25 },
    });
  });

  test.each(['0', '-1', 'x', '1.5', '1e99'])('page %s is the first', (page) => {
    expect(pageOf(new URLSearchParams({ page }))).toBe(1);
  });

  test('times that somebody mistyped are none', () => {
    expect(requestOf({ ...noFilters, from: 'x', to: '1e3' }, 1, 25)).toEqual({
      from: null,
      to: null,
      match: 'prefix',
      page: 1,
      size: 25,
    });
  });
});
