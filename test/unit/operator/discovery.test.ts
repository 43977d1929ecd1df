import { describe, expect, test } from 'vitest';
import { openPolicy } from '../../../src/kinds/engineCluster/clusterPolicy.ts';
import { DiscoveryProgram } from '../../../src/kinds/engineClusterDiscovery/discoveryProgram.ts';
import type { DiscoveryReport } from '../../../src/kinds/engineClusterDiscovery/discoveryReport.ts';
import { discoveryStatus } from '../../../src/kinds/engineClusterDiscovery/discoveryStatus.ts';
import type { EngineClusterDiscoverySpec } from '../../../src/kinds/engineClusterDiscovery/spec.ts';
import type { KnownService, ServiceList } from '../../../src/kinds/serviceLookup.ts';
import { GroupBindings } from '../../../src/model/groupBindings.ts';
import type { Resource } from '../../../src/model/resource.ts';
import { clusterPlan, type PlanInput, type PlannedService } from '../../../src/operator/discovery/clusterPlan.ts';
import { matchingServices } from '../../../src/operator/discovery/matchingServices.ts';
import { resourceOf } from '../../support/resource.ts';

const spec: EngineClusterDiscoverySpec = {
  selector: { matchLabels: { app: 'trino' } },
  template: { name: '{service}', routingGroup: 'adhoc' },
};
const discovery = resourceOf('EngineClusterDiscovery', 'engines', spec, { uid: 'd', namespace: 'gateway' });
const service = (name: string, namespace = 'gateway', more: Partial<KnownService> = {}): KnownService => ({
  namespace,
  name,
  uid: `${namespace}-${name}`,
  creationTimestamp: '2026-11-23T00:00:00Z',
  labels: { app: 'trino' },
  annotations: {},
  type: 'ClusterIP',
  ports: [{ name: 'http', port: 8080, protocol: 'TCP', appProtocol: '' }],
  ...more,
});
const planned = (each: KnownService): PlannedService => ({ key: `${each.namespace}/${each.name}`, service: each });
const cluster = (name: string, of = `gateway/${name}`): Resource =>
  resourceOf(
    'EngineCluster',
    name,
    { proxyTo: `http://${name}`, routingGroup: 'adhoc' },
    {
      namespace: 'gateway',
      annotations: { 'enginegateway.dev/service': of },
      ownerReferences: [
        {
          apiVersion: 'enginegateway.dev/v1',
          kind: 'EngineClusterDiscovery',
          name: 'engines',
          uid: 'd',
          controller: true,
        },
      ],
    },
  );
const plan = (services: readonly PlannedService[], more: Partial<PlanInput> = {}) =>
  clusterPlan({
    services,
    discovery,
    context: { spec, namespace: 'gateway', groups: new GroupBindings({}) },
    owned: [],
    holder: () => null,
    ...more,
  });

