import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import type { Problem } from './errors.ts';

/** Says what is wrong with a value, with the path of each field. */
export type Checker = (value: unknown) => readonly Problem[];

/**
 * Makes a checker of a schema. One problem a field; the messages name what is allowed.
 * @param root path before each field, e.g. `spec`
 */
export function schemaChecker(schema: TSchema, root: string): Checker {
  const compiled = Compile(schema);
  return (value) => {
    if (compiled.Check(value)) return [];
    const problems = new Map<string, string>();
    for (const problem of compiled.Errors(value).flatMap((error) => problemsOf(error, schema, root))) {
      // The first message of a field is about its kind; later ones follow from it.
      if (!problems.has(problem.field)) problems.set(problem.field, problem.message);
    }
    return [...problems].map(([field, message]) => ({ field, message }));
  };
}

function problemsOf(error: TLocalizedValidationError, schema: TSchema, root: string): readonly Problem[] {
  const field = fieldPath(root, error.instancePath);
  switch (error.keyword) {
    case 'required':
      return error.params.requiredProperties.map((name) => ({ field: `${field}.${name}`, message: 'is required' }));
    case 'additionalProperties':
      return error.params.additionalProperties.map((name) => ({
        field: `${field}.${name}`,
        message: 'is not a known field; correct its name or remove it',
      }));
    case 'boolean':
      return [];
    case 'const':
      return [{ field, message: `must be one of ${choicesAt(schema, error.schemaPath)}` }];
    case 'minLength':
      return [
        {
          field,
          message: error.params.limit === 1 ? 'must not be empty' : `must have at least ${error.params.limit} characters`,
        },
      ];
    case 'maxLength':
      return [{ field, message: `must have at most ${error.params.limit} characters` }];
    case 'minimum':
    case 'maximum':
      return [{ field, message: `must be ${error.params.comparison} ${error.params.limit}` }];
    case 'pattern':
      return [{ field, message: `must have the form ${String(error.params.pattern)}` }];
    case 'anyOf':
      return [];
    default:
      return [{ field, message: error.message }];
  }
}

/** `/healthCheck/type` below `spec` is `spec.healthCheck.type`; list elements are `[0]`. */
function fieldPath(root: string, pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : `${path}.${part}`), root);
}

/** The literals of the union that a schema path such as `#/properties/type/anyOf/0` points into. */
function choicesAt(schema: TSchema, schemaPath: string): string {
  const steps = schemaPath.split('/').slice(1);
  const union = steps.slice(0, steps.lastIndexOf('anyOf') + 1);
  let node: unknown = schema;
  for (const step of union) node = (node as Readonly<Record<string, unknown>> | undefined)?.[step];
  return Array.isArray(node)
    ? node.map((choice: { const?: unknown }) => String(choice.const)).join(', ')
    : 'the documented values';
}
