import type { Block, Expression, Statement } from './ast.ts';

export function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.type) {
    case 'property':
      return [expression.target];
    case 'call':
      return [expression.target, ...expression.args];
    case 'index':
      return [expression.target, expression.key];
    case 'not':
    case 'negate':
      return [expression.operand];
    case 'binary':
      // The right side of `is` is a class.
      return expression.operator === 'is' ? [expression.left] : [expression.left, expression.right];
    case 'logical':
      return expression.operands;
    case 'ternary':
      return [expression.test, expression.yes, expression.no];
    case 'list':
      return expression.items;
    case 'map':
      return expression.entries.flatMap(({ key, value }) => [key, value]);
    case 'new':
      return expression.args;
    default:
      return [];
  }
}

export function partsOf(statement: Statement): {
  readonly expressions: readonly Expression[];
  readonly statements: readonly Statement[];
} {
  const present = <T>(...parts: readonly (T | null)[]): readonly T[] => parts.filter((part) => part !== null);
  const inside = (...blocks: readonly (Block | null)[]): readonly Statement[] =>
    present(...blocks).flatMap(({ statements }) => statements);
  switch (statement.type) {
    case 'expression':
      return { expressions: [statement.expression], statements: [] };
    case 'assign':
      return { expressions: [statement.target, statement.value], statements: [] };
    case 'declare':
    case 'return':
      return { expressions: present(statement.value), statements: [] };
    case 'if':
      return { expressions: [statement.test], statements: inside(statement.yes, statement.no) };
    case 'foreach':
      return { expressions: [statement.items], statements: inside(statement.body) };
    case 'for':
      return {
        expressions: present(statement.test),
        statements: [...present(statement.start, statement.update), ...inside(statement.body)],
      };
    case 'while':
      return { expressions: [statement.test], statements: inside(statement.body) };
    default:
      return { expressions: [], statements: [] };
  }
}

/** The statements of a block, each before those within it. */
export function statementsIn({ statements }: Block): readonly Statement[] {
  return statements.flatMap((statement) => [statement, ...statementsIn(partsOf(statement))]);
}

/** The expressions of a statement itself, each after those within it. */
export function expressionsOf(statement: Statement): readonly Expression[] {
  const all: Expression[] = [];
  const add = (expression: Expression): void => {
    for (const child of childrenOf(expression)) add(child);
    all.push(expression);
  };
  for (const expression of partsOf(statement).expressions) add(expression);
  return all;
}

/** All expressions of a block. */
export function expressionsIn(block: Block): readonly Expression[] {
  return statementsIn(block).flatMap(expressionsOf);
}
