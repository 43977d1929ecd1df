import { alter } from './alter.ts';
import { comment, create, drop } from './definitions.ts';
import { argument, expression, expressionList } from './expressions.ts';
import { deny, grant, revoke } from './grants.ts';
import { T } from './kinds.ts';
import { atString, NameRole, type Parser, string } from './parser.ts';
import { withProperties } from './properties.ts';
import { atQueryStart, columnAliases, rootQuery } from './queries.ts';
import { relation } from './relations.ts';
import { reset, set, transactionModes } from './session.ts';
import { describeStatement, show } from './show.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ALTER, ANALYZE, AND, AS, AT_SIGN, CALL, COMMA, COMMENT, COMMIT, CREATE, DEALLOCATE, DELETE, DENY, DESC,
  DESCRIBE, DISTRIBUTED, DOT, DROP, EOF, EQ, EXECUTE, EXPLAIN, FORMAT, FROM, GRANT, GRAPHVIZ, IMMEDIATE, INSERT,
  INTO, IO, JSON_WORD, LOGICAL, LPAREN, MATCHED, MATERIALIZED, MERGE, NOT, ON, PREPARE, REFRESH, RESET, REVOKE,
  ROLLBACK, RPAREN, SELECT, SESSION, SET, SHOW, START, STRING, TABLE, TEXT, THEN, TRANSACTION, TRUNCATE, TYPE,
  UESCAPE, UNICODE_STRING, UPDATE, USE, USING, VALIDATE, VALUES, VERBOSE, VIEW, WHEN, WHERE, WITH, WORK,
} = T;

/**
 * Reads a whole text as one statement. Throws the parser's failure; `Parser.statement` then contains the class name.
 */
export function singleStatement(p: Parser): void {
  p.statement = statement(p);
  if (p.kind !== EOF) throw p.mismatch();
  p.settle();
}

/** `statement` of the grammar; returns the class name of the engine's tree for it. */
function statement(p: Parser): string {
  switch (p.kind) {
    case SELECT:
    case VALUES:
    case TABLE:
    case LPAREN:
      rootQuery(p);
      return 'Query';
    case WITH:
      withSession(p);
      rootQuery(p);
      return 'Query';
    case INSERT:
      p.next();
      p.expect(INTO);
      targetTable(p);
      if (p.kind === LPAREN && !(atQueryStart(p.peek(1)) || p.peek(1) === LPAREN)) columnAliases(p);
      rootQuery(p);
      return 'Insert';
    case UPDATE:
      return update(p);
    case DELETE:
      p.next();
      p.expect(FROM);
      targetTable(p);
      if (p.accept(WHERE)) expression(p);
      return 'Delete';
    case MERGE:
      return merge(p);
    case CREATE:
      return create(p);
    case DROP:
      return drop(p);
    case ALTER:
      return alter(p);
    case COMMENT:
      return comment(p);
    case SHOW:
      return show(p);
    case DESC:
    case DESCRIBE:
      return describeStatement(p);
    case EXPLAIN:
      return explain(p);
    case SET:
      return set(p);
    case RESET:
      return reset(p);
    case GRANT:
      return grant(p);
    case REVOKE:
      return revoke(p);
    case DENY:
      return deny(p);
    case CALL:
      return call(p);
    case EXECUTE:
      return execute(p);
    default:
      return shortStatement(p);
  }
}

function shortStatement(p: Parser): string {
  switch (p.kind) {
    case USE: {
      p.next();
      const token = p.pos;
      p.identifier();
      const qualified = p.accept(DOT);
      if (qualified) p.identifier();
      p.names.push(NameRole.schema, token, qualified ? 2 : 1);
      return 'Use';
    }
    case ANALYZE:
      p.next();
      p.namedObject(NameRole.table);
      withProperties(p);
      return 'Analyze';
    case TRUNCATE:
      p.next();
      p.expect(TABLE);
      p.namedObject(NameRole.table);
      return 'TruncateTable';
    case REFRESH:
      p.next();
      p.expect(MATERIALIZED);
      p.expect(VIEW);
      p.namedObject(NameRole.table);
      return 'RefreshMaterializedView';
    case START:
      p.next();
      p.expect(TRANSACTION);
      transactionModes(p);
      return 'StartTransaction';
    case COMMIT:
      p.next();
      p.accept(WORK);
      return 'Commit';
    case ROLLBACK:
      p.next();
      p.accept(WORK);
      return 'Rollback';
    case PREPARE:
      p.next();
      p.identifier();
      p.expect(FROM);
      p.enter();
      statement(p);
      p.leave();
      return 'Prepare';
    case DEALLOCATE:
      p.next();
      p.expect(PREPARE);
      p.identifier();
      return 'Deallocate';
    default:
      throw p.mismatch();
  }
}

/** `WITH SESSION name = value, …` before a query. */
function withSession(p: Parser): void {
  if (p.peek(1) !== SESSION || p.peek(2) === AS || p.peek(2) === LPAREN) return;
  p.next();
  p.next();
  do {
    p.qualifiedName();
    p.expect(EQ);
    expression(p);
  } while (p.accept(COMMA));
}

/** A table that is written to, with or without the name of a branch. */
function targetTable(p: Parser): void {
  p.namedObject(NameRole.table);
  if (p.accept(AT_SIGN)) p.identifier();
}

/** `column = value, …` after SET. */
function assignments(p: Parser): void {
  do {
    p.identifier();
    p.expect(EQ);
    expression(p);
  } while (p.accept(COMMA));
}

