import { Agent, request } from 'undici';
import { classify } from './clusterError.ts';
import type { CheckResult, CheckTarget, HealthCheckKind } from './healthCheck.ts';
import type { ClusterTls } from './tls/clusterTls.ts';

/** Longest answer that is read. */
const MAX_ANSWER_BYTES = 65_536;
const repeatable = [502, 503, 504];

/** Settings of INFO_API checks. */
export interface InfoCheckOptions {
  /** `monitor.retries`: how often a check answered 502, 503 or 504 is repeated at once. */
  readonly retries: () => number;
  readonly connectTimeout: number;
  /** TLS toward clusters; left out, certificates are verified as Node.js does. */
  readonly tls?: ClusterTls;
}

/** INFO_API: GET `/v1/info` without credentials; 200 with `starting` false is HEALTHY, true PENDING (contract.md §5). */
export class InfoCheck implements HealthCheckKind {
  readonly #options: InfoCheckOptions;
  readonly #agent: Agent;

  constructor(options: InfoCheckOptions) {
    this.#options = options;
    // Its own connections: a cluster busy with queries is not taken for a sick one.
    this.#agent = new Agent({
      connections: 1,
      allowH2: false,
      connect: options.tls?.connector(options.connectTimeout) ?? { timeout: options.connectTimeout },
      keepAliveTimeout: 1_000,
    });
  }

  async check(target: CheckTarget, signal: AbortSignal): Promise<CheckResult> {
    const url = `${target.baseUrl}${target.path ?? '/v1/info'}`;
    let result = await this.#once(url, signal);
    for (let left = this.#options.retries(); left > 0 && result.repeat; left--) result = await this.#once(url, signal);
    return result.result;
  }

  /** Closes the connections. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #once(url: string, signal: AbortSignal): Promise<{ result: CheckResult; repeat: boolean }> {
    const bad = (reason: string, repeat = false) => ({
      result: { found: 'UNHEALTHY' as const, reason: `GET ${url}: ${reason}` },
      repeat,
    });
    try {
      const answer = await request(url, {
        dispatcher: this.#agent,
        signal,
        headers: { accept: 'application/json' },
      });
      if (answer.statusCode !== 200) {
        await answer.body.dump({ limit: MAX_ANSWER_BYTES, signal });
        return bad(`status ${answer.statusCode}`, repeatable.includes(answer.statusCode));
      }
      let text = '';
      for await (const chunk of answer.body) {
        text += String(chunk);
        if (text.length > MAX_ANSWER_BYTES) return bad(`more than ${MAX_ANSWER_BYTES} bytes`);
      }
      return { result: judge(url, text), repeat: false };
    } catch (error) {
      if (signal.aborted) return bad('no answer in time');
      return bad(error instanceof Error ? classify(error, true).reason : String(error));
    }
  }
}

function judge(url: string, text: string): CheckResult {
  let info: unknown;
  try {
    info = JSON.parse(text);
  } catch {
    return { found: 'UNHEALTHY', reason: `GET ${url}: the answer is no JSON` };
  }
  const starting = typeof info === 'object' && info !== null && 'starting' in info ? info.starting : undefined;
  if (starting === true) return { found: 'PENDING', reason: 'the cluster is starting' };
  if (starting === false) return { found: 'HEALTHY', reason: `GET ${url}: started` };
  return { found: 'UNHEALTHY', reason: `GET ${url}: the answer has no field "starting"` };
}

/** NOOP: every cluster is HEALTHY. */
export const noopCheck: HealthCheckKind = {
  check: async () => ({ found: 'HEALTHY', reason: 'not checked (NOOP)' }),
};
