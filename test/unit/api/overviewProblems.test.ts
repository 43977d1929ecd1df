import { describe, expect, test } from 'vitest';
import { COLORS, clusterColors, colorOfName } from '../../../src/api/overview/clusterColors.ts';
import {
  type ClusterFact,
  clusterProblems,
  type GroupFact,
} from '../../../src/api/overview/problems/clusterProblems.ts';
import { gatewayProblems } from '../../../src/api/overview/problems/gatewayProblems.ts';
import {
  faultProblems,
  grownQueues,
  queueProblems,
  raisedFaults,
} from '../../../src/api/overview/problems/loadProblems.ts';
import { problemList } from '../../../src/api/overview/problems/problemList.ts';
import { type RuleFact, RuleTargetsIndex, ruleProblems } from '../../../src/api/overview/problems/ruleProblems.ts';

const T = 1_800_000_000_000;
const at = (time: number) => new Date(time).toISOString();
const MINUTE = 60_000;

const cluster = (name: string, extra: Partial<ClusterFact> = {}): ClusterFact => ({
  ...{ name, group: 'etl', active: true, status: 'HEALTHY', reason: '', isChecked: true, since: null },
  ...extra,
});
const down = (name: string, since: number | null = T) =>
  cluster(name, { status: 'UNHEALTHY', reason: 'connection refused', since });
const off = (name: string, since: number | null = T) => cluster(name, { active: false, since });
const group = (extra: Partial<GroupFact> = {}): GroupFact => ({
  ...{ name: 'etl', substitutes: ['adhoc'], waits: false, bestEffort: false, isDefault: false },
  ...extra,
});
const rule = (name: string, extra: Partial<RuleFact> = {}): RuleFact => ({
  ...{ name, status: 'Programmed', message: '', unresolved: null, groups: ['etl'], cluster: null },
  ...extra,
});
const targets = new RuleTargetsIndex([rule('nightly'), rule('pinned', { groups: [], cluster: 'etl-1' })]);
const adhoc = cluster('adhoc-1', { group: 'adhoc' });

describe('clusters and routing groups', () => {
  test.each<[why: string, clusters: ClusterFact[], groups: GroupFact[], problems: unknown[]]>([
    ['all healthy', [cluster('etl-1')], [group()], []],
    [
      'one of two is down',
      [down('etl-1'), cluster('etl-2')],
      [group()],
      [['ClusterUnhealthy', 'etl-1', 'warning', at(T)]],
    ],
    [
      'all are down, and another group serves',
      [down('etl-1'), down('etl-2', T + 5), adhoc],
      [group()],
      [
        ['GroupUnavailable', 'etl', 'warning', at(T + 5)],
        ['ClusterUnhealthy', 'etl-1', 'warning', at(T)],
        ['ClusterUnhealthy', 'etl-2', 'warning', at(T + 5)],
      ],
    ],
    [
      'all are down, and nobody serves; of one it is not known since when',
      [down('etl-1'), down('etl-2', null)],
      [group()],
      [
        ['GroupUnavailable', 'etl', 'critical', null],
        ['ClusterUnhealthy', 'etl-1', 'warning', at(T)],
        ['ClusterUnhealthy', 'etl-2', 'warning', null],
      ],
    ],
    ['its queries wait', [off('etl-1')], [group({ waits: true })], [['GroupUnavailable', 'etl', 'warning', at(T)]]],
    [
      'an unhealthy cluster is tried',
      [down('etl-1')],
      [group({ bestEffort: true })],
      [
        ['GroupUnavailable', 'etl', 'warning', at(T)],
        ['ClusterUnhealthy', 'etl-1', 'warning', at(T)],
      ],
    ],
    [
      'switched off, and a rule leads there',
      [off('etl-1')],
      [group()],
      [['GroupUnavailable', 'etl', 'critical', at(T)]],
    ],
    ['switched off, and nothing leads there', [off('old-1')], [group({ name: 'old' })], []],
    ['switched off and down', [{ ...down('etl-1'), active: false }, cluster('etl-2')], [group()], []],
    ['never checked', [cluster('etl-1', { status: 'PENDING', isChecked: false })], [group()], []],
    ['starting', [cluster('etl-1', { status: 'PENDING' })], [group()], [['GroupUnavailable', 'etl', 'critical', null]]],
    [
      'rejected',
      [cluster('bad', { group: null, reason: 'spec.proxyTo: no URL', since: T })],
      [],
      [['ClusterRejected', 'bad', 'warning', at(T)]],
    ],
  ])('%s', (_, clusters, groups, problems) => {
    const all = clusterProblems(
      clusters.map((each) => (each.name === 'old-1' ? { ...each, group: 'old' } : each)),
      groups,
      targets,
    );
    expect(all.map(({ kind, object, severity, since }) => [kind, object.name, severity, since])).toEqual(problems);
  });

  test('a problem names what it affects, and what becomes of the queries', () => {
    const [unavailable, unhealthy] = clusterProblems([down('etl-1'), off('etl-2'), adhoc], [group()], targets);
    expect(unavailable).toMatchObject({
      object: { kind: 'routingGroup', name: 'etl' },
      reason: 'etl-1 is UNHEALTHY, etl-2 is switched off; its queries go to adhoc, unless a rule says otherwise',
      ...{ groups: ['etl'], rules: ['nightly', 'pinned'], ruleCount: 2 },
    });
    expect(unhealthy).toMatchObject({ reason: 'connection refused', groups: ['etl'], rules: ['nightly', 'pinned'] });
  });
});