describe('the clusters that a discovery wants', () => {
  test('of two Services of one name the older has the cluster, and who has it keeps it', () => {
    const [old, young] = [service('a', 'x'), service('a', 'y', { creationTimestamp: '2026-11-24T00:00:00Z' })];
    const services = [young, old].map(planned);
    expect(plan(services)).toMatchObject({
      write: [{ name: 'a', annotations: { 'enginegateway.dev/service': 'x/a' } }],
      conflicts: [{ service: 'y/a', message: 'the name a is that of the Service x/a' }],
    });
    expect(plan(services, { owned: [cluster('a', 'y/a')] })).toMatchObject({
      write: [{ name: 'a', annotations: { 'enginegateway.dev/service': 'y/a' } }],
      conflicts: [{ service: 'x/a' }],
      remove: [],
    });
  });

  test('a name that somebody else has is left to him', () => {
    const conflicting = plan([planned(service('a'))], { holder: () => 'the EngineCluster gateway/a' });
    expect(conflicting).toMatchObject({ write: [], remove: [], settled: 0, conflicts: [{ reason: 'NameConflict' }] });
  });

  test('one whose Service is not known stays as it is, and its name is not another’s', () => {
    const owned = [cluster('a', 'x/a'), cluster('b')];
    const services = [{ key: 'x/a', service: null }, planned(service('a'))];
    expect(plan(services, { owned })).toMatchObject({
      write: [],
      remove: [{ metadata: { name: 'b' } }],
      settled: 1,
      conflicts: [{ service: 'gateway/a', message: 'the name a is that of the Service x/a' }],
    });
  });

  test('500 at most; those that are there keep their places', () => {
    const services = Array.from({ length: 503 }, (_, index) => planned(service(`s${String(index).padStart(3, '0')}`)));
    const { write, refusals } = plan(services, { owned: [cluster('s502')] });
    expect(write).toHaveLength(500);
    expect(write.map(({ name }) => name)).toContain('s502');
    expect(refusals).toMatchObject([{ reason: 'TooManyServices', message: expect.stringMatching(/^3 more Services/) }]);
  });

  test('nothing is written where all is as it should be, whatever else others have added', () => {
    const [wanted] = plan([planned(service('a'))]).write;
    const present = cluster('a');
    const { labels, annotations } = wanted ?? { labels: {}, annotations: {} };
    const same: Resource = {
      ...present,
      metadata: { ...present.metadata, labels, annotations: { ...annotations, 'enginegateway.dev/active': 'false' } },
      spec: { ...wanted?.spec, maxRunningQueries: 3 },
    };
    expect(plan([planned(service('a'))], { owned: [same] })).toMatchObject({ write: [], remove: [], settled: 1 });
    const other = { ...same, spec: { ...same.spec, routingGroup: 'etl' } };
    expect(plan([planned(service('a'))], { owned: [other] }).write).toHaveLength(1);
  });
});

describe('the Services that a discovery may look at', () => {
  const lists = new Map<string, ServiceList>([
    ['gateway', { synced: true, reason: null, services: [service('own'), service('no', 'gateway', { labels: {} })] }],
    ['a', { synced: true, reason: null, services: [service('far', 'a')] }],
    ['forbidden', { synced: false, reason: 'the API server answers 403', services: [] }],
    ['*', { synced: true, reason: null, services: [service('own'), service('far', 'a'), service('other', 'b')] }],
  ]);
  const followed: string[] = [];
  const look = (namespaces: readonly string[] | undefined, allowed: readonly string[]) => {
    followed.length = 0;
    const list = (namespace: string): ServiceList => {
      followed.push(namespace);
      return lists.get(namespace) ?? { synced: false, reason: 'not listed yet', services: [] };
    };
    const of = { ...spec, ...(namespaces === undefined ? {} : { namespaces: [...namespaces] }) };
    return matchingServices({ list, onChange: () => () => undefined }, { spec: of, namespace: 'gateway', allowed });
  };

  test.each<[readonly string[] | undefined, readonly string[], readonly string[], readonly string[], string]>([
    [undefined, [], ['gateway/own'], ['gateway'], 'ResolvedRefs'],
    [undefined, ['a', '*'], ['gateway/own'], ['*'], 'ResolvedRefs'],
    [['a'], [], [], [], 'NamespaceNotAllowed'],
    [['a', 'gateway'], ['b'], ['gateway/own'], ['gateway'], 'NamespaceNotAllowed'],
    [['a'], ['a'], ['a/far'], ['a'], 'ResolvedRefs'],
    [['*'], [], ['gateway/own'], ['gateway'], 'ResolvedRefs'],
    [['*'], ['a'], ['gateway/own', 'a/far'], ['gateway', 'a'], 'ResolvedRefs'],
    [['*'], ['*'], ['gateway/own', 'a/far', 'b/other'], ['*'], 'ResolvedRefs'],
    [['b'], ['*'], ['b/other'], ['*'], 'ResolvedRefs'],
    [['*'], ['forbidden'], ['gateway/own'], ['gateway', 'forbidden'], 'ServicesUnavailable'],
    [['new'], ['new'], [], ['new'], 'Pending'],
  ])('namespaces %j where %j are allowed', (namespaces, allowed, services, read, reason) => {
    const matching = look(namespaces, allowed);
    expect(matching.services.map((each) => `${each.namespace}/${each.name}`)).toEqual(services);
    // Others are not even asked for.
    expect(followed).toEqual(read);
    expect(matching.references.reason).toBe(reason);
  });

  test('a namespace that cannot be read is in scope, and not read', () => {
    const { isInScope, isRead } = look(['*'], ['forbidden']);
    expect(['forbidden', 'gateway', 'b'].map(isInScope)).toEqual([true, true, false]);
    expect(['forbidden', 'gateway'].map(isRead)).toEqual([false, true]);
  });
});

