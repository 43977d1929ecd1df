import type { ProductNames } from '../../model/names.ts';
import { headerName, headerSource, isList, type ListSource } from '../decide/conditionIndex.ts';
import type { Expression } from '../language/ast.ts';
import type { MethodTable } from '../library/methodTable.ts';
import { queryMethods, requestMethods, userMethods } from '../requestObjects.ts';

/** Methods of the objects with values of a request, by the name of the object. */
export function objectTables(names: ProductNames): ReadonlyMap<string, MethodTable> {
  return new Map([
    ['request', requestMethods],
    [names.requestUserObject, userMethods],
    [names.queryPropertiesObject, queryMethods],
  ]);
}

export function literalText(expression: Expression | undefined): string | null {
  return expression?.type === 'literal' && typeof expression.value === 'string' ? expression.value : null;
}

export function isName(expression: Expression, name: string): boolean {
  return expression.type === 'name' && expression.name === name;
}

/** Returns the source of the value that a member of request, user or query reads; null for other expressions. */
export function requestSource(expression: Expression, names: ProductNames): string | null {
  if (expression.type !== 'property' && expression.type !== 'call') return null;
  const { target, name } = expression;
  const table = target.type === 'name' ? objectTables(names).get(target.name) : undefined;
  const overloads = expression.type === 'property' ? table?.getter(name) : table?.get(name);
  const dependsOn = overloads?.methods[0]?.dependsOn;
  if (typeof dependsOn === 'object') return dependsOn.reads;
  const header = dependsOn === 'header' && expression.type === 'call' ? literalText(expression.args[0]) : null;
  return header === null ? null : headerSource(header, names);
}

/** Returns the source of a getter: without arguments, but for the name of a header. */
function getterSource(expression: Expression, names: ProductNames): string | null {
  const source = requestSource(expression, names);
  if (source === null || (expression.type === 'property' && expression.safe)) return null;
  const expected = headerName(source) === null ? 0 : 1;
  return expression.type !== 'call' || (expression.args.length === expected && !expression.safe) ? source : null;
}

/** True for an expression that returns the Optional of the user. */
export function isUser(expression: Expression, names: ProductNames): boolean {
  return getterSource(expression, names) === 'user';
}

/** Returns the source of an expression that returns one text of the request or null. */
export function textSource(expression: Expression, names: ProductNames): string | null {
  const source = getterSource(expression, names);
  return source === null || source === 'user' || isList(source) ? null : source;
}

/** Returns the source of an expression that returns a set of names of the query, or of the user's groups. */
export function listSource(expression: Expression, names: ProductNames): ListSource | null {
  const source = getterSource(expression, names);
  return source === null || source === 'table' || !isList(source) ? null : source;
}
