import {
  argument,
  conditionTail,
  expression,
  expressionOrQuery,
  over,
  Shape,
  startsExpression,
  valueExpression,
  valueTail,
} from './expressions.ts';
import { T } from './kinds.ts';
import { atString, string } from './literals.ts';
import type { Parser } from './parser.ts';
import { atQueryStart, orderBy } from './queries.ts';

/** Calls of functions, and the forms that look like calls but have words inside their parentheses. */

/** Functions that the engine builds into its tree and checks there: how many arguments they take. */
const checked: ReadonlyMap<string, readonly [least: number, most: number, message: string]> = new Map([
  ['if', [2, 3, "Invalid number of arguments for 'if' function"]],
  ['nullif', [2, 2, "Invalid number of arguments for 'nullif' function"]],
  ['coalesce', [2, Number.POSITIVE_INFINITY, "The 'coalesce' function must have at least two arguments"]],
  ['try', [1, 1, "The 'try' function must have exactly one argument"]],
  ['format', [2, Number.POSITIVE_INFINITY, "The 'format' function must have at least two arguments"]],
]);

/** Name of the call if it is one of `checked`, else "". */
function checkedName(p: Parser, token: number): string {
  const length = (p.tokens.ends[token] as number) - (p.tokens.starts[token] as number);
  switch (p.kinds[token]) {
    case T.IF:
      return 'if';
    case T.NULLIF:
      return 'nullif';
    case T.FORMAT:
      return 'format';
    case T.IDENTIFIER:
      if (length !== 3 && length !== 8) return '';
      break;
    case T.QUOTED_IDENTIFIER:
      if (length > 10) return '';
      break;
    default:
      return '';
  }
  const name = p.identifierValue(token);
  return checked.has(name) ? name : '';
}

/** The rest of a call at its opening parenthesis. `start` is the token that the call starts with, RUNNING for instance. */
export function functionCall(p: Parser, start: number, nameToken: number, nameParts: number): void {
  const nameKind = nameParts === 1 ? (p.kinds[nameToken] as number) : T.IDENTIFIER;
  p.next();
  let count = 0;
  let distinct = false;
  let named = false;
  if (p.kind === T.ASTERISK) p.next();
  else if (p.kind === T.RPAREN || p.kind === T.ORDER) {
    // No arguments.
  } else if (p.peek(1) === T.DOT && p.peek(2) === T.ASTERISK && p.atIdentifier()) {
    p.identifier();
    p.next();
    p.next();
    count = 1;
  } else {
    if (p.kind === T.DISTINCT || (p.kind === T.ALL && startsExpression(p.peek(1)))) {
      distinct = p.kind === T.DISTINCT;
      p.next();
    }
    switch (nameKind) {
      case T.POSITION:
        if (positionBody(p)) return;
        count = 1;
        break;
      case T.SUBSTRING:
      case T.OVERLAY:
        if (wordedBody(p, nameKind === T.OVERLAY)) return;
        count = 1;
        break;
      case T.UNIQUE:
        if (!distinct && (atQueryStart(p.kind) || p.kind === T.LPAREN)) {
          if (expressionOrQuery(p) === Shape.query && p.kind === T.RPAREN) {
            p.next();
            callRest(p, start, '', 1, false, false);
            return;
          }
          count = 1;
        }
        break;
      case T.ROW:
        rowFields(p);
        count = 1;
        break;
      default:
    }
    if (count === 0 || p.accept(T.COMMA)) {
      do {
        if (argument(p)) named = true;
        count += 1;
      } while (p.accept(T.COMMA));
    }
  }
  if (p.kind === T.ORDER) orderBy(p);
  p.expect(T.RPAREN);
  callRest(p, start, nameParts === 1 ? checkedName(p, nameToken) : '', count, distinct, named);
}

