import { compileCheck } from '../../../../src/model/validation.ts';
import { inline, type OpenapiDocument, type OpenapiOperation } from '../../../support/openapiConformance.ts';
import type { Row } from './rows.ts';

interface ObjectSchema {
  readonly type?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, object>>;
  readonly additionalProperties?: boolean | object;
}

/** Operation of a key such as `POST /entity`. */
export function operationOf(document: OpenapiDocument, key: string): OpenapiOperation {
  const [method = '', path = ''] = key.split(' ');
  const operation = document.paths[path]?.[method.toLowerCase()];
  if (operation === undefined) throw new Error(`${key} is not in the OpenAPI document`);
  return operation;
}

/** All operations of the document as keys such as `POST /entity`. */
export function operationKeys(document: OpenapiDocument): string[] {
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { responses }]) => {
      // A stream has no end to wait for; test/integration/api/overview.test.ts follows it.
      const isStream = responses['200']?.content?.['text/event-stream'] !== undefined;
      return isStream ? [] : [`${method.toUpperCase()} ${path}`];
    }),
  );
}

/** Schema of the JSON object that an operation takes; null when it takes none, or one of several. */
export function bodySchema(document: OpenapiDocument, operation: OpenapiOperation): ObjectSchema | null {
  const schema = operation.requestBody?.content['application/json']?.schema;
  if (schema === undefined) return null;
  const whole = inline(schema, document.components.schemas) as ObjectSchema;
  return whole.properties === undefined ? null : whole;
}

/**
 * Rows that follow from the document: each required field missing, each field of a wrong type, a field that is not
 * known, no object at all, a broken one, another media type, too much.
 * @param good a body that is accepted
 */
export function bodyRows(schema: ObjectSchema, good: object, responses: OpenapiOperation['responses']): Row[] {
  const bad = (why: string, body: unknown, field?: string): Row => ({
    why,
    body,
    status: 400,
    ...(field === undefined ? {} : { field }),
  });
  const rows = [
    bad('broken JSON', '{"name":'),
    bad('null', 'null'),
    bad('a list', '[]'),
    bad('a key twice', '{"a":1,"a":2}', 'a'),
    ...fieldRows(schema, good, [], (fields) => fields).map(({ why, body, field }) => bad(why, body, field)),
  ];
  if (responses['415'] !== undefined) {
    const headers = { 'Content-Type': 'text/xml' };
    rows.push({ why: 'another media type', headers, body: '<a/>', status: 415 });
  }
  if (responses['413'] !== undefined) {
    rows.push({ why: 'more than a body may have', body: JSON.stringify({ name: 'x'.repeat(1_100_000) }), status: 413 });
  }
  return rows;
}

function fieldRows(
  schema: ObjectSchema,
  good: object,
  path: readonly string[],
  wrap: (fields: object) => object,
): { why: string; body: object; field: string }[] {
  const found: { why: string; body: object; field: string }[] = [];
  const at = (name: string) => [...path, name].join('.');
  for (const name of schema.required ?? []) {
    const rest = Object.fromEntries(Object.entries(good).filter(([key]) => key !== name));
    found.push({ why: `${at(name)} missing`, body: wrap(rest), field: at(name) });
  }
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const check = compileCheck(property as never);
    const wrong = [7.5, 'x'.repeat(70_000), true, { nope: 1 }].find((value) => !check(value).ok);
    if (wrong === undefined) continue;
    found.push({ why: `${at(name)} of a wrong type`, body: wrap({ ...good, [name]: wrong }), field: at(name) });
    const inner = property as ObjectSchema;
    const value = (good as Record<string, unknown>)[name];
    if (inner.properties === undefined || typeof value !== 'object' || value === null) continue;
    found.push(...fieldRows(inner, value, [...path, name], (fields) => wrap({ ...good, [name]: fields })));
  }
  if (schema.additionalProperties === false) {
    found.push({ why: `${at('nope')} unknown`, body: wrap({ ...good, nope: 1 }), field: at('nope') });
  }
  return found;
}

/** What no parameter of that name may be; null where every text is one. */
const badParameters: Readonly<Record<string, string | null>> = {
  useSchema: 'a;b',
  action: 'restart',
  resourceGroupId: 'x',
  entityType: 'OTHER',
  force: 'perhaps',
  minutes: '0',
  lines: '0',
  group: 'g'.repeat(257),
  provider: 'p'.repeat(64),
  namespace: 'A b'.repeat(100),
  kind: 'k'.repeat(1025),
  manager: 'm'.repeat(1025),
  version: 'x'.repeat(65),
  by: 'text',
  from: 'x',
  to: 'x',
  since: 'x',
  mediumFrom: 'x',
  largeFrom: 'x',
  until: 'x',
  top: 'text',
  digest: 'x',
  limit: 'x',
  match: 'part',
  after: 'x',
  minElapsedMillis: '-1',
  maxElapsedMillis: '1.5',
  errorName: 'E'.repeat(1025),
  errorType: 'E'.repeat(1025),
  format: 'xml',
  user: 'u'.repeat(1025),
  source: 's'.repeat(1025),
  userGroup: 'g'.repeat(1025),
  cluster: 'c'.repeat(1025),
  routingGroup: 'g'.repeat(1025),
  text: 't'.repeat(1025),
  name: null,
  id: null,
  queryId: null,
  verbose: null,
  'name[]': null,
  code: null,
  state: null,
  error: null,
};

/** Rows with a query parameter that is malformed. @throws Error for a parameter that nobody has thought of */
export function parameterRows(operation: OpenapiOperation, good: Row): Row[] {
  return (operation.parameters ?? []).flatMap(({ in: place, name }): Row[] => {
    const bad = badParameters[name];
    if (bad === undefined) throw new Error(`say in badParameters what is malformed as ${name}`);
    if (bad === null) return [];
    const row = { ...good, why: `a malformed ${name}`, status: 400, field: name, shows: undefined, first: [] };
    if (place === 'path') return [{ ...row, path: { ...good.path, [name]: bad } }];
    const others = new URLSearchParams(good.query ?? '');
    others.set(name, bad);
    return [{ ...row, query: others.toString() }];
  });
}
