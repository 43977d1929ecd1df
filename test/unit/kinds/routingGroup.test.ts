import { describe, expect, test } from 'vitest';
import { openPolicy } from '../../../src/kinds/engineCluster/clusterPolicy.ts';
import type { RoutingDraft } from '../../../src/kinds/kindProgram.ts';
import type { GroupOutcome } from '../../../src/kinds/routingGroup/groupOutcome.ts';
import { GroupProgram } from '../../../src/kinds/routingGroup/groupProgram.ts';
import { routingGroup } from '../../../src/kinds/routingGroup/kind.ts';
import { GroupBindings, type GroupRights } from '../../../src/model/groupBindings.ts';
import { PAUSED_ANNOTATION, type Resource } from '../../../src/model/resource.ts';
import { noCounts } from '../../../src/routing/admissionCounts.ts';
import { DEFAULT_QUEUE, noPolicy } from '../../../src/routing/admissionPolicy.ts';
import { resourceOf } from '../../support/resource.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const problems = (spec: unknown): readonly string[] =>
  routingGroup.specProblems(spec).map(({ field, message }) => `${field} ${message}`);

describe('the spec of a routing group', () => {
  test.each<[string, object]>([
    ['nothing', {}],
    ['the design', { strategy: 'leastLoaded', affinity: { by: 'header:X-Team' }, fallbacks: ['a', 'b'] }],
    ['bounds', { maxRunningQueries: 1_000_000, queue: { maxQueued: 100_000, maxWait: '24h', hold: '10s' } }],
    ['no queue', { queue: { maxQueued: 0, hold: '0s', maxWait: '1s' } }],
    ['sixteen fallbacks', { fallbacks: Array.from({ length: 16 }, (_, index) => `g${index}`) }],
    ['a group that waits', { queue: { whenUnavailable: 'wait', maxQueued: 1 } }],
    ['names with spaces within', { name: 'a b', fallbacks: ['c d'] }],
  ])('%s is fine', (_, spec) => {
    expect(problems(spec)).toEqual([]);
  });

  test.each<[spec: object, problem: string]>([
    [{ name: '' }, 'spec.name must not be empty'],
    [{ name: ' a' }, 'spec.name must not begin or end with a space: no header and no rule would name it'],
    [{ strategy: 'fastest' }, 'spec.strategy must be one of "weightedRandom", "leastLoaded"'],
    [{ affinity: {} }, 'spec.affinity.by is required'],
    [{ affinity: { by: 'header:' } }, 'spec.affinity.by must match'],
    [{ affinity: { by: 'cookie' } }, 'spec.affinity.by must match'],
    [{ fallbacks: ['a', 'a'] }, 'spec.fallbacks must not name a group twice'],
    [{ name: 'a', fallbacks: ['b', 'a'] }, 'spec.fallbacks must not name the group itself'],
    [{ fallbacks: ['a '] }, 'spec.fallbacks[0] must not begin or end with a space'],
    [{ fallbacks: [''] }, 'spec.fallbacks[0] must not be empty'],
    [{ fallbacks: Array.from({ length: 17 }, (_, index) => `g${index}`) }, 'spec.fallbacks must have at most 16'],
    [{ fallbackWhen: 'never' }, 'spec.fallbackWhen must be one of "unavailable", "full"'],
    [{ bestEffort: 'yes' }, 'spec.bestEffort must be true or false, not a text'],
    [{ maxRunningQueries: 0 }, 'spec.maxRunningQueries must be at least 1'],
    [{ maxRunningQueries: 1_000_001 }, 'spec.maxRunningQueries must be at most 1000000'],
    [{ queue: { maxQueued: -1 } }, 'spec.queue.maxQueued must be at least 0'],
    [{ queue: { maxQueued: 100_001 } }, 'spec.queue.maxQueued must be at most 100000'],
    [{ queue: { maxWait: '999ms' } }, 'spec.queue.maxWait must be a duration from 1s to 24h, such as 30s'],
    [{ queue: { maxWait: '25h' } }, 'spec.queue.maxWait must be a duration from 1s to 24h, such as 30s'],
    [{ queue: { maxWait: '1 hour' } }, 'spec.queue.maxWait must match'],
    [{ queue: { hold: '11s' } }, 'spec.queue.hold must be a duration from 0s to 10s, such as 500ms'],
    [{ queue: { hold: '3s', maxWait: '2s' } }, 'spec.queue.hold must not be longer than queue.maxWait'],
    [{ queue: { fairBy: 'session' } }, 'spec.queue.fairBy must be one of "user", "source"'],
    [{ queue: { whenUnavailable: 'wait', maxQueued: 0 } }, 'spec.queue.maxQueued is 0: queue.whenUnavailable: wait'],
    [{ queue: { limit: 1 } }, 'spec.queue.limit is not a known field'],
    [{ maxRunning: 1 }, 'spec.maxRunning is not a known field'],
  ])('%j: %s', (spec, problem) => {
    expect(problems(spec).join('; ')).toContain(problem);
  });
});

