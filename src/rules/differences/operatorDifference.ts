import type { BinaryOperator } from '../language/ast.ts';
import type { ValueKind } from '../values/value.ts';
import { isNumberKind } from './staticKinds.ts';

/** Kinds that operators treat differently. */
type Operand = 'boolean' | 'number' | 'string' | 'char' | 'list' | 'set' | 'map' | 'optional';

const NAMES: Readonly<Record<Operand, string>> = {
  boolean: 'a boolean',
  number: 'a number',
  string: 'a string',
  char: 'a character',
  list: 'a list',
  set: 'a set',
  map: 'a map',
  optional: 'an Optional',
};

function operandOf(kind: ValueKind | null): Operand | null {
  if (isNumberKind(kind)) return 'number';
  return kind !== null && Object.hasOwn(NAMES, kind) ? (kind as Operand) : null;
}

const FAILS_THERE = 'Trino Gateway fails there';
const FAILS_HERE = 'here the rule fails';

/** Pairs as `left right`; pairs with a star are symmetric. */
function pairs(text: string): ReadonlySet<string> {
  return new Set(
    text.split(', ').flatMap((pair) => {
      const [left, right] = pair.replace('*', '').split(' ');
      return pair.endsWith('*') ? [`${left} ${right}`, `${right} ${left}`] : [`${left} ${right}`];
    }),
  );
}

/** `- * / %` that fail in Trino Gateway and return null here. */
const NULL_HERE = pairs(
  'number char*, boolean char*, char char, list list, list set*, set set, boolean list*, boolean set*, boolean map*, boolean optional*',
);
/** `==` and `!=` that fail in Trino Gateway; here the two are unequal. */
const UNEQUAL_HERE = pairs('boolean char*, boolean list*, boolean set*, boolean map*, boolean optional*');
/** `<`, `<=`, `>` and `>=` that compare booleans in Trino Gateway and fail here. */
const BOOLEANS_THERE = pairs('boolean boolean, boolean string*, boolean number*');
/** `<`, `<=`, `>` and `>=` that fail in Trino Gateway and are false here. */
const FALSE_HERE = pairs('number list, number set, number map, number optional');
/** `<`, `<=`, `>` and `>=` that are false in Trino Gateway and fail here. */
const FALSE_THERE = pairs(
  'list string, list char, list map, list optional, set string, set char, set map, set optional, map string, map char, map list, map set, map map, map optional, optional string, optional char, optional list, optional set, optional map, optional optional',
);

/**
 * Describes a difference of a binary operator from Trino Gateway, with the text to write instead; null if both behave
 * alike, or if too little is known of the operands. The pairs are those of MVEL 2.5.2
 * (test/fixtures/routing-rules/operators.json).
 * @param left kind of the left operand; null: any
 */
export function operatorDifference(
  operator: BinaryOperator,
  left: ValueKind | null,
  right: ValueKind | null,
): string | null {
  const [a, b] = [operandOf(left), operandOf(right)];
  switch (operator) {
    case '+':
      return sumDifference(a, b);
    case '-':
    case '*':
    case '/':
    case '%':
      return arithmeticDifference(operator, a, b);
    case '==':
    case '!=':
      if (a === null || b === null || !UNEQUAL_HERE.has(`${a} ${b}`)) return null;
      return `${phrase(operator, a, b)}: ${FAILS_THERE}, here the two are never equal; compare values of one type`;
    case '<':
    case '<=':
    case '>':
    case '>=':
      return orderDifference(operator, a, b);
    default:
      return null;
  }
}

function phrase(operator: BinaryOperator, left: Operand | null, right: Operand | null): string {
  const name = (operand: Operand | null): string => (operand === null ? 'a value' : NAMES[operand]);
  return `${operator} between ${name(left)} and ${name(right)}`;
}

function sumDifference(left: Operand | null, right: Operand | null): string | null {
  if (left === 'set') {
    return `${phrase('+', left, right)}: Trino Gateway makes a list of the set's elements and what is added, here both become text; call add or addAll on a new ArrayList`;
  }
  const isCollection = (operand: Operand | null): boolean => operand === 'list' || operand === 'set';
  if (left === 'list' && (isCollection(right) || right === null)) {
    const when = right === null ? ', where that is a list or set' : '';
    return `${phrase('+', left, right)}: Trino Gateway makes one list of the elements of both${when}, here the right one becomes a single element; call addAll on a new ArrayList`;
  }
  if (left === null && isCollection(right)) {
    return `${phrase('+', left, right)}: where the left one is a list or set, Trino Gateway makes one list of the elements of both, and this gateway does not; call addAll on a new ArrayList`;
  }
  const instead = 'put "" + before the character';
  if ((left === 'char' && right === 'number') || (left === 'number' && right === 'char')) {
    return `${phrase('+', left, right)}: ${FAILS_THERE}, here the result is text; ${instead}`;
  }
  if ((left === 'char' && right === null) || (left === null && right === 'char')) {
    return `${phrase('+', left, right)}: where that is a number, ${FAILS_THERE}, and here the result is text; ${instead}`;
  }
  return null;
}

function arithmeticDifference(operator: BinaryOperator, left: Operand | null, right: Operand | null): string | null {
  const isNull = NULL_HERE.has(`${left} ${right}`);
  const mayBeNull = (left === 'char' && right === null) || (left === null && right === 'char');
  if (!isNull && !mayBeNull) return null;
  const verdict = isNull
    ? `${FAILS_THERE}, here the result is null`
    : 'where that is a number or character, Trino Gateway fails there, and here the result is null';
  return `${phrase(operator, left, right)}: ${verdict}; calculate with numbers, as Integer.parseInt("" + x) gives them`;
}

function orderDifference(operator: BinaryOperator, left: Operand | null, right: Operand | null): string | null {
  const pair = `${left} ${right}`;
  if (BOOLEANS_THERE.has(pair)) {
    return `${phrase(operator, left, right)}: Trino Gateway takes false as less than true, ${FAILS_HERE}; compare booleans with == and !=`;
  }
  if ((left === 'boolean' && right === null) || (left === null && right === 'boolean')) {
    return `${phrase(operator, left, right)}: Trino Gateway takes false as less than true, here the rule fails unless the value is null; compare booleans with == and !=`;
  }
  if (FALSE_HERE.has(pair))
    return `${phrase(operator, left, right)}: ${FAILS_THERE}, here it is false; compare numbers`;
  if (FALSE_THERE.has(pair)) {
    return `${phrase(operator, left, right)}: it is false in Trino Gateway, ${FAILS_HERE}; compare numbers or texts`;
  }
  return null;
}
