import type { Logger } from 'pino';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { type Dispatcher, Pool } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import type { ProductNames } from '../../model/names.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import type { ExternalResponse } from '../../routing/groupDecision.ts';
import type { ExternalRules } from '../../routing/groupRouter.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';
import { CircuitBreaker } from './circuitBreaker.ts';
import { MAX_REPLY_BYTES, parseReply } from './externalReply.ts';
import { externalRequest } from './externalRequest.ts';

/** Settings that may change while running (`routingRules.rulesExternalConfiguration`); times in milliseconds. */
export interface ExternalRulesSettings {
  readonly excludeHeaders: readonly string[];
  readonly sendHttpHeaders: boolean;
  /**
   * Meaning of an empty list of errors; null: the default group, or nothing with Trino Gateway's product name, as
   * there.
   */
  readonly emptyErrors: 'defaultGroup' | 'ignore' | null;
  readonly failureThreshold: number;
  readonly retryAfter: number;
}

/** The service and its connections (`serverConfig`: `router.http-client.…`); times in milliseconds. */
export interface ExternalRulesOptions {
  readonly url: string;
  /** `requestAnalyzerConfig.analyzeRequest`: true sends user and query. */
  readonly needsAnalysis: boolean;
  readonly ownCookies: readonly string[];
  readonly connectTimeout: number;
  readonly requestTimeout: number;
  readonly idleTimeout: number;
  readonly connections: number;
  readonly maxQueued: number;
  /** Maximum size of a response in bytes, up to `MAX_REPLY_BYTES`. */
  readonly maxResponseSize: number;
  readonly settings: ExternalRulesSettings;
  /** TLS with the service; Node's own trust where absent. */
  readonly tls: ClusterTls;
}

export interface ExternalRulesDependencies {
  readonly names: ProductNames;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

/** A failed call; the message is for log and trace, and contains no data of the request. */
class CallFailed extends Error {}

/**
 * Client of the external rules service (docs/rules.md#an-external-rules-service). Does not follow redirects; a circuit
 * breaker prevents a dead service from delaying every query.
 */
export class ExternalRulesClient implements ExternalRules {
  readonly needsAnalysis: boolean;
  readonly #options: ExternalRulesOptions;
  readonly #names: ProductNames;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #breaker: CircuitBreaker;
  readonly #ownCookies: ReadonlySet<string>;
  readonly #calls: Counter<'outcome'>;
  readonly #duration: Histogram;
  /** Keys of headers that are not sent. */
  readonly #excluded: ReadonlySet<string>;
  #running = 0;
  #lastFailure: string | null = null;

