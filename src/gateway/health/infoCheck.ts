import type { CheckClient } from './checkClient.ts';
import type { AnonymousCheck, CheckResult, CheckTarget } from './healthCheck.ts';

const MAX_ANSWER_BYTES = 65_536;

/** INFO_API: GET `/v1/info` without credentials; 200 with `starting` false is HEALTHY, true PENDING. */
export class InfoCheck implements AnonymousCheck {
  readonly needsUser = false;
  readonly #client: CheckClient;
  readonly #retries: number;

  /** @param retries `monitor.retries`: how often a check responded 502, 503 or 504 is repeated at once */
  constructor(client: CheckClient, retries: number) {
    this.#client = client;
    this.#retries = retries;
  }

  async check(target: CheckTarget, signal: AbortSignal): Promise<CheckResult> {
    const answer = await this.#client.read(
      target.proxyTo,
      { method: 'GET', path: target.path ?? '/v1/info', maxBytes: MAX_ANSWER_BYTES, retries: this.#retries },
      null,
      signal,
    );
    if (!answer.ok) return answer.result;
    return judge(answer.endpoint, answer.text);
  }
}

function judge(endpoint: string, text: string): CheckResult {
  let info: unknown;
  try {
    info = JSON.parse(text);
  } catch {
    return { health: 'UNHEALTHY', reason: `${endpoint}: the answer is not JSON` };
  }
  const starting = typeof info === 'object' && info !== null && 'starting' in info ? info.starting : undefined;
  if (starting === true) return { health: 'PENDING', reason: 'the cluster is starting' };
  if (starting === false) return { health: 'HEALTHY', reason: `${endpoint}: started` };
  return { health: 'UNHEALTHY', reason: `${endpoint}: the answer has no field "starting"` };
}
