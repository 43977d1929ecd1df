import { alter } from './alter.ts';
import { comment, create, drop } from './definitions.ts';
import { argument, expression, expressionList } from './expressions.ts';
import { deny, grant, revoke } from './grants.ts';
import { T } from './kinds.ts';
import { atString, string } from './literals.ts';
import { NameRole, type Parser } from './parser.ts';
import { withProperties } from './properties.ts';
import { atQueryStart, columnAliases, rootQuery } from './queries.ts';
import { relation } from './relations.ts';
import { reset, set, transactionModes } from './session.ts';
import { describe, show } from './show.ts';

/** Reads a whole text as one statement. Throws the parser's failure; `Parser.statement` holds the class name afterwards. */
export function singleStatement(p: Parser): void {
  p.statement = statement(p);
  if (p.kind !== T.EOF) throw p.mismatch();
  p.settle();
}

/** `statement` of the grammar; gives the class name of the engine's tree for it. */
export function statement(p: Parser): string {
  switch (p.kind) {
    case T.SELECT:
    case T.VALUES:
    case T.TABLE:
    case T.LPAREN:
      rootQuery(p);
      return 'Query';
    case T.WITH:
      withSession(p);
      rootQuery(p);
      return 'Query';
    case T.INSERT:
      p.next();
      p.expect(T.INTO);
      targetTable(p);
      if (p.kind === T.LPAREN && !(atQueryStart(p.peek(1)) || p.peek(1) === T.LPAREN)) columnAliases(p);
      rootQuery(p);
      return 'Insert';
    case T.UPDATE:
      return update(p);
    case T.DELETE:
      p.next();
      p.expect(T.FROM);
      targetTable(p);
      if (p.accept(T.WHERE)) expression(p);
      return 'Delete';
    case T.MERGE:
      return merge(p);
    case T.CREATE:
      return create(p);
    case T.DROP:
      return drop(p);
    case T.ALTER:
      return alter(p);
    case T.COMMENT:
      return comment(p);
    case T.SHOW:
      return show(p);
    case T.DESC:
    case T.DESCRIBE:
      return describe(p);
    case T.EXPLAIN:
      return explain(p);
    case T.SET:
      return set(p);
    case T.RESET:
      return reset(p);
    case T.GRANT:
      return grant(p);
    case T.REVOKE:
      return revoke(p);
    case T.DENY:
      return deny(p);
    case T.CALL:
      return call(p);
    case T.EXECUTE:
      return execute(p);
    default:
      return shortStatement(p);
  }
}

/** Statements of a few words. */
function shortStatement(p: Parser): string {
  switch (p.kind) {
    case T.USE: {
      p.next();
      const token = p.pos;
      p.identifier();
      const qualified = p.accept(T.DOT);
      if (qualified) p.identifier();
      p.names.push(NameRole.schema, token, qualified ? 2 : 1);
      return 'Use';
    }
    case T.ANALYZE:
      p.next();
      p.namedObject(NameRole.table);
      withProperties(p);
      return 'Analyze';
    case T.TRUNCATE:
      p.next();
      p.expect(T.TABLE);
      p.namedObject(NameRole.table);
      return 'TruncateTable';
    case T.REFRESH:
      p.next();
      p.expect(T.MATERIALIZED);
      p.expect(T.VIEW);
      p.namedObject(NameRole.table);
      return 'RefreshMaterializedView';
    case T.START:
      p.next();
      p.expect(T.TRANSACTION);
      transactionModes(p);
      return 'StartTransaction';
    case T.COMMIT:
      p.next();
      p.accept(T.WORK);
      return 'Commit';
    case T.ROLLBACK:
      p.next();
      p.accept(T.WORK);
      return 'Rollback';
    case T.PREPARE:
      p.next();
      p.identifier();
      p.expect(T.FROM);
      p.enter();
      statement(p);
      p.leave();
      return 'Prepare';
    case T.DEALLOCATE:
      p.next();
      p.expect(T.PREPARE);
      p.identifier();
      return 'Deallocate';
    default:
      throw p.mismatch();
  }
}

/** `WITH SESSION name = value, …` before a query. */
function withSession(p: Parser): void {
  if (p.peek(1) !== T.SESSION || p.peek(2) === T.AS || p.peek(2) === T.LPAREN) return;
  p.next();
  p.next();
  do {
    p.qualifiedName();
    p.expect(T.EQ);
    expression(p);
  } while (p.accept(T.COMMA));
}

/** A table that is written to, with or without the name of a branch. */
function targetTable(p: Parser): void {
  p.namedObject(NameRole.table);
  if (p.accept(T.AT_SIGN)) p.identifier();
}

function update(p: Parser): string {
  p.next();
  targetTable(p);
  p.expect(T.SET);
  do {
    p.identifier();
    p.expect(T.EQ);
    expression(p);
  } while (p.accept(T.COMMA));
  if (p.accept(T.WHERE)) expression(p);
  return 'Update';
}

