import { T } from './kinds.ts';
import { intervalQualifier, isIntervalField } from './literals.ts';
import type { Parser } from './parser.ts';

/** `type` of the grammar. */
export function type(p: Parser): void {
  p.enter();
  baseType(p);
  while (p.kind === T.ARRAY) {
    const token = p.pos;
    p.next();
    if (p.accept(T.LBRACKET)) {
      p.expect(T.INTEGER_VALUE);
      p.expect(T.RBRACKET);
      p.later(token, 'Explicit array size not supported');
    }
  }
  p.leave();
}

function baseType(p: Parser): void {
  const next = p.peek(1);
  switch (p.kind) {
    case T.ROW:
      if (next === T.LPAREN) {
        p.next();
        p.next();
        nameAndType(p);
        while (p.accept(T.COMMA)) nameAndType(p);
        p.expect(T.RPAREN);
        return;
      }
      break;
    case T.INTERVAL:
      if (isIntervalField(next)) {
        p.next();
        intervalQualifier(p);
        return;
      }
      break;
    case T.TIMESTAMP:
    case T.TIME:
      p.next();
      if (p.accept(T.LPAREN)) {
        typeParameter(p);
        // The generic form takes several parameters, the forms of times one.
        if (p.kind === T.COMMA) {
          while (p.accept(T.COMMA)) typeParameter(p);
          p.expect(T.RPAREN);
          return;
        }
        p.expect(T.RPAREN);
      }
      if ((p.kind === T.WITH || p.kind === T.WITHOUT) && p.peek(1) === T.TIME) {
        p.next();
        p.next();
        p.expect(T.ZONE);
      }
      return;
    case T.DOUBLE:
      if (next === T.PRECISION) {
        p.next();
        p.next();
        return;
      }
      break;
    case T.ARRAY:
      if (next === T.LT) {
        p.next();
        p.next();
        type(p);
        p.expect(T.GT);
        return;
      }
      break;
    case T.MAP:
      if (next === T.LT) {
        p.next();
        p.next();
        type(p);
        p.expect(T.COMMA);
        type(p);
        p.expect(T.GT);
        return;
      }
      break;
    default:
  }
  p.identifier();
  if (p.accept(T.LPAREN)) {
    typeParameter(p);
    while (p.accept(T.COMMA)) typeParameter(p);
    p.expect(T.RPAREN);
  }
}

function typeParameter(p: Parser): void {
  if (!p.accept(T.INTEGER_VALUE)) type(p);
}

/** A type with or without a name before it: fields of rows and parameters of routines. */
export function nameAndType(p: Parser): void {
  const first = p.kind;
  const isType =
    !p.atIdentifier(1) ||
    (first === T.INTERVAL && isIntervalField(p.peek(1))) ||
    (first === T.DOUBLE && p.peek(1) === T.PRECISION) ||
    ((first === T.TIMESTAMP || first === T.TIME) && p.peek(1) === T.WITHOUT && p.peek(2) === T.TIME);
  if (!isType && p.peek(1) === T.ARRAY && p.peek(2) !== T.LT && p.peek(2) !== T.LPAREN) {
    // `a array`, `a array array`: a type with its postfixes.
    type(p);
    return;
  }
  if (!isType) p.identifier();
  type(p);
}
