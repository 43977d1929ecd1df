import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Problem } from './errors.ts';

export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** An error of TypeBox (JSON Schema output, the fields that are used here). */
interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
}

const MAX_PROBLEMS = 100;

/**
 * Compiles a schema into a check that returns mistakes as values: one problem per field, in the order of the schema,
 * with the field's path as users write it (`spec.healthCheck.interval`, `actions[0]`). No coercion, no defaults.
 * @param prefix prefix of every field's path, e.g. `spec`
 */
export function compileCheck<S extends TSchema>(schema: S, prefix = ''): (value: unknown) => Checked<Static<S>> {
  const compiled = Compile(schema);
  return (value) => {
    if (compiled.Check(value)) return { ok: true, value: value as Static<S> };
    const byField = new Map<string, string>();
    const errors = compiled.Errors(value) as readonly SchemaError[];
    for (const [field, choices] of choicesByField(errors, prefix)) byField.set(field, `must be one of ${choices}`);
    for (const error of errors) {
      if (byField.size >= MAX_PROBLEMS) break;
      for (const problem of describe(error, value, prefix)) {
        if (!byField.has(problem.field)) byField.set(problem.field, problem.message);
      }
    }
    return { ok: false, problems: [...byField].slice(0, MAX_PROBLEMS).map(([field, message]) => ({ field, message })) };
  };
}

/** Merges the errors of a union of literals to the list of allowed values. */
function choicesByField(errors: readonly SchemaError[], prefix: string): ReadonlyMap<string, string> {
  const choices = Map.groupBy(
    errors.filter((error) => error.keyword === 'const'),
    (error) => error.instancePath,
  );
  return new Map(
    [...choices]
      .filter(([, consts]) => consts.length > 1)
      .map(([pointer, consts]) => [
        fieldPath(prefix, pointer.split('/').slice(1).map(unescapePointer)),
        consts.map((error) => JSON.stringify(error.params.allowedValue)).join(', '),
      ]),
  );
}

function describe(error: SchemaError, value: unknown, prefix: string): readonly Problem[] {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer);
  const field = fieldPath(prefix, path);
  const within = (names: unknown) => (names as readonly string[]).map((name) => fieldPath(prefix, [...path, name]));
  switch (error.keyword) {
    case 'required':
      return within(error.params.requiredProperties).map((name) => ({ field: name, message: 'is required' }));
    case 'additionalProperties':
      return within(error.params.additionalProperties).map((name) => ({
        field: name,
        message: 'is not a known field',
      }));
    case 'boolean':
      // The schema `false` of an additional property: reported as additionalProperties as well.
      return [];
    default:
      return [{ field, message: sentence(error, at(value, path)) }];
  }
}

function sentence(error: SchemaError, value: unknown): string {
  const { params } = error;
  switch (error.keyword) {
    case 'type':
      return `must be ${typeName(params.type)}, not ${kindOf(value)}`;
    case 'minLength':
      return params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} characters`;
    case 'maxLength':
      return `must have at most ${params.limit} characters`;
    case 'minimum':
      return `must be at least ${params.limit}`;
    case 'maximum':
      return `must be at most ${params.limit}`;
    case 'minItems':
      return `must have at least ${params.limit} entries`;
    case 'maxItems':
      return `must have at most ${params.limit} entries`;
    case 'pattern':
      return `must match ${params.pattern}`;
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case 'enum':
      return `must be one of ${(params.allowedValues as readonly unknown[]).map((v) => JSON.stringify(v)).join(', ')}`;
    case 'anyOf':
      return 'has none of the allowed forms';
    default:
      return `breaks the rule ${error.keyword}`;
  }
}

function typeName(type: unknown): string {
  switch (type) {
    case 'string':
      return 'a text';
    case 'boolean':
      return 'true or false';
    case 'integer':
      return 'a whole number';
    case 'number':
      return 'a number';
    case 'array':
      return 'a list';
    case 'object':
      return 'an object';
    default:
      return String(type);
  }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'a text';
  if (typeof value === 'object') return 'an object';
  return String(value);
}

function at(value: unknown, path: readonly string[]): unknown {
  let current = value;
  for (const key of path) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = (current as Record<string, unknown>)[key];
  }
  return current;
}

function fieldPath(prefix: string, path: readonly string[]): string {
  let text = prefix;
  for (const key of path) {
    if (/^\d+$/.test(key)) text += `[${key}]`;
    else text += text === '' ? key : `.${key}`;
  }
  return text;
}

function unescapePointer(token: string): string {
  return token.replaceAll('~1', '/').replaceAll('~0', '~');
}