/** FILTER, IGNORE NULLS and OVER after a call, and the engine's checks of the functions built into its tree. */
function callRest(p: Parser, start: number, name: string, count: number, distinct: boolean, named: boolean): void {
  let filtered = false;
  let nulls = false;
  let windowed = false;
  if (p.kind === T.FILTER && p.peek(1) === T.LPAREN) {
    filter(p);
    filtered = true;
  }
  if ((p.kind === T.IGNORE || p.kind === T.RESPECT) && p.peek(1) === T.NULLS) {
    p.next();
    p.next();
    nulls = true;
    if (p.kind !== T.OVER) throw p.mismatch();
  }
  if (p.kind === T.OVER && (p.peek(1) === T.LPAREN || p.atIdentifier(1))) {
    over(p);
    windowed = true;
  }
  if (name === '') return;
  const limits = checked.get(name);
  if (limits === undefined) return;
  if (count < limits[0] || count > limits[1]) p.later(start, limits[2]);
  else if (windowed) p.later(start, `OVER clause not valid for '${name}' function`);
  else if (distinct) p.later(start, `DISTINCT not valid for '${name}' function`);
  else if (nulls) p.later(start, `Null treatment clause not valid for '${name}' function`);
  else if (p.kinds[start] === T.RUNNING || p.kinds[start] === T.FINAL) {
    p.later(start, `Running or final semantics not valid for '${name}' function`);
  } else if (filtered) p.later(start, `FILTER not valid for '${name}' function`);
  else if (named) p.later(start, `Named arguments are not supported for '${name}' function`);
}

/** `FILTER (WHERE …)`. */
function filter(p: Parser): void {
  p.next();
  p.next();
  p.expect(T.WHERE);
  expression(p);
  p.expect(T.RPAREN);
}

/** `RUNNING f(…)`; false where the word is a column, whose alias or other follower comes next. */
export function processingCall(p: Parser): boolean {
  let offset = 2;
  while (p.kinds[p.pos + offset] === T.DOT && p.atIdentifier(offset + 1)) offset += 2;
  if (p.kinds[p.pos + offset] !== T.LPAREN && offset === 2) return false;
  const start = p.pos;
  p.next();
  const nameToken = p.pos;
  const parts = p.qualifiedName();
  if (p.kind !== T.LPAREN) throw p.mismatch();
  functionCall(p, start, nameToken, parts);
  return true;
}

/** `POSITION(a IN b)`; false where it is a call of a function of that name, whose first argument was read then. */
function positionBody(p: Parser): boolean {
  if (p.kind === T.NOT || (p.peek(1) === T.DOUBLE_ARROW && p.atIdentifier())) {
    argument(p);
    return false;
  }
  valueExpression(p);
  if (p.kind !== T.IN) {
    conditionTail(p);
    return false;
  }
  p.next();
  if (p.kind !== T.LPAREN) valueExpression(p);
  else {
    // A list or a query of a predicate, or a value in parentheses: what follows tells.
    p.next();
    if (expressionOrQuery(p) !== Shape.query) while (p.accept(T.COMMA)) expression(p);
    p.expect(T.RPAREN);
    if (p.kind === T.AND || p.kind === T.OR || p.kind === T.COMMA || p.kind === T.ORDER) {
      conditionTail(p);
      return false;
    }
    valueTail(p);
  }
  p.expect(T.RPAREN);
  return true;
}

/** `SUBSTRING(a FROM b FOR c)`, `OVERLAY(a PLACING b FROM c FOR d)`; false where the first argument of a call was read. */
function wordedBody(p: Parser, placing: boolean): boolean {
  if (p.peek(1) === T.DOUBLE_ARROW && p.atIdentifier()) {
    argument(p);
    return false;
  }
  if (expression(p) === Shape.condition) return false;
  if (placing) {
    if (p.kind !== T.PLACING) return false;
    p.next();
    valueExpression(p);
    p.expect(T.FROM);
  } else {
    if (p.kind !== T.FROM) return false;
    p.next();
  }
  valueExpression(p);
  if (p.accept(T.FOR)) valueExpression(p);
  p.expect(T.RPAREN);
  return true;
}

/** Fields of `ROW(…)`, each with or without a name. */
function rowFields(p: Parser): void {
  do {
    argument(p);
    if (p.accept(T.AS)) p.identifier();
    else if (p.atIdentifier()) p.identifier();
  } while (p.accept(T.COMMA));
}