describe('rules', () => {
  const since = () => T;
  test.each<[why: string, rule: RuleFact, problem: unknown]>([
    ['in force', rule('r'), []],
    ['suspended', rule('r', { status: 'Suspended', unresolved: 'no cluster belongs to x' }), []],
    ['of a file that did not load', rule('r', { status: 'FileFailed' }), []],
    ['rejected', rule('r', { status: 'NotAccepted', message: 'column 3' }), [['RuleRejected', 'column 3']]],
    [
      'rejected, and the version before decides',
      rule('r', { status: 'PreviousVersion', message: 'column 3', unresolved: 'x' }),
      [['RuleRejected', 'column 3; the version before decides']],
    ],
    [
      'leads nowhere',
      rule('r', { unresolved: 'no cluster belongs to x', groups: ['x'] }),
      [['RuleUnresolved', 'no cluster belongs to x']],
    ],
  ])('%s', (_, fact, problems) => {
    const all = ruleProblems([fact], null, since);
    expect(all.map(({ kind, reason }) => [kind, reason])).toEqual(problems);
    for (const problem of all) expect(problem).toMatchObject({ since: at(T), rules: ['r'], groups: fact.groups });
  });

  test.each([
    [true, 'warning', 'line 3: x; its last version that loaded decides'],
    [false, 'critical', 'line 3: x; none of its rules decides'],
  ] as const)('a file that did not load, kept: %s', (isKept, severity, reason) => {
    const file = { path: '/rules.yaml', isKept, reason: 'line 3: x' };
    expect(ruleProblems([], file, since)).toMatchObject([{ kind: 'RulesFileRejected', severity, reason, since: null }]);
  });
});

describe('queues', () => {
  const samples = (...waiting: number[]) => waiting.map((count, index) => ({ at: T + index * MINUTE, waiting: count }));
  test.each<[why: string, waiting: number[], grown: unknown]>([
    ['short', [0, 9], []],
    ['grows', [0, 0, 5, 30], [{ group: 'etl', waiting: 30, lowest: 0, since: T + MINUTE }]],
    ['is long and stays', [300, 300, 305], []],
    ['is long and grows little', [300, 310, 320], []],
    ['has come down', [0, 100, 40], []],
    ['begins to come down', [0, 100, 95], [{ group: 'etl', waiting: 95, lowest: 0, since: T }]],
    ['one look', [50], []],
    ['none', [], []],
  ])('%s', (_, waiting, grown) => {
    expect(grownQueues(new Map([['etl', samples(...waiting)]]))).toEqual(grown);
  });

  test('a problem says since when, and what leads there', () => {
    expect(queueProblems([{ group: 'etl', waiting: 34, lowest: 4, since: T }], targets)).toMatchObject([
      { reason: '34 queries wait, 30 more than then', since: at(T), groups: ['etl'], rules: ['nightly'] },
    ]);
  });
});

