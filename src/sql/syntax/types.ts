import { T } from './kinds.ts';
import { intervalQualifier, isIntervalField, type Parser } from './parser.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ARRAY, COMMA, DOUBLE, GT, INTEGER_VALUE, INTERVAL, LBRACKET, LPAREN, LT, MAP, PRECISION, RBRACKET, ROW,
  RPAREN, TIME, TIMESTAMP, WITH, WITHOUT, ZONE,
} = T;

/** `type` of the grammar. */
export function type(p: Parser): void {
  p.enter();
  baseType(p);
  while (p.kind === ARRAY) {
    const token = p.pos;
    p.next();
    if (p.accept(LBRACKET)) {
      p.expect(INTEGER_VALUE);
      p.expect(RBRACKET);
      p.later(token, 'Explicit array size not supported');
    }
  }
  p.leave();
}

function baseType(p: Parser): void {
  const next = p.peek(1);
  switch (p.kind) {
    case ROW:
      if (next === LPAREN) {
        p.next();
        p.next();
        nameAndType(p);
        while (p.accept(COMMA)) nameAndType(p);
        p.expect(RPAREN);
        return;
      }
      break;
    case INTERVAL:
      if (isIntervalField(next)) {
        p.next();
        intervalQualifier(p);
        return;
      }
      break;
    case TIMESTAMP:
    case TIME:
      p.next();
      if (p.accept(LPAREN)) {
        const outer = p.blameSelf();
        typeParameter(p);
        p.unblame(outer);
        // The generic form takes several parameters, the forms of times one.
        if (p.kind === COMMA) {
          while (p.accept(COMMA)) typeParameter(p);
          p.expect(RPAREN);
          return;
        }
        p.expect(RPAREN);
      }
      if ((p.kind === WITH || p.kind === WITHOUT) && p.peek(1) === TIME) {
        p.next();
        p.next();
        p.expect(ZONE);
      } else if (p.kind === WITH || p.kind === WITHOUT) p.open(p.pos);
      return;
    case DOUBLE:
      if (next === PRECISION) {
        p.next();
        p.next();
        return;
      }
      break;
    case ARRAY:
      if (next === LT) {
        p.next();
        p.next();
        type(p);
        p.expect(GT);
        return;
      }
      break;
    case MAP:
      if (next === LT) {
        p.next();
        p.next();
        type(p);
        p.expect(COMMA);
        type(p);
        p.expect(GT);
        return;
      }
      break;
    default:
  }
  p.identifier();
  if (p.accept(LPAREN)) {
    typeParameter(p);
    while (p.accept(COMMA)) typeParameter(p);
    p.expect(RPAREN);
  }
}

function typeParameter(p: Parser): void {
  if (!p.accept(INTEGER_VALUE)) type(p);
}

/** A type with or without a name before it: fields of rows and parameters of routines. */
export function nameAndType(p: Parser): void {
  const first = p.kind;
  const isType =
    !p.atIdentifier(1) ||
    (first === INTERVAL && isIntervalField(p.peek(1))) ||
    (first === DOUBLE && p.peek(1) === PRECISION) ||
    ((first === TIMESTAMP || first === TIME) && p.peek(1) === WITHOUT && p.peek(2) === TIME);
  if (!isType && p.peek(1) === ARRAY && p.peek(2) !== LT && p.peek(2) !== LPAREN) {
    // `a array`, `a array array`: a type with its postfixes.
    type(p);
    return;
  }
  if (!isType) p.identifier();
  type(p);
}
