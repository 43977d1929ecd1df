import fc from 'fast-check';
import { expect, test } from 'vitest';
import { resourceKinds } from '../../../src/kinds/registry.ts';
import { DEFAULT_PRIORITY } from '../../../src/kinds/routingRule/spec.ts';
import { exportManifests } from '../../../src/operator/exportManifests.ts';
import { readManifests } from '../../../src/operator/sources/directory/manifestDocuments.ts';

const row = (name: string, more = {}) => ({
  name,
  routingGroup: 'adhoc',
  proxyTo: 'http://a:8080',
  externalUrl: 'http://a:8080',
  active: true,
  ...more,
});

test('clusters and rules are printed as manifests that kubectl and the directory take', () => {
  const { yaml: text } = exportManifests({
    clusters: [row('prod'), row('Trino Prod_1', { externalUrl: 'https://x', active: false })],
    rules: [{ name: 'airflow', priority: 1, condition: 'true', actions: ['result.put("routingGroup", "etl")'] }],
    namespace: 'query',
  });
  expect(text).toBe(`---
apiVersion: enginegateway.dev/v1
kind: EngineCluster
metadata:
  name: prod
  namespace: query
spec:
  proxyTo: http://a:8080
  active: true
  routingGroup: adhoc
---
apiVersion: enginegateway.dev/v1
kind: EngineCluster
metadata:
  name: trino-prod-1-f0f8acdd
  namespace: query
spec:
  name: Trino Prod_1
  proxyTo: http://a:8080
  externalUrl: https://x
  active: false
  routingGroup: adhoc
---
apiVersion: enginegateway.dev/v1
kind: RoutingRule
metadata:
  name: airflow
  namespace: query
spec:
  priority: 1
  condition: "true"
  actions:
    - result.put("routingGroup", "etl")
`);
});

test('whatever the names and texts, the manifests are read back as what was exported, and are valid', () => {
  const names = fc.uniqueArray(
    fc.string({ minLength: 1, maxLength: 80 }).filter((name) => /^[^\s\p{Cc}]+$/u.test(name)),
  );
  fc.assert(
    fc.property(names, fc.string({ minLength: 1 }), (all, condition) => {
      const rules = all.map((name) => ({ name, description: condition, condition, actions: [condition] }));
      const text = exportManifests({ clusters: all.map((name) => row(name)), rules, namespace: null }).yaml;
      const manifests = all.length === 0 ? [] : readManifests(text, 'default');
      const read = manifests.map((document) => {
        if (document.kind !== 'resource') throw new Error(`${document.kind} in ${text}`);
        expect(resourceKinds.specProblems(document.manifest.key.kind, document.manifest.spec)).toEqual([]);
        return document.manifest.spec.name ?? document.manifest.key.name;
      });
      expect(read).toEqual([...all, ...all]);
    }),
  );
});

test('rules are asked in the order of the file', () => {
  const priority = fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined });
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string({ minLength: 1, maxLength: 3, unit: fc.constantFrom('a', 'b', 'c') })),
      fc.array(priority, { minLength: 40, maxLength: 40 }),
      (names, priorities) => {
        const rules = names.map((name, index) => {
          const own = priorities[index];
          return { name, condition: 'true', actions: ['x'], ...(own === undefined ? {} : { priority: own }) };
        });
        const text = exportManifests({ clusters: [], rules, namespace: null }).yaml;
        const order = (names.length === 0 ? [] : readManifests(text, 'default')).flatMap((document) =>
          document.kind === 'resource'
            ? [[document.manifest.key.name, Number(document.manifest.spec.priority ?? DEFAULT_PRIORITY)] as const]
            : [],
        );
        const exportedOrder = order.toSorted((a, b) => a[1] - b[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
        const fileOrder = rules
          .toSorted((a, b) => (a.priority ?? DEFAULT_PRIORITY) - (b.priority ?? DEFAULT_PRIORITY))
          .map((rule) => rule.name);
        expect(exportedOrder).toEqual(fileOrder);
      },
    ),
  );
});
