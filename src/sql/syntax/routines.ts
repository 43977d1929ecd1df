import { expression, valueExpression } from './expressions.ts';
import { T } from './kinds.ts';
import { type Parser, string } from './parser.ts';
import { properties } from './properties.ts';
import { nameAndType, type } from './types.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  AS, BEGIN, CALLED, CASE, COLON, COMMA, COMMENT, DECLARE, DEFAULT, DEFINER, DETERMINISTIC, DO, DOLLAR_STRING,
  ELSE, ELSEIF, END, EQ, FUNCTION, IF, INPUT, INVOKER, ITERATE, LANGUAGE, LEAVE, LOOP, LPAREN, NOT, NULL, ON,
  REPEAT, RETURN, RETURNS, RPAREN, SECURITY, SEMICOLON, SET, THEN, UNTIL, WHEN, WHILE, WITH,
} = T;

/** SQL routines: functions of CREATE FUNCTION and of WITH. */

/** `functionSpecification` of the grammar. */
export function functionSpecification(p: Parser): void {
  const start = p.pos;
  p.expect(FUNCTION);
  functionDeclaration(p);
  p.expect(RETURNS);
  type(p);
  while (characteristic(p));
  if (p.accept(AS)) {
    const token = p.pos;
    p.expect(DOLLAR_STRING);
    const first = p.text.charCodeAt((p.tokens.starts[token] as number) + 2);
    if (first !== 10 && first !== 13) {
      p.later(token, 'Function definition must start with a newline after opening quotes');
    }
    return;
  }
  const token = p.pos;
  const allowed = p.kind === RETURN || (p.kind === BEGIN && p.peek(1) !== COLON);
  controlStatement(p);
  if (!allowed) p.later(token, 'Function body must start with RETURN or BEGIN', start, token);
}

/** `name(parameters)`. */
export function functionDeclaration(p: Parser): void {
  p.qualifiedName();
  p.expect(LPAREN);
  if (p.kind !== RPAREN) {
    nameAndType(p);
    while (p.accept(COMMA)) nameAndType(p);
  }
  p.expect(RPAREN);
}

/** One `routineCharacteristic`; false if it is missing. */
function characteristic(p: Parser): boolean {
  switch (p.kind) {
    case LANGUAGE:
      if (p.peek(1) === COLON) return false;
      p.next();
      p.identifier();
      return true;
    case NOT:
      p.next();
      p.expect(DETERMINISTIC);
      return true;
    case DETERMINISTIC:
      if (p.peek(1) === COLON) return false;
      p.next();
      return true;
    case RETURNS:
      if (p.peek(1) === COLON) return false;
      p.next();
      p.expect(NULL);
      p.expect(ON);
      p.expect(NULL);
      p.expect(INPUT);
      return true;
    case CALLED:
      if (p.peek(1) === COLON) return false;
      p.next();
      p.expect(ON);
      p.expect(NULL);
      p.expect(INPUT);
      return true;
    case SECURITY:
      if (p.peek(1) === COLON) return false;
      p.next();
      p.expectEither(DEFINER, INVOKER);
      return true;
    case COMMENT:
      if (p.peek(1) === COLON) return false;
      p.next();
      string(p);
      return true;
    case WITH:
      p.next();
      properties(p);
      return true;
    default:
      return false;
  }
}

function controlStatement(p: Parser): void {
  p.enter();
  if (p.peek(1) === COLON && p.atIdentifier()) {
    p.identifier();
    p.next();
    if (p.kind !== LOOP && p.kind !== WHILE && p.kind !== REPEAT) throw p.mismatch();
  }
  switch (p.kind) {
    case RETURN:
      p.next();
      valueExpression(p);
      break;
    case SET:
      p.next();
      p.identifier();
      p.expect(EQ);
      expression(p);
      break;
    case CASE:
      p.next();
      if (p.kind !== WHEN) expression(p);
      if (p.kind !== WHEN) throw p.mismatch();
      while (p.accept(WHEN)) conditionAndList(p);
      elseClause(p);
      p.expect(END);
      p.expect(CASE);
      break;
    case IF:
      p.next();
      conditionAndList(p);
      while (p.accept(ELSEIF)) conditionAndList(p);
      elseClause(p);
      p.expect(END);
      p.expect(IF);
      break;
    case ITERATE:
    case LEAVE:
      p.next();
      p.identifier();
      break;
    case BEGIN:
      p.next();
      while (p.kind === DECLARE && p.peek(1) !== COLON) {
        variableDeclaration(p);
        p.expect(SEMICOLON);
      }
      while (atControlStatement(p)) {
        controlStatement(p);
        p.expect(SEMICOLON);
      }
      p.expect(END);
      break;
    case LOOP:
      p.next();
      statementList(p);
      p.expect(END);
      p.expect(LOOP);
      break;
    case WHILE:
      p.next();
      expression(p);
      p.expect(DO);
      statementList(p);
      p.expect(END);
      p.expect(WHILE);
      break;
    case REPEAT:
      p.next();
      statementList(p);
      p.expect(UNTIL);
      expression(p);
      p.expect(END);
      p.expect(REPEAT);
      break;
    default:
      throw p.atIdentifier() ? labelMissing(p) : p.mismatch();
  }
  p.leave();
}

function labelMissing(p: Parser): Error {
  p.identifier();
  return p.mismatch();
}

function conditionAndList(p: Parser): void {
  expression(p);
  p.expect(THEN);
  statementList(p);
}

function elseClause(p: Parser): void {
  if (p.accept(ELSE)) statementList(p);
}

function atControlStatement(p: Parser): boolean {
  if (p.kind === CASE) return true;
  return p.atIdentifier() && p.kind !== UNTIL;
}

function statementList(p: Parser): void {
  do {
    controlStatement(p);
    p.expect(SEMICOLON);
  } while (atListStatement(p));
}

/** True where another statement of the list follows: UNTIL and ELSEIF end it, unless they are labels. */
function atListStatement(p: Parser): boolean {
  if (p.kind === CASE) return true;
  if (!p.atIdentifier()) return false;
  if (p.kind === UNTIL || p.kind === ELSEIF) return p.peek(1) === COLON;
  return true;
}

function variableDeclaration(p: Parser): void {
  p.next();
  // `DECLARE a, b integer`: the last name is the one that a type follows.
  p.identifier();
  while (p.accept(COMMA)) p.identifier();
  type(p);
  if (p.accept(DEFAULT)) valueExpression(p);
}
