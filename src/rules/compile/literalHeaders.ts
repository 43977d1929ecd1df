import type { ProductNames } from '../../model/names.ts';
import type { Block, Expression, Statement } from '../language/ast.ts';
import { childrenOf, partsOf } from '../language/children.ts';
import { isName, literalText } from './requestExpressions.ts';

const MAX_HEADERS = 100;

/** Headers that a text reads by a literal name, in lower case; computed names are known only at evaluation. */
export function literalHeaders(block: Block, names: ProductNames): readonly string[] {
  const headers = new Set<string>();
  const visit = (expression: Expression): void => {
    for (const child of childrenOf(expression)) visit(child);
    if (expression.type !== 'call' || !READERS.has(expression.name) || !isName(expression.target, 'request')) return;
    const [first] = expression.args;
    const name = first === undefined ? null : literalText(first);
    if (name !== null && headers.size < MAX_HEADERS) headers.add(names.ownHeader(name).toLowerCase());
  };
  const visitAll = (statements: readonly Statement[]): void => {
    for (const statement of statements) {
      const { expressions, statements: inner } = partsOf(statement);
      for (const expression of expressions) visit(expression);
      visitAll(inner);
    }
  };
  visitAll(block.statements);
  return [...headers];
}

const READERS = new Set(['getHeader', 'getHeaders', 'getIntHeader', 'getDateHeader']);
