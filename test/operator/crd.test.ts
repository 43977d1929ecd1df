import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type ControlPlane, chartControlPlane, controlPlaneAvailable, kubectlPath } from '../support/controlPlane.ts';
import { applyObject, type KubeObject } from '../support/kubeRequests.ts';
import { manifest } from '../support/manifest.ts';

const run = promisify(execFile);

interface FieldSchema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
}
interface Crd {
  readonly spec: { readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: FieldSchema } }[] };
}
type Document = KubeObject & { readonly spec?: Record<string, unknown> };

/** Resources of a kind with what their specs have in addition to the least. */
const resourcesOf =
  (kind: string, usual: string, least: object = {}) =>
  (spec: Record<string, unknown>, name = usual): Document =>
    manifest(kind, name, { ...least, ...spec }, { namespace: 'default' });
const cluster = resourcesOf('EngineCluster', 'engine-a', { proxyTo: 'http://engine-a:8080', routingGroup: 'adhoc' });
const rule = resourcesOf('RoutingRule', 'rule-a', { condition: 'true' });
const group = resourcesOf('RoutingGroup', 'group-a');
const limit = resourcesOf('QueryLimit', 'limit-a', {
  match: { everyone: true },
  ...{ per: 'User', maxRunningQueries: 10 },
});
const discovery = resourcesOf('EngineClusterDiscovery', 'discovery-a', {
  selector: { matchLabels: { app: 'trino' } },
  template: { routingGroup: 'adhoc' },
});
const resourceGroups = resourcesOf('ResourceGroupConfiguration', 'groups-a', {
  environment: 'production',
  rootGroups: [{ name: 'global', hardConcurrencyLimit: 10 }],
  selectors: [{ group: 'global' }],
});
/** With one root group of these fields. */
const rootGroup = (fields: Record<string, unknown>): Document =>
  resourceGroups({ rootGroups: [{ name: 'global', hardConcurrencyLimit: 10, ...fields }] });
/** Fields of a group and of those below it. @param levels of groups below it */
const nested = (levels: number): Record<string, unknown> => ({
  name: 'global',
  hardConcurrencyLimit: 10,
  ...(levels === 0 ? {} : { subGroups: [nested(levels - 1)] }),
});

const healthCheck = {
  type: 'InfoAPI',
  path: '/v1/info',
  interval: '10s',
  timeout: '1.5s',
  failureThreshold: 3,
  successThreshold: 100,
  credentialsSecretRef: { name: 'creds' },
  credentialsHosts: ['*.trino.svc', 'trino.example:8443'],
};
/** What goes with each way of saying what a rule does. */
const beside = { description: 'x', priority: 5, whenUnavailable: 'Reject', stop: true, suspend: true };
const route = { routeTo: { routingGroup: 'etl' } };
const without = (document: Document, field: string): Document => {
  const spec = { ...document.spec };
  delete spec[field];
  return { ...document, spec };
};

