import type { Block, Expression, Statement } from '../language/ast.ts';
import { childrenOf, partsOf } from '../language/children.ts';
import { isName, literalText } from './requestExpressions.ts';

/** The only key of `result` with an effect. */
export const GROUP_KEY = 'routingGroup';

/** Literal keys that a text puts into `result` without effect, with their positions. */
export function unknownResultKeys(block: Block): readonly { readonly message: string; readonly offset: number }[] {
  const warnings: { message: string; offset: number }[] = [];
  visitPuts(block, ({ key, offset }) => {
    if (key === null || key === GROUP_KEY) return;
    warnings.push({
      message: `result has no key ${key}: it has no effect; the group is ${GROUP_KEY}, and what later rules read belongs into state`,
      offset,
    });
  });
  return warnings.slice(0, MAX_WARNINGS);
}

/** Routing groups that a text names by a literal; computed names are known only at evaluation. */
export function literalGroups(block: Block): readonly string[] {
  const groups = new Set<string>();
  visitPuts(block, ({ key, value }) => {
    const group = key === GROUP_KEY && value !== null ? literalText(value) : null;
    if (group !== null && groups.size < MAX_GROUPS) groups.add(group);
  });
  return [...groups];
}

interface Put {
  /** Null for a computed key. */
  readonly key: string | null;
  readonly value: Expression | null;
  readonly offset: number;
}

function visitPuts(block: Block, onPut: (put: Put) => void): void {
  const visit = (expression: Expression): void => {
    for (const child of childrenOf(expression)) visit(child);
    if (expression.type !== 'call' || !isName(expression.target, 'result') || !PUTS.has(expression.name)) return;
    const [key, value = null] = expression.args;
    if (key !== undefined) onPut({ key: literalText(key), value, offset: key.offset });
  };
  const visitAll = (statements: readonly Statement[]): void => {
    for (const statement of statements) {
      if (statement.type === 'assign') {
        const { target, operator, value } = statement;
        onPut({ key: assignedKey(target), value: operator === '=' ? value : null, offset: target.offset });
      }
      const { expressions, statements: inner } = partsOf(statement);
      for (const expression of expressions) visit(expression);
      visitAll(inner);
    }
  };
  visitAll(block.statements);
}

const PUTS = new Set(['put', 'putIfAbsent', 'replace']);
const MAX_WARNINGS = 20;
const MAX_GROUPS = 100;

function assignedKey(target: Expression): string | null {
  if (target.type === 'property' && isName(target.target, 'result')) return target.name;
  return target.type === 'index' && isName(target.target, 'result') ? literalText(target.key) : null;
}
