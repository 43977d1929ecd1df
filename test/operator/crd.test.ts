import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ControlPlane, controlPlaneAvailable, kubectlPath, startControlPlane } from '../support/controlPlane.ts';

const run = promisify(execFile);

type Document = { apiVersion: string; kind: string; metadata: Record<string, unknown>; spec?: Record<string, unknown> };

const cluster = (spec: Record<string, unknown>, name = 'engine-a'): Document => ({
  apiVersion: 'enginegateway.dev/v1',
  kind: 'EngineCluster',
  metadata: { name, namespace: 'default' },
  spec: { proxyTo: 'http://engine-a:8080', routingGroup: 'adhoc', ...spec },
});

const rule = (spec: Record<string, unknown>, name = 'rule-a'): Document => ({
  apiVersion: 'enginegateway.dev/v1',
  kind: 'RoutingRule',
  metadata: { name, namespace: 'default' },
  spec: { condition: 'true', ...spec },
});

const route = { routeTo: { routingGroup: 'etl' } };
const without = (document: Document, field: string): Document => {
  const spec = { ...document.spec };
  delete spec[field];
  return { ...document, spec };
};

describe.skipIf(!controlPlaneAvailable)('CRDs on a real API server', () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    plane = await startControlPlane({ crdDirectoryPaths: [] });
  });
  afterAll(() => plane?.stop());

  const kubectl = async (args: readonly string[], input?: object): Promise<string> => {
    const child = run(kubectlPath, ['--kubeconfig', plane.config.kubeconfigPath, ...args]);
    if (input !== undefined) child.child.stdin?.end(JSON.stringify(input));
    return (await child).stdout;
  };
  /** The API server's words, or `ok`. */
  const dryRun = (document: Document): Promise<string> =>
    kubectl(['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'], document).then(
      () => 'ok',
      (error: { stderr: string }) => error.stderr,
    );

  test('they install with server-side apply and become established', async () => {
    await kubectl(['apply', '--server-side', '-f', 'crds/']);
    await kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=20s']);
    const names = await kubectl(['api-resources', '--api-group=enginegateway.dev', '--no-headers']);
    expect(names).toMatch(/^engineclusters +ec +enginegateway.dev\/v1 +true +EngineCluster$/m);
    expect(names).toMatch(/^routingrules +rr +enginegateway.dev\/v1 +true +RoutingRule$/m);
    expect(await kubectl(['get', 'engine-gateway'])).toBe('');
  });

  test('every field has a description', async () => {
    for (const path of [
      'engineclusters.spec.proxyTo',
      'engineclusters.spec.healthCheck.credentialsSecretRef.name',
      'engineclusters.status.conditions.reason',
      'routingrules.spec.deny.onError',
    ]) {
      // The OpenAPI document follows the CRD a moment later.
      await expect
        .poll(() => kubectl(['explain', path]).catch(String), { timeout: 20_000 })
        .toMatch(/DESCRIPTION:\n {4}\S/);
    }
  });

  const URL_MESSAGE = 'must be an http or https URL without user, query and fragment';
  test.each<[string, Document, string]>([
    ['a cluster with a URL', cluster({}), 'ok'],
    ['a path in the URL', cluster({ proxyTo: 'https://engine.example/base' }), 'ok'],
    ['an IPv6 address', cluster({ proxyTo: 'http://[::1]:8080' }), 'ok'],
    ['another scheme', cluster({ proxyTo: 'ftp://engine-a' }), `proxyTo ${URL_MESSAGE}`],
    ['no scheme', cluster({ proxyTo: 'engine-a:8080' }), `proxyTo ${URL_MESSAGE}`],
    ['not a URL', cluster({ proxyTo: 'nonsense' }), `proxyTo ${URL_MESSAGE}`],
    ['no host', cluster({ proxyTo: 'http://' }), 'proxyTo'],
    ['a user in the URL', cluster({ proxyTo: 'http://me:pw@engine-a:8080' }), `proxyTo ${URL_MESSAGE}`],
    ['a query', cluster({ proxyTo: 'http://engine-a:8080?x=1' }), `proxyTo ${URL_MESSAGE}`],
    ['a fragment', cluster({ proxyTo: 'http://engine-a:8080#x' }), `proxyTo ${URL_MESSAGE}`],
    ['a long URL', cluster({ proxyTo: `http://${'a'.repeat(260)}` }), 'may not be more than 256'],
    ['a number', cluster({ proxyTo: 8080 }), 'spec.proxyTo'],
    ['an external URL of another scheme', cluster({ externalUrl: 'jdbc:x' }), `externalUrl ${URL_MESSAGE}`],
    ['no target', without(cluster({}), 'proxyTo'), 'exactly one of proxyTo and serviceRef must be set'],
    [
      'two targets',
      cluster({ serviceRef: { name: 'a', port: 1 } }),
      'exactly one of proxyTo and serviceRef must be set',
    ],
    ['a Service', without(cluster({ serviceRef: { name: 'a', port: 8080 } }), 'proxyTo'), 'ok'],
    ['a Service without port', without(cluster({ serviceRef: { name: 'a' } }), 'proxyTo'), 'serviceRef.port: Required'],
    ['port 0', without(cluster({ serviceRef: { name: 'a', port: 0 } }), 'proxyTo'), 'greater than or equal to 1'],
    [
      'another scheme of a Service',
      without(cluster({ serviceRef: { name: 'a', port: 1, scheme: 'tcp' } }), 'proxyTo'),
      'Unsupported value: "tcp"',
    ],
    ['no group', without(cluster({}), 'routingGroup'), 'spec.routingGroup: Required'],
    ['an empty group', cluster({ routingGroup: '' }), 'spec.routingGroup'],
    ['a text as active', cluster({ active: 'yes' }), 'spec.active'],
    ['a negative weight', cluster({ weight: -1 }), 'greater than or equal to 0'],
    ['a huge weight', cluster({ weight: 10_001 }), 'less than or equal to 10000'],
    ['an unknown monitor', cluster({ healthCheck: { type: 'PING' } }), 'Unsupported value: "PING"'],
    ['a bad interval', cluster({ healthCheck: { interval: '10 seconds' } }), 'spec.healthCheck.interval'],
    ['a threshold of 0', cluster({ healthCheck: { failureThreshold: 0 } }), 'greater than or equal to 1'],
    ['an unknown field', cluster({ proxyto: 'x' }), '.spec.proxyto: field not declared in schema'],
    ['a registry name', cluster({ name: 'Trino Prod_1' }), 'ok'],
    ['a name with a slash', cluster({ name: 'a/b' }), 'spec.name'],
    ['a rule with a route', rule(route), 'ok'],
    ['a rule with actions', rule({ actions: ['result.put("routingGroup", "etl")'] }), 'ok'],
    ['a rule that denies', rule({ deny: { message: 'no' } }), 'ok'],
    ['a rule that does nothing', rule({}), 'exactly one of actions, routeTo and deny must be set'],
    [
      'two outcomes',
      rule({ ...route, deny: { message: 'no' } }),
      'exactly one of actions, routeTo and deny must be set',
    ],
    ['a route to nowhere', rule({ routeTo: {} }), 'exactly one of routingGroup and cluster'],
    [
      'a route to two',
      rule({ routeTo: { routingGroup: 'a', cluster: 'b' } }),
      'exactly one of routingGroup and cluster',
    ],
    ['no condition', without(rule(route), 'condition'), 'spec.condition: Required'],
    ['an empty condition', rule({ ...route, condition: '' }), 'spec.condition'],
    ['a huge condition', rule({ ...route, condition: 'x'.repeat(16_385) }), 'may not be more than 16384'],
    ['no actions', rule({ actions: [] }), 'should have at least 1 items'],
    ['a priority below int', rule({ ...route, priority: -2_147_483_649 }), 'spec.priority'],
    ['a priority above int', rule({ ...route, priority: 2_147_483_648 }), 'spec.priority'],
    ['a broken priority', rule({ ...route, priority: 1.5 }), 'spec.priority'],
    ['an unknown fallback', rule({ ...route, onUnavailable: 'queue' }), 'Unsupported value: "queue"'],
    ['no message', rule({ deny: {} }), 'spec.deny.message: Required'],
  ])('%s', async (_name, document, expected) => {
    expect(await dryRun(document)).toContain(expected);
  });

  test.each([
    ['EngineCluster', cluster({ name: 'Trino Prod_1' }, 'named'), cluster({ name: 'Other' }, 'named')],
    ['EngineCluster', cluster({ name: 'Trino Prod_1' }, 'unset'), cluster({}, 'unset')],
    ['RoutingRule', rule({ ...route }, 'set-later'), rule({ ...route, name: 'Later' }, 'set-later')],
  ])('the name of an %s cannot change', async (kind, before, after) => {
    await kubectl(['apply', '--server-side', '-f', '-'], before);
    const answer = await kubectl(['apply', '--server-side', '-f', '-'], after).catch(
      (error: { stderr: string }) => error.stderr,
    );
    expect(answer).toContain(`name is immutable; delete the ${kind} and create another one`);
  });

  test('defaults are filled in, and columns and fields can be selected', async () => {
    await kubectl(['apply', '--server-side', '-f', '-'], cluster({ routingGroup: 'etl' }, 'defaults'));
    const stored = JSON.parse(await kubectl(['get', 'ec', 'defaults', '-o', 'json'])) as { spec: unknown };
    expect(stored.spec).toEqual({ active: true, proxyTo: 'http://engine-a:8080', routingGroup: 'etl', weight: 100 });
    await kubectl(['apply', '--server-side', '-f', '-'], rule(route, 'shown'));
    expect((await kubectl(['get', 'ec', 'defaults'])).split('\n')[0]).toMatch(
      /^NAME +GROUP +ACTIVE +HEALTHY +READY +AGE$/,
    );
    expect((await kubectl(['get', 'rr', 'shown'])).split('\n')[0]).toMatch(
      /^NAME +PRIORITY +ROUTES TO +ACCEPTED +AGE$/,
    );
    expect(await kubectl(['get', 'ec', '--field-selector=spec.routingGroup=etl', '-o', 'name'])).toBe(
      'enginecluster.enginegateway.dev/defaults\n',
    );
  });
});
