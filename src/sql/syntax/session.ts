import { expression } from './expressions.ts';
import { T } from './kinds.ts';
import { atString, type Parser, string } from './parser.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  AUTHORIZATION, COMMA, COMMITTED, DOT, EQ, IN, ISOLATION, LEVEL, ONLY, PATH, READ, REPEATABLE, ROLE,
  SERIALIZABLE, SESSION, TIME, UNCOMMITTED, WRITE, ZONE,
} = T;

/** SET, RESET and the modes of transactions. */

export function set(p: Parser): string {
  p.next();
  switch (p.kind) {
    case ROLE:
      p.next();
      p.identifier();
      if (p.accept(IN)) p.identifier();
      return 'SetRole';
    case SESSION:
      p.next();
      if (p.kind === AUTHORIZATION && p.peek(1) !== EQ && p.peek(1) !== DOT) {
        p.next();
        if (atString(p)) string(p);
        else p.identifier();
        return 'SetSessionAuthorization';
      }
      p.qualifiedName();
      p.expect(EQ);
      expression(p);
      return 'SetSession';
    case PATH:
      p.next();
      do {
        p.identifier();
        if (p.accept(DOT)) p.identifier();
      } while (p.accept(COMMA));
      return 'SetPath';
    case TIME:
      p.next();
      p.expect(ZONE);
      expression(p);
      return 'SetTimeZone';
    default:
      throw p.mismatch();
  }
}

export function reset(p: Parser): string {
  p.next();
  p.expect(SESSION);
  if (p.kind === AUTHORIZATION && p.peek(1) !== DOT) {
    p.next();
    return 'ResetSessionAuthorization';
  }
  p.qualifiedName();
  return 'ResetSession';
}

/** `transactionMode, …` after START TRANSACTION, optional. */
export function transactionModes(p: Parser): void {
  if (p.kind !== ISOLATION && p.kind !== READ) return;
  do {
    if (p.accept(ISOLATION)) {
      p.expect(LEVEL);
      isolationLevel(p);
    } else {
      p.expect(READ);
      p.expectEither(ONLY, WRITE);
    }
  } while (p.accept(COMMA));
}

function isolationLevel(p: Parser): void {
  switch (p.kind) {
    case READ:
      p.next();
      p.expectEither(UNCOMMITTED, COMMITTED);
      return;
    case REPEATABLE:
      p.next();
      p.expect(READ);
      return;
    default:
      p.expect(SERIALIZABLE);
  }
}
