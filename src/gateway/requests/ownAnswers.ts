import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import type { ProductNames } from '../../model/names.ts';
import { type Refusal, renderRefusal } from '../../routing/refusal.ts';
import { endWith, isUnfinished } from '../bodies/lastRequest.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { RefusalIds } from '../outcomes/refusalIds.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { codeOf } from '../upstreams/clusterError.ts';

export interface OwnAnswersDependencies {
  readonly names: ProductNames;
  readonly headers: RequestHeaders;
  readonly metrics: DataPlaneMetrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly refusalIds: RefusalIds;
  readonly settings: DataPlaneSettings;
}

/** Answers to proxied requests that the gateway gives itself, and the note of each request's end. */
export class OwnAnswers implements GatewayAnswers {
  readonly #dependencies: OwnAnswersDependencies;

  constructor(dependencies: OwnAnswersDependencies) {
    this.#dependencies = dependencies;
  }

  refuse(proxied: ProxiedRequest, refusal: Refusal): void {
    const { metrics, headers, settings, logger, refusalIds } = this.#dependencies;
    metrics.refusal(refusal.reason);
    proxied.trace?.noteFailure(refusal.reason);
    const client = headers.clientOf(proxied.request);
    const rendered = renderRefusal(refusal, {
      statementPath: proxied.statementPath,
      statementErrors: settings.statementErrors,
      baseUrl: `${client.scheme}://${client.host}:${client.port}`,
      fallbackId: refusalIds.next(),
    });
    logger.debug(
      { reason: refusal.reason, path: proxied.target.path, method: proxied.method, status: rendered.status },
      refusal.message,
    );
    this.answer(proxied, rendered.status, rendered.headers, rendered.body);
    // Of a long body only the start has been read. The rest is read and dropped, or the next request of the connection
    // would wait behind it for ever.
    proxied.request.resume();
  }

  failure(proxied: ProxiedRequest, error: Error, answered: boolean): void {
    const { names, logger, settings } = this.#dependencies;
    const remote = `remote ${names.product} server`;
    const message =
      codeOf(error) === 'UND_ERR_HEADERS_TIMEOUT'
        ? `Request to ${remote} timed out after ${durationText(settings.asyncTimeout)}`
        : answered
          ? `Failed reading response from ${remote}`
          : `Request to ${remote} failed`;
    logger.warn({ path: proxied.target.path, method: proxied.method, err: error }, message);
    this.answer(proxied, 502, ['content-type', 'text/plain; charset=utf-8'], message);
  }

  /** Answers, and counts a request that ends without an exchange; those with one are counted by it. */
  answer(proxied: ProxiedRequest, status: number, headers: readonly string[], body: string): void {
    const { response } = proxied;
    response.once('close', () => this.noteEnd(proxied, response.statusCode, 0, null));
    answer(response, status, headers, body);
  }

  noteEnd(proxied: ProxiedRequest, status: number, clusterStatus: number, cluster: string | null): void {
    if (proxied.ended) return;
    proxied.ended = true;
    proxied.trace?.end(status, clusterStatus);
    const { clock, metrics } = this.#dependencies;
    const seconds = (clock.monotonic() - proxied.startedAt) / 1000;
    metrics.request(proxied.kind, proxied.method, status, seconds, cluster);
  }
}

/**
 * Responds to a request whole, unless that is too late. One whose body is not there yet is the last of its connection.
 */
export function answer(response: ServerResponse, status: number, headers: readonly string[], body: string): void {
  if (response.headersSent || response.destroyed) return;
  if (isUnfinished(response.req)) endWith(response.req, response);
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(body))]);
  response.end(body);
}