/** Primaries that start with a reserved word of their own. */
export function namedForm(p: Parser): void {
  const start = p.pos;
  switch (p.kind) {
    case T.TRIM:
      p.next();
      trimBody(p, start);
      return;
    case T.EXTRACT:
      p.next();
      p.expect(T.LPAREN);
      extractField(p, start);
      p.expect(T.FROM);
      valueExpression(p);
      p.expect(T.RPAREN);
      return;
    case T.NORMALIZE:
      p.next();
      p.expect(T.LPAREN);
      valueExpression(p);
      if (p.accept(T.COMMA)) {
        if (p.kind === T.NFC || p.kind === T.NFD || p.kind === T.NFKC || p.kind === T.NFKD) p.next();
        else throw p.mismatch();
      }
      p.expect(T.RPAREN);
      return;
    case T.GROUPING:
      p.next();
      p.expect(T.LPAREN);
      if (p.kind === T.RPAREN) p.later(start, 'grouping operation columns cannot be empty');
      else {
        p.qualifiedName();
        while (p.accept(T.COMMA)) p.qualifiedName();
      }
      p.expect(T.RPAREN);
      return;
    case T.LISTAGG:
      listagg(p, start);
      return;
    default:
      throw p.mismatch();
  }
}

const extractFields = new Set(
  'YEAR QUARTER MONTH WEEK DAY DAY_OF_MONTH DAY_OF_WEEK DOW DAY_OF_YEAR DOY YEAR_OF_WEEK YOW HOUR MINUTE SECOND TIMEZONE_MINUTE TIMEZONE_HOUR'.split(
    ' ',
  ),
);

function extractField(p: Parser, start: number): void {
  const text = p.tokenText(p.pos);
  p.identifier();
  if (!extractFields.has(text.toUpperCase())) {
    p.later(start, `Invalid EXTRACT field ${text}, valid fields are: ${[...extractFields].join(', ')}`);
  }
}

function trimBody(p: Parser, start: number): void {
  p.expect(T.LPAREN);
  if (p.accept(T.FROM)) {
    valueExpression(p);
    p.expect(T.RPAREN);
    p.later(start, "The 'trim' function must have specification, char or both arguments when it takes FROM");
    return;
  }
  const next = p.peek(1);
  if (
    (p.kind === T.LEADING || p.kind === T.TRAILING || p.kind === T.BOTH) &&
    (next === T.FROM || startsExpression(next))
  ) {
    p.next();
    if (p.kind !== T.FROM) {
      valueExpression(p);
      // `trim(both (x))` and `trim(both 'x')`: the word was a name after all.
      if (
        p.kind !== T.FROM &&
        (next === T.LPAREN || next === T.STRING || next === T.MINUS || next === T.PLUS || next === T.LBRACKET)
      ) {
        if (p.accept(T.COMMA)) valueExpression(p);
        p.expect(T.RPAREN);
        return;
      }
    }
    p.expect(T.FROM);
    valueExpression(p);
  } else {
    valueExpression(p);
    if (p.kind === T.FROM || p.kind === T.COMMA) {
      p.next();
      valueExpression(p);
    }
  }
  p.expect(T.RPAREN);
}

function listagg(p: Parser, start: number): void {
  p.next();
  p.expect(T.LPAREN);
  if (p.kind === T.DISTINCT || (p.kind === T.ALL && startsExpression(p.peek(1)))) p.next();
  expression(p);
  if (p.accept(T.COMMA)) string(p);
  if (p.accept(T.ON)) {
    p.expect(T.OVERFLOW);
    if (!p.accept(T.ERROR)) {
      p.expect(T.TRUNCATE);
      if (atString(p)) string(p);
      p.expectEither(T.WITH, T.WITHOUT);
      p.expect(T.COUNT);
    }
  }
  p.expect(T.RPAREN);
  p.expect(T.WITHIN);
  p.expect(T.GROUP);
  p.expect(T.LPAREN);
  orderBy(p);
  p.expect(T.RPAREN);
  callRest(p, start, '', 1, false, false);
}