function update(p: Parser): string {
  p.next();
  targetTable(p);
  p.expect(SET);
  assignments(p);
  if (p.accept(WHERE)) expression(p);
  return 'Update';
}

function merge(p: Parser): string {
  p.next();
  p.expect(INTO);
  targetTable(p);
  if (p.accept(AS) || p.atIdentifier()) p.identifier();
  p.expect(USING);
  relation(p);
  p.expect(ON);
  expression(p);
  if (p.kind !== WHEN) throw p.mismatch();
  while (p.accept(WHEN)) mergeCase(p);
  return 'Merge';
}

function mergeCase(p: Parser): void {
  const inserts = p.accept(NOT);
  p.expect(MATCHED);
  if (p.accept(AND)) {
    const outer = inserts ? p.blamed : p.blameSelf();
    expression(p);
    p.unblame(outer);
  }
  p.expect(THEN);
  if (inserts) {
    p.expect(INSERT);
    if (p.kind === LPAREN) columnAliases(p);
    p.expect(VALUES);
    p.expect(LPAREN);
    expressionList(p);
    p.expect(RPAREN);
  } else if (!p.accept(DELETE)) {
    p.expect(UPDATE);
    p.expect(SET);
    assignments(p);
  }
}

function explain(p: Parser): string {
  p.next();
  if (p.kind === LPAREN && (p.peek(1) === FORMAT || p.peek(1) === TYPE)) {
    p.next();
    do {
      if (p.accept(FORMAT)) {
        if (p.kind !== TEXT && p.kind !== GRAPHVIZ && p.kind !== JSON_WORD) throw p.mismatch();
      } else {
        p.expect(TYPE);
        if (p.kind !== LOGICAL && p.kind !== DISTRIBUTED && p.kind !== VALIDATE && p.kind !== IO) throw p.mismatch();
      }
      p.next();
    } while (p.accept(COMMA));
    p.expect(RPAREN);
  }
  const analyzes = p.kind === ANALYZE && !atAnalyzeStatement(p);
  if (analyzes) {
    p.next();
    if (p.kind === VERBOSE) p.next();
  }
  p.enter();
  const inner = statement(p);
  p.leave();
  if (!analyzes) return 'Explain';
  p.analyzed = inner === 'ExplainAnalyze' ? p.analyzed : inner;
  return 'ExplainAnalyze';
}

/** True for words that can be names and start a statement for EXPLAIN ANALYZE. */
function startsStatement(kind: number): boolean {
  switch (kind) {
    case VERBOSE:
    case UPDATE:
    case USE:
    case COMMENT:
    case ANALYZE:
    case CALL:
    case GRANT:
    case REVOKE:
    case DENY:
    case SHOW:
    case EXPLAIN:
    case SET:
    case RESET:
    case START:
    case COMMIT:
    case ROLLBACK:
    case DESC:
    case EXECUTE:
    case REFRESH:
    case TRUNCATE:
    case MERGE:
      return true;
    default:
      return false;
  }
}

/** ANALYZE of a table, to be explained: a name and nothing else, or properties. */
function atAnalyzeStatement(p: Parser): boolean {
  if (!p.atIdentifier(1)) return false;
  if (!startsStatement(p.peek(1))) return true;
  let offset = 2;
  while (p.kinds[p.pos + offset] === DOT && p.atIdentifier(offset + 1)) offset += 2;
  const follower = p.kinds[p.pos + offset];
  if (offset > 2) return true;
  return follower === EOF || follower === DOT || (follower === WITH && p.kinds[p.pos + offset + 1] === LPAREN);
}

function call(p: Parser): string {
  p.next();
  const nameToken = p.pos;
  p.namedObject(NameRole.procedure);
  const nameParts = p.names[p.names.length - 1] as number;
  p.expect(LPAREN);
  let first = true;
  let byPosition = -1;
  let byName = -1;
  if (p.kind !== RPAREN) {
    do {
      const token = p.pos;
      const isNamed = argument(p);
      const literal = stringArgument(p, isNamed ? token + 2 : token);
      if (isNamed) {
        if (p.identifierValue(token) === 'query_id') byName = literal;
      } else if (first) byPosition = literal;
      first = false;
    } while (p.accept(COMMA));
  }
  p.expect(RPAREN);
  if (p.call.nameToken < 0) {
    p.call.nameToken = nameToken;
    p.call.nameParts = nameParts;
    p.call.queryIdToken = byName >= 0 ? byName : byPosition;
  }
  return 'Call';
}

/**
 * Token of the string that is the whole argument from `token` to the current position, ignoring parentheses; -1 for any
 * other argument.
 */
function stringArgument(p: Parser, token: number): number {
  let start = token;
  let end = p.pos;
  while (p.kinds[start] === LPAREN && p.kinds[end - 1] === RPAREN) {
    start += 1;
    end -= 1;
  }
  const kind = p.kinds[start];
  if (kind === STRING) return end === start + 1 ? start : -1;
  if (kind !== UNICODE_STRING) return -1;
  return end === start + 1 || (end === start + 3 && p.kinds[start + 1] === UESCAPE) ? start : -1;
}

function execute(p: Parser): string {
  p.next();
  const immediate = p.kind === IMMEDIATE && (p.peek(1) === STRING || p.peek(1) === UNICODE_STRING);
  if (immediate) p.next();
  const token = p.pos;
  if (immediate && atString(p)) string(p);
  else p.identifier();
  if (p.accept(USING)) expressionList(p);
  p.executed = token;
  return immediate ? 'ExecuteImmediate' : 'Execute';
}
