import type { Block, Expression, Statement } from '../language/ast.ts';
import { childrenOf, partsOf } from '../language/children.ts';
import { isName, literalText } from './requestExpressions.ts';

/** The one key of `result` that the gateway reads. */
export const GROUP_KEY = 'routingGroup';

/** Literal keys that a text puts into `result` and that have no effect, with their places. */
export function unknownResultKeys(block: Block): readonly { readonly message: string; readonly offset: number }[] {
  const warnings: { message: string; offset: number }[] = [];
  const check = (key: string | null, offset: number): void => {
    if (key === null || key === GROUP_KEY) return;
    warnings.push({
      message: `result has no key ${key}: it has no effect; the group is ${GROUP_KEY}, and what later rules read belongs into state`,
      offset,
    });
  };
  const visit = (expression: Expression): void => {
    for (const child of childrenOf(expression)) visit(child);
    if (expression.type !== 'call' || !isName(expression.target, 'result') || !PUTS.has(expression.name)) return;
    const [key] = expression.args;
    if (key !== undefined) check(literalText(key), key.offset);
  };
  const visitAll = (statements: readonly Statement[]): void => {
    for (const statement of statements) {
      if (statement.type === 'assign') check(assignedKey(statement.target), statement.target.offset);
      const { expressions, statements: inner } = partsOf(statement);
      for (const expression of expressions) visit(expression);
      visitAll(inner);
    }
  };
  visitAll(block.statements);
  return warnings.slice(0, MOST_WARNINGS);
}

const PUTS = new Set(['put', 'putIfAbsent', 'replace']);
const MOST_WARNINGS = 20;

function assignedKey(target: Expression): string | null {
  if (target.type === 'property' && isName(target.target, 'result')) return target.name;
  return target.type === 'index' && isName(target.target, 'result') ? literalText(target.key) : null;
}