describe.skipIf(!controlPlaneAvailable)('CRDs on a real API server', () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    plane = await chartControlPlane();
  });
  afterAll(() => plane?.stop());

  const kubectl = async (args: readonly string[], input?: object): Promise<string> => {
    const child = run(kubectlPath, ['--kubeconfig', plane.config.kubeconfigPath, ...args]);
    if (input !== undefined) child.child.stdin?.end(JSON.stringify(input));
    return (await child).stdout;
  };
  /** The API server's message about an object that is applied without being written, or `ok`. */
  const dryRun = (document: Document): Promise<string> =>
    applyObject(plane.config, 'default', document, { manager: 'kubectl', isDryRun: true }).then(() => 'ok', String);

  test('they install with server-side apply and become established', async () => {
    await kubectl(['apply', '--server-side', '-f', 'crds/']);
    await kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
    const names = await kubectl(['api-resources', '--api-group=enginegateway.dev', '--no-headers']);
    expect(names).toMatch(/^engineclusters +ec +enginegateway.dev\/v1beta1 +true +EngineCluster$/m);
    expect(names).toMatch(/^engineclusterdiscoveries +ecd +enginegateway.dev\/v1beta1 +true +EngineClusterDiscovery$/m);
    expect(names).toMatch(/^routinggroups +rtg +enginegateway.dev\/v1beta1 +true +RoutingGroup$/m);
    expect(names).toMatch(/^querylimits +ql +enginegateway.dev\/v1beta1 +true +QueryLimit$/m);
    expect(names).toMatch(/^enginerollouts +ero +enginegateway.dev\/v1alpha1 +true +EngineRollout$/m);
    expect(names).toMatch(/^queryreplays +qr +enginegateway.dev\/v1alpha1 +true +QueryReplay$/m);
    expect(names).toMatch(
      /^resourcegroupconfigurations +rgc +enginegateway.dev\/v1beta1 +true +ResourceGroupConfiguration$/m,
    );
    expect(names).toMatch(/^routingrules +rr +enginegateway.dev\/v1beta1 +true +RoutingRule$/m);
    expect(await kubectl(['get', 'enginegateway'])).toBe('');
  });

  test('every field has a description, which kubectl explain shows', async () => {
    const undescribed = (path: string, schema: FieldSchema): string[] => [
      ...(schema.description === undefined && !path.endsWith('.metadata') ? [path] : []),
      ...Object.entries(schema.properties ?? {}).flatMap(([name, field]) => undescribed(`${path}.${name}`, field)),
      ...Object.entries(schema.items?.properties ?? {}).flatMap(([name, field]) =>
        undescribed(`${path}[].${name}`, field),
      ),
    ];
    for (const file of readdirSync('crds')) {
      const { spec } = parse(readFileSync(join('crds', file), 'utf8')) as Crd;
      for (const { schema } of spec.versions) expect(undescribed(file, schema.openAPIV3Schema)).toEqual([]);
    }
    for (const path of [
      'engineclusters.spec.proxyTo',
      'engineclusters.spec.healthCheck.credentialsSecretRef.name',
      'engineclusters.status.conditions.reason',
      'routingrules.spec.deny.whenError',
      'routinggroups.spec.whenUnavailable',
      'querylimits.spec.rate.burst',
      'queryreplays.spec.from.history.perDigest',
      'engineclusterdiscoveries.spec.selector.matchLabels',
      'resourcegroupconfigurations.spec.rootGroups.subGroups.hardConcurrencyLimit',
      'resourcegroupconfigurations.spec.selectors.selectorResourceEstimate.cpuTime.max',
      'resourcegroupconfigurations.status.databases.drift.differences',
    ]) {
      // The OpenAPI document follows the CRD a moment later.
      await expect.poll(() => kubectl(['explain', path]).catch(String)).toMatch(/DESCRIPTION:\n {4}\S/);
    }
  });

  const URL_MESSAGE = 'must be an http or https URL without user, query and fragment';
  // Other specs that are taken or not, with the whole message, are in the baseline's recording of resources.
  test.each<[string, Document, string]>([
    ['a path in the URL', cluster({ proxyTo: 'https://engine.example/base' }), 'proxyTo must end after host and port'],
    ['a slash after the URL', cluster({ proxyTo: 'https://engine.example/' }), 'ok'],
    ['a path in the link', cluster({ externalUrl: 'https://engine.example/base' }), 'ok'],
    ['an IPv6 address', cluster({ proxyTo: 'http://[::1]:8080' }), 'ok'],
    ['not a URL', cluster({ proxyTo: 'nonsense' }), `proxyTo ${URL_MESSAGE}`],
    ['no host', cluster({ proxyTo: 'http://' }), 'proxyTo'],
    ['a query', cluster({ proxyTo: 'http://engine-a:8080?x=1' }), `proxyTo ${URL_MESSAGE}`],
    ['a fragment', cluster({ proxyTo: 'http://engine-a:8080#x' }), `proxyTo ${URL_MESSAGE}`],
    ['a long URL', cluster({ proxyTo: `http://${'a'.repeat(260)}` }), 'may not be more than 256'],
    ['a number', cluster({ proxyTo: 8080 }), 'spec.proxyTo'],
    ['an external URL of another scheme', cluster({ externalUrl: 'jdbc:x' }), `externalUrl ${URL_MESSAGE}`],
    ...(
      [
        'http://2130706433',
        'http://0x7f000001',
        'http://0x7f.1',
        'http://127.1',
        'http://0177.0.0.1',
        'http://010.0.0.1',
        'http://300.1.1.1',
        'http://1.2.3.4.',
        'http://engine.0x1f',
        'http://0.0.0.0:8080',
        'http://224.0.0.1',
        'http://255.255.255.255',
      ] as const
    ).map((url): [string, Document, string] => [
      url,
      cluster({ proxyTo: url }),
      'proxyTo must name a host by its name',
    ]),
    ...[
      'http://10.0.0.255:8080',
      'http://192.168.1.1',
      'http://engine-1',
      'http://1engine',
      'http://a.b1',
      'http://223.1.1.1',
    ].map((url): [string, Document, string] => [url, cluster({ proxyTo: url }), 'ok']),
    ['a link-local address, which the configuration may allow', cluster({ proxyTo: 'http://169.254.1.1' }), 'ok'],
    ['a Service', without(cluster({ serviceRef: { name: 'a', port: 8080 } }), 'proxyTo'), 'ok'],
    ['a Service without port', without(cluster({ serviceRef: { name: 'a' } }), 'proxyTo'), 'serviceRef.port: Required'],
    ['port 0', without(cluster({ serviceRef: { name: 'a', port: 0 } }), 'proxyTo'), 'or a number from 1 to 65535'],
    [
      'another scheme of a Service',
      without(cluster({ serviceRef: { name: 'a', port: 1, scheme: 'tcp' } }), 'proxyTo'),
      'Unsupported value: "tcp"',
    ],
    ['a huge weight', cluster({ weight: 10_001 }), 'less than or equal to 10000'],
    ['a whole health check', cluster({ healthCheck }), 'ok'],
    ['a bad timeout', cluster({ healthCheck: { timeout: '-1s' } }), 'spec.healthCheck.timeout'],
    ...(
      [
        ['interval', '0s', false],
        ['interval', '99ms', false],
        ['interval', '100ms', true],
        ['interval', '0.5h', true],
        ['interval', '24h', true],
        ['interval', '86401s', false],
        ['interval', '90d', false],
        ['interval', '999999999h', false],
        ['timeout', '9ms', false],
        ['timeout', '10ms', true],
        ['timeout', '10m', true],
        ['timeout', '601s', false],
      ] as const
    ).map(([field, text, isGood]): [string, Document, string] => [
      `${field} ${text}`,
      cluster({ healthCheck: { [field]: text } }),
      isGood ? 'ok' : `spec.healthCheck.${field}`,
    ]),
    ['the highest port', cluster({ proxyTo: 'http://engine-a:65535/' }), 'ok'],
    ['an IPv6 address with a port', cluster({ proxyTo: 'http://[2001:db8::1]:8080' }), 'ok'],
    ...['65536', '99999', '0', '99999999999999999999'].flatMap((port): [string, Document, string][] => [
      [`port ${port}`, cluster({ proxyTo: `http://engine-a:${port}` }), 'proxyTo must have a port from 1 to 65535'],
      [`port ${port} of the link`, cluster({ externalUrl: `http://e:${port}` }), 'externalUrl must have a port from 1'],
    ]),
    ['a space within a group', cluster({ routingGroup: 'a b' }), 'ok'],
    ['a space before a group', cluster({ routingGroup: ' a' }), 'routingGroup must not begin or end with a space'],
    ['a group of spaces', cluster({ routingGroup: '  ' }), 'routingGroup must not begin or end with a space'],
    [
      'a space after the group of a rule',
      rule({ routeTo: { routingGroup: 'a ' } }),
      'must not begin or end with a space',
    ],
    ['tls over https', cluster({ proxyTo: 'https://e', tls: { serverName: 'e' } }), 'ok'],
    ['referenced authorities', cluster({ proxyTo: 'https://e', tls: { caRef: { name: 'ca' } } }), 'ok'],
    ['a client certificate', cluster({ proxyTo: 'https://e', tls: { clientCertificateRef: { name: 'c' } } }), 'ok'],
    [
      'authorities of another kind',
      cluster({ proxyTo: 'https://e', tls: { caRef: { kind: 'Pod', name: 'ca' } } }),
      'Unsupported value: "Pod"',
    ],
    ['authorities without a name', cluster({ proxyTo: 'https://e', tls: { caRef: {} } }), 'caRef.name: Required'],
    [
      'authorities twice',
      cluster({ proxyTo: 'https://e', tls: { caBundle: '-----BEGIN CERTIFICATE-----', caRef: { name: 'ca' } } }),
      'tls.caBundle and tls.caRef exclude each other',
    ],
    ['tls over http', cluster({ tls: { serverName: 'e' } }), 'tls has no effect over http'],
    [
      'tls of a Service over https',
      without(cluster({ serviceRef: { name: 's', port: 1, scheme: 'HTTPS' }, tls: {} }), 'proxyTo'),
      'ok',
    ],
    [
      'tls of a Service over http',
      without(cluster({ serviceRef: { name: 's', port: 1 }, tls: {} }), 'proxyTo'),
      'tls has no effect over http',
    ],
    ['a path without slash', cluster({ healthCheck: { path: 'v1/info' } }), 'spec.healthCheck.path'],
    [
      'a timeout above its interval',
      cluster({ healthCheck: { interval: '5s', timeout: '6s' } }),
      'healthCheck.timeout must not be above healthCheck.interval',
    ],
    [
      'a Service that cannot be',
      without(cluster({ serviceRef: { name: 'A_b', port: 1 } }), 'proxyTo'),
      'serviceRef.name',
    ],
    ['no successes', cluster({ healthCheck: { successThreshold: 0 } }), 'greater than or equal to 1'],
    ['too many failures', cluster({ healthCheck: { failureThreshold: 101 } }), 'less than or equal to 100'],
    [
      'a Secret without name',
      cluster({ healthCheck: { credentialsSecretRef: {} } }),
      'credentialsSecretRef.name: Required',
    ],
    [
      'hosts of credentials without a Secret',
      cluster({ healthCheck: { credentialsHosts: ['a'] } }),
      'healthCheck.credentialsHosts needs healthCheck.credentialsSecretRef',
    ],
    [
      'a URL as host of credentials',
      cluster({ healthCheck: { credentialsSecretRef: { name: 'a' }, credentialsHosts: ['http://a'] } }),
      'credentialsHosts must have hosts such as trino.example',
    ],
    ['a password in it', cluster({ healthCheck: { password: 'x' } }), '.spec.healthCheck.password: field not declared'],
    ['an unknown field', cluster({ proxyto: 'x' }), '.spec.proxyto: field not declared in schema'],
    ['a registry name', cluster({ name: 'Trino Prod_1' }), 'ok'],
    ['a name with a slash', cluster({ name: 'a/b' }), 'ok'],
    ['a name with a space at its end', cluster({ name: 'a ' }), 'spec.name'],
    ['a long name', cluster({ name: 'a'.repeat(257) }), 'may not be more than 256'],
    ['a long group', cluster({ routingGroup: 'a'.repeat(256) }), 'may not be more than 255'],
    ['a control character in the group', cluster({ routingGroup: 'a\tb' }), 'spec.routingGroup'],
    [
      'port 65536',
      without(cluster({ serviceRef: { name: 'a', port: 65_536 } }), 'proxyTo'),
      'or a number from 1 to 65535',
    ],
    ['a port of a Service by name', without(cluster({ serviceRef: { name: 'a', port: 'http' } }), 'proxyTo'), 'ok'],
    [
      'a port of a Service that is no name',
      without(cluster({ serviceRef: { name: 'a', port: 'HTTP' } }), 'proxyTo'),
      'port must be the name of a port',
    ],
    [
      'a Service with everything',
      without(cluster({ serviceRef: { name: 'a', namespace: 'b', port: 1, scheme: 'HTTPS' } }), 'proxyTo'),
      'ok',
    ],
    ['the longest URL', cluster({ proxyTo: `http://${'a'.repeat(249)}` }), 'ok'],
    ['the bounds of weight', cluster({ weight: 10_000 }), 'ok'],
    ['a weight of 0', cluster({ weight: 0 }), 'ok'],
    ['a cluster for rollouts', cluster({ rolloutOnly: true }), 'ok'],
    ['a text in place of a flag', cluster({ rolloutOnly: 'yes' }), 'spec.rolloutOnly'],
    ['a limit of queries', cluster({ maxRunningQueries: 1_000_000 }), 'ok'],
    ['a limit of no query', cluster({ maxRunningQueries: 0 }), 'greater than or equal to 1'],
    ['a huge limit', cluster({ maxRunningQueries: 1_000_001 }), 'less than or equal to 1000000'],
    ['a rule with everything beside its actions', rule({ actions: ['x'], ...beside }), 'ok'],
    ['a rule with everything beside its route', rule({ routeTo: { cluster: 'a' }, ...beside }), 'ok'],
    [
      'a rule with everything beside its refusal',
      rule({ deny: { message: 'no', whenError: 'Skip' }, ...beside }),
      'ok',
    ],
    ['the lowest priority', rule({ ...route, priority: -2_147_483_648 }), 'ok'],
    ['the highest priority', rule({ ...route, priority: 2_147_483_647 }), 'ok'],
    ['the largest rule', rule({ condition: 'x'.repeat(16_384), actions: Array(64).fill('x'.repeat(16_000)) }), 'ok'],
    ['too many actions', rule({ actions: Array(65).fill('x') }), 'must have at most 64 items'],
    ['a huge action', rule({ actions: ['x'.repeat(16_385)] }), 'may not be more than 16384'],
    ['an empty action', rule({ actions: [''] }), 'spec.actions[0]'],
    ['a long description', rule({ ...route, description: 'x'.repeat(1_025) }), 'may not be more than 1024'],
    ['a long message', rule({ deny: { message: 'x'.repeat(1_025) } }), 'may not be more than 1024'],
    ['another outcome of errors', rule({ deny: { message: 'no', whenError: 'Allow' } }), 'Unsupported value: "Allow"'],
    ['a text as stop', rule({ ...route, stop: 'yes' }), 'spec.stop'],
    ['a text as suspended', rule({ ...route, suspend: 'yes' }), 'spec.suspend'],
    ['an unknown field of a rule', rule({ ...route, when: 'x' }), '.spec.when: field not declared in schema'],
    [
      'a route to two',
      rule({ routeTo: { routingGroup: 'a', cluster: 'b' } }),
      'routeTo must have either routingGroup or cluster',
    ],
    ['a huge condition', rule({ ...route, condition: 'x'.repeat(16_385) }), 'may not be more than 16384'],
    ['a priority above int', rule({ ...route, priority: 2_147_483_648 }), 'spec.priority'],
    ['a priority below int', rule({ ...route, priority: -2_147_483_649 }), 'spec.priority'],
    ['an unknown fallback', rule({ ...route, whenUnavailable: 'Queue' }), 'Unsupported value: "Queue"'],
    [
      'a routing group with everything',
      group({
        name: 'Team A/etl',
        strategy: { type: 'Affinity', affinity: { type: 'Header', name: 'X-Team' } },
        fallbacks: Array.from({ length: 16 }, (_, index) => `${index}${'x'.repeat(253)}`),
        whenFull: 'Fallback',
        bestEffort: true,
        maxRunningQueries: 1_000_000,
        queue: { maxQueuedQueries: 100_000, maxWait: '24h', fairBy: 'Source', hold: '10s' },
        whenUnavailable: 'Wait',
      }),
      'ok',
    ],
    ['an empty name of a group', group({ name: '' }), 'spec.name'],
    ['a space before the name of a group', group({ name: ' a' }), 'name must not begin or end with a space'],
    ['a long name of a group', group({ name: 'a'.repeat(256) }), 'may not be more than 255'],
    ['a strategy', group({ strategy: { type: 'LeastLoaded' } }), 'ok'],
    ['a strategy as text', group({ strategy: 'LeastLoaded' }), 'spec.strategy'],
    ['an affinity by user', group({ strategy: { type: 'Affinity', affinity: { type: 'User' } } }), 'ok'],
    [
      'an affinity to nothing',
      group({ strategy: { type: 'Affinity', affinity: {} } }),
      'strategy.affinity.type: Required',
    ],
    ['an affinity to a cookie', group({ strategy: { type: 'Affinity', affinity: { type: 'Cookie' } } }), '"Cookie"'],
    [
      'an affinity to a header without a name',
      group({ strategy: { type: 'Affinity', affinity: { type: 'Header' } } }),
      'strategy.affinity.name is required with type: Header',
    ],
    [
      'an affinity to a user with a name',
      group({ strategy: { type: 'Affinity', affinity: { type: 'User', name: 'X-Team' } } }),
      'strategy.affinity.name is required with type: Header, and allowed with no other',
    ],
    [
      'an affinity to a header that is none',
      group({ strategy: { type: 'Affinity', affinity: { type: 'Header', name: 'X Team' } } }),
      'spec.strategy.affinity.name',
    ],
    [
      'an affinity of another strategy',
      group({ strategy: { type: 'LeastLoaded', affinity: { type: 'User' } } }),
      'strategy.affinity has no effect without strategy.type: Affinity',
    ],
    ['a fallback twice', group({ fallbacks: ['a', 'b', 'a'] }), 'fallbacks must not name a group twice'],
    ['seventeen fallbacks', group({ fallbacks: Array.from({ length: 17 }, String) }), 'must have at most 16 items'],
    ['a space after a fallback', group({ fallbacks: ['a '] }), 'fallbacks must not begin or end with a space'],
    ['itself as fallback', group({ fallbacks: ['group-a'] }), 'fallbacks must not name the group itself'],
    ['its own name as fallback', group({ name: 'b', fallbacks: ['b'] }), 'fallbacks must not name the group itself'],
    ['the name of its resource as fallback', group({ name: 'b', fallbacks: ['group-a'] }), 'ok'],
    ['a group of too many queries', group({ maxRunningQueries: 1_000_001 }), 'less than or equal to 1000000'],
    ['a huge queue', group({ queue: { maxQueuedQueries: 100_001 } }), 'less than or equal to 100000'],
    ...(
      [
        ['maxWait', '999ms', false],
        ['maxWait', '1s', true],
        ['maxWait', '24h', true],
        ['maxWait', '86401s', false],
        ['maxWait', '10 minutes', false],
        ['hold', '0s', true],
        ['hold', '-1s', false],
        ['hold', '10001ms', false],
      ] as const
    ).map(([field, text, isGood]): [string, Document, string] => [
      `${field} ${text}`,
      group({ queue: { [field]: text } }),
      isGood ? 'ok' : `spec.queue.${field}`,
    ]),
    [
      'a hold beyond the longest wait',
      group({ queue: { hold: '2s', maxWait: '1s' } }),
      'queue.hold must not be longer than queue.maxWait',
    ],
    [
      'waiting without a queue',
      group({ whenUnavailable: 'Wait', queue: { maxQueuedQueries: 0 } }),
      'whenUnavailable: Wait needs queue.maxQueuedQueries of at least 1',
    ],
    ['an unknown field of a queue', group({ queue: { length: 1 } }), '.spec.queue.length: field not declared'],
    [
      'a limit with everything',
      limit({
        match: Object.fromEntries(
          ['users', 'userGroups', 'sources', 'routingGroups'].map((field) => [
            field,
            Array(64).fill({ type: 'Prefix', value: 'x'.repeat(512) }),
          ]),
        ),
        maxRunningQueries: 1_000_000,
        maxQueuedQueries: 100_000,
        rate: { queries: 1_000_000, period: '24h', burst: 1_000_000 },
        weight: 1_000,
        mode: 'Observe',
        message: 'x'.repeat(1_024),
      }),
      'ok',
    ],
    ['a rate alone', without(limit({ rate: { queries: 1 } }), 'maxRunningQueries'), 'ok'],
    ['a queue of nobody alone', without(limit({ maxQueuedQueries: 0 }), 'maxRunningQueries'), 'ok'],
    ['no query at a time', limit({ maxRunningQueries: 0 }), 'greater than or equal to 1'],
    ['too many users', limit({ match: { users: Array(65).fill({ value: 'a' }) } }), 'must have at most 64 items'],
    ['an empty user', limit({ match: { users: [{ value: '' }] } }), 'spec.match.users[0].value'],
    ['nobody', limit({ match: {} }), 'match: {everyone: true} for all queries'],
    ['everyone and a user', limit({ match: { everyone: true, users: [{ value: 'a' }] } }), 'match must have everyone'],
    ['not everyone', limit({ match: { everyone: false } }), 'match must have everyone: true, or users'],
    ['a mark of an expression', limit({ match: { users: ['~a'] } }), 'spec.match.users[0]'],
    [
      'another type of match',
      limit({ match: { users: [{ type: 'Suffix', value: 'a' }] } }),
      'Unsupported value: "Suffix"',
    ],
    ['a long source', limit({ match: { sources: [{ value: 'x'.repeat(513) }] } }), 'may not be more than 512'],
    ['a rate of nothing', limit({ rate: {} }), 'spec.rate.queries: Required'],
    ['a short period', limit({ rate: { queries: 1, period: '500ms' } }), 'period must be a duration from 1s to 24h'],
    ['a long period', limit({ rate: { queries: 1, period: '25h' } }), 'period must be a duration from 1s to 24h'],
    ['no burst', limit({ rate: { queries: 1, burst: 0 } }), 'greater than or equal to 1'],
    ['no weight', limit({ weight: 0 }), 'greater than or equal to 1'],
    ['a huge weight of a limit', limit({ weight: 1_001 }), 'less than or equal to 1000'],
    ['an empty message of a limit', limit({ message: '' }), 'spec.message'],
    ['a long message of a limit', limit({ message: 'x'.repeat(1_025) }), 'may not be more than 1024'],
    ['a name of a limit', limit({ name: 'x' }), '.spec.name: field not declared'],
    [
      'a discovery with everything',
      discovery({
        selector: {
          matchLabels: { 'app.kubernetes.io/name': 'trino' },
          matchExpressions: [
            { key: 'tier', operator: 'In', values: ['a', ''] },
            { key: 'legacy', operator: 'DoesNotExist' },
          ],
        },
        namespaces: {
          selector: {
            matchLabels: { team: 'etl' },
            matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['b'] }],
          },
        },
        port: 'https',
        scheme: 'HTTPS',
        template: {
          name: '{namespace}.{service}-x',
          routingGroup: 'etl',
          routingGroupFrom: { label: 'routing-group' },
          weight: 0,
          maxRunningQueries: 5,
          active: false,
          externalUrl: 'https://{service}.example.com',
          healthCheck,
          tls: { insecureSkipVerify: true },
        },
        gatewayClassName: 'blue',
      }),
      'ok',
    ],
    ['a port by number', discovery({ port: 8080 }), 'ok'],
    ['a port that is neither', discovery({ port: true }), 'spec.port'],
    ['port 0 of Services', discovery({ port: 0 }), 'port must be the name of a port, such as http, or a number'],
    ['empty labels', discovery({ selector: { matchLabels: {} } }), 'an empty one would select every Service'],
    [
      'a requirement without values',
      discovery({ selector: { matchExpressions: [{ key: 'a', operator: 'In' }] } }),
      'values must be set with In and NotIn',
    ],
    [
      'a requirement with values too many',
      discovery({ selector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] } }),
      'values must be set with In and NotIn',
    ],
    ['no namespace', discovery({ namespaces: { names: [] } }), 'should have at least 1 items'],
    ['all namespaces', discovery({ namespaces: { selector: {} } }), 'ok'],
    ['neither names nor labels', discovery({ namespaces: {} }), 'namespaces must have either names or selector'],
    [
      'names and labels',
      discovery({ namespaces: { names: ['a'], selector: {} } }),
      'namespaces must have either names or selector',
    ],
    ['a namespace that is none', discovery({ namespaces: { names: ['A'] } }), 'spec.namespaces.names[0]'],
    [
      'a group from nowhere',
      discovery({ template: { routingGroupFrom: {} } }),
      'routingGroupFrom must have either label or annotation',
    ],
    [
      'clusters of one name',
      discovery({ template: { name: 'trino', routingGroup: 'a' } }),
      'template.name must hold {service}',
    ],
    [
      'a name that no resource can have',
      discovery({ template: { name: '{service}_{pod}', routingGroup: 'a' } }),
      'template.name may hold lower-case letters',
    ],
    ['a long name of a discovery', discovery({}, 'x'.repeat(64)), 'metadata.name must have at most 63 characters'],
    [
      'resource groups with everything',
      resourceGroups({
        databases: Array.from({ length: 32 }, (_, index) => `trino_eu-$${index}`),
        prune: true,
        whenDrifted: 'Report',
        cpuQuotaPeriod: '1h',
        rootGroups: [
          {
            name: 'global',
            softMemoryLimit: '80%',
            maxQueued: 2_147_483_647,
            softConcurrencyLimit: 10,
            hardConcurrencyLimit: 10,
            schedulingPolicy: 'weighted',
            schedulingWeight: 1,
            jmxExport: true,
            softCpuLimit: '30m',
            hardCpuLimit: '1h',
            subGroups: [{ name: '${USER}', hardConcurrencyLimit: 0, subGroups: [] }],
          },
        ],
        selectors: [
          {
            user: 'x'.repeat(512),
            userGroup: 'x'.repeat(2_048),
            originalUser: 'a|b',
            authenticatedUser: '.*',
            source: '(?<tool>[^.]+)[.].*',
            queryType: 'DATA_DEFINITION',
            clientTags: Array(256).fill('x'),
            selectorResourceEstimate: {
              executionTime: { min: '1s', max: '1h' },
              cpuTime: { max: '1h' },
              peakMemory: { min: '1GB' },
            },
            group: 'global.${USER}',
          },
        ],
        gatewayClassName: 'blue',
      }),
      'ok',
    ],
    ['a configuration of no groups', resourceGroups({ rootGroups: [], selectors: [] }), 'ok'],
    [
      'the former name of the limit',
      resourceGroups({ rootGroups: [{ name: 'a', maxRunning: 10 }] }),
      '.spec.rootGroups[0].maxRunning: field not declared in schema',
    ],
    [
      'a group below another without a limit',
      rootGroup({ subGroups: [{ name: 'a' }] }),
      'spec.rootGroups[0].subGroups[0].hardConcurrencyLimit: Required',
    ],
    ['groups of no environment', without(resourceGroups({}), 'environment'), 'spec.environment: Required'],
    ['an empty environment', resourceGroups({ environment: '' }), 'spec.environment'],
    ['a line break in the environment', resourceGroups({ environment: 'a\nb' }), 'spec.environment'],
    ['no root groups', without(resourceGroups({}), 'rootGroups'), 'spec.rootGroups: Required'],
    ['no selectors', without(resourceGroups({}), 'selectors'), 'spec.selectors: Required'],
    ['no database', resourceGroups({ databases: [] }), 'should have at least 1 items'],
    ['a database twice', resourceGroups({ databases: ['a', 'b', 'a'] }), 'databases must not hold a name twice'],
    ['too many databases', resourceGroups({ databases: Array(33).fill('a') }), 'must have at most 32 items'],
    ['a name that no database has', resourceGroups({ databases: ['a;b'] }), 'spec.databases[0]'],
    ['another answer to drift', resourceGroups({ whenDrifted: 'Ignore' }), 'Unsupported value: "Ignore"'],
    ['a text as prune', resourceGroups({ prune: 'yes' }), 'spec.prune'],
    ['the first priority', resourceGroups({ firstPriority: 1 }), '.spec.firstPriority: field not declared in schema'],
    ['a group without a name', resourceGroups({ rootGroups: [{ hardConcurrencyLimit: 1 }] }), 'name: Required'],
    ['an empty name of a resource group', rootGroup({ name: '' }), 'spec.rootGroups[0].name'],
    ['a path as name', rootGroup({ name: 'a.b' }), 'name must not hold a dot, which separates a group from its parent'],
    [
      'a soft limit above the hard one',
      rootGroup({ softConcurrencyLimit: 11 }),
      'softConcurrencyLimit must be at most hardConcurrencyLimit',
    ],
    ['a soft limit of the hard one', rootGroup({ softConcurrencyLimit: 10 }), 'ok'],
    [
      'a soft CPU limit alone',
      rootGroup({ softCpuLimit: '1h' }),
      'hardCpuLimit is required where softCpuLimit is given',
    ],
    ['a hard CPU limit alone', rootGroup({ hardCpuLimit: '1h' }), 'ok'],
    ['a negative limit', rootGroup({ maxQueued: -1 }), 'greater than or equal to 0'],
    ['a limit above int', rootGroup({ maxQueued: 2_147_483_648 }), 'spec.rootGroups[0].maxQueued'],
    ['a weight of 0', rootGroup({ schedulingWeight: 0 }), 'greater than or equal to 1'],
    ['a limit without a column', rootGroup({ hardPhysicalDataScanLimit: '1TB' }), 'field not declared in schema'],
    ['groups eight deep', resourceGroups({ rootGroups: [nested(7)] }), 'ok'],
    ['groups nine deep', resourceGroups({ rootGroups: [nested(8)] }), 'must have at most 0 items'],
    ['a selector to nowhere', resourceGroups({ selectors: [{ user: 'a' }] }), 'spec.selectors[0].group: Required'],
    ['a long expression', resourceGroups({ selectors: [{ user: 'x'.repeat(513), group: 'a' }] }), 'more than 512'],
    ['an unknown condition', resourceGroups({ selectors: [{ catalog: 'a', group: 'a' }] }), 'field not declared'],
  ])('%s', async (_name, document, expected) => {
    expect(await dryRun(document)).toContain(expected);
  });

  test.each([
    ['EngineCluster', cluster({ name: 'Trino Prod_1' }, 'named'), cluster({ name: 'Other' }, 'named')],
    ['EngineCluster', cluster({ name: 'Trino Prod_1' }, 'unset'), cluster({}, 'unset')],
    ['RoutingRule', rule({ ...route }, 'set-later'), rule({ ...route, name: 'Later' }, 'set-later')],
    ['EngineCluster', cluster({}, 'set-later'), cluster({ name: 'Later' }, 'set-later')],
    ['RoutingGroup', group({ name: 'One' }, 'named'), group({ name: 'Other' }, 'named')],
    ['RoutingGroup', group({}, 'set-later'), group({ name: 'Later' }, 'set-later')],
    ['RoutingRule', rule({ ...route, name: 'Named' }, 'named'), rule({ ...route, name: 'Other' }, 'named')],
  ])('the name of an %s cannot change', async (kind, before, after) => {
    await kubectl(['apply', '--server-side', '-f', '-'], before);
    const response = await kubectl(['apply', '--server-side', '-f', '-'], after).catch(
      (error: { stderr: string }) => error.stderr,
    );
    expect(response).toContain(`name is immutable; delete the ${kind} and create another one`);
  });

  test('defaults are filled in, and columns and fields can be selected', async () => {
    await kubectl(['apply', '--server-side', '-f', '-'], cluster({ routingGroup: 'etl' }, 'defaults'));
    const stored = JSON.parse(await kubectl(['get', 'ec', 'defaults', '-o', 'json'])) as { spec: unknown };
    expect(stored.spec).toEqual({
      ...{ active: true, proxyTo: 'http://engine-a:8080', routingGroup: 'etl' },
      ...{ suspend: false, weight: 100 },
    });
    await kubectl(['apply', '--server-side', '-f', '-'], rule(route, 'shown'));
    const { spec } = JSON.parse(await kubectl(['get', 'rr', 'shown', '-o', 'json'])) as { spec: unknown };
    expect(spec).toEqual({
      condition: 'true',
      ...route,
      stage: 'First',
      whenUnavailable: 'Fallback',
      stop: false,
      suspend: false,
    });
    expect((await kubectl(['get', 'ec', 'defaults'])).split('\n')[0]).toMatch(
      /^NAME +READY +GROUP +ACTIVE +HEALTHY +RUNNING +SUSPEND +AGE$/,
    );
    expect((await kubectl(['get', 'rr', 'shown'])).split('\n')[0]).toMatch(
      /^NAME +READY +PRIORITY +ROUTES TO +SUSPEND +AGE$/,
    );
    await kubectl(['apply', '--server-side', '-f', '-'], resourceGroups({}, 'shown'));
    const groups = JSON.parse(await kubectl(['get', 'rgc', 'shown', '-o', 'json'])) as { spec: unknown };
    expect(groups.spec).toEqual({ ...resourceGroups({}).spec, prune: false, suspend: false, whenDrifted: 'Repair' });
    expect((await kubectl(['get', 'rgc', 'shown'])).split('\n')[0]).toMatch(
      /^NAME +READY +ENVIRONMENT +APPLIED +DRIFT +SUSPEND +AGE$/,
    );
    expect(await kubectl(['get', 'ec', '--field-selector=spec.routingGroup=etl', '-o', 'name'])).toBe(
      'enginecluster.enginegateway.dev/defaults\n',
    );
    for (const [kind, field, name] of [
      ['ec', 'spec.active=true,spec.routingGroup=etl', 'enginecluster.enginegateway.dev/defaults\n'],
      ['ec', 'spec.active=false', ''],
      ['rr', 'spec.suspend=false', 'routingrule.enginegateway.dev/shown\n'],
      ['rr', 'spec.suspend=true', ''],
      ['rgc', 'spec.environment=production', 'resourcegroupconfiguration.enginegateway.dev/shown\n'],
      ['rgc', 'spec.environment=staging', ''],
    ] as const) {
      const found = await kubectl(['get', kind, `--field-selector=${field}`, '-o', 'name']);
      expect(found.split('\n').filter((line) => line === name.trim() && line !== '')).toHaveLength(name === '' ? 0 : 1);
    }
  });

  test('status is a resource of its own: writing the spec leaves it, writing it leaves the spec', async () => {
    const document = cluster({}, 'with-status');
    await kubectl(['apply', '--server-side', '-f', '-'], { ...document, status: { active: false } });
    const stored = async () =>
      JSON.parse(await kubectl(['get', 'ec', 'with-status', '-o', 'json'])) as Document & { status?: unknown };
    expect((await stored()).status).toBeUndefined();
    const patch = JSON.stringify({ spec: { weight: 7 }, status: { active: true } });
    await kubectl(['patch', 'ec', 'with-status', '--subresource=status', '--type=merge', '-p', patch]);
    expect(await stored()).toMatchObject({
      spec: { weight: 100 },
      metadata: { generation: 1 },
      status: { active: true },
    });
  });
});
