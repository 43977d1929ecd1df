import type { ProductNames } from '../../model/names.ts';
import type { Expression } from '../language/ast.ts';
import { headerSource, type ListSource } from './requestValues.ts';

const queryTexts: Readonly<Record<string, string>> = {
  getQueryType: 'queryType',
  getResourceGroupQueryType: 'resourceGroupQueryType',
  getDefaultCatalog: 'defaultCatalog',
  getDefaultSchema: 'defaultSchema',
};

const queryLists: Readonly<Record<string, ListSource>> = {
  getCatalogs: 'catalog',
  getSchemas: 'schema',
  getCatalogSchemas: 'catalogSchema',
};

export function literalText(expression: Expression): string | null {
  return expression.type === 'literal' && typeof expression.value === 'string' ? expression.value : null;
}

export function memberOf(expression: Expression, object: string): string | null {
  if (expression.type === 'call') {
    return expression.args.length === 0 && !expression.safe && isName(expression.target, object)
      ? expression.name
      : null;
  }
  if (expression.type !== 'property' || expression.safe || !isName(expression.target, object)) return null;
  const { name } = expression;
  return name.startsWith('get') ? name : `get${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}

export function isName(expression: Expression, name: string): boolean {
  return expression.type === 'name' && expression.name === name;
}

/** Returns the source of an expression that returns one text of the request or null. */
export function textSource(expression: Expression, names: ProductNames): string | null {
  if (expression.type === 'call' && expression.name === 'getHeader' && isName(expression.target, 'request')) {
    const [arg] = expression.args;
    const name = expression.args.length === 1 && arg !== undefined ? literalText(arg) : null;
    return name === null ? null : headerSource(name, names);
  }
  const onRequest = memberOf(expression, 'request');
  if (onRequest === 'getMethod') return 'method';
  if (onRequest === 'getRequestURI') return 'path';
  const onQuery = memberOf(expression, names.queryPropertiesObject);
  return onQuery !== null && Object.hasOwn(queryTexts, onQuery) ? (queryTexts[onQuery] ?? null) : null;
}

/** Returns the source of an expression that returns a set of names of the query, or of the user's groups. */
export function listSource(expression: Expression, names: ProductNames): ListSource | null {
  if (memberOf(expression, names.requestUserObject) === 'getGroups') return 'group';
  const member = memberOf(expression, names.queryPropertiesObject);
  return member !== null && Object.hasOwn(queryLists, member) ? (queryLists[member] ?? null) : null;
}
