import { productNames } from '../../src/model/names.ts';

/** The parts of the protocol's QueryResults that tests look at. */
export interface QueryResults {
  readonly id: string;
  readonly infoUri: string;
  readonly nextUri?: string;
  readonly columns?: readonly { readonly name: string; readonly type: string }[];
  readonly data?: readonly (readonly unknown[])[];
  readonly stats: { readonly state: string };
  readonly warnings?: readonly { readonly message: string }[];
  readonly error?: { readonly message: string; readonly errorCode: number; readonly errorName: string };
  readonly updateType?: string;
  readonly updateCount?: number;
}

/** Path and query of a URI of an answer. */
export function pathOf(uri: string): string {
  return uri.slice(new URL(uri).origin.length);
}

/** A query that was followed to its end. */
export interface QueryOutcome {
  readonly id: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
  readonly error: QueryResults['error'];
  readonly updateType: string | undefined;
  /** States in the order they were seen, repeated ones once. */
  readonly states: readonly string[];
  /** URIs that were followed. */
  readonly uris: readonly string[];
}

export interface ClientOptions {
  readonly user?: string;
  readonly productName?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Headers of a request: the user's and the caller's. */
function requestHeaders(options: ClientOptions): Record<string, string> {
  const names = productNames(options.productName ?? 'Engine');
  return { [names.header('User')]: options.user ?? 'test', ...options.headers };
}

async function results(response: Response): Promise<QueryResults> {
  const text = await response.text();
  if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${text}`);
  return JSON.parse(text) as QueryResults;
}

const signalOf = (options: ClientOptions) => options.signal ?? AbortSignal.timeout(30_000);

/** Submits a statement and gives the first answer. */
export async function submit(base: string, sql: string, options: ClientOptions = {}): Promise<QueryResults> {
  const url = new URL('/v1/statement', base);
  const signal = signalOf(options);
  return results(await fetch(url, { method: 'POST', headers: requestHeaders(options), body: sql, signal }));
}

/** Asks a nextUri. */
export async function follow(uri: string, options: ClientOptions = {}): Promise<QueryResults> {
  return results(await fetch(uri, { headers: requestHeaders(options), signal: signalOf(options) }));
}

/** Cancels a query by its nextUri and gives the HTTP status. */
export async function cancel(uri: string, options: ClientOptions = {}): Promise<number> {
  const response = await fetch(uri, { method: 'DELETE', headers: requestHeaders(options), signal: signalOf(options) });
  await response.arrayBuffer();
  return response.status;
}

/** Runs a statement to its end, as clients do: submits it and follows nextUri until there is none. */
export async function runQuery(base: string, sql: string, options: ClientOptions = {}): Promise<QueryOutcome> {
  let page = await submit(base, sql, options);
  const rows: (readonly unknown[])[] = [];
  const states: string[] = [];
  const uris: string[] = [];
  let columns: readonly string[] = [];
  for (;;) {
    if (states.at(-1) !== page.stats.state) states.push(page.stats.state);
    if (page.columns !== undefined) columns = page.columns.map((column) => column.name);
    for (const row of page.data ?? []) rows.push(row);
    if (page.nextUri === undefined) break;
    uris.push(page.nextUri);
    page = await follow(page.nextUri, options);
  }
  return { id: page.id, columns, rows, error: page.error, updateType: page.updateType, states, uris };
}
