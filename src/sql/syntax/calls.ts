import {
  argument,
  conditionTail,
  expression,
  Shape,
  startsExpression,
  valueExpression,
  valueTail,
} from './expressions.ts';
import { T } from './kinds.ts';
import { expressionOrQuery } from './parentheses.ts';
import { atString, type Parser, string } from './parser.ts';
import { over } from './primaries.ts';
import { atQueryStart, orderBy } from './queries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ALL, AND, AS, ASTERISK, BOTH, COMMA, COUNT, DISTINCT, DOT, DOUBLE_ARROW, EOF, ERROR, EXTRACT, FILTER, FINAL,
  FOR, FORMAT, FROM, GROUP, GROUPING, IDENTIFIER, IF, IGNORE, IN, LBRACKET, LEADING, LISTAGG, LPAREN, MINUS,
  NFC, NFD, NFKC, NFKD, NORMALIZE, NOT, NULLIF, NULLS, ON, OR, ORDER, OVER, OVERFLOW, OVERLAY, PLACING, PLUS,
  POSITION, QUOTED_IDENTIFIER, RESPECT, ROW, RPAREN, RUNNING, STRING, SUBSTRING, TRAILING, TRIM, TRUNCATE,
  UNIQUE, WHERE, WITH, WITHIN, WITHOUT,
} = T;

/** Calls of functions, and special forms with keywords inside their parentheses. */

/** Functions that the engine builds into its tree, with the number of arguments that it checks. */
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
    case IF:
      return 'if';
    case NULLIF:
      return 'nullif';
    case FORMAT:
      return 'format';
    case IDENTIFIER:
      if (length !== 3 && length !== 8) return '';
      break;
    case QUOTED_IDENTIFIER:
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
  const nameKind = nameParts === 1 ? (p.kinds[nameToken] as number) : IDENTIFIER;
  p.next();
  let count = 0;
  let distinct = false;
  let hasNamedArgument = false;
  if (p.kind === ASTERISK) p.next();
  else if (p.kind === RPAREN || p.kind === ORDER) {
    // No arguments.
  } else if (p.peek(1) === DOT && (p.peek(2) === ASTERISK || p.peek(2) === EOF) && p.atIdentifier()) {
    p.identifier();
    p.next();
    p.expect(ASTERISK);
    count = 1;
  } else {
    if (p.kind === DISTINCT || (p.kind === ALL && startsExpression(p.peek(1)))) {
      distinct = p.kind === DISTINCT;
      p.next();
    }
    switch (nameKind) {
      case POSITION:
      case SUBSTRING:
      case OVERLAY: {
        const outer = p.blameSelf();
        const worded = nameKind === POSITION ? positionBody(p) : wordedBody(p, nameKind === OVERLAY);
        p.unblame(outer);
        if (worded) return;
        count = 1;
        break;
      }
      case UNIQUE:
        if (!distinct && (atQueryStart(p.kind) || p.kind === LPAREN)) {
          const outer = p.kind === WITH ? p.blameSelf() : p.blame(p.pos - 1);
          const shape = expressionOrQuery(p);
          p.unblame(outer);
          if (shape === Shape.query && p.kind === RPAREN) {
            p.next();
            callRest(p, start, '', 1, false, false);
            return;
          }
          count = 1;
        }
        break;
      case ROW:
        {
          const outer = p.blameSelf();
          rowFields(p);
          p.unblame(outer);
        }
        count = 1;
        break;
      default:
    }
    if (count === 0 || p.accept(COMMA)) {
      do {
        if (argument(p)) hasNamedArgument = true;
        count += 1;
      } while (p.accept(COMMA));
    }
  }
  if (p.kind === ORDER) orderBy(p);
  p.expect(RPAREN);
  callRest(p, start, nameParts === 1 ? checkedName(p, nameToken) : '', count, distinct, hasNamedArgument);
}

/** FILTER, IGNORE NULLS and OVER after a call, and the engine's checks of the functions built into its tree. */
function callRest(p: Parser, start: number, name: string, count: number, distinct: boolean, named: boolean): void {
  let filtered = false;
  let nulls = false;
  let windowed = false;
  if (p.kind === FILTER && p.peek(1) === LPAREN && (p.peek(2) === WHERE || p.isBlamed())) {
    filter(p);
    filtered = true;
  } else if (p.kind === FILTER) p.open(p.pos);
  if ((p.kind === IGNORE || p.kind === RESPECT) && p.peek(1) === NULLS) {
    p.next();
    p.next();
    nulls = true;
    if (p.kind !== OVER) throw p.mismatch();
  }
  if (p.kind === OVER && (p.peek(1) === LPAREN || p.atIdentifier(1))) {
    over(p);
    windowed = true;
  } else if (p.kind === OVER) p.open(p.pos);
  if (name === '') return;
  const limits = checked.get(name);
  if (limits === undefined) return;
  if (count < limits[0] || count > limits[1]) p.later(start, limits[2]);
  else if (windowed) p.later(start, `OVER clause not valid for '${name}' function`);
  else if (distinct) p.later(start, `DISTINCT not valid for '${name}' function`);
  else if (nulls) p.later(start, `Null treatment clause not valid for '${name}' function`);
  else if (p.kinds[start] === RUNNING || p.kinds[start] === FINAL) {
    p.later(start, `Running or final semantics not valid for '${name}' function`);
  } else if (filtered) p.later(start, `FILTER not valid for '${name}' function`);
  else if (named) p.later(start, `Named arguments are not supported for '${name}' function`);
}

