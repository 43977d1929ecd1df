import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { DURATION_FORM } from './durationField.ts';
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
    case 'boolean': // The schema `false` of an additional property: reported as additionalProperties as well.
    case 'propertyNames': // Each wrong name is reported as well.
      return [];
    default:
      return [
        {
          field,
          message: sentences[error.keyword]?.(error.params, at(value, path)) ?? `breaks the rule ${error.keyword}`,
        },
      ];
  }
}

type Params = SchemaError['params'];

const json = (values: unknown) => (values as readonly unknown[]).map((value) => JSON.stringify(value)).join(', ');

/** Predicates by keyword. */
const sentences: Readonly<Record<string, (params: Params, value: unknown) => string>> = {
  type: ({ type }, value) => `must be ${typeNames[String(type)] ?? type}, not ${kindOf(value)}`,
  minLength: ({ limit }) => (limit === 1 ? 'must not be empty' : `must have at least ${limit} characters`),
  maxLength: ({ limit }) => `must have at most ${limit} characters`,
  minimum: ({ limit }) => `must be at least ${limit}`,
  maximum: ({ limit }) => `must be at most ${limit}`,
  minItems: ({ limit }) => `must have at least ${limit} entries`,
  maxItems: ({ limit }) => `must have at most ${limit} entries`,
  pattern: ({ pattern }) => forms[String(pattern)] ?? `must match ${pattern}`,
  const: ({ allowedValue }) => `must be ${JSON.stringify(allowedValue)}`,
  enum: ({ allowedValues }) => `must be one of ${json(allowedValues)}`,
  anyOf: () => 'has none of the allowed forms',
};

const forms: Readonly<Record<string, string>> = {
  [DURATION_FORM]: 'must be a duration such as 30s: a number, and ms, s, m or h',
};

const typeNames: Readonly<Record<string, string>> = {
  string: 'a text',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  array: 'a list',
  object: 'an object',
};

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
