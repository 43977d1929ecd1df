import { describe, expect, test } from 'vitest';
import { ACTIVE_ANNOTATION, API_GROUP_VERSION, PAUSED_ANNOTATION, type Resource } from '../../../src/model/resource.ts';
import { clusterOutcomes } from '../../../src/operator/reconcile/clusterOutcome.ts';
import { clusterStatus } from '../../../src/operator/reconcile/clusterStatus.ts';
import { noServices, type ServiceLookup } from '../../../src/operator/reconcile/dereference.ts';
import { clusterChange } from '../../../src/operator/registryChange.ts';
import type { RoutableCluster } from '../../../src/routing/routingTable.ts';

const resource = (
  name: string,
  spec: Record<string, unknown> = {},
  metadata: Partial<Resource['metadata']> = {},
): Resource => ({
  apiVersion: API_GROUP_VERSION,
  kind: 'EngineCluster',
  metadata: {
    name,
    namespace: 'ns',
    uid: `uid-${name}`,
    resourceVersion: '1',
    generation: 3,
    creationTimestamp: '2026-01-01T00:00:00Z',
    ...metadata,
  },
  spec: { proxyTo: `http://${name}:1`, routingGroup: 'adhoc', ...spec },
});
const services: ServiceLookup = {
  address: ({ name, namespace, port, scheme }) => ({ ok: true, url: `${scheme}://${name}.${namespace}.svc:${port}` }),
  onChange: () => () => false,
};
const outcomes = (
  resources: readonly Resource[],
  more: { services?: ServiceLookup; allowed?: string[]; lastGood?: ReadonlyMap<string, RoutableCluster> } = {},
) =>
  clusterOutcomes(resources, {
    services: more.services ?? noServices,
    allowedServiceNamespaces: more.allowed ?? [],
    lastGood: more.lastGood ?? new Map(),
  });
const only = (one: Resource, more = {}) => outcomes([one], more).get('EngineCluster/ns/a')!;
const serviceRef = { serviceRef: { name: 'svc', port: 8080 }, proxyTo: undefined };

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
  const wanted = { name: 'a', proxyTo: 'http://a:1', externalUrl: 'http://a:1', active: true, routingGroup: 'adhoc' };
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
    expect(clusterChange(present, only(present).routable, { ...wanted, ...change })).toEqual(result);
  });

  test('the URL that a Service resolved to changes nothing; another one takes its place', () => {
    const present = resource('a', { serviceRef: { name: 'svc', port: 8080 } });
    delete (present.spec as Record<string, unknown>).proxyTo;
    const routed = only(present, { services }).routable;
    const url = 'http://svc.ns.svc:8080';
    expect(clusterChange(present, routed, { ...wanted, proxyTo: url, externalUrl: url })).toEqual(none);
    expect(clusterChange(present, routed, wanted)).toEqual({
      ...none,
      set: { proxyTo: 'http://a:1' },
      remove: ['serviceRef'],
    });
  });
});
