import { expect, test } from 'vitest';
import { resourceKinds } from '../../../src/kinds/registry.ts';

type Row = readonly [spec: object, problem: string | null];

const cluster = (more: object = {}) => ({ proxyTo: 'http://a:1', routingGroup: 'adhoc', ...more });
const checked = (field: string, value: string) => cluster({ healthCheck: { [field]: value } });
const affinity = (of: object) => ({ type: 'Affinity', affinity: of });
const everyone = { match: { everyone: true } };
const limit = (more: object = {}) => ({ ...everyone, per: 'User', maxRunningQueries: 10, ...more });
const replay = (more: object = {}) => ({
  ...{ control: 'a', candidate: 'b', from: { history: {} }, replayAs: { username: 'replay' } },
  ...more,
});
const rollout = (more: object = {}) => ({
  ...{ routingGroup: 'etl', stable: 'a', candidate: 'b', steps: [{ weight: 5 }] },
  ...more,
});
const discovery = (more: object = {}, template: object = {}) => ({
  selector: { matchLabels: { app: 'trino' } },
  template: { routingGroup: 'adhoc', ...template },
  ...more,
});
const rootGroup = (more: object = {}) => ({ name: 'a', hardConcurrencyLimit: 5, maxQueued: 1, ...more });
const groups = (more: object = {}) => ({
  environment: 'test',
  rootGroups: [rootGroup()],
  selectors: [{ group: 'a' }],
  ...more,
});
const nested = (levels: number): object => rootGroup(levels === 1 ? {} : { subGroups: [nested(levels - 1)] });

