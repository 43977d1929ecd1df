import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { editDocument } from '../../../src/operator/sources/directory/manifestEdit.ts';
import type { ResourceChange } from '../../../src/operator/sources/source.ts';

const change = (part: Partial<ResourceChange>): ResourceChange => ({ set: {}, remove: [], annotations: {}, ...part });

const text = `# the production cluster
apiVersion: enginegateway.dev/v1
kind: EngineCluster
metadata:
  name: prod   # the name
spec:
  # where it is
  proxyTo:   'http://a:8080'  # old
  routingGroup: adhoc
  active:    true # on
`;

test('a changed value changes nothing but its own characters', () => {
  expect(editDocument(text, change({ set: { proxyTo: 'http://b:1', active: false } }), 'yaml')).toBe(
    text.replace('http://a:8080', 'http://b:1').replace('true', 'false'),
  );
});

test('a new field, a removed field and a new annotation keep the comments', () => {
  const edited = editDocument(
    text,
    change({ set: { externalUrl: 'https://x' }, remove: ['active'], annotations: { 'a/b': '{"c": 1}' } }),
    'yaml',
  );
  expect(edited).toBe(`# the production cluster
apiVersion: enginegateway.dev/v1
kind: EngineCluster
metadata:
  name: prod # the name
  annotations:
    a/b: '{"c": 1}'
spec:
  # where it is
  proxyTo: 'http://a:8080' # old
  routingGroup: adhoc
  externalUrl: https://x
`);
});

test('the last annotation takes its mapping with it', () => {
  const annotated = text.replace('  name: prod', '  annotations:\n    x: y\n  name: prod');
  expect(parse(editDocument(annotated, change({ annotations: { x: null } }), 'yaml'))).toEqual(parse(text));
});

test('JSON stays JSON, with its indentation', () => {
  const json = `${JSON.stringify({ metadata: { name: 'a' }, spec: { active: true } }, null, 4)}\n`;
  expect(editDocument(json, change({ set: { active: false } }), 'json')).toBe(json.replace('true', 'false'));
});

test('Windows line ends stay', () => {
  const windows = text.replaceAll('\n', '\r\n');
  const edited = editDocument(windows, change({ set: { weight: 5 } }), 'yaml');
  expect(edited.replaceAll('\r\n', '').includes('\n')).toBe(false);
  expect((parse(edited) as { spec: { weight: number } }).spec.weight).toBe(5);
});

test.each([
  ['an anchor used elsewhere', 'metadata: {name: a}\nspec:\n  proxyTo: &u http://a\n  externalUrl: *u\n'],
  ['a spec that is an alias', 'x: &s {proxyTo: http://a}\nmetadata: {name: a}\nspec: *s\n'],
])('%s is either edited rightly or refused', (_, document) => {
  const before = parse(document) as { spec: Record<string, unknown> };
  let edited: string;
  try {
    edited = editDocument(document, change({ set: { proxyTo: 'http://b' } }), 'yaml');
  } catch (error) {
    expect(error).toMatchObject({ code: 'EG_IMPOSSIBLE' });
    return;
  }
  expect(parse(edited)).toEqual({ ...before, spec: { ...before.spec, proxyTo: 'http://b' } });
});

test('whatever is set, the document says it afterwards', () => {
  const value = fc.oneof(fc.string(), fc.boolean(), fc.integer(), fc.constant({ type: 'NOOP' }));
  const fields = fc.constantFrom('proxyTo', 'routingGroup', 'active', 'externalUrl', 'weight', 'healthCheck');
  const documents = fc.constantFrom(
    text,
    `---\n${text}`,
    text.replaceAll('\n', '\r\n'),
    '--- {spec: {proxyTo: a}, metadata: {name: b}}\n',
  );
  fc.assert(
    fc.property(documents, fc.dictionary(fields, value), fc.uniqueArray(fields), (document, set, removed) => {
      const remove = removed.filter((field) => !(field in set));
      const before = parse(document) as { spec: Record<string, unknown> };
      const spec = { ...before.spec, ...set };
      for (const field of remove) delete spec[field];
      expect(parse(editDocument(document, change({ set, remove }), 'yaml'))).toEqual({ ...before, spec });
    }),
  );
});
