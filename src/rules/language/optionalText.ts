import { methodsOfKind } from '../library/library.ts';
import { invoke } from '../library/methodTable.ts';
import { emptyOptional, JavaOptional, type Value } from '../values/value.ts';
import type { Expression } from './ast.ts';
import type { Code } from './expressionCompiler.ts';
import type { Scope } from './scope.ts';

/** Getters of the query that return a String here and an Optional in Trino Gateway. */
const OPTIONAL_TEXTS = new Set(['getDefaultCatalog', 'getDefaultSchema', 'defaultCatalog', 'defaultSchema']);
const TEXT_METHODS = new Set(['toString', 'hashCode']);

/**
 * True if an expression is a text that also acts as an Optional: the query's default catalog or schema, called directly
 * (docs/rules.md#default-catalog-and-schema).
 */
export function isOptionalText(expression: Expression, scope: Scope): boolean {
  if (expression.type !== 'call' && expression.type !== 'property') return false;
  const { target, name } = expression;
  return (
    OPTIONAL_TEXTS.has(name) &&
    target.type === 'name' &&
    scope.slot(target.name) === undefined &&
    target.name === scope.context.names.queryPropertiesObject
  );
}

/** A method of Optional called on such a text; null for methods that only the text has. */
export function optionalTextCall(name: string, text: Code, args: readonly Code[], offset: number): Code | null {
  const ofOptional = TEXT_METHODS.has(name) ? undefined : methodsOfKind('optional')?.get(name);
  if (ofOptional === undefined) return null;
  const ofText = methodsOfKind('string')?.get(name);
  return (e) => {
    const value = text(e);
    const values = args.map((code) => code(e));
    e.at = offset;
    // isEmpty() and equals() support both: a text is empty if it is "", and equals the text or its Optional.
    const isText = typeof value === 'string' && !(values[0] instanceof JavaOptional);
    return ofText !== undefined && isText
      ? invoke(ofText, e, value, values)
      : invoke(ofOptional, e, asOptional(value), values);
  };
}

/** `.present`, `.empty` and similar properties of such a text; null for other properties. */
export function optionalTextProperty(name: string, text: Code, offset: number): Code | null {
  const getter = methodsOfKind('optional')?.getter(name) ?? null;
  return getter === null ? null : optionalTextCall(getter.name, text, [], offset);
}

/** Such a text's value in a comparison: an Optional if the other value is one. */
export function comparedWith(text: Value, other: Value): Value {
  return other instanceof JavaOptional ? asOptional(text) : text;
}

function asOptional(text: Value): Value {
  return text === null ? emptyOptional : new JavaOptional(text);
}
