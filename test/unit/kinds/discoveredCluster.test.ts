import { describe, expect, test } from 'vitest';
import {
  type DiscoveryContext,
  discoveredCluster,
} from '../../../src/kinds/engineClusterDiscovery/discoveredCluster.ts';
import type { EngineClusterDiscoverySpec } from '../../../src/kinds/engineClusterDiscovery/spec.ts';
import { discoveryProblems } from '../../../src/kinds/engineClusterDiscovery/validation.ts';
import type { KnownService } from '../../../src/kinds/serviceLookup.ts';
import { GroupBindings } from '../../../src/model/groupBindings.ts';
import { matchingServices } from '../../../src/operator/discovery/matchingServices.ts';

const port = (name: string, number: number, more: object = {}) => ({
  name,
  port: number,
  protocol: 'TCP',
  appProtocol: '',
  ...more,
});
const service = (more: Partial<KnownService> = {}): KnownService => ({
  namespace: 'team-a',
  name: 'trino',
  uid: 'u',
  creationTimestamp: '2026-11-23T00:00:00Z',
  labels: {},
  annotations: {},
  type: 'ClusterIP',
  ports: [port('http', 8080)],
  ...more,
});
type Template = EngineClusterDiscoverySpec['template'];
const context = (
  template: Partial<Template> = {},
  more: Partial<EngineClusterDiscoverySpec> = {},
  groups = new GroupBindings({}),
): DiscoveryContext => ({
  spec: { selector: { matchLabels: { app: 'trino' } }, template: { routingGroup: 'adhoc', ...template }, ...more },
  namespace: 'gateway',
  groups,
});

describe('the address of a Service', () => {
  const url = 'http://trino.team-a.svc';
  const https = 'https://trino.team-a.svc';
  test.each<[string, Partial<KnownService>, Partial<EngineClusterDiscoverySpec>, string]>([
    ['http before others', { ports: [port('jmx', 1), port('https', 8443), port('http', 80)] }, {}, `${url}:80`],
    ['https where there is no http', { ports: [port('jmx', 1), port('https', 8443)] }, {}, `${https}:8443`],
    ['else the first', { ports: [port('jmx', 1), port('web', 2)] }, {}, `${url}:1`],
    ['one without a name', { ports: [port('', 8080)] }, {}, `${url}:8080`],
    ['by name', { ports: [port('http', 1), port('web', 2)] }, { port: 'web' }, `${url}:2`],
    ['by number', { ports: [port('http', 1), port('web', 2)] }, { port: 2 }, `${url}:2`],
    ['TCP of two', { ports: [port('http', 1, { protocol: 'UDP' }), port('web', 2)] }, {}, `${url}:2`],
    ['the scheme of the application', { ports: [port('web', 2, { appProtocol: 'HTTPS' })] }, {}, `${https}:2`],
    ['a name that begins so', { ports: [port('https-web', 2)] }, {}, `${https}:2`],
    ['the scheme of the discovery', { ports: [port('https', 2)] }, { scheme: 'http' }, `${url}:2`],
    ['a headless Service', { type: 'ClusterIP' }, {}, `${url}:8080`],
    ['a Service for the outside', { type: 'LoadBalancer' }, {}, `${url}:8080`],
  ])('%s', (_name, of, spec, expected) => {
    expect(discoveredCluster(service(of), context({}, spec))).toMatchObject({
      kind: 'cluster',
      spec: { proxyTo: expected },
    });
  });
});

describe('the name of a cluster', () => {
  const long = 'n'.repeat(63);
  test.each<[string | undefined, Partial<KnownService>, string | RegExp]>([
    [undefined, {}, 'team-a-trino'],
    ['{service}', {}, 'trino'],
    ['{service}.{namespace}', {}, 'trino.team-a'],
    ['eu-{service}{service}', {}, 'eu-trinotrino'],
    ['-{service}-', {}, /^trino-[0-9a-f]{8}$/],
    ['..{service}', {}, /^trino-[0-9a-f]{8}$/],
    [undefined, { name: long, namespace: long }, /^n{54}-[0-9a-f]{8}$/],
  ])('%j of %j', (name, of, expected) => {
    const cluster = discoveredCluster(service(of), context(name === undefined ? {} : { name }));
    expect(cluster).toMatchObject({ kind: 'cluster', name: expect.stringMatching(new RegExp(expected)) });
    expect((cluster as { name: string }).name.length).toBeLessThanOrEqual(63);
  });

  test('long names of two Services stay two', () => {
    const names = ['a', 'b'].map((end) => discoveredCluster(service({ name: 'n'.repeat(62) + end }), context()));
    expect(new Set(names.map((each) => (each as { name: string }).name)).size).toBe(2);
  });
});