/** Specs with the problem of each; null: none. */
const specs: Readonly<Record<string, readonly Row[]>> = {
  EngineCluster: [
    [cluster(), null],
    [{ routingGroup: 'adhoc' }, 'spec.proxyTo is missing: proxyTo or serviceRef must be set, and not both'],
    [cluster({ serviceRef: { name: 's', port: 1 } }), 'spec.serviceRef is set next to proxyTo'],
    [cluster({ proxyTo: 'http://a:1?x' }), 'spec.proxyTo must not hold a query'],
    [{ proxyTo: 'http://a:1' }, 'spec.routingGroup is required'],
    [cluster({ group: 'x' }), 'spec.group is not a known field'],
    [cluster({ healthCheck: { type: 'PING' } }), 'spec.healthCheck.type must be one of "InfoAPI"'],
    ...['0s', '99ms', '86401s', '999999999h'].map(
      (text): Row => [checked('interval', text), 'spec.healthCheck.interval must be a duration from 100ms to 24h'],
    ),
    [checked('interval', '90d'), 'spec.healthCheck.interval must be a duration such as 30s'],
    ...['1s', '0.5h', '1h'].map((text): Row => [checked('interval', text), null]),
    ...['9ms', '601s'].map(
      (text): Row => [checked('timeout', text), 'spec.healthCheck.timeout must be a duration from 10ms to 10m'],
    ),
    ...['10ms', '10m'].map((text): Row => [checked('timeout', text), null]),
    [cluster({ healthCheck: { interval: '5s', timeout: '5s' } }), null],
    [
      cluster({ healthCheck: { interval: '5s', timeout: '5001ms' } }),
      'spec.healthCheck.timeout must not be above healthCheck.interval',
    ],
    [{ routingGroup: 'a', serviceRef: { name: 'A', port: 1 } }, 'spec.serviceRef.name must match'],
    ...[1, 1_000_000].map((maxRunningQueries): Row => [cluster({ maxRunningQueries }), null]),
    [cluster({ maxRunningQueries: 0 }), 'spec.maxRunningQueries must be at least 1'],
    [cluster({ maxRunningQueries: 1_000_001 }), 'spec.maxRunningQueries must be at most 1000000'],
    [cluster({ maxRunningQueries: 1.5 }), 'spec.maxRunningQueries must be a whole number'],
  ],
  RoutingGroup: [
    [{}, null],
    [{ strategy: { type: 'LeastLoaded' }, fallbacks: ['a', 'b'] }, null],
    [{ survival: { reasons: ['ClusterLost'], maxAttempts: 3, to: ['a'], exceptRules: ['r'], retryBudget: 10 } }, null],
    [{ survival: { reasons: [] } }, 'spec.survival.reasons must have at least 1'],
    [{ survival: { reasons: ['Timeout'] } }, 'spec.survival.reasons[0] must be'],
    [{ survival: { reasons: ['ClusterLost'], maxAttempts: 1 } }, 'spec.survival.maxAttempts must be'],
    [{ survival: { reasons: ['ClusterLost'], to: ['a', 'a'] } }, 'spec.survival.to must not name a group twice'],
    [{ strategy: affinity({ type: 'Header', name: 'X-Team' }) }, null],
    [{ strategy: affinity({ type: 'Session' }) }, null],
    [{ maxRunningQueries: 1_000_000, queue: { maxQueuedQueries: 100_000, maxWait: '24h', hold: '10s' } }, null],
    [{ queue: { maxQueuedQueries: 0, hold: '0s', maxWait: '1s' } }, null],
    [{ fallbacks: Array.from({ length: 16 }, (_, index) => `g${index}`) }, null],
    [{ whenUnavailable: 'Wait', queue: { maxQueuedQueries: 1 } }, null],
    [{ name: 'a b', fallbacks: ['c d'] }, null],
    [{ name: '' }, 'spec.name must not be empty'],
    [{ name: ' a' }, 'spec.name must not begin or end with a space: no header and no rule would name it'],
    [{ strategy: { type: 'Fastest' } }, 'spec.strategy.type must be one of "WeightedRandom", "LeastLoaded"'],
    [{ strategy: affinity({}) }, 'spec.strategy.affinity.type is required'],
    [{ strategy: affinity({ type: 'Header' }) }, 'spec.strategy.affinity.name is required with type: Header'],
    [{ strategy: affinity({ type: 'User', name: 'a' }) }, 'spec.strategy.affinity.name is required with type: Header'],
    [
      { strategy: { type: 'LeastLoaded', affinity: { type: 'User' } } },
      'spec.strategy.affinity has no effect without strategy.type: Affinity',
    ],
    [{ strategy: affinity({ type: 'Cookie' }) }, 'spec.strategy.affinity.type must be one of "User", "Source"'],
    [{ fallbacks: ['a', 'a'] }, 'spec.fallbacks must not name a group twice'],
    [{ name: 'a', fallbacks: ['b', 'a'] }, 'spec.fallbacks must not name the group itself'],
    [{ fallbacks: ['a '] }, 'spec.fallbacks[0] must not begin or end with a space'],
    [{ fallbacks: [''] }, 'spec.fallbacks[0] must not be empty'],
    [{ fallbacks: Array.from({ length: 17 }, (_, index) => `g${index}`) }, 'spec.fallbacks must have at most 16'],
    [{ whenFull: 'Never' }, 'spec.whenFull must be one of "Wait", "Fallback"'],
    [{ bestEffort: 'yes' }, 'spec.bestEffort must be true or false, not a text'],
    [{ maxRunningQueries: 0 }, 'spec.maxRunningQueries must be at least 1'],
    [{ maxRunningQueries: 1_000_001 }, 'spec.maxRunningQueries must be at most 1000000'],
    [{ queue: { maxQueuedQueries: -1 } }, 'spec.queue.maxQueuedQueries must be at least 0'],
    [{ queue: { maxQueuedQueries: 100_001 } }, 'spec.queue.maxQueuedQueries must be at most 100000'],
    [{ queue: { maxWait: '999ms' } }, 'spec.queue.maxWait must be a duration from 1s to 24h, such as 30s'],
    [{ queue: { maxWait: '25h' } }, 'spec.queue.maxWait must be a duration from 1s to 24h, such as 30s'],
    [{ queue: { maxWait: '1 hour' } }, 'spec.queue.maxWait must be a duration such as 30s'],
    [{ queue: { hold: '11s' } }, 'spec.queue.hold must be a duration from 0s to 10s, such as 500ms'],
    [{ queue: { hold: '3s', maxWait: '2s' } }, 'spec.queue.hold must not be longer than queue.maxWait'],
    [{ queue: { fairBy: 'session' } }, 'spec.queue.fairBy must be one of "User", "Source"'],
    [
      { whenUnavailable: 'Wait', queue: { maxQueuedQueries: 0 } },
      'spec.queue.maxQueuedQueries is 0: whenUnavailable: Wait',
    ],
    [{ queue: { limit: 1 } }, 'spec.queue.limit is not a known field'],
  ],
  QueryLimit: [
    [limit(), null],
    [{ ...everyone, per: 'All', maxQueuedQueries: 0 }, null],
    [{ ...everyone, per: 'Source', rate: { queries: 1_000_000, period: '24h', burst: 1 } }, null],
    [limit({ match: {} }), 'spec.match must have everyone: true, or users, userGroups'],
    [limit({ match: { everyone: false } }), 'spec.match must have everyone: true'],
    [limit({ match: { everyone: true, users: [{ value: 'a' }] } }), 'spec.match must have everyone: true'],
    [limit({ match: { everyone: false, users: [{ type: 'Prefix', value: 'a' }] } }), null],
    [{ per: 'User', maxRunningQueries: 1 }, 'spec.match is required'],
    [
      limit({
        match: {
          users: [
            { type: 'RegularExpression', value: 'etl-.*' },
            { type: 'RegularExpression', value: '(?i)svc.*' },
          ],
          routingGroups: [{ type: 'RegularExpression', value: 'a|b' }],
        },
      }),
      null,
    ],
    [limit({ maxQueuedQueries: 50, weight: 1_000, mode: 'Observe', message: 'Ask.' }), null],
    [limit({ match: { users: Array.from({ length: 64 }, (_, index) => ({ value: `u${index}` })) } }), null],
    [{ ...everyone, maxRunningQueries: 1 }, 'spec.per is required'],
    [{ ...everyone, per: 'session', maxRunningQueries: 1 }, 'spec.per must be one of "User", "Source", "All"'],
    [
      { ...everyone, per: 'User' },
      'spec.maxRunningQueries is missing: maxRunningQueries, maxQueuedQueries or rate must be set',
    ],
    [limit({ maxRunningQueries: 0 }), 'spec.maxRunningQueries must be at least 1'],
    [limit({ maxRunningQueries: 1_000_001 }), 'spec.maxRunningQueries must be at most 1000000'],
    [limit({ maxQueuedQueries: -1 }), 'spec.maxQueuedQueries must be at least 0'],
    [limit({ maxQueuedQueries: 100_001 }), 'spec.maxQueuedQueries must be at most 100000'],
    [limit({ rate: {} }), 'spec.rate.queries is required'],
    [limit({ rate: { queries: 0 } }), 'spec.rate.queries must be at least 1'],
    [limit({ rate: { queries: 1, period: '0.5s' } }), 'spec.rate.period must be a duration from 1s to 24h'],
    [limit({ rate: { queries: 1, period: '25h' } }), 'spec.rate.period must be a duration from 1s to 24h'],
    [limit({ rate: { queries: 1, burst: 0 } }), 'spec.rate.burst must be at least 1'],
    [limit({ weight: 0 }), 'spec.weight must be at least 1'],
    [limit({ weight: 1_001 }), 'spec.weight must be at most 1000'],
    [limit({ mode: 'warn' }), 'spec.mode must be one of "Enforce", "Observe"'],
    [limit({ message: '' }), 'spec.message must not be empty'],
    [limit({ message: 'x'.repeat(1_025) }), 'spec.message must have at most 1024 characters'],
    [limit({ match: { users: [] } }), 'spec.match.users must have at least 1 entries'],
    [limit({ match: { users: Array(65).fill({ value: 'a' }) } }), 'spec.match.users must have at most 64 entries'],
    [limit({ match: { userGroups: [{ value: '' }] } }), 'spec.match.userGroups[0].value must not be empty'],
    [
      limit({ match: { sources: [{ value: 'x'.repeat(513) }] } }),
      'spec.match.sources[0].value must have at most 512 characters',
    ],
    [
      limit({ match: { users: [{ value: 'a' }, { type: 'RegularExpression', value: '(' }] } }),
      'spec.match.users[1].value regular expression',
    ],
    [
      limit({ match: { users: [{ type: 'RegularExpression', value: '(?!svc).*' }] } }),
      'spec.match.users[0].value regular expression: look-ahead is not',
    ],
    [limit({ match: { clients: ['a'] } }), 'spec.match.clients is not a known field'],
    [limit({ name: 'x' }), 'spec.name is not a known field'],
  ],
  EngineRollout: [
    [rollout(), null],
    [rollout({ steps: [{ weight: 5, duration: '1m', minQueries: 10 }, { weight: 50 }], warmUp: '0s' }), null],
    [rollout({ stable: 'b' }), 'spec.candidate must be another cluster than stable'],
    [rollout({ steps: [{ weight: 50 }, { weight: 5 }] }), 'spec.steps[1].weight must not fall'],
    [rollout({ steps: [{ weight: 100 }] }), 'spec.steps[0].weight must be at most 99'],
    [rollout({ steps: [] }), 'spec.steps must have at least 1'],
    [rollout({ analysis: { compare: 'Memory' } }), 'spec.analysis.compare must be one of'],
    [rollout({ progressDeadline: '0s' }), 'spec.progressDeadline must be a duration from 1s to 720h'],
  ],
  QueryReplay: [
    [replay(), null],
    [replay({ window: { from: '22:00', to: '05:30' }, every: '168h', mode: 'Validate' }), null],
    [replay({ candidate: 'a' }), 'spec.candidate must be another cluster than control'],
    [replay({ replayAs: {} }), 'spec.replayAs must have either credentialsSecretRef or username'],
    [replay({ replayAs: { username: 'a', password: 'b' } }), 'spec.replayAs.password'],
    [replay({ replayAs: { username: 'a', password: '${FILE:/b}' } }), null],
    [replay({ window: { from: '24:00', to: '05:00' } }), 'spec.window.from must be a time of a day'],
    [replay({ every: '1m' }), 'spec.every must be a duration from 1h to 720h'],
    [replay({ from: {} }), 'spec.from must have either history or live'],
    [replay({ minCoverage: 101 }), 'spec.minCoverage must be at most 100'],
  ],
  EngineClusterDiscovery: [
    [discovery(), null],
    [discovery({ port: 8080 }), null],
    [discovery({ port: 65_536 }), 'spec.port'],
    [discovery({ port: 'HTTP' }), 'spec.port'],
    [{ template: { routingGroup: 'a' } }, 'spec.selector'],
    [discovery({ selector: { matchExpressions: [] } }), 'spec.selector'],
    [discovery({ selector: { matchLabels: { 'a b': 'c' } } }), 'spec.selector.matchLabels'],
    [discovery({ selector: { matchLabels: { a: 'b c' } } }), 'spec.selector.matchLabels.a'],
    [
      discovery({ selector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] } }),
      'spec.selector.matchExpressions[0]',
    ],
    [{ ...discovery(), template: {} }, 'spec.template.routingGroup'],
    [discovery({}, { routingGroupFrom: { label: 'a', annotation: 'b' } }), 'spec.template.routingGroupFrom'],
    [discovery({}, { name: 'trino' }), 'spec.template.name'],
    [discovery({}, { externalUrl: 'https://{service}.example?x' }), 'spec.template.externalUrl'],
    [discovery({}, { externalUrl: 'https://0.0.0.0/{service}' }), 'spec.template.externalUrl'],
    [discovery({}, { healthCheck: { interval: '1ms' } }), 'spec.template.healthCheck.interval'],
    [discovery({}, { tls: { caBundle: '-----BEGIN CERTIFICATE-----' } }), 'spec.template.tls.caBundle'],
    [discovery({}, { tls: { caRef: { name: 'ca' } } }), null],
    [discovery({}, { tls: { caRef: { name: 'CA' } } }), 'spec.template.tls.caRef.name must match'],
    [discovery({}, { tls: { caBundle: 'x', caRef: { name: 'ca' } } }), 'spec.template.tls.caBundle must match'],
    [discovery({}, { proxyTo: 'http://a' }), 'spec.template.proxyTo'],
  ],
  ResourceGroupConfiguration: [
    [groups({ cpuQuotaPeriod: '1h', rootGroups: [rootGroup({ hardCpuLimit: '30m' })] }), null],
    [groups({ databases: ['a', 'b'], prune: true, whenDrifted: 'Report' }), null],
    [groups({ rootGroups: [nested(8)], selectors: [{ group: 'a.a.a.a.a.a.a.a' }] }), null],
    [groups({ rootGroups: [], selectors: [] }), null],
    [{ rootGroups: [], selectors: [] }, 'spec.environment is required'],
    [groups({ rootGroups: [nested(9)] }), 'must be empty: groups are nested at most 8 deep'],
    [groups({ rootGroups: [rootGroup({ name: 'a.b' })] }), 'spec.rootGroups[0].name must not hold a dot'],
    [groups({ rootGroups: [rootGroup({ softMemoryLimit: '101%' })] }), 'softMemoryLimit must be at most 100%'],
    [groups({ rootGroups: [rootGroup({ hardCpuLimit: '1h' })] }), 'hardCpuLimit needs cpuQuotaPeriod'],
    [groups({ rootGroups: [rootGroup({ hardPhysicalDataScanLimit: '1TB' })] }), 'has no column in the tables'],
    [groups({ selectors: [{ group: 'b' }] }), 'spec.selectors[0].group leads nowhere'],
    [groups({ firstPriority: 1 }), 'spec.firstPriority is not a known field'],
    [groups({ databases: ['a', 'a'] }), 'spec.databases must not hold a name twice'],
    [groups({ databases: ["a'; drop"] }), 'spec.databases[0] must match'],
    [
      groups({ selectors: [{ clientTags: Array.from({ length: 60 }, () => 'x'.repeat(10)), group: 'a' }] }),
      'spec.selectors[0].clientTags must have at most 512 characters as JSON',
    ],
  ],
};

test.each(Object.entries(specs).flatMap(([kind, rows]) => rows.map((row) => [kind, ...row] as const)))(
  '%s %j: %s',
  (kind, spec, problem) => {
    const problems = resourceKinds.specProblems(kind, spec).map(({ field, message }) => `${field} ${message}`);
    if (problem === null) expect(problems).toEqual([]);
    else expect(problems.join('; ')).toContain(problem);
  },
);
