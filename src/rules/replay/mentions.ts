import type { Block, Expression, Statement } from '../language/ast.ts';
import { childrenOf, partsOf } from '../language/children.ts';

export function mentions({ statements }: Block, names: readonly string[]): boolean {
  const inExpression = (expression: Expression): boolean =>
    (expression.type === 'name' && names.includes(expression.name)) || childrenOf(expression).some(inExpression);
  const inStatement = (statement: Statement): boolean => {
    const { expressions, statements: inner } = partsOf(statement);
    return expressions.some(inExpression) || inner.some(inStatement);
  };
  return statements.some(inStatement);
}
