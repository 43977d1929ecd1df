import { describe, expect, test } from 'vitest';
import { clusterOutcomes } from '../../../src/kinds/engineCluster/clusterOutcome.ts';
import { type ClusterPolicy, openPolicy } from '../../../src/kinds/engineCluster/clusterPolicy.ts';
import { clusterStatus } from '../../../src/kinds/engineCluster/clusterStatus.ts';
import { noServices, type ServiceLookup } from '../../../src/kinds/serviceLookup.ts';
import { ClusterAddresses } from '../../../src/model/clusterAddresses.ts';
import { GroupBindings } from '../../../src/model/groupBindings.ts';
import { ACTIVE_ANNOTATION, PAUSED_ANNOTATION, type Resource } from '../../../src/model/resource.ts';
import { clusterChange } from '../../../src/operator/registry/registryChange.ts';
import type { RoutableCluster } from '../../../src/routing/routingTable.ts';
import { resourceOf } from '../../support/resource.ts';

const resource = (
  name: string,
  spec: Record<string, unknown> = {},
  metadata: Partial<Resource['metadata']> = {},
): Resource => {
  const whole = { proxyTo: `http://${name}:1`, routingGroup: 'adhoc', ...spec };
  return resourceOf('EngineCluster', name, whole, { uid: `uid-${name}`, generation: 3, ...metadata });
};
const services: ServiceLookup = {
  address: ({ name, namespace, port, scheme }) => ({ ok: true, url: `${scheme}://${name}.${namespace}.svc:${port}` }),
  onChange: () => () => false,
};
const outcomes = (
  resources: readonly Resource[],
  more: {
    services?: ServiceLookup;
    allowed?: string[];
    lastGood?: ReadonlyMap<string, RoutableCluster>;
    policy?: ClusterPolicy;
  } = {},
) =>
  clusterOutcomes(resources, {
    services: more.services ?? noServices,
    allowedServiceNamespaces: more.allowed ?? [],
    lastGood: more.lastGood ?? new Map(),
    policy: more.policy ?? openPolicy,
  });
const only = (one: Resource, more = {}) => outcomes([one], more).get('EngineCluster/ns/a')!;
const serviceRef = { serviceRef: { name: 'svc', port: 8080 }, proxyTo: undefined };

describe('an outcome that was worked out before', () => {
  const other = { name: 'a', proxyTo: 'http://old:1' } as RoutableCluster;
  test('stays the same object while the resource is accepted, whatever was routed last', () => {
    const accepted = resource('a');
    const first = only(accepted);
    for (const last of [first.routable!, { ...first.routable! }, other]) {
      expect(only(accepted, { lastGood: new Map([['uid-a', last]]) })).toBe(first);
    }
  });

  test.each([
    ['not accepted', resource('a', { proxyTo: 'ftp://a' })],
    ['paused', resource('a', {}, { annotations: { [PAUSED_ANNOTATION]: 'true' } })],
  ])('follows what was routed last while the resource is %s', (_why, held) => {
    expect(only(held).routable).toBeNull();
    expect(only(held, { lastGood: new Map([['uid-a', other]]) }).routable).toBe(other);
  });
});

