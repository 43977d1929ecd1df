import { type CheckAnswer, jsonObject, statusReason } from './checkClient.ts';
import { forwardedHeaders, type UserCheckOptions } from './checkSettings.ts';
import type { CheckCredentials, CheckResult, CheckTarget, UserCheck } from './healthCheck.ts';

/** UI_API: the statistics of the engine's web interface, with a form login (docs/health.md#types-of-checks). */
export class UiApiCheck implements UserCheck {
  readonly needsUser = true;
  readonly #options: UserCheckOptions;

  constructor(options: UserCheckOptions) {
    this.#options = options;
  }

  async check(target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult> {
    const login = await this.#login(target, credentials, signal);
    if (!login.ok) return login.result;
    const read = (path: string) => this.#read(target, path, login.cookie, credentials, signal);
    const stats = await read('/ui/api/stats');
    if (!stats.ok) return stats.result;
    const { activeWorkers: workers, queuedQueries: queued, runningQueries: running } = jsonObject(stats.text) ?? {};
    if (typeof workers !== 'number' || typeof queued !== 'number' || typeof running !== 'number') {
      return { health: 'UNHEALTHY', reason: `${stats.endpoint}: the answer holds no statistics` };
    }
    if (workers <= 0) {
      return { health: 'UNHEALTHY', reason: `${stats.endpoint}: no active worker`, queued, running, workers };
    }
    const counts = { reason: `${stats.endpoint}: ${workers} active workers`, queued, running, workers };
    if (queued === 0) return { health: 'HEALTHY', ...counts, queuedByUser: new Map() };
    const waiting = await read('/ui/api/query?state=QUEUED');
    return waiting.ok
      ? { health: 'HEALTHY', ...counts, queuedByUser: countUsers(waiting.text) }
      : { health: 'HEALTHY', ...counts, reason: `${counts.reason}, users of queued queries unknown` };
  }

  /** Logs in with the form; the session is in cookies. Does not follow the redirect. */
  async #login(target: CheckTarget, { username, password, from }: CheckCredentials, signal: AbortSignal) {
    const { client, settings } = this.#options;
    const answer = await client.ask(
      target.proxyTo,
      {
        method: 'POST',
        path: '/ui/login',
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...forwardedHeaders(settings) },
        body: new URLSearchParams({ username, password, redirectPath: '' }).toString(),
        maxBytes: settings.maxAnswer,
      },
      signal,
    );
    const cookie = answer.ok ? cookiesOf(answer) : '';
    if (answer.ok && answer.status < 400 && cookie !== '') return { ok: true as const, cookie };
    const why = !answer.ok
      ? answer.reason
      : answer.status >= 400
        ? statusReason(answer.status, { username, password, from })
        : `the login form refuses the user; fix ${from}, or choose another type of check where the engine has no form login`;
    const result: CheckResult = { health: 'UNHEALTHY', reason: `${answer.endpoint}: ${why}` };
    return { ok: false as const, result };
  }

  #read(target: CheckTarget, path: string, cookie: string, credentials: CheckCredentials, signal: AbortSignal) {
    const { client, settings } = this.#options;
    const headers = { cookie, ...forwardedHeaders(settings) };
    const request = { method: 'GET' as const, path, headers, maxBytes: settings.maxAnswer };
    return client.read(target.proxyTo, request, credentials, signal);
  }
}

/** The cookies set by a response, as a `Cookie` header, without deleted ones. */
function cookiesOf({ headers }: CheckAnswer & { ok: true }): string {
  const lines = headers['set-cookie'] ?? [];
  const pairs = (typeof lines === 'string' ? [lines] : lines).map((line) => line.split(';', 1)[0]?.trim() ?? '');
  return pairs.filter((pair) => /^[^=]+=./.test(pair)).join('; ');
}

function countUsers(text: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  let queries: unknown;
  try {
    queries = JSON.parse(text);
  } catch {
    return counts;
  }
  if (!Array.isArray(queries)) return counts;
  for (const query of queries as readonly unknown[]) {
    const user = typeof query === 'object' && query !== null && 'sessionUser' in query ? query.sessionUser : null;
    if (typeof user === 'string') counts.set(user, (counts.get(user) ?? 0) + 1);
  }
  return counts;
}
