import { expression } from './expressions.ts';
import { T } from './kinds.ts';
import { atString, string } from './literals.ts';
import type { Parser } from './parser.ts';

/** SET, RESET and the modes of transactions. */

/** A statement at SET. */
export function set(p: Parser): string {
  p.next();
  switch (p.kind) {
    case T.ROLE:
      p.next();
      p.identifier();
      if (p.accept(T.IN)) p.identifier();
      return 'SetRole';
    case T.SESSION:
      p.next();
      if (p.kind === T.AUTHORIZATION && p.peek(1) !== T.EQ && p.peek(1) !== T.DOT) {
        p.next();
        if (atString(p)) string(p);
        else p.identifier();
        return 'SetSessionAuthorization';
      }
      p.qualifiedName();
      p.expect(T.EQ);
      expression(p);
      return 'SetSession';
    case T.PATH:
      p.next();
      do {
        p.identifier();
        if (p.accept(T.DOT)) p.identifier();
      } while (p.accept(T.COMMA));
      return 'SetPath';
    case T.TIME:
      p.next();
      p.expect(T.ZONE);
      expression(p);
      return 'SetTimeZone';
    default:
      throw p.mismatch();
  }
}

/** A statement at RESET. */
export function reset(p: Parser): string {
  p.next();
  p.expect(T.SESSION);
  if (p.kind === T.AUTHORIZATION && p.peek(1) !== T.DOT) {
    p.next();
    return 'ResetSessionAuthorization';
  }
  p.qualifiedName();
  return 'ResetSession';
}

/** `transactionMode, …` after START TRANSACTION, where there is one. */
export function transactionModes(p: Parser): void {
  if (p.kind !== T.ISOLATION && p.kind !== T.READ) return;
  do {
    if (p.accept(T.ISOLATION)) {
      p.expect(T.LEVEL);
      isolationLevel(p);
    } else {
      p.expect(T.READ);
      p.expectEither(T.ONLY, T.WRITE);
    }
  } while (p.accept(T.COMMA));
}

function isolationLevel(p: Parser): void {
  switch (p.kind) {
    case T.READ:
      p.next();
      p.expectEither(T.UNCOMMITTED, T.COMMITTED);
      return;
    case T.REPEATABLE:
      p.next();
      p.expect(T.READ);
      return;
    default:
      p.expect(T.SERIALIZABLE);
  }
}