describe('what else a cluster is', () => {
  const weight = 'enginegateway.dev/weight';
  const active = 'enginegateway.dev/active';
  test.each<[string, Partial<KnownService>, Partial<Template>, object]>([
    ['no more than the template says', {}, {}, { proxyTo: 'http://trino.team-a.svc:8080', routingGroup: 'adhoc' }],
    [
      'a link',
      {},
      { externalUrl: 'https://{service}.{namespace}.example' },
      { externalUrl: 'https://trino.team-a.example' },
    ],
    ['a weight', {}, { weight: 5 }, { weight: 5 }],
    ['its own weight', { annotations: { [weight]: '0' } }, { weight: 5 }, { weight: 0 }],
    ['switched off', { annotations: { [active]: 'false' } }, { active: true }, { active: false }],
    ['its own group', { labels: { group: 'etl' } }, { routingGroupFrom: { label: 'group' } }, { routingGroup: 'etl' }],
    ['the other group', {}, { routingGroupFrom: { label: 'group' } }, { routingGroup: 'adhoc' }],
    [
      'by annotation',
      { annotations: { g: 'a b' } },
      { routingGroupFrom: { annotation: 'g' } },
      { routingGroup: 'a b' },
    ],
    ['no TLS over http', {}, { tls: { insecureSkipVerify: true } }, { routingGroup: 'adhoc' }],
  ])('%s', (_name, of, template, expected) => {
    const cluster = discoveredCluster(service(of), context(template));
    const base = { proxyTo: 'http://trino.team-a.svc:8080', routingGroup: 'adhoc' };
    expect(cluster).toMatchObject({ kind: 'cluster', spec: { ...base, ...expected } });
    expect(Object.keys((cluster as { spec: object }).spec).sort()).toEqual(
      Object.keys({ ...base, ...expected }).sort(),
    );
  });

  test.each<[string, Partial<KnownService>, Partial<Template>, string, RegExp]>([
    ['a name outside', { type: 'ExternalName' }, {}, 'ExternalName', /outside of Kubernetes/],
    ['no ports', { ports: [] }, {}, 'ServicePortNotFound', /it has none/],
    ['a port that is none', { ports: [port('http', 0)] }, {}, 'ServicePortNotFound', /http 0/],
    ['another host by its name', { name: 'evil.example/x' }, {}, 'InvalidService', /label of DNS/],
    ['another host by its namespace', { namespace: 'a@evil' }, {}, 'InvalidService', /label of DNS/],
    ['a name that is longer than one may be', { name: 'x'.repeat(64) }, {}, 'InvalidService', /label of DNS/],
    [
      'no group',
      {},
      { routingGroup: undefined as never, routingGroupFrom: { label: 'g' } },
      'NoRoutingGroup',
      /label g/,
    ],
    [
      'an inherited name',
      {},
      { routingGroup: undefined as never, routingGroupFrom: { label: 'toString' } },
      'NoRoutingGroup',
      /toString/,
    ],
    ['an empty group', { labels: { g: '' } }, { routingGroupFrom: { label: 'g' } }, 'InvalidCluster', /routingGroup/],
    [
      'a group with a line',
      { annotations: { g: 'a\nb' } },
      { routingGroupFrom: { annotation: 'g' } },
      'InvalidCluster',
      /routingGroup/,
    ],
    ['no weight', { annotations: { [weight]: '-1' } }, {}, 'InvalidAnnotation', /weight/],
    ['a huge weight', { annotations: { [weight]: '99999' } }, {}, 'InvalidCluster', /weight/],
    ['a word for active', { annotations: { [active]: '{"active":true}' } }, {}, 'InvalidAnnotation', /active/],
  ])('it is none with %s', (_name, of, template, reason, message) => {
    expect(discoveredCluster(service(of), context(template))).toMatchObject({
      kind: 'refused',
      reason,
      message: expect.stringMatching(message),
    });
  });

  test.each([
    ['that of the discovery', { join: ['team-a'], route: null }, /namespace gateway may not/],
    ['that of the Service', { join: ['gateway'], route: null }, /namespace team-a may not/],
  ])('a group is not open to it without the leave of %s', (_name, rights, message) => {
    const groups = new GroupBindings({ finance: rights });
    const template = { routingGroupFrom: { label: 'g' } };
    const cluster = discoveredCluster(service({ labels: { g: 'finance' } }), context(template, {}, groups));
    expect(cluster).toMatchObject({ reason: 'GroupNotAllowed', message: expect.stringMatching(message) });
  });
});

