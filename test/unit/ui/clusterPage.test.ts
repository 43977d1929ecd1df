import { describe, expect, test } from 'vitest';
import type { ClusterDetails, GroupDetails, NewQueries, RuleState } from '../../../src/ui/client/types.ts';
import { drainText, goOnText, isLastActive, newQueriesText } from '../../../src/ui/pages/clusters/consequences.ts';
import { differencesText, ownersText, valueText } from '../../../src/ui/pages/clusters/declaredTexts.ts';
import { leadsTo } from '../../../src/ui/pages/clusters/leads.ts';
import { sourceOf } from '../../../src/ui/pages/clusters/source.ts';
import { groupFacts } from '../../../src/ui/pages/groups/groupFacts.ts';

describe('what switching off leads to', () => {
  const many = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  test.each<[NewQueries, string]>([
    [{ outcome: 'fallback', routingGroup: 'spill', clusters: ['a'] }, 'New queries go to its fallback spill (a).'],
    [
      { outcome: 'default', routingGroup: 'adhoc', clusters: many },
      'New queries go to the default group adhoc (a, b, c, d, e and 2 more).',
    ],
    [
      { outcome: 'wait', maxQueued: 1000, maxWaitMillis: 600_000 },
      'New queries wait for a backend, at most 1,000 at a time and each at most 10 min 0 s; beyond that they are refused.',
    ],
    [{ outcome: 'refused' }, 'New queries are refused: clients get the error NO_NODES_AVAILABLE.'],
  ])('%j', (newQueries, text) => expect(newQueriesText(newQueries)).toBe(text));

  test.each([
    [null, 'Queries that run go on.'],
    [0, 'No query is known to run.'],
    [1, '1 query runs, and goes on to its end.'],
    [12, '12 queries run, and go on to their end.'],
  ] as const)('%j queries', (count, text) => expect(goOnText(count)).toBe(text));

  test('a count that is not known makes the sum of a group unknown', () => {
    expect(drainText(['a', 'b'], [2, 3], { outcome: 'refused' })).toMatch(
      /^This switches off 2 backends \(a, b\)\. 5 queries run/,
    );
    expect(drainText(['a'], [null], { outcome: 'refused' })).toMatch(
      /^This switches off the backend a\. Queries that run go on\./,
    );
  });

  const taker = { takesNewQueries: true, group: { others: [] } };
  test.each([
    ['alone', {}, true],
    ['with another one', { group: { others: ['b'] } }, false],
    ['off already', { takesNewQueries: false }, false],
    ['not routed', { takesNewQueries: false, group: null }, false],
  ])('the last one that takes queries: %s', (_what, more, isLast) => {
    expect(isLastActive({ ...taker, ...more } as unknown as ClusterDetails)).toBe(isLast);
  });
});

test('rules lead to a cluster, to its group, or name the group in an action', () => {
  const rule = (name: string, more: object) => ({ name, routeTo: null, actions: [], ...more }) as unknown as RuleState;
  const rules = [
    rule('pinned', { routeTo: { cluster: 'etl-1' } }),
    rule('grouped', { routeTo: { routingGroup: 'etl' } }),
    rule('acting', { actions: ['result.put("routingGroup", "etl")'] }),
    rule('elsewhere', { actions: ['result.put("routingGroup", "etl-large")'], routeTo: { routingGroup: 'adhoc' } }),
  ];
  const names = (cluster: string | null, group: string | null) =>
    leadsTo(rules, { cluster, group }).map(({ rule: { name }, how }) => `${name}: ${how}`);
  expect(names('etl-1', 'etl')).toEqual([
    'pinned: to this backend alone',
    'grouped: to the group etl',
    'acting: an action names etl',
  ]);
  expect(names(null, 'adhoc')).toEqual(['elsewhere: to the group adhoc']);
  expect(names('etl-2', null)).toEqual([]);
});

describe('declared and in force', () => {
  const differs = { field: 'active', declared: null, inForce: false, differs: true, managers: [] };
  const resource = { paused: false, conditions: [] };
  const base = { routed: true, fields: [], resource, override: null };
  test.each([
    ['all of it', {}, 'All that is declared is in force.'],
    ['nothing', { routed: false }, 'Nothing of it is in force: it is not routed.'],
    [
      'an override',
      { fields: [differs], override: { active: false, by: 'ada', at: null } },
      '1 field is in force as other than declared: an override is in force.',
    ],
    [
      'paused, and not accepted',
      {
        fields: [differs, differs],
        resource: { paused: true, conditions: [{ type: 'Accepted', status: 'False', message: 'no URL' }] },
      },
      '2 fields are in force as other than declared: the resource is paused; the resource is not accepted: no URL.',
    ],
  ])('%s', (_what, more, text) =>
    expect(differencesText({ ...base, ...more } as unknown as ClusterDetails)).toBe(text),
  );

  test('values and owners as text', () => {
    expect([valueText(null), valueText('x'), valueText(3), valueText({ a: 1 })]).toEqual(['none', 'x', '3', '{"a":1}']);
    expect(ownersText([])).toBe('');
    expect(ownersText(['argo', 'engine-gateway-api'])).toBe('by argo and REST, which has taken it over');
  });
});

test('capacity of a group: what of its backends is available, and the sum of their limits', () => {
  const group = (clusters: readonly object[]) =>
    ({
      clusters,
      running: 3,
      waiting: null,
      refused: null,
      isDefault: false,
      spec: { maxRunningQueries: 10 },
    }) as unknown as GroupDetails;
  const facts = (clusters: readonly object[]) => Object.fromEntries(groupFacts(group(clusters)));
  const ok = { takesNewQueries: true };
  expect(
    facts([
      { ...ok, maxRunningQueries: 5 },
      { ...ok, maxRunningQueries: 7 },
      { takesNewQueries: false, maxRunningQueries: null },
    ]),
  ).toMatchObject({
    'Takes new queries': '2 of 3 backends',
    'Room of its backends': '12',
    Running: '3 of 10',
    Waiting: '–',
  });
  expect(facts([{ ...ok, maxRunningQueries: null }])['Room of its backends']).toBe('no limit of the gateway');
  expect(facts([])['Room of its backends']).toBe('none');
});

test.each([
  ['discovered by engines', 'kubernetes', { name: 'engines', service: 'team-a/trino' }],
  ['row without a resource', 'row', null],
  ['REST', 'database', null],
] as const)('a cluster is declared by: %s', (text, origin, discovery) => {
  expect(sourceOf({ origin, resource: null, discovery })).toBe(text);
});