function merge(p: Parser): string {
  p.next();
  p.expect(T.INTO);
  targetTable(p);
  if (p.accept(T.AS) || p.atIdentifier()) p.identifier();
  p.expect(T.USING);
  relation(p);
  p.expect(T.ON);
  expression(p);
  if (p.kind !== T.WHEN) throw p.mismatch();
  while (p.accept(T.WHEN)) mergeCase(p);
  return 'Merge';
}

function mergeCase(p: Parser): void {
  const inserts = p.accept(T.NOT);
  p.expect(T.MATCHED);
  if (p.accept(T.AND)) {
    const outer = inserts ? p.blamed : p.blameSelf();
    expression(p);
    p.unblame(outer);
  }
  p.expect(T.THEN);
  if (inserts) {
    p.expect(T.INSERT);
    if (p.kind === T.LPAREN) columnAliases(p);
    p.expect(T.VALUES);
    p.expect(T.LPAREN);
    expressionList(p);
    p.expect(T.RPAREN);
  } else if (!p.accept(T.DELETE)) {
    p.expect(T.UPDATE);
    p.expect(T.SET);
    do {
      p.identifier();
      p.expect(T.EQ);
      expression(p);
    } while (p.accept(T.COMMA));
  }
}

function explain(p: Parser): string {
  p.next();
  if (p.kind === T.LPAREN && (p.peek(1) === T.FORMAT || p.peek(1) === T.TYPE)) {
    p.next();
    do {
      if (p.accept(T.FORMAT)) {
        if (p.kind !== T.TEXT && p.kind !== T.GRAPHVIZ && p.kind !== T.JSON) throw p.mismatch();
      } else {
        p.expect(T.TYPE);
        if (p.kind !== T.LOGICAL && p.kind !== T.DISTRIBUTED && p.kind !== T.VALIDATE && p.kind !== T.IO)
          throw p.mismatch();
      }
      p.next();
    } while (p.accept(T.COMMA));
    p.expect(T.RPAREN);
  }
  const analyzes = p.kind === T.ANALYZE && !atAnalyzeStatement(p);
  if (analyzes) {
    p.next();
    if (p.kind === T.VERBOSE) p.next();
  }
  p.enter();
  const inner = statement(p);
  p.leave();
  if (!analyzes) return 'Explain';
  p.analyzed = inner === 'ExplainAnalyze' ? p.analyzed : inner;
  return 'ExplainAnalyze';
}

/** ANALYZE of a table, to be explained: a name and nothing else, or properties. */
function atAnalyzeStatement(p: Parser): boolean {
  if (!p.atIdentifier(1)) return false;
  let offset = 2;
  while (p.kinds[p.pos + offset] === T.DOT && p.atIdentifier(offset + 1)) offset += 2;
  const follower = p.kinds[p.pos + offset];
  if (offset > 2) return true;
  return follower === T.EOF || follower === T.DOT || (follower === T.WITH && p.kinds[p.pos + offset + 1] === T.LPAREN);
}

function call(p: Parser): string {
  p.next();
  const nameToken = p.pos;
  p.namedObject(NameRole.procedure);
  const nameParts = p.names[p.names.length - 1] as number;
  p.expect(T.LPAREN);
  let first = true;
  let byPosition = -1;
  let byName = -1;
  if (p.kind !== T.RPAREN) {
    do {
      const token = p.pos;
      const named = argument(p);
      const literal = stringArgument(p, named ? token + 2 : token);
      if (named) {
        if (p.identifierValue(token) === 'query_id') byName = literal;
      } else if (first) byPosition = literal;
      first = false;
    } while (p.accept(T.COMMA));
  }
  p.expect(T.RPAREN);
  if (p.call.nameToken < 0) {
    p.call.nameToken = nameToken;
    p.call.nameParts = nameParts;
    p.call.queryIdToken = byName >= 0 ? byName : byPosition;
  }
  return 'Call';
}

/** Token of the string that an argument from `token` to the present place is, parentheses aside; -1 for anything else. */
function stringArgument(p: Parser, token: number): number {
  let start = token;
  let end = p.pos;
  while (p.kinds[start] === T.LPAREN && p.kinds[end - 1] === T.RPAREN) {
    start += 1;
    end -= 1;
  }
  const kind = p.kinds[start];
  if (kind === T.STRING) return end === start + 1 ? start : -1;
  if (kind !== T.UNICODE_STRING) return -1;
  return end === start + 1 || (end === start + 3 && p.kinds[start + 1] === T.UESCAPE) ? start : -1;
}

function execute(p: Parser): string {
  p.next();
  const immediate = p.kind === T.IMMEDIATE && (p.peek(1) === T.STRING || p.peek(1) === T.UNICODE_STRING);
  if (immediate) p.next();
  const token = p.pos;
  if (immediate && atString(p)) string(p);
  else p.identifier();
  if (p.accept(T.USING)) expressionList(p);
  p.executed = token;
  return immediate ? 'ExecuteImmediate' : 'Execute';
}