const resource = (
  name: string,
  spec: Record<string, unknown> = {},
  metadata: Partial<Resource['metadata']> = {},
): Resource => resourceOf('RoutingGroup', name, spec, { generation: 3, ...metadata });
const paused = { annotations: { [PAUSED_ANNOTATION]: 'true' } };

/** A program, and what it makes of resources. */
const program = (rights: Readonly<Record<string, GroupRights>> = {}, groups: readonly string[] = ['adhoc', 'etl']) => {
  const policy = { ...openPolicy, groups: new GroupBindings(rights) };
  const it = new GroupProgram({ policy });
  return {
    it,
    refresh: (...resources: readonly Resource[]) => {
      const clusters = groups.map((group) => clusterAt(`${group}-1`, `http://${group}`, { routingGroup: group }));
      const draft: RoutingDraft = { rows: [], clusters, admission: noPolicy, rules: null };
      const outcomes = it.refresh(resources, draft);
      return { outcomes: [...outcomes.values()], groups: draft.admission.groups };
    },
  };
};
const conditionsOf = (outcome: GroupOutcome) =>
  Object.fromEntries(
    routingGroup
      .status(outcome, { stored: { stored: true, reason: '' }, counts: noCounts } as Parameters<
        typeof routingGroup.status
      >[1])
      .conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]),
  );