describe('acceptance', () => {
  test.each<[string, Resource, object, string, RegExp]>([
    ['valid', resource('a'), {}, 'Accepted', /valid/],
    ['no URL', resource('a', { proxyTo: undefined }), {}, 'InvalidSpec', /spec.proxyTo exactly one of/],
    ['both', resource('a', { serviceRef: { name: 's', port: 1 } }), {}, 'InvalidSpec', /spec.serviceRef exactly one/],
    [
      'a query in the URL',
      resource('a', { proxyTo: 'http://a:1?x' }),
      {},
      'InvalidSpec',
      /spec.proxyTo must not hold a query/,
    ],
    ['no group', resource('a', { routingGroup: undefined }), {}, 'InvalidSpec', /spec.routingGroup is required/],
    ['an unknown field', resource('a', { group: 'x' }), {}, 'InvalidSpec', /spec.group is not a known field/],
    [
      'a bad health check',
      resource('a', { healthCheck: { type: 'PING' } }),
      {},
      'InvalidSpec',
      /spec.healthCheck.type must be one of "INFO_API"/,
    ],
    ...(
      [
        ['interval', '0s', /spec.healthCheck.interval .*from 1s to 1h/],
        ['interval', '999ms', /spec.healthCheck.interval .*from 1s to 1h/],
        ['interval', '1s', null],
        ['interval', '0.5h', null],
        ['interval', '1h', null],
        ['interval', '3601s', /spec.healthCheck.interval .*from 1s to 1h/],
        ['interval', '90d', /spec.healthCheck.interval/],
        ['interval', '999999999h', /spec.healthCheck.interval .*from 1s to 1h/],
        ['timeout', '9ms', /spec.healthCheck.timeout .*from 10ms to 10m/],
        ['timeout', '10ms', null],
        ['timeout', '10m', null],
        ['timeout', '601s', /spec.healthCheck.timeout .*from 10ms to 10m/],
      ] as const
    ).map(([field, text, wrong]): [string, Resource, object, string, RegExp] => [
      `${field} ${text}`,
      resource('a', { healthCheck: { [field]: text } }),
      {},
      wrong === null ? 'Accepted' : 'InvalidSpec',
      wrong ?? /valid/,
    ]),
    ['a Service without Kubernetes', resource('a', serviceRef), {}, 'ServiceRefUnsupported', /set spec.proxyTo/],
    ['a Service', resource('a', serviceRef), { services }, 'Accepted', /valid/],
    [
      'a Service elsewhere',
      resource('a', { proxyTo: undefined, serviceRef: { name: 's', namespace: 'x', port: 1 } }),
      { services },
      'RefNotPermitted',
      /resources.allowedServiceNamespaces/,
    ],
    [
      'a Service where it is allowed',
      resource('a', { proxyTo: undefined, serviceRef: { name: 's', namespace: 'x', port: 1 } }),
      { services, allowed: ['x'] },
      'Accepted',
      /valid/,
    ],
  ])('%s', (_, one, more, reason, message) => {
    const { spec } = one;
    const cleaned = {
      ...one,
      spec: Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)),
    };
    const { acceptance, routable } = only(cleaned, more);
    expect(acceptance.reason).toBe(reason);
    expect(acceptance.message).toMatch(message);
    expect(routable === null).toBe(reason !== 'Accepted');
  });
});

test('the older of two claims a name; of equally old ones the first key; a deleted one claims nothing', () => {
  const young = resource('a', { name: 'N' }, { creationTimestamp: '2026-01-02T00:00:00Z' });
  const old = resource('b', { name: 'N' });
  const same = resource('c', { name: 'N' });
  const holder = (list: readonly Resource[]) =>
    [...outcomes(list).values()].filter((outcome) => outcome.routable !== null).map((outcome) => outcome.key.name);
  expect(holder([young, same, old])).toEqual(['b']);
  expect(holder([young, { ...old, metadata: { ...old.metadata, deletionTimestamp: 'x' } }])).toEqual(['a']);
});

describe('override', () => {
  const annotated = (value: string, spec = {}) => resource('a', spec, { annotations: { [ACTIVE_ANNOTATION]: value } });
  test.each<[string, string, Record<string, unknown>, boolean, string]>([
    [
      'in force',
      '{"active":false,"by":"x","at":"t","overrode":true}',
      {},
      false,
      'deactivated by x at t; spec.active is true',
    ],
    [
      'activated',
      '{"active":true,"by":"x","at":"t","overrode":false}',
      { active: false },
      true,
      'activated by x at t; spec.active is false',
    ],
    ['ended', '{"active":true,"by":"x","at":"t","overrode":true}', { active: false }, false, 'spec.active is false'],
    ['bare', 'false', {}, false, 'deactivated by annotation; spec.active is true'],
    ['bare, whatever the spec', 'false', { active: false }, false, 'deactivated by annotation; spec.active is false'],
    ['nonsense', 'off', {}, true, `annotation ${ACTIVE_ANNOTATION} is not of the form`],
    ['no boolean', '{"active":"no"}', {}, true, 'is ignored'],
  ])('%s', (_, annotation, spec, active, message) => {
    const outcome = only(annotated(annotation, spec));
    expect(outcome.routable?.active).toBe(active);
    const status = clusterStatus(outcome, null, { stored: true, reason: '' }, null);
    const condition = status.conditions.find((candidate) => candidate.type === 'Active');
    expect(condition?.status).toBe(active ? 'True' : 'False');
    expect(condition?.message).toContain(message);
  });
});

test.each<[limit: unknown, routed: number | undefined | null, problem: string]>([
  [undefined, undefined, ''],
  [1, 1, ''],
  [1_000_000, 1_000_000, ''],
  [0, null, 'spec.maxRunningQueries must be at least 1'],
  [1_000_001, null, 'spec.maxRunningQueries must be at most 1000000'],
  [1.5, null, 'spec.maxRunningQueries must be a whole number'],
])('maxRunningQueries %j is routed as %j', (maxRunningQueries, routed, problem) => {
  const { routable, acceptance } = only(resource('a', maxRunningQueries === undefined ? {} : { maxRunningQueries }));
  expect(routable === null ? null : routable.maxRunningQueries).toBe(routed);
  expect(acceptance.message).toContain(problem);
});

