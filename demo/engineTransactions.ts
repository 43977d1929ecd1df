import { randomUUID } from 'node:crypto';
import { QueryError } from './queryError.ts';
import type { StatementResult } from './statements.ts';

/** Transactions at once; the oldest is forgotten beyond. */
const MAX_OPEN = 10_000;
const control = /^\s*(start\s+transaction|commit|rollback)\b[^;]*;?\s*$/i;

/** The transactions of an engine: they separate nothing, but are begun, used and ended as those of real engines. */
export class EngineTransactions {
  readonly #open = new Set<string>();

  /**
   * Runs a statement in its transaction.
   * @param id value of the header `Transaction-Id`; `NONE` or undefined outside of transactions
   * @param statement runs it, unless it begins or ends a transaction
   * @throws QueryError for a transaction that is not known, or none where one is needed
   */
  run(
    text: string,
    id: string | undefined,
    statement: () => StatementResult | Promise<StatementResult>,
  ): StatementResult | Promise<StatementResult> {
    const current = id === undefined || id === 'NONE' ? null : id;
    const word = control.exec(text)?.[1]?.toLowerCase() ?? null;
    if (word === 'rollback' && current !== null) return this.#end(current, 'ROLLBACK');
    if (current !== null && !this.#open.has(current)) {
      const hint = 'Possibly expired? Commands ignored until end of transaction block';
      throw new QueryError('UNKNOWN_TRANSACTION', `Unknown transaction ID: ${current}. ${hint}`);
    }
    if (word === null) return statement();
    if (word.startsWith('start')) {
      if (current !== null) throw new QueryError('NOT_SUPPORTED', 'Nested transactions not supported');
      return this.#start();
    }
    if (current === null) throw new QueryError('NOT_IN_TRANSACTION', 'No transaction in progress');
    return this.#end(current, 'COMMIT');
  }

  #start(): StatementResult {
    const id = randomUUID();
    this.#open.add(id);
    for (const oldest of this.#open) if (this.#open.size > MAX_OPEN) this.#open.delete(oldest);
    return { updateType: 'START TRANSACTION', headers: { 'Started-Transaction-Id': id } };
  }

  #end(id: string, updateType: string): StatementResult {
    this.#open.delete(id);
    return { updateType, headers: { 'Clear-Transaction-Id': 'true' } };
  }
}