describe('its status', () => {
  const report: DiscoveryReport = {
    services: 2,
    clusters: 2,
    references: { status: 'True', reason: 'ResolvedRefs', message: 'followed' },
    conflicts: [],
    refusals: [],
    held: 0,
    failure: null,
  };
  const finding = (reason: string) => ({ service: 'a/x', reason, message: 'why' });
  const statusOf = (
    latest: DiscoveryReport | null,
    isKubernetes = true,
    policy = openPolicy,
    of: Record<string, unknown> = spec,
  ) => {
    const reports = isKubernetes ? { discoveries: { report: () => latest } } : {};
    const program = new DiscoveryProgram({ policy: policy, ...reports });
    const resource = resourceOf('EngineClusterDiscovery', 'engines', of, { namespace: 'gateway' });
    const [outcome] = program.refresh([resource]).values();
    if (outcome === undefined) throw new Error('there is no outcome');
    const { conditions, fields } = discoveryStatus(outcome, { stored: { stored: true, reason: '' } });
    return { fields, text: conditions.map(({ type, status, reason }) => `${type}=${status} ${reason}`) };
  };

  test.each<[string, Partial<DiscoveryReport>, string]>([
    ['all discovered', {}, 'Discovered=True Discovered'],
    ['being written', { clusters: 1 }, 'Discovered=Unknown Pending'],
    ['a conflict', { conflicts: [finding('NameConflict')] }, 'Discovered=False NameConflict'],
    ['a refusal', { refusals: [finding('ExternalName')] }, 'Discovered=False ExternalName'],
    ['a loss', { held: 4 }, 'Discovered=False DeletionsHeld'],
    ['a failure before all', { held: 4, failure: 'no' }, 'Discovered=False WriteFailed'],
  ])('%s', (_name, more, expected) => {
    const { text, fields } = statusOf({ ...report, ...more });
    expect(text).toEqual(['Accepted=True Accepted', 'ResolvedRefs=True ResolvedRefs', expected, 'Ready=True Ready']);
    expect(fields).toMatchObject({ services: 2 });
  });

  test('before the first look', () => {
    const pending = ['ResolvedRefs=Unknown Pending', 'Discovered=Unknown Pending'];
    expect(statusOf(null)).toEqual({ fields: {}, text: ['Accepted=True Accepted', ...pending, 'Ready=True Ready'] });
  });

  test.each([
    ['without Kubernetes it has no effect', false, openPolicy, spec, 'DiscoveryUnsupported'],
    [
      'its namespace may not have clusters in the group',
      true,
      { ...openPolicy, groups: new GroupBindings({ adhoc: { join: [], route: null } }) },
      spec,
      'GroupNotAllowed',
    ],
    ['a spec that is not valid', true, openPolicy, { ...spec, selector: {} }, 'InvalidSpec'],
  ])('%s', (_name, isKubernetes, policy, of, reason) => {
    expect(statusOf(report, isKubernetes, policy, of).text).toEqual([
      `Accepted=False ${reason}`,
      `Ready=False ${reason}`,
      `Stalled=True ${reason}`,
    ]);
  });
});