/** `FILTER (WHERE …)`. */
function filter(p: Parser): void {
  p.next();
  p.next();
  p.expect(WHERE);
  expression(p);
  p.expect(RPAREN);
}

/** `RUNNING f(…)`; false where the word is a column, whose alias or other follower comes next. */
export function processingCall(p: Parser): boolean {
  let offset = 2;
  while (p.kinds[p.pos + offset] === DOT && p.atIdentifier(offset + 1)) offset += 2;
  if (p.kinds[p.pos + offset] !== LPAREN && offset === 2) return false;
  const start = p.pos;
  p.next();
  const nameToken = p.pos;
  const parts = p.qualifiedName();
  if (p.kind !== LPAREN) throw p.mismatch();
  functionCall(p, start, nameToken, parts);
  return true;
}

/** `POSITION(a IN b)`. Returns false for a call of a function with that name, after its first argument was read. */
function positionBody(p: Parser): boolean {
  if (p.kind === NOT || (p.peek(1) === DOUBLE_ARROW && p.atIdentifier())) {
    argument(p);
    return false;
  }
  valueExpression(p);
  if (p.kind !== IN) {
    conditionTail(p);
    return false;
  }
  p.next();
  if (p.kind !== LPAREN) valueExpression(p);
  else {
    // A list or a query of a predicate, or a value in parentheses: the next token decides.
    p.next();
    if (expressionOrQuery(p) !== Shape.query) while (p.accept(COMMA)) expression(p);
    p.expect(RPAREN);
    if (p.kind === AND || p.kind === OR || p.kind === COMMA || p.kind === ORDER) {
      conditionTail(p);
      return false;
    }
    valueTail(p);
  }
  p.expect(RPAREN);
  return true;
}

/**
 * `SUBSTRING(a FROM b FOR c)`, `OVERLAY(a PLACING b FROM c FOR d)`. Returns false if the first argument of a call was
 * read.
 */
function wordedBody(p: Parser, placing: boolean): boolean {
  if (p.peek(1) === DOUBLE_ARROW && p.atIdentifier()) {
    argument(p);
    return false;
  }
  if (expression(p) === Shape.condition) return false;
  if (placing) {
    if (p.kind !== PLACING) return false;
    p.next();
    valueExpression(p);
    p.expect(FROM);
  } else {
    if (p.kind !== FROM) return false;
    p.next();
  }
  valueExpression(p);
  if (p.accept(FOR)) valueExpression(p);
  p.expect(RPAREN);
  return true;
}

/** Fields of `ROW(…)`, each with or without a name. */
function rowFields(p: Parser): void {
  do {
    argument(p);
    if (p.accept(AS)) p.identifier();
    else if (p.atIdentifier()) p.identifier();
  } while (p.accept(COMMA));
}

/** Primaries that start with a reserved word. */
export function namedForm(p: Parser): void {
  const start = p.pos;
  switch (p.kind) {
    case TRIM:
      p.next();
      trimBody(p, start);
      return;
    case EXTRACT:
      p.next();
      p.expect(LPAREN);
      extractField(p, start);
      p.expect(FROM);
      valueExpression(p);
      p.expect(RPAREN);
      return;
    case NORMALIZE:
      p.next();
      p.expect(LPAREN);
      valueExpression(p);
      if (p.accept(COMMA)) {
        if (p.kind === NFC || p.kind === NFD || p.kind === NFKC || p.kind === NFKD) p.next();
        else throw p.mismatch();
      }
      p.expect(RPAREN);
      return;
    case GROUPING:
      p.next();
      p.expect(LPAREN);
      if (p.kind === RPAREN) p.later(start, 'grouping operation columns cannot be empty');
      else {
        p.qualifiedName();
        while (p.accept(COMMA)) p.qualifiedName();
      }
      p.expect(RPAREN);
      return;
    case LISTAGG:
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
  p.expect(LPAREN);
  if (p.accept(FROM)) {
    valueExpression(p);
    p.expect(RPAREN);
    p.later(start, "The 'trim' function must have specification, char or both arguments when it takes FROM", start);
    return;
  }
  const next = p.peek(1);
  if ((p.kind === LEADING || p.kind === TRAILING || p.kind === BOTH) && (next === FROM || startsExpression(next))) {
    p.next();
    if (p.kind !== FROM) {
      valueExpression(p);
      // `trim(both (x))` and `trim(both 'x')`: the word was a name after all.
      if (
        p.kind !== FROM &&
        (next === LPAREN || next === STRING || next === MINUS || next === PLUS || next === LBRACKET)
      ) {
        if (p.accept(COMMA)) valueExpression(p);
        p.expect(RPAREN);
        return;
      }
    }
    p.expect(FROM);
    valueExpression(p);
  } else {
    valueExpression(p);
    if (p.kind === FROM || p.kind === COMMA) {
      p.next();
      valueExpression(p);
    }
  }
  p.expect(RPAREN);
}

function listagg(p: Parser, start: number): void {
  p.next();
  p.expect(LPAREN);
  if (p.kind === DISTINCT || (p.kind === ALL && startsExpression(p.peek(1)))) p.next();
  expression(p);
  if (p.accept(COMMA)) string(p);
  if (p.accept(ON)) {
    p.expect(OVERFLOW);
    if (!p.accept(ERROR)) {
      p.expect(TRUNCATE);
      if (atString(p)) string(p);
      p.expectEither(WITH, WITHOUT);
      p.expect(COUNT);
    }
  }
  p.expect(RPAREN);
  p.expect(WITHIN);
  p.expect(GROUP);
  p.expect(LPAREN);
  orderBy(p);
  p.expect(RPAREN);
  callRest(p, start, '', 1, false, false);
}