test('what is paused or no longer valid keeps what was routed', () => {
  const lastGood = new Map([['uid-a', only(resource('a', { weight: 7 })).routable as RoutableCluster]]);
  const paused = resource('a', { weight: 8 }, { annotations: { [PAUSED_ANNOTATION]: 'true' } });
  expect(only(paused, { lastGood }).routable?.weight).toBe(7);
  expect(only(resource('a', { weight: -8 }), { lastGood }).routable?.weight).toBe(7);
  expect(only(resource('a', { weight: -8, name: 'other' }), { lastGood }).routable).toBeNull();
});

test('a Service whose namespace is no longer allowed is no last good version; another one stays', () => {
  const at = (namespace: string) => ({ proxyTo: undefined, serviceRef: { name: 's', namespace, port: 1 } });
  const routed = only(resource('a', at('x')), { services, allowed: ['x'] }).routable as RoutableCluster;
  const lastGood = new Map([['uid-a', routed]]);
  expect(only(resource('a', at('x')), { services, lastGood }).routable).toBeNull();
  expect(only(resource('a', at('y')), { services, lastGood, allowed: ['x'] }).routable).toEqual(routed);
});

describe('what an update by REST changes', () => {
  const desired = { name: 'a', proxyTo: 'http://a:1', externalUrl: 'http://a:1', active: true, routingGroup: 'adhoc' };
  const none = { set: {}, remove: [], annotations: {} };
  test.each<[string, Resource, object, object]>([
    ['nothing', resource('a'), {}, none],
    ['a slash is no difference', resource('a', { proxyTo: 'http://a:1/' }), {}, none],
    ['the group', resource('a'), { routingGroup: 'x' }, { ...none, set: { routingGroup: 'x' } }],
    ['active', resource('a'), { active: false }, { ...none, set: { active: false } }],
    ['the same active, written out or not', resource('a', { active: true }), {}, none],
    ['an external URL', resource('a'), { externalUrl: 'https://x' }, { ...none, set: { externalUrl: 'https://x' } }],
    [
      'back to the default',
      resource('a', { externalUrl: 'https://x' }),
      {},
      { ...none, set: { externalUrl: 'http://a:1' } },
    ],
    [
      'an override ends',
      resource('a', {}, { annotations: { [ACTIVE_ANNOTATION]: 'false' } }),
      {},
      { ...none, annotations: { [ACTIVE_ANNOTATION]: null } },
    ],
  ])('%s', (_, present, change, result) => {
    expect(clusterChange(present, only(present).routable, { ...desired, ...change })).toEqual(result);
  });

  test('the URL that a Service resolved to changes nothing; another one takes its place', () => {
    const present = resource('a', { serviceRef: { name: 'svc', port: 8080 } });
    delete (present.spec as Record<string, unknown>).proxyTo;
    const routed = only(present, { services }).routable;
    const url = 'http://svc.ns.svc:8080';
    expect(clusterChange(present, routed, { ...desired, proxyTo: url, externalUrl: url })).toEqual(none);
    expect(clusterChange(present, routed, desired)).toEqual({
      ...none,
      set: { proxyTo: 'http://a:1' },
      remove: ['serviceRef'],
    });
  });
});