describe('what a routing group means', () => {
  test('defaults are filled in', () => {
    expect(program().refresh(resource('etl')).groups.get('etl')).toEqual({
      name: 'etl',
      strategy: null,
      affinity: { by: 'user' },
      fallbacks: [],
      fallbackWhen: 'unavailable',
      bestEffort: false,
      maxRunning: null,
      queue: DEFAULT_QUEUE,
    });
  });

  test('everything that is set is taken over, durations in milliseconds', () => {
    const spec = {
      name: 'ETL main',
      strategy: 'leastLoaded',
      affinity: { by: 'header:X-Team' },
      fallbacks: ['adhoc'],
      fallbackWhen: 'full',
      bestEffort: true,
      maxRunningQueries: 7,
      queue: { maxQueued: 3, maxWait: '1.5m', fairBy: 'source', hold: '250ms', whenUnavailable: 'wait' },
    };
    expect(program().refresh(resource('etl-main', spec)).groups.get('ETL main')).toEqual({
      name: 'ETL main',
      strategy: 'leastLoaded',
      affinity: { by: 'header', header: 'x-team' },
      fallbacks: ['adhoc'],
      fallbackWhen: 'full',
      bestEffort: true,
      maxRunning: 7,
      queue: { maxQueued: 3, maxWaitMs: 90_000, fairBy: 'source', holdMs: 250, whenUnavailable: 'wait' },
    });
  });

  test('of two that claim a name the older one is in force, the other takes over when it goes', () => {
    const groups = program();
    const older = resource('etl', { maxRunningQueries: 1 });
    const younger = resource(
      'etl',
      { maxRunningQueries: 2 },
      { namespace: 'other', creationTimestamp: '2026-02-01T00:00:00Z' },
    );
    const both = groups.refresh(younger, older);
    expect(both.groups.get('etl')?.maxRunning).toBe(1);
    expect(both.outcomes.map(conditionsOf)).toMatchObject([
      { Accepted: 'False NameConflict', Ready: 'False NameConflict', Stalled: 'True NameConflict' },
      { Accepted: 'True Accepted', Ready: 'True Ready' },
    ]);
    expect(groups.refresh(younger).groups.get('etl')?.maxRunning).toBe(2);
  });

  test.each<[why: string, spec: object, metadata: object, maxRunning: number | undefined]>([
    ['not valid', { maxRunningQueries: 0 }, {}, 5],
    ['its own fallback', { fallbacks: ['etl'] }, {}, 5],
    ['paused', { maxRunningQueries: 9 }, paused, 5],
    ['being deleted', { maxRunningQueries: 5 }, { deletionTimestamp: '2026-01-02T00:00:00Z' }, undefined],
  ])('a version that is %s', (_, spec, metadata, maxRunning) => {
    const later = resource('etl', spec as Record<string, unknown>, metadata);
    const first = program();
    first.refresh(resource('etl', { maxRunningQueries: 5 }));
    expect(first.refresh(later).groups.get('etl')?.maxRunning).toBe(maxRunning);
    // The same after a restart, which begins with the database's copy.
    const restarted = program();
    restarted.it.restore([resource('etl', { maxRunningQueries: 5 })]);
    expect(restarted.refresh(later).groups.get('etl')?.maxRunning).toBe(maxRunning);
    // Nothing was in force before.
    expect(program().refresh(later).groups.size).toBe(0);
  });

  test.each<[spec: Record<string, unknown>, condition: string]>([
    [{}, 'True ResolvedRefs'],
    [{ fallbacks: ['adhoc'] }, 'True ResolvedRefs'],
    [{ fallbacks: ['adhoc', 'nowhere'] }, 'False GroupNotFound'],
    [{ name: 'none' }, 'False NoClusters'],
    [{ name: 'none', fallbacks: ['adhoc'] }, 'True ResolvedRefs'],
  ])('%j: ResolvedRefs %s', (spec, condition) => {
    const [outcome] = program().refresh(resource('etl', spec)).outcomes;
    expect(conditionsOf(outcome!)).toMatchObject({ ResolvedRefs: condition, Accepted: 'True Accepted' });
  });

  test.each<[why: string, rights: Readonly<Record<string, GroupRights>>, accepted: string]>([
    ['may join the group and route to the fallback', { etl: { join: ['ns'], route: [] } }, 'True Accepted'],
    ['may not join the group', { etl: { join: ['other'], route: ['*'] } }, 'False GroupNotAllowed'],
    ['may not route to the fallback', { adhoc: { join: ['*'], route: ['other'] } }, 'False GroupNotAllowed'],
  ])('a namespace that %s', (_, rights, accepted) => {
    const groups = program(rights);
    const declared = resource('etl', { fallbacks: ['adhoc'] });
    groups.it.restore([declared]);
    const { outcomes, groups: inForce } = groups.refresh(declared);
    expect(conditionsOf(outcomes[0]!)).toMatchObject({ Accepted: accepted });
    // What was allowed before is not in force either.
    expect(inForce.has('etl')).toBe(accepted === 'True Accepted');
  });

  test('a policy stays the same object for as long as the spec says the same', () => {
    const groups = program();
    const policy = () => groups.refresh(resource('etl', { maxRunningQueries: 5 })).groups.get('etl');
    expect(policy()).toBe(policy());
  });

  test('the status counts clusters, and queries where they are counted', () => {
    const [outcome] = program().refresh(resource('etl')).outcomes;
    const view = { stored: { stored: true, reason: '' } } as Parameters<typeof routingGroup.status>[1];
    expect(routingGroup.status(outcome!, { ...view, counts: noCounts }).fields).toEqual({ clusters: 1 });
    const counts = { ...noCounts, group: () => ({ running: 3, waiting: 2, refused: 1 }) };
    expect(routingGroup.status(outcome!, { ...view, counts }).fields).toEqual({
      clusters: 1,
      running: 3,
      waiting: 2,
      refused: 1,
    });
  });
});
