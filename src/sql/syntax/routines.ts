import { expression, valueExpression } from './expressions.ts';
import { T } from './kinds.ts';
import { string } from './literals.ts';
import type { Parser } from './parser.ts';
import { properties } from './properties.ts';
import { nameAndType, type } from './types.ts';

/** SQL routines: functions of CREATE FUNCTION and of WITH. */

/** `functionSpecification` of the grammar. */
export function functionSpecification(p: Parser): void {
  p.expect(T.FUNCTION);
  functionDeclaration(p);
  p.expect(T.RETURNS);
  type(p);
  while (characteristic(p));
  if (p.accept(T.AS)) {
    const token = p.pos;
    p.expect(T.DOLLAR_STRING);
    const first = p.text.charCodeAt((p.tokens.starts[token] as number) + 2);
    if (first !== 10 && first !== 13) {
      p.later(token, 'Function definition must start with a newline after opening quotes');
    }
    return;
  }
  const token = p.pos;
  const allowed = p.kind === T.RETURN || (p.kind === T.BEGIN && p.peek(1) !== T.COLON);
  controlStatement(p);
  if (!allowed) p.later(token, 'Function body must start with RETURN or BEGIN');
}

/** `name(parameters)`. */
export function functionDeclaration(p: Parser): void {
  p.qualifiedName();
  p.expect(T.LPAREN);
  if (p.kind !== T.RPAREN) {
    nameAndType(p);
    while (p.accept(T.COMMA)) nameAndType(p);
  }
  p.expect(T.RPAREN);
}

/** One `routineCharacteristic`; false when there is none. */
function characteristic(p: Parser): boolean {
  switch (p.kind) {
    case T.LANGUAGE:
      if (p.peek(1) === T.COLON) return false;
      p.next();
      p.identifier();
      return true;
    case T.NOT:
      p.next();
      p.expect(T.DETERMINISTIC);
      return true;
    case T.DETERMINISTIC:
      if (p.peek(1) === T.COLON) return false;
      p.next();
      return true;
    case T.RETURNS:
      if (p.peek(1) === T.COLON) return false;
      p.next();
      p.expect(T.NULL);
      p.expect(T.ON);
      p.expect(T.NULL);
      p.expect(T.INPUT);
      return true;
    case T.CALLED:
      if (p.peek(1) === T.COLON) return false;
      p.next();
      p.expect(T.ON);
      p.expect(T.NULL);
      p.expect(T.INPUT);
      return true;
    case T.SECURITY:
      if (p.peek(1) === T.COLON) return false;
      p.next();
      p.expectEither(T.DEFINER, T.INVOKER);
      return true;
    case T.COMMENT:
      if (p.peek(1) === T.COLON) return false;
      p.next();
      string(p);
      return true;
    case T.WITH:
      p.next();
      properties(p);
      return true;
    default:
      return false;
  }
}

function controlStatement(p: Parser): void {
  p.enter();
  if (p.peek(1) === T.COLON && p.atIdentifier()) {
    p.identifier();
    p.next();
    if (p.kind !== T.LOOP && p.kind !== T.WHILE && p.kind !== T.REPEAT) throw p.mismatch();
  }
  switch (p.kind) {
    case T.RETURN:
      p.next();
      valueExpression(p);
      break;
    case T.SET:
      p.next();
      p.identifier();
      p.expect(T.EQ);
      expression(p);
      break;
    case T.CASE:
      p.next();
      if (p.kind !== T.WHEN) expression(p);
      if (p.kind !== T.WHEN) throw p.mismatch();
      while (p.accept(T.WHEN)) conditionAndList(p);
      elseClause(p);
      p.expect(T.END);
      p.expect(T.CASE);
      break;
    case T.IF:
      p.next();
      conditionAndList(p);
      while (p.accept(T.ELSEIF)) conditionAndList(p);
      elseClause(p);
      p.expect(T.END);
      p.expect(T.IF);
      break;
    case T.ITERATE:
    case T.LEAVE:
      p.next();
      p.identifier();
      break;
    case T.BEGIN:
      p.next();
      while (p.kind === T.DECLARE && p.peek(1) !== T.COLON) {
        variableDeclaration(p);
        p.expect(T.SEMICOLON);
      }
      while (atControlStatement(p)) {
        controlStatement(p);
        p.expect(T.SEMICOLON);
      }
      p.expect(T.END);
      break;
    case T.LOOP:
      p.next();
      statementList(p);
      p.expect(T.END);
      p.expect(T.LOOP);
      break;
    case T.WHILE:
      p.next();
      expression(p);
      p.expect(T.DO);
      statementList(p);
      p.expect(T.END);
      p.expect(T.WHILE);
      break;
    case T.REPEAT:
      p.next();
      statementList(p);
      p.expect(T.UNTIL);
      expression(p);
      p.expect(T.END);
      p.expect(T.REPEAT);
      break;
    default:
      throw p.atIdentifier() ? labelMissing(p) : p.mismatch();
  }
  p.leave();
}

/** A name where a statement must start can only be a label. */
function labelMissing(p: Parser): Error {
  p.identifier();
  return p.mismatch();
}

function conditionAndList(p: Parser): void {
  expression(p);
  p.expect(T.THEN);
  statementList(p);
}

function elseClause(p: Parser): void {
  if (p.accept(T.ELSE)) statementList(p);
}

function atControlStatement(p: Parser): boolean {
  if (p.kind === T.CASE) return true;
  return p.atIdentifier() && p.kind !== T.UNTIL;
}

function statementList(p: Parser): void {
  do {
    controlStatement(p);
    p.expect(T.SEMICOLON);
  } while (atListStatement(p));
}

/** True where another statement of the list follows: UNTIL and ELSEIF end it, unless they are labels. */
function atListStatement(p: Parser): boolean {
  if (p.kind === T.CASE) return true;
  if (!p.atIdentifier()) return false;
  if (p.kind === T.UNTIL || p.kind === T.ELSEIF) return p.peek(1) === T.COLON;
  return true;
}

function variableDeclaration(p: Parser): void {
  p.next();
  // `DECLARE a, b integer`: the last name is the one that a type follows.
  p.identifier();
  while (p.accept(T.COMMA)) p.identifier();
  type(p);
  if (p.accept(T.DEFAULT)) valueExpression(p);
}
