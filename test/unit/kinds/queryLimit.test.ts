import { describe, expect, test } from 'vitest';
import { openPolicy } from '../../../src/kinds/engineCluster/clusterPolicy.ts';
import type { RoutingDraft } from '../../../src/kinds/kindProgram.ts';
import { queryLimit } from '../../../src/kinds/queryLimit/kind.ts';
import type { LimitOutcome } from '../../../src/kinds/queryLimit/limitOutcome.ts';
import { LimitProgram } from '../../../src/kinds/queryLimit/limitProgram.ts';
import { GroupBindings, type GroupRights } from '../../../src/model/groupBindings.ts';
import { PAUSED_ANNOTATION, type Resource } from '../../../src/model/resource.ts';
import { noCounts } from '../../../src/routing/admissionCounts.ts';
import { type GroupPolicy, noPolicy } from '../../../src/routing/admissionPolicy.ts';
import { resourceOf } from '../../support/resource.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const problems = (spec: unknown): readonly string[] =>
  queryLimit.specProblems(spec).map(({ field, message }) => `${field} ${message}`);
const limit = (more: object = {}) => ({ per: 'user', maxRunning: 10, ...more });

describe('the spec of a limit', () => {
  test.each<[string, object]>([
    ['a number of queries', limit()],
    ['nothing may wait', { per: 'all', maxQueued: 0 }],
    ['a rate', { per: 'source', rate: { queries: 120 } }],
    ['a whole rate', { per: 'source', rate: { queries: 1_000_000, period: '24h', burst: 1 } }],
    ['an empty match', limit({ match: {} })],
    ['regular expressions', limit({ match: { users: ['~etl-.*', '~(?i)svc.*'], routingGroups: ['~a|b'] } })],
    ['everything', limit({ maxQueued: 50, weight: 1_000, mode: 'observe', message: 'Ask.' })],
    ['many values', limit({ match: { users: Array.from({ length: 64 }, (_, index) => `u${index}`) } })],
  ])('%s is fine', (_, spec) => {
    expect(problems(spec)).toEqual([]);
  });

  test.each<[spec: object, problem: string]>([
    [{ maxRunning: 1 }, 'spec.per is required'],
    [{ per: 'session', maxRunning: 1 }, 'spec.per must be one of "user", "source", "all"'],
    [{ per: 'user' }, 'spec.maxRunning is missing: at least one of maxRunning, maxQueued and rate must be set'],
    [limit({ maxRunning: 0 }), 'spec.maxRunning must be at least 1'],
    [limit({ maxRunning: 1_000_001 }), 'spec.maxRunning must be at most 1000000'],
    [limit({ maxQueued: -1 }), 'spec.maxQueued must be at least 0'],
    [limit({ maxQueued: 100_001 }), 'spec.maxQueued must be at most 100000'],
    [limit({ rate: {} }), 'spec.rate.queries is required'],
    [limit({ rate: { queries: 0 } }), 'spec.rate.queries must be at least 1'],
    [limit({ rate: { queries: 1, period: '0.5s' } }), 'spec.rate.period must be a duration from 1s to 24h'],
    [limit({ rate: { queries: 1, period: '25h' } }), 'spec.rate.period must be a duration from 1s to 24h'],
    [limit({ rate: { queries: 1, burst: 0 } }), 'spec.rate.burst must be at least 1'],
    [limit({ weight: 0 }), 'spec.weight must be at least 1'],
    [limit({ weight: 1_001 }), 'spec.weight must be at most 1000'],
    [limit({ mode: 'warn' }), 'spec.mode must be one of "enforce", "observe"'],
    [limit({ message: '' }), 'spec.message must not be empty'],
    [limit({ message: 'x'.repeat(1_025) }), 'spec.message must have at most 1024 characters'],
    [limit({ match: { users: [] } }), 'spec.match.users must have at least 1 entries'],
    [limit({ match: { users: Array(65).fill('a') } }), 'spec.match.users must have at most 64 entries'],
    [limit({ match: { groups: [''] } }), 'spec.match.groups[0] must not be empty'],
    [limit({ match: { sources: ['x'.repeat(513)] } }), 'spec.match.sources[0] must have at most 512 characters'],
    [limit({ match: { users: ['a', '~('] } }), 'spec.match.users[1] regular expression'],
    [
      limit({ match: { users: ['~(?!svc).*'] } }),
      'spec.match.users[0] regular expression: look-ahead is not available; list',
    ],
    [limit({ match: { clients: ['a'] } }), 'spec.match.clients is not a known field'],
    [limit({ name: 'x' }), 'spec.name is not a known field'],
  ])('%j: %s', (spec, problem) => {
    expect(problems(spec).join('; ')).toContain(problem);
  });
});