test.each<[object, Record<string, string>, boolean]>([
  [{ matchLabels: { a: '1', b: '2' } }, { a: '1', b: '2', c: '3' }, true],
  [{ matchLabels: { a: '1', b: '2' } }, { a: '1' }, false],
  [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['1', '2'] }] }, { a: '2' }, true],
  [{ matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['1'] }] }, {}, true],
  [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }, { a: '' }, true],
  [{ matchLabels: { a: '1' }, matchExpressions: [{ key: 'b', operator: 'DoesNotExist' }] }, { a: '1', b: '' }, false],
])('the selector %j on labels %j: %s', (selector, labels, expected) => {
  const list = { synced: true, reason: null, services: [service({ labels })] };
  const scope = { spec: { selector, template: {} }, namespace: 'team-a', allowed: [] };
  const { services } = matchingServices({ list: () => list, onChange: () => () => undefined }, scope);
  expect(services.length === 1).toBe(expected);
});

describe('a spec', () => {
  const spec = (more: object = {}, template: object = {}) => ({
    selector: { matchLabels: { app: 'trino' } },
    template: { routingGroup: 'adhoc', ...template },
    ...more,
  });
  test.each<[string, unknown, string | null]>([
    ['as it should be', spec(), null],
    ['a number as port', spec({ port: 8080 }), null],
    ['a port that is too high', spec({ port: 65_536 }), 'spec.port'],
    ['a port of another form', spec({ port: 'HTTP' }), 'spec.port'],
    ['no selector', { template: { routingGroup: 'a' } }, 'spec.selector'],
    ['an empty selector', spec({ selector: { matchExpressions: [] } }), 'spec.selector'],
    ['a label that is none', spec({ selector: { matchLabels: { 'a b': 'c' } } }), 'spec.selector.matchLabels'],
    ['a value that is none', spec({ selector: { matchLabels: { a: 'b c' } } }), 'spec.selector.matchLabels.a'],
    [
      'values too many',
      spec({ selector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] } }),
      'spec.selector.matchExpressions[0]',
    ],
    ['no group', { ...spec(), template: {} }, 'spec.template.routingGroup'],
    ['two sources', spec({}, { routingGroupFrom: { label: 'a', annotation: 'b' } }), 'spec.template.routingGroupFrom'],
    ['one name for all', spec({}, { name: 'trino' }), 'spec.template.name'],
    ['a link with a query', spec({}, { externalUrl: 'https://{service}.example?x' }), 'spec.template.externalUrl'],
    ['a link elsewhere', spec({}, { externalUrl: 'https://0.0.0.0/{service}' }), 'spec.template.externalUrl'],
    ['a short interval', spec({}, { healthCheck: { interval: '1ms' } }), 'spec.template.healthCheck.interval'],
    [
      'a certificate that is none',
      spec({}, { tls: { caBundle: '-----BEGIN CERTIFICATE-----' } }),
      'spec.template.tls.caBundle',
    ],
    ['a field of clusters that is not for all', spec({}, { proxyTo: 'http://a' }), 'spec.template.proxyTo'],
  ])('%s', (_name, value, field) => {
    expect(discoveryProblems(value).map((problem) => problem.field)).toEqual(field === null ? [] : [field]);
  });
});
