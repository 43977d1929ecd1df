import { pathOf, type QueryResults } from './statementClient.ts';

/** What came of a statement. */
export interface StatementOutcome {
  readonly queryId: string;
  readonly rows: readonly (readonly unknown[])[];
  readonly error: QueryResults['error'];
  /** Who decided where the statement went, by the header of `routing.explainHeader`; null without it. */
  readonly routedBy: string | null;
}

/** A client of the statement protocol that keeps its transaction as drivers do; each request goes to the next gateway. */
export class TransactionClient {
  readonly #gateways: readonly string[];
  #turn = 0;
  /** The transaction that it is in. */
  transaction: string | null = null;

  constructor(gateways: readonly string[], first = 0) {
    this.#gateways = gateways;
    this.#turn = first;
  }

  /** Runs a statement to its end. @throws Error for an answer other than 200 */
  async run(sql: string, more: Readonly<Record<string, string>> = {}): Promise<StatementOutcome> {
    const headers = { 'X-Engine-User': 'test', 'X-Engine-Transaction-Id': this.transaction ?? 'NONE', ...more };
    const { results, routedBy } = await this.#ask('/v1/statement', { method: 'POST', headers, body: sql });
    return { ...(await this.follow(results)), routedBy };
  }

  /** Follows a query that was submitted elsewhere. */
  async follow(first: QueryResults): Promise<Omit<StatementOutcome, 'routedBy'>> {
    let results = first;
    const rows = [...(results.data ?? [])];
    while (results.nextUri !== undefined) {
      const page = await this.#ask(pathOf(results.nextUri), { headers: { 'X-Engine-User': 'test' } });
      results = page.results;
      rows.push(...(results.data ?? []));
    }
    return { queryId: results.id, rows, error: results.error };
  }

  async #ask(path: string, init: RequestInit): Promise<{ results: QueryResults; routedBy: string | null }> {
    const gateway = this.#gateways[this.#turn++ % this.#gateways.length] as string;
    const response = await fetch(`${gateway}${path}`, { ...init, signal: AbortSignal.timeout(30_000) });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${text}`);
    this.transaction = response.headers.get('X-Engine-Started-Transaction-Id') ?? this.transaction;
    if (response.headers.get('X-Engine-Clear-Transaction-Id') === 'true') this.transaction = null;
    const routedBy = /\bby=(\w+)/.exec(response.headers.get('X-Engine-Routing-Decision') ?? '')?.[1] ?? null;
    return { results: JSON.parse(text) as QueryResults, routedBy };
  }
}