const resource = (
  name: string,
  spec: Record<string, unknown> = limit(),
  metadata: Partial<Resource['metadata']> = {},
): Resource => resourceOf('QueryLimit', name, spec, { generation: 3, ...metadata });
const paused = { annotations: { [PAUSED_ANNOTATION]: 'true' } };

const program = (rights: Readonly<Record<string, GroupRights>> = {}) => {
  const policy = { ...openPolicy, groups: new GroupBindings(rights) };
  const it = new LimitProgram({ policy });
  return {
    it,
    refresh: (...resources: readonly Resource[]) => {
      const clusters = ['adhoc', 'etl'].map((group) => clusterAt(group, `http://${group}`, { routingGroup: group }));
      const spilled = { name: 'spilled', fallbacks: ['etl'] as readonly string[] } as GroupPolicy;
      const admission = { ...noPolicy, groups: new Map([['spilled', spilled]]) };
      const draft: RoutingDraft = { rows: [], clusters, admission, rules: null };
      const outcomes = it.refresh(resources, draft);
      expect(draft.admission.groups).toBe(admission.groups);
      return { outcomes: [...outcomes.values()], limits: draft.admission.limits };
    },
  };
};
const conditionsOf = (outcome: LimitOutcome) =>
  Object.fromEntries(
    queryLimit
      .status(outcome, { stored: { stored: true, reason: '' }, counts: noCounts } as Parameters<
        typeof queryLimit.status
      >[1])
      .conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]),
  );

