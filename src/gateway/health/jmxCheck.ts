import { jsonObject } from './checkClient.ts';
import { forwardedHeaders, isSecure, type UserCheckOptions, userHeaders } from './checkSettings.ts';
import type { CheckCredentials, CheckResult, CheckTarget, UserCheck } from './healthCheck.ts';

/** JMX: the engine's MBeans over HTTP; HEALTHY with at least one active node (docs/health.md#types-of-checks). */
export class JmxCheck implements UserCheck {
  readonly needsUser = true;
  readonly #options: UserCheckOptions;

  constructor(options: UserCheckOptions) {
    this.#options = options;
  }

  async check(target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult> {
    const product = this.#options.names.clusterProduct.toLowerCase();
    const nodes = await this.#bean(target, `${product}.metadata:name=DiscoveryNodeManager`, credentials, signal);
    if (!nodes.ok) return nodes.result;
    const queries = await this.#bean(target, `${product}.execution:name=QueryManager`, credentials, signal);
    if (!queries.ok) return queries.result;
    const workers = nodes.attributes.get('ActiveNodeCount');
    const queued = queries.attributes.get('QueuedQueries');
    const running = queries.attributes.get('RunningQueries');
    if (workers === undefined || queued === undefined || running === undefined) {
      const absent =
        workers === undefined ? `${nodes.endpoint} has no ActiveNodeCount` : `${queries.endpoint} has no counts`;
      return { health: 'UNHEALTHY', reason: absent };
    }
    const health = workers > 0 ? 'HEALTHY' : 'UNHEALTHY';
    return { health, reason: `${nodes.endpoint}: ${workers} active nodes`, workers, queued, running };
  }

  /** The numeric attributes of an MBean. */
  async #bean(target: CheckTarget, name: string, credentials: CheckCredentials, signal: AbortSignal) {
    const { client, settings } = this.#options;
    const answer = await client.read(
      target.proxyTo,
      {
        method: 'GET',
        path: `/v1/jmx/mbean/${name}`,
        // The password is only sent over TLS; engines reject it otherwise.
        headers: {
          ...userHeaders(this.#options, credentials, isSecure(target.proxyTo)),
          ...forwardedHeaders(settings),
        },
        maxBytes: settings.maxAnswer,
      },
      credentials,
      signal,
    );
    if (!answer.ok) return answer;
    const attributes = jsonObject(answer.text)?.attributes;
    const unusable: CheckResult = { health: 'UNHEALTHY', reason: `${answer.endpoint}: the answer is not an MBean` };
    if (!Array.isArray(attributes)) return { ok: false as const, result: unusable };
    const numbers = new Map<string, number>();
    for (const attribute of attributes as readonly unknown[]) {
      if (typeof attribute !== 'object' || attribute === null) continue;
      const { name: key, value } = attribute as { readonly name?: unknown; readonly value?: unknown };
      if (typeof key === 'string' && typeof value === 'number') numbers.set(key, value);
    }
    return { ok: true as const, endpoint: answer.endpoint, attributes: numbers };
  }
}