describe('what the configuration allows', () => {
  const policy = (more: { loopback?: boolean; allowed?: string[]; join?: string[] | null } = {}): ClusterPolicy => ({
    addresses: new ClusterAddresses({ allowed: more.allowed ?? [], loopback: more.loopback ?? false }),
    groups: new GroupBindings(more.join === undefined ? {} : { etl: { join: more.join, route: [] } }),
  });
  const external = (name: string): ServiceLookup => ({
    address: () => ({ ok: true, url: 'http://svc.ns.svc:8080', externalName: name }),
    onChange: () => () => false,
  });
  const routedOnce = (one: Resource) => {
    const { routable } = only(one);
    return routable === null ? new Map() : new Map([[one.metadata.uid, routable]]);
  };

  test.each<[string, Record<string, unknown>, object, string, RegExp]>([
    ['an address that may be', { proxyTo: 'http://10.0.0.1:1' }, { policy: policy() }, 'Accepted', /valid/],
    [
      'a metadata address',
      { proxyTo: 'http://169.254.169.254' },
      { policy: policy() },
      'AddressNotAllowed',
      /^spec.proxyTo: 169.254.169.254 is the metadata service .* resources.allowedAddresses/,
    ],
    [
      'one that is allowed',
      { proxyTo: 'http://169.254.1.1' },
      { policy: policy({ allowed: ['169.254.0.0/16'] }) },
      'Accepted',
      /valid/,
    ],
    ['loopback', { proxyTo: 'http://localhost:8080' }, { policy: policy() }, 'AddressNotAllowed', /own machine/],
    [
      'loopback where it may be',
      { proxyTo: 'http://localhost:8080' },
      { policy: policy({ loopback: true }) },
      'Accepted',
      /valid/,
    ],
    [
      'a Service that stands for a metadata name',
      { proxyTo: undefined, serviceRef: { name: 'svc', port: 8080 } },
      { policy: policy(), services: external('metadata.google.internal') },
      'AddressNotAllowed',
      /the Service stands for metadata.google.internal/,
    ],
    ['a group without an entry', { routingGroup: 'adhoc' }, { policy: policy({ join: [] }) }, 'Accepted', /valid/],
    [
      'a group that the namespace may join',
      { routingGroup: 'etl' },
      { policy: policy({ join: ['ns'] }) },
      'Accepted',
      /valid/,
    ],
    ['a group that all may join', { routingGroup: 'etl' }, { policy: policy({ join: ['*'] }) }, 'Accepted', /valid/],
    [
      'a group whose entry does not say',
      { routingGroup: 'etl' },
      { policy: policy({ join: null }) },
      'Accepted',
      /valid/,
    ],
    [
      'a group of others',
      { routingGroup: 'etl' },
      { policy: policy({ join: ['team'] }) },
      'GroupNotAllowed',
      /^spec.routingGroup: namespace ns may not have clusters in the routing group etl; .* resources.groups\["etl"\].join/,
    ],
  ])('%s', (_, spec, more, reason, message) => {
    const one = resource('a', spec);
    const cleaned = {
      ...one,
      spec: Object.fromEntries(Object.entries(one.spec).filter(([, value]) => value !== undefined)),
    };
    const { acceptance, routable } = only(cleaned, more);
    expect(acceptance.reason).toBe(reason);
    expect(acceptance.message).toMatch(message);
    expect(routable === null).toBe(reason !== 'Accepted');
  });

  test('a change that is not allowed leaves the last good version in force, one that was allowed once does not', () => {
    const good = resource('a', { routingGroup: 'adhoc' });
    const wrong = { ...good, spec: { ...good.spec, routingGroup: 'etl' } };
    const bound = policy({ join: ['team'] });
    expect(only(wrong, { policy: bound, lastGood: routedOnce(good) }).routable?.routingGroup).toBe('adhoc');
    expect(only(wrong, { policy: bound, lastGood: routedOnce(wrong) }).routable).toBeNull();
    const local = { ...good, spec: { ...good.spec, proxyTo: 'http://127.0.0.1:1' } };
    expect(only(local, { policy: bound, lastGood: routedOnce(local) }).routable).toBeNull();
    const paused = { ...local, metadata: { ...local.metadata, annotations: { [PAUSED_ANNOTATION]: 'true' } } };
    expect(only(paused, { policy: bound, lastGood: routedOnce(local) }).routable).toBeNull();
  });
});

describe('routing groups that are bound to namespaces', () => {
  const groups = new GroupBindings({
    etl: { join: ['team-etl'], route: ['team-etl', 'platform'] },
    open: { join: null, route: null },
    '*': { join: ['platform'], route: [] },
  });
  test.each<[string, string, boolean, boolean]>([
    ['team-etl', 'etl', true, true],
    ['platform', 'etl', false, true],
    ['other', 'etl', false, false],
    ['other', 'open', true, true],
    ['platform', 'anything', true, false],
    ['other', 'anything', false, false],
    ['other', '__proto__', false, false],
  ])('%s and %s: join %s, route %s', (namespace, group, join, route) => {
    expect(groups.joinRefusal(namespace, group) === null).toBe(join);
    expect(groups.routeRefusal(namespace, group) === null).toBe(route);
  });

  test('without any entry every group is open', () => {
    expect(new GroupBindings({}).joinRefusal('other', 'etl')).toBeNull();
    expect(new GroupBindings({}).areOpen).toBe(true);
    expect(groups.areOpen).toBe(false);
  });
});
