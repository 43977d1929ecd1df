import { compileCheck } from '../../src/model/validation.ts';
import type { Answer } from './apiServer.ts';

/** A parameter of an operation. */
export interface OpenapiParameter {
  readonly in: string;
  readonly name: string;
  readonly schema?: object;
}

/** As much of an operation as is read here. */
export interface OpenapiOperation {
  readonly parameters?: readonly OpenapiParameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Record<string, { schema?: object }> };
  readonly description?: string;
  /** Schemes by name; the caller satisfies all of one of these. */
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly responses: Record<string, { content?: Record<string, { schema?: object }> }>;
}

/** As much of an OpenAPI document as is read here. */
export interface OpenapiDocument {
  readonly components: { readonly schemas: Record<string, object> };
  readonly paths: Record<string, Record<string, OpenapiOperation>>;
}

/** Answers that are the framework's for any path, and in the document's description rather than in every operation. */
const everywhere = new Set([404, 405]);

/**
 * Makes a check that an answer is one the OpenAPI document describes: status, media type, and a body that the schema
 * accepts. Throws where it is not.
 */
export function openapiConformance(document: OpenapiDocument): (method: string, path: string, answer: Answer) => void {
  const { schemas } = document.components;
  const paths = Object.entries(document.paths).map(
    ([path, operations]) =>
      [new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{[^}]+\}/g, '[^/]*')}/?$`), operations] as const,
  );
  /** Compiled once: a test may make thousands of calls. */
  const checks = new Map<object, ReturnType<typeof compileCheck>>();
  return (method, path, answer) => {
    const plain = path.split('?', 1)[0] ?? '';
    const operation = paths.find(([pattern]) => pattern.test(plain))?.[1][method.toLowerCase()];
    if (operation === undefined || method === 'HEAD') return;
    const described = operation.responses[answer.status];
    if (described === undefined) {
      if (everywhere.has(answer.status)) return;
      throw new Error(`${method} ${plain}: ${answer.status} is not in the OpenAPI document: ${answer.text}`);
    }
    if (described.content === undefined) {
      if (answer.text !== '') throw new Error(`${method} ${plain}: ${answer.status} is described without a body`);
      return;
    }
    const type = answer.headers['content-type']?.split(';', 1)[0] ?? '';
    const media = described.content[type];
    if (media === undefined) throw new Error(`${method} ${plain}: ${answer.status} is not described as ${type}`);
    if (media.schema === undefined || Object.keys(media.schema).length === 0) return;
    const value = type === 'application/json' ? answer.json() : answer.text;
    const check = checks.get(media.schema) ?? compileCheck(inline(media.schema, schemas) as never);
    checks.set(media.schema, check);
    const checked = check(value);
    if (!checked.ok)
      throw new Error(`${method} ${plain}: ${answer.text} is not as described: ${JSON.stringify(checked.problems)}`);
  };
}

/** A schema with what it refers to in its place. */
export function inline(schema: unknown, schemas: Record<string, object>): unknown {
  if (Array.isArray(schema)) return schema.map((member) => inline(member, schemas));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { $ref } = schema as { $ref?: string };
  if ($ref !== undefined) return inline(schemas[$ref.replace('#/components/schemas/', '')], schemas);
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, inline(value, schemas)]));
}