describe('what a limit means', () => {
  test('defaults are filled in', () => {
    expect(program().refresh(resource('a', { per: 'all', rate: { queries: 60 } })).limits).toEqual([
      {
        key: 'ns/a',
        match: { users: null, groups: null, sources: null, routingGroups: null },
        per: 'all',
        maxRunning: null,
        maxQueued: null,
        rate: { queries: 60, periodMs: 60_000, burst: 60 },
        weight: 1,
        mode: 'enforce',
        message: null,
      },
    ]);
  });

  test('everything that is set is taken over', () => {
    const match = { users: ['~etl-.*'], groups: ['analysts'], sources: ['superset'], routingGroups: ['adhoc'] };
    const spec = limit({
      match,
      maxQueued: 50,
      rate: { queries: 120, period: '30s', burst: 30 },
      weight: 2,
      mode: 'observe',
      message: 'Ask in #data-platform for more.',
    });
    const [policy] = program().refresh(resource('a', spec)).limits;
    expect(policy).toMatchObject({
      per: 'user',
      maxRunning: 10,
      maxQueued: 50,
      rate: { queries: 120, periodMs: 30_000, burst: 30 },
      weight: 2,
      mode: 'observe',
      message: 'Ask in #data-platform for more.',
    });
    const { users, groups, sources, routingGroups } = policy!.match;
    expect([users?.('etl-1'), users?.('bob'), groups?.('analysts'), groups?.('x')]).toEqual([true, false, true, false]);
    expect([sources?.('superset'), sources?.('x'), routingGroups?.('adhoc'), routingGroups?.('etl')]).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });

  test('limits of one name in two namespaces both apply, in order of their keys', () => {
    const { limits, outcomes } = program().refresh(
      resource('same', limit(), { namespace: 'b' }),
      resource('same', limit(), { namespace: 'a' }),
    );
    expect(limits.map(({ key }) => key)).toEqual(['a/same', 'b/same']);
    expect(outcomes.map(conditionsOf)).toMatchObject([{ Ready: 'True Ready' }, { Ready: 'True Ready' }]);
  });

  test.each<[why: string, spec: Record<string, unknown>, metadata: object, maxRunning: number | undefined]>([
    ['not valid', limit({ maxRunning: 0 }), {}, 10],
    ['with a regular expression that does not compile', limit({ match: { users: ['~('] } }), {}, 10],
    ['paused', limit({ maxRunning: 99 }), paused, 10],
    ['being deleted', limit(), { deletionTimestamp: '2026-01-02T00:00:00Z' }, undefined],
  ])('a version that is %s', (_, spec, metadata, maxRunning) => {
    const later = resource('a', spec, metadata);
    const first = program();
    first.refresh(resource('a'));
    expect(first.refresh(later).limits[0]?.maxRunning).toBe(maxRunning);
    const restarted = program();
    restarted.it.restore([resource('a')]);
    expect(restarted.refresh(later).limits[0]?.maxRunning).toBe(maxRunning);
    expect(program().refresh(later).limits).toEqual([]);
  });

  test.each<[groups: readonly string[] | undefined, condition: string]>([
    [undefined, 'True NoReferences'],
    [['~no.*'], 'True NoReferences'],
    [['adhoc', 'spilled'], 'True ResolvedRefs'],
    [['adhoc', 'none'], 'False GroupNotFound'],
  ])('routing groups %j: ResolvedRefs %s', (routingGroups, condition) => {
    const spec = limit(routingGroups === undefined ? {} : { match: { routingGroups } });
    const [outcome] = program().refresh(resource('a', spec)).outcomes;
    expect(conditionsOf(outcome!)).toMatchObject({ ResolvedRefs: condition, Accepted: 'True Accepted' });
  });

  describe('where routing groups are bound to namespaces', () => {
    const join = ['*'];
    const route = ['*'];
    const rights = { etl: { join, route, deny: ['ns'] }, '*': { join, route, deny: ['platform'] } };
    const reach = (spec: Record<string, unknown>) => {
      const { limits, outcomes } = program(rights).refresh(resource('a', spec));
      const within = (group: string) => limits.some(({ match }) => match.routingGroups?.(group) !== false);
      return [conditionsOf(outcomes[0]!).Accepted, within('etl'), within('adhoc')];
    };

    test.each<[spec: Record<string, unknown>, expected: readonly unknown[]]>([
      // About all groups: those that the namespace may deny queries to.
      [limit(), ['True Accepted', true, false]],
      [limit({ match: { routingGroups: ['etl'] } }), ['True Accepted', true, false]],
      [limit({ match: { routingGroups: ['~.*'] } }), ['True Accepted', true, false]],
      [limit({ match: { routingGroups: ['etl', 'adhoc'] } }), ['False GroupNotAllowed', false, false]],
    ])('%j: %j', (spec, expected) => {
      expect(reach(spec)).toEqual(expected);
    });

    test('a namespace that may deny queries to no group limits none, and nothing of it stays in force', () => {
      expect(program().refresh(resource('a')).limits).toHaveLength(1);
      const limits = program({ '*': { join, route, deny: ['platform'] } });
      limits.it.restore([resource('a')]);
      const { outcomes, limits: inForce } = limits.refresh(resource('a'));
      expect([conditionsOf(outcomes[0]!).Accepted, inForce]).toEqual(['False GroupNotAllowed', []]);
    });
  });

  test('a policy stays the same object for as long as the spec says the same', () => {
    const limits = program();
    const policy = () => limits.refresh(resource('a', limit({ match: { users: ['~x'] } }))).limits[0];
    expect(policy()).toBe(policy());
  });

  test('the status has counts where there are some', () => {
    const [outcome] = program().refresh(resource('a')).outcomes;
    const view = { stored: { stored: true, reason: '' } } as Parameters<typeof queryLimit.status>[1];
    const counts = { ...noCounts, limit: (key: string) => ({ running: key.length, waiting: 0, refused: 1 }) };
    expect(queryLimit.status(outcome!, { ...view, counts: noCounts }).fields).toEqual({});
    expect(queryLimit.status(outcome!, { ...view, counts }).fields).toEqual({ running: 4, waiting: 0, refused: 1 });
  });
});
