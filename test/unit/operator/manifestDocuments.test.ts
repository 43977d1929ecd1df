import { describe, expect, test } from 'vitest';
import { readManifests, splitDocuments } from '../../../src/operator/sources/directory/manifestDocuments.ts';

const cluster = (name: string, spec = 'proxyTo: http://a:1\n  routingGroup: adhoc') =>
  `apiVersion: enginegateway.dev/v1\nkind: EngineCluster\nmetadata:\n  name: ${name}\nspec:\n  ${spec}\n`;

describe('splitting into documents', () => {
  test.each<[string, string, readonly string[]]>([
    ['one', 'a: 1\n', ['a: 1\n']],
    ['one with a marker', '---\na: 1\n', ['---\na: 1\n']],
    ['two', 'a: 1\n---\nb: 2\n', ['a: 1\n', '---\nb: 2\n']],
    ['comments before the first marker', '# c\n\n---\na: 1\n', ['# c\n\n---\na: 1\n']],
    ['directives', '%YAML 1.2\n---\na: 1\n', ['%YAML 1.2\n---\na: 1\n']],
    ['an end marker', 'a: 1\n...\n# c\n---\nb: 2\n', ['a: 1\n...\n', '# c\n---\nb: 2\n']],
    ['dashes in a scalar', 'a: "x\n  ---\n  y"\n', ['a: "x\n  ---\n  y"\n']],
    ['a longer line of dashes', 'a: |\n  x\n----\nb', ['a: |\n  x\n----\nb']],
    ['an empty document between', 'a: 1\n---\n---\nb: 2\n', ['a: 1\n', '---\n', '---\nb: 2\n']],
    ['Windows line ends', 'a: 1\r\n---\r\nb: 2\r\n', ['a: 1\r\n', '---\r\nb: 2\r\n']],
    ['content beside the marker', '--- {a: 1}\n--- # c\nb: 2', ['--- {a: 1}\n', '--- # c\nb: 2']],
    ['nothing', '', ['']],
  ])('%s', (_, text, documents) => {
    expect(splitDocuments(text).map(({ start, end }) => text.slice(start, end))).toEqual(documents);
  });
});

test('a broken document affects only itself and says its place', () => {
  const text = `${cluster('a')}---\nkind: EngineCluster\nmetadata:\n  name: b\nspec: "no end\n---\n${cluster('c')}`;
  const [a, b, c] = readManifests(text, 'default');
  expect([a?.kind, b?.kind, c?.kind]).toEqual(['resource', 'broken', 'resource']);
  expect(b).toMatchObject({ number: 2, line: 8, key: { kind: 'EngineCluster', namespace: 'default', name: 'b' } });
  expect(b?.kind === 'broken' && b.problemLine).toBeGreaterThanOrEqual(12);
});

describe('documents that are not resources of ours', () => {
  const manifest = (change: (text: string) => string) => readManifests(change(cluster('a')), 'default')[0];
  test.each<[string, (text: string) => string, string, number]>([
    ['another version', (text) => text.replace('/v1', '/v2'), 'apiVersion must be enginegateway.dev/v1', 1],
    ['an unknown kind', (text) => text.replace('EngineCluster', 'Cluster'), 'kind must be EngineCluster or', 2],
    ['no name', (text) => text.replace('name: a', 'labels: {}'), 'metadata.name must be a Kubernetes name', 3],
    ['a name of another form', (text) => text.replace('name: a', 'name: Trino Prod_1'), 'goes into spec.name', 4],
    ['a list as spec', (text) => text.replace(/spec:.*/s, 'spec: []\n'), 'spec must be a mapping', 5],
    [
      'a number as annotation',
      (text) => text.replace('name: a', 'name: a\n  annotations: {x: 1}'),
      'put it in quotes',
      5,
    ],
    ['a doubled key', (text) => `${text}kind: RoutingRule\n`, 'Map keys must be unique', 8],
    ['a list of resources', () => 'apiVersion: v1\nkind: List\nitems: []\n', 'write its items as documents', 2],
    ['a text', () => '\njust text\n', 'is no mapping', 2],
  ])('%s', (_, change, message, line) => {
    const document = manifest(change);
    expect(document).toMatchObject({ kind: 'broken', problemLine: line });
    expect(document?.kind === 'broken' && document.message).toContain(message);
  });

  test.each([
    ['another group', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n'],
    ['comments only', '# nothing\n'],
  ])('%s is left out', (_, text) => {
    expect(readManifests(text, 'default')[0]?.kind).toBe('other');
  });
});

test('JSON is read too, namespace and spec have defaults', () => {
  const text = '{"apiVersion":"enginegateway.dev/v1","kind":"RoutingRule","metadata":{"name":"r"}}';
  expect(readManifests(text, 'prod')[0]).toMatchObject({
    kind: 'resource',
    manifest: { key: { kind: 'RoutingRule', namespace: 'prod', name: 'r' }, spec: {}, annotations: {} },
  });
});
