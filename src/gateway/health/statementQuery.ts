import { setTimeout as sleep } from 'node:timers/promises';
import { type CheckClient, type CheckResponse, jsonObject } from './checkClient.ts';

/** Result of a statement: its rows, the engine's error, or an unexpected response. */
type StatementResult =
  | { readonly kind: 'rows'; readonly rows: readonly (readonly unknown[])[] }
  | { readonly kind: 'error'; readonly name: string; readonly message: string }
  | {
      readonly kind: 'failed';
      readonly answer: CheckResponse;
      readonly reason: string | null;
      /** True if the query was queued by the engine in its last response. */
      readonly queued: boolean;
    };

interface CheckStatement {
  readonly proxyTo: string;
  readonly sql: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Maximum size of a single response, in bytes. */
  readonly maxBytes: number;
}

const MAX_ROWS = 1_000;
const CANCEL_TIMEOUT_MS = 1_000;
/** Delays between immediate pages without rows; engines delay such responses by a second themselves. */
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 500;

/**
 * Runs a statement with the engine's statement protocol and follows its pages on the cluster's own address, regardless
 * of the host in links. Cancels a statement that does not end, also on a timeout.
 */
export async function runStatement(
  client: CheckClient,
  { proxyTo, sql, headers, maxBytes }: CheckStatement,
  signal: AbortSignal,
): Promise<StatementResult> {
  const rows: (readonly unknown[])[] = [];
  let pause = FIRST_PAUSE_MS;
  let answer = await client.ask(
    proxyTo,
    { method: 'POST', path: '/v1/statement', headers, body: sql, maxBytes },
    signal,
  );
  let next: string | null = null;
  let queued = false;
  const failed = async (reason: string | null): Promise<StatementResult> => {
    const outcome = { kind: 'failed' as const, answer, reason, queued };
    if (next !== null) {
      const cancel = { method: 'DELETE' as const, path: next, headers, maxBytes };
      await client.ask(proxyTo, cancel, AbortSignal.timeout(CANCEL_TIMEOUT_MS));
    }
    return outcome;
  };
  for (;;) {
    if (!answer.ok || answer.status !== 200) return await failed(null);
    const page = jsonObject(answer.text);
    if (page === null) return await failed('the answer is not a query result');
    const { error, data, nextUri, stats } = page;
    const state = stateOf(stats);
    queued = state === 'QUEUED';
    if (typeof error === 'object' && error !== null) return { kind: 'error', ...describeError(error) };
    const added = Array.isArray(data) ? (data as readonly unknown[]).filter((row) => Array.isArray(row)) : [];
    rows.push(...added);
    if (nextUri === undefined || nextUri === null) {
      return state === 'FINISHED' ? { kind: 'rows', rows } : await failed('the answer is not a query result');
    }
    next = typeof nextUri === 'string' ? pathOf(nextUri, proxyTo) : null;
    if (next === null) return await failed('nextUri is not a URL');
    if (rows.length > MAX_ROWS) return await failed(`more than ${MAX_ROWS} rows`);
    if (added.length === 0) {
      await sleep(pause, undefined, { signal }).catch(() => undefined);
      pause = Math.min(pause * 2, MAX_PAUSE_MS);
    }
    answer = await client.ask(proxyTo, { method: 'GET', path: next, headers, maxBytes }, signal);
  }
}

/** `state` of a result's `stats`. */
function stateOf(stats: unknown): unknown {
  return typeof stats === 'object' && stats !== null && 'state' in stats ? stats.state : null;
}

/** Path and query of a follow-up URL below the cluster's URL; null for invalid URLs. */
function pathOf(nextUri: string, proxyTo: string): string | null {
  const next = URL.parse(nextUri, proxyTo);
  if (next === null) return null;
  const { pathname, search } = next;
  const base = new URL(proxyTo).pathname.replace(/\/+$/, '');
  return `${base !== '' && pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : pathname}${search}`;
}

function describeError(error: object): { readonly name: string; readonly message: string } {
  const { errorName, message } = error as { readonly errorName?: unknown; readonly message?: unknown };
  return {
    name: typeof errorName === 'string' ? errorName : '',
    message: typeof message === 'string' ? message : 'no message',
  };
}