  constructor(dependencies: ExternalRulesDependencies, options: ExternalRulesOptions) {
    const { registry, clock } = dependencies;
    const url = new URL(options.url);
    this.#options = options;
    this.needsAnalysis = options.needsAnalysis;
    this.#names = dependencies.names;
    this.#logger = dependencies.logger;
    this.#clock = clock;
    this.#path = `${url.pathname}${url.search}`;
    this.#ownCookies = new Set(options.ownCookies);
    const { excludeHeaders } = options.settings;
    this.#excluded = new Set(excludeHeaders.map((name) => this.#names.ownHeader(name).toLowerCase()));
    this.#pool = new Pool(url.origin, {
      connections: options.connections,
      pipelining: 1,
      allowH2: false,
      connect: options.tls.connector(options.connectTimeout),
      headersTimeout: options.idleTimeout,
      bodyTimeout: options.idleTimeout,
      maxResponseSize: this.#maxReplyBytes,
    });
    this.#breaker = new CircuitBreaker(options.settings, clock);
    this.#calls = new Counter({
      name: 'engine_gateway_external_rules_requests_total',
      help: 'Requests for which the external rules service was to be asked, by outcome: answered, errors, failed, or skipped while it is left alone after failures.',
      labelNames: ['outcome'],
      registers: [registry],
    });
    this.#duration = new Histogram({
      name: 'engine_gateway_external_rules_duration_seconds',
      help: 'Time until the external rules service had answered or failed, in seconds.',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers: [registry],
    });
    const open: Gauge = new Gauge({
      name: 'engine_gateway_external_rules_circuit_open',
      help: '1 while the external rules service is left alone after failures.',
      registers: [registry],
      collect: () => {
        open.set(this.#breaker.isOpen ? 1 : 0);
      },
    });
  }

  /** Reason that the circuit breaker is open, or null. */
  get openReason(): string | null {
    return this.#breaker.isOpen ? this.#lastFailure : null;
  }

  async request(request: RuleRequest): Promise<ExternalResponse> {
    if (!this.#breaker.enter()) return this.#answer({ outcome: 'skipped', reason: this.#lastFailure ?? 'it failed' });
    const before = this.#clock.monotonic();
    try {
      const answer = await this.#call(request);
      const wasOpen = this.#breaker.isOpen;
      this.#breaker.noteSuccess();
      if (wasOpen) this.#logger.info('external rules service available again');
      return this.#answer(answer);
    } catch (error) {
      const reason = this.#failure(error);
      const wasOpen = this.#breaker.isOpen;
      this.#lastFailure = reason;
      this.#breaker.noteFailure();
      const { isOpen } = this.#breaker;
      const next = isOpen && !wasOpen ? '; it is left alone for a while' : '';
      this.#logger.warn({ reason }, `the external rules service failed${next}`);
      return this.#answer({ outcome: 'failed', reason });
    } finally {
      this.#duration.observe((this.#clock.monotonic() - before) / 1000);
    }
  }

  get #maxReplyBytes(): number {
    return Math.min(this.#options.maxResponseSize, MAX_REPLY_BYTES);
  }

  /** Aborts running calls and closes the connections. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #call(request: RuleRequest): Promise<ExternalResponse> {
    const { connections, maxQueued, requestTimeout, settings } = this.#options;
    if (this.#running >= connections + maxQueued) throw new CallFailed('too many calls wait for a connection');
    const emptyErrors = settings.emptyErrors ?? (this.#names.isReference ? 'ignore' : 'defaultGroup');
    const { body, headers } = externalRequest(
      request,
      this.#names,
      this.#excluded,
      this.#ownCookies,
      settings.sendHttpHeaders,
    );
    this.#running += 1;
    let text: string;
    const late = () => new CallFailed(`it did not answer within ${durationText(requestTimeout)}`);
    try {
      text = await withTimeLimit(requestTimeout, late, async (signal) =>
        textOf(await this.#pool.request({ method: 'POST', path: this.#path, headers, body, signal })),
      );
    } finally {
      this.#running -= 1;
    }
    const parsed = parseReply(text, this.#excluded, this.#names);
    if ('problem' in parsed) throw new CallFailed(parsed.problem);
    const { routingGroup, errors, headers: set } = parsed.reply;
    const isError = errors !== null && (errors.length > 0 || emptyErrors === 'defaultGroup');
    if (isError) return { outcome: 'errors', errors, headers: set };
    if (routingGroup === null) throw new CallFailed('routingGroup does not name exactly one group');
    return { outcome: 'answered', routingGroup, headers: set };
  }

  #answer(answer: ExternalResponse): ExternalResponse {
    this.#calls.inc({ outcome: answer.outcome });
    return answer;
  }

  #failure(error: unknown): string {
    if (error instanceof CallFailed) return error.message;
    const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') {
      return `its answer is longer than ${this.#maxReplyBytes} bytes`;
    }
    return `it could not be asked: ${typeof code === 'string' ? code : String(name)}`;
  }
}

/** The body of a successful response. @throws CallFailed for any status other than 200 */
async function textOf(response: Dispatcher.ResponseData): Promise<string> {
  const { statusCode, body } = response;
  if (statusCode === 200) return await body.text();
  // The content is irrelevant, but the connection can be reused after it was read.
  await body.dump({ limit: 65_536 }).catch(() => undefined);
  const isRedirect = statusCode >= 300 && statusCode < 400;
  throw new CallFailed(`it answered status ${statusCode}${isRedirect ? '; redirects are not followed' : ''}`);
}
