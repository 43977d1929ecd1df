import type { Block, Expression } from '../language/ast.ts';
import { statementsIn } from '../language/children.ts';

/** Returns the position of a value that makes a condition neither true nor false for every request, or null. */
export function neverBoolean({ statements }: Block): number | null {
  const last = statements.at(-1);
  const before = statementsIn({ statements: statements.slice(0, -1) });
  if (last === undefined || before.some(({ type }) => type === 'return')) return null;
  switch (last.type) {
    case 'expression':
      return canBeBoolean(last.expression) ? null : last.offset;
    case 'assign':
      return last.operator === '=' && canBeBoolean(last.value) ? null : last.offset;
    case 'return':
      return last.value === null || !canBeBoolean(last.value) ? last.offset : null;
    case 'increment':
      return last.offset;
    default:
      return null;
  }
}

function canBeBoolean(expression: Expression): boolean {
  switch (expression.type) {
    case 'literal':
      return typeof expression.value === 'boolean';
    case 'negate':
    case 'list':
    case 'map':
      return false;
    case 'ternary':
      return canBeBoolean(expression.yes) || canBeBoolean(expression.no);
    case 'binary':
      if (expression.operator === 'or') return canBeBoolean(expression.left) || canBeBoolean(expression.right);
      return !arithmetic.has(expression.operator);
    case 'call':
      // Getters of the request return texts, numbers, lists and null; getAttribute returns anything.
      return !(
        expression.target.type === 'name' &&
        expression.target.name === 'request' &&
        /^get(?!Attribute$)/.test(expression.name)
      );
    default:
      return true;
  }
}

const arithmetic: ReadonlySet<string> = new Set(['+', '-', '*', '/', '%']);