describe('error rates', () => {
  const counts = (recent: [number, number], before: [number, number]) => ({
    ...{ cluster: 'etl-1', group: null, groups: ['etl'] },
    recent: { ended: recent[0], faults: recent[1] },
    before: { ended: before[0], faults: before[1] },
  });
  test.each([
    ['none', counts([100, 0], [600, 0]), false],
    ['few', counts([5, 4], [600, 0]), false],
    ['a small part', counts([1000, 40], [600, 0]), false],
    ['as before', counts([100, 20], [600, 90]), false],
    ['more than before', counts([100, 20], [600, 30]), true],
    ['nothing before', counts([100, 20], [0, 0]), true],
  ])('%s', (_, count, isRaised) => {
    expect(raisedFaults([count])).toHaveLength(isRaised ? 1 : 0);
  });

  test('a problem names the error, and since which minute it goes on', () => {
    const minute = (index: number, faults: number, errorName: string | null = null) => ({
      ...{ cluster: 'etl-1', group: 'etl', start: T + index * MINUTE, ended: 10, faults, errorName },
    });
    const minutes = [
      ...[minute(0, 9, 'LONG_AGO'), minute(1, 0), minute(3, 4, 'EXCEEDED'), minute(3, 1, 'OTHER')],
      ...[minute(5, 8, 'EXCEEDED'), minute(6, 0)],
    ];
    expect(faultProblems([counts([100, 13], [600, 6])], minutes, targets)).toMatchObject([
      {
        ...{ kind: 'ErrorRate', severity: 'warning', object: { kind: 'cluster', name: 'etl-1' } },
        reason:
          '13 of 100 queries failed or were refused in the last 5 minutes (13 %; 1.0 % in the half hour before), most often with EXCEEDED',
        ...{ since: at(T + 3 * MINUTE), groups: ['etl'], rules: ['nightly'] },
      },
    ]);
    const refused = { ...counts([100, 9], [0, 0]), cluster: null, group: 'etl' };
    const ofClusters = { ...minute(1, 9, 'EXCEEDED'), ended: 91 };
    const ofGroup = { ...minute(2, 9, 'QUERY_QUEUE_FULL'), ended: 9, cluster: null };
    expect(faultProblems([refused], [ofClusters, ofGroup], targets)).toMatchObject([
      {
        ...{ severity: 'warning', object: { kind: 'routingGroup', name: 'etl' }, since: at(T + 2 * MINUTE) },
        reason: '9 of 100 queries were refused in the last 5 minutes (9.0 %), most often with QUERY_QUEUE_FULL',
      },
    ]);
    const undecided = { ...counts([100, 60], [0, 0]), cluster: null, groups: [] };
    expect(faultProblems([undecided], [], targets)).toMatchObject([
      { severity: 'critical', object: { kind: 'routingGroup', name: '' }, since: null },
    ]);
  });
});

describe('the gateway', () => {
  test.each([
    ['database', 'refused', 'DatabaseUnavailable', 'critical'],
    ['resource source', 'kubernetes is unavailable: timeout', 'SourceUnavailable', 'critical'],
    ['resource source', 'a.yaml:3: no document', 'SourceMistakes', 'warning'],
    ['history buffer', '0 queries wait in memory, 9 on disk', 'HistoryWaiting', 'warning'],
    ['held deletions', 'lost', 'DeletionsHeld', 'warning'],
    ['external rules service', 'left alone', 'ExternalRulesUnavailable', 'warning'],
  ])('%s: %s', (name, message, kind, severity) => {
    const mistakes = kind === 'SourceMistakes' ? { hasMistakes: true as const } : {};
    expect(gatewayProblems([{ name, message, ...mistakes, since: T }], null)).toMatchObject([
      { kind, severity, object: { kind: 'gateway', name }, reason: message, since: at(T), groupCount: 0 },
    ]);
  });

  test('how callers are recognised is no incident; that nobody leads is', () => {
    expect(gatewayProblems([{ name: 'authentication', message: 'open', since: T }], null)).toEqual([]);
    expect(gatewayProblems([], { since: null })).toMatchObject([{ kind: 'NoLeader', since: null }]);
  });
});

test('the list begins with what is critical, and has a bound for each kind', () => {
  const many = Array.from({ length: 30 }, (_, index) => down(`c${String(index).padStart(2, '0')}`));
  const problems = [
    ...clusterProblems(many, [], targets),
    ...gatewayProblems([{ name: 'database', message: '', since: null }], null),
  ];
  const list = problemList(problems, T);
  expect([list.verdict, list.total, list.problems.length, list.asOf]).toEqual(['critical', 31, 21, at(T)]);
  expect(list.counts).toEqual([
    { kind: 'DatabaseUnavailable', total: 1 },
    { kind: 'ClusterUnhealthy', total: 30 },
  ]);
  expect(problemList([], T)).toEqual({ asOf: at(T), verdict: 'ok', total: 0, counts: [], problems: [] });
});

describe('colours', () => {
  test('of up to twelve clusters each has another one', () => {
    const names = Array.from({ length: COLORS }, (_, index) => `cluster-${index}`);
    expect(new Set(clusterColors(names).values()).size).toBe(COLORS);
    expect([...clusterColors(['alone'])]).toEqual([['alone', colorOfName('alone')]]);
  });

  test('of more all are used as often', () => {
    const uses = new Map<number, number>();
    for (const color of clusterColors(Array.from({ length: 500 }, (_, index) => `c${index}`)).values()) {
      uses.set(color, (uses.get(color) ?? 0) + 1);
    }
    expect([...uses.values()].every((count) => count === 41 || count === 42)).toBe(true);
  });
});
