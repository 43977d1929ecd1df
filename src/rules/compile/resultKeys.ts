import type { ProductNames } from '../../model/names.ts';
import type { Block, Expression } from '../language/ast.ts';
import { expressionsIn, expressionsOf, statementsIn } from '../language/children.ts';
import { isName, literalText } from './requestExpressions.ts';

/** The only key of `result` with an effect. */
export const GROUP_KEY = 'routingGroup';

const PUTS = new Set(['put', 'putIfAbsent', 'replace']);
const READERS = new Set(['getHeader', 'getHeaders', 'getIntHeader', 'getDateHeader']);
const MAX_WARNINGS = 20;
const MAX_NAMES = 100;

/** Literal keys that a text puts into `result` without effect, with their positions. */
export function unknownResultKeys(block: Block): readonly { readonly message: string; readonly offset: number }[] {
  return putsIn(block)
    .filter(({ key }) => key !== null && key !== GROUP_KEY)
    .slice(0, MAX_WARNINGS)
    .map(({ key, offset }) => ({
      message: `result has no key ${key}: it has no effect; the group is ${GROUP_KEY}, and what later rules read belongs into state`,
      offset,
    }));
}

/** Routing groups that a text names by a literal; computed names are known only at evaluation. */
export function literalGroups(block: Block): readonly string[] {
  const groups = putsIn(block).flatMap(({ key, value }) => (key === GROUP_KEY ? (literalText(value) ?? []) : []));
  return [...new Set(groups)].slice(0, MAX_NAMES);
}

/** Headers that a text reads by a literal name, in lower case; computed names are known only at evaluation. */
export function literalHeaders(block: Block, names: ProductNames): readonly string[] {
  const headers = expressionsIn(block).flatMap((expression) => {
    if (expression.type !== 'call' || !READERS.has(expression.name) || !isName(expression.target, 'request')) return [];
    const name = literalText(expression.args[0]);
    return name === null ? [] : [names.ownHeader(name).toLowerCase()];
  });
  return [...new Set(headers)].slice(0, MAX_NAMES);
}

interface Put {
  /** Null for a computed key. */
  readonly key: string | null;
  /** Undefined if it is not the argument itself. */
  readonly value: Expression | undefined;
  readonly offset: number;
}

function putsIn(block: Block): readonly Put[] {
  return statementsIn(block).flatMap((statement) => {
    const puts: Put[] = [];
    if (statement.type === 'assign') {
      const { target, operator, value } = statement;
      puts.push({ key: assignedKey(target), value: operator === '=' ? value : undefined, offset: target.offset });
    }
    for (const expression of expressionsOf(statement)) {
      if (expression.type !== 'call' || !isName(expression.target, 'result') || !PUTS.has(expression.name)) continue;
      const [key, value] = expression.args;
      if (key !== undefined) puts.push({ key: literalText(key), value, offset: key.offset });
    }
    return puts;
  });
}

function assignedKey(target: Expression): string | null {
  if (target.type === 'property' && isName(target.target, 'result')) return target.name;
  return target.type === 'index' && isName(target.target, 'result') ? literalText(target.key) : null;
}
