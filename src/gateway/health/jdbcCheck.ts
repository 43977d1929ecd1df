import { statusReason } from './checkClient.ts';
import { isSecure, type UserCheckOptions, userHeaders } from './checkSettings.ts';
import type { CheckCredentials, CheckResult, CheckTarget, UserCheck } from './healthCheck.ts';
import { runStatement } from './statementQuery.ts';

/** Source of the check's queries, for resource groups and users who inspect queries. */
const CHECK_SOURCE = 'engine-gateway-health';

/** Maximum length of an engine's message in a reason. */
const MAX_MESSAGE = 300;

/**
 * JDBC: counts the queries of the last hour by state in the cluster's `runtime.queries`, without those of the check's
 * user; HEALTHY if the query succeeds (docs/health.md#types-of-checks). Uses the statement protocol, as the JDBC driver
 * does.
 */
export class JdbcCheck implements UserCheck {
  readonly needsUser = true;
  readonly timeout: number;
  readonly #options: UserCheckOptions;

  constructor(options: UserCheckOptions) {
    this.#options = options;
    this.timeout = options.settings.queryTimeout;
  }

  async check({ proxyTo }: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult> {
    const { client, names, settings } = this.#options;
    const outcome = await runStatement(
      client,
      {
        proxyTo,
        sql: countQueries(credentials.username),
        // As the driver: a password is only sent over TLS, otherwise only the user's name.
        headers: {
          ...userHeaders(this.#options, credentials, isSecure(proxyTo)),
          'content-type': 'text/plain; charset=utf-8',
          ...names.clusterHeaders('Catalog', 'system'),
          ...names.clusterHeaders('Source', CHECK_SOURCE),
        },
        maxBytes: settings.maxAnswer,
      },
      signal,
    );
    switch (outcome.kind) {
      case 'rows': {
        const counts = new Map(outcome.rows.map(([state, count]) => [state, Number(count)]));
        const [queued, running] = [counts.get('QUEUED') ?? 0, counts.get('RUNNING') ?? 0];
        return { health: 'HEALTHY', reason: 'the query on system.runtime.queries succeeded', queued, running };
      }
      case 'error':
        return judgeError(outcome.name, outcome.message);
      default: {
        const { answer, queued } = outcome;
        const why = answer.ok ? (outcome.reason ?? statusReason(answer.status, credentials)) : answer.reason;
        // It responds, but is overloaded: not a reason for UNHEALTHY.
        if (queued && !answer.ok && signal.aborted) {
          const fix = `give queries with source ${CHECK_SOURCE} a resource group of their own`;
          return { health: 'inconclusive', reason: `the check's query waits in the cluster's queue; ${fix}` };
        }
        return { health: 'UNHEALTHY', reason: `${answer.endpoint}: ${why}` };
      }
    }
  }
}

function countQueries(user: string): string {
  return `SELECT state, count(*) FROM system.runtime.queries WHERE "user" <> '${user.replaceAll("'", "''")}' AND date_diff('hour', created, now()) <= 1 GROUP BY state`;
}

function judgeError(name: string, message: string): CheckResult {
  if (name === 'SERVER_STARTING_UP') return { health: 'PENDING', reason: 'the cluster is starting' };
  const reason = `the query on system.runtime.queries failed: ${name}: ${message.slice(0, MAX_MESSAGE)}`;
  return { health: name === 'QUERY_QUEUE_FULL' ? 'inconclusive' : 'UNHEALTHY', reason };
}
