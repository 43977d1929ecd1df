import type { Logger } from 'pino';
import type { Upstream } from '../upstreams/upstreams.ts';
import type { OutgoingRequest } from './outgoingRequests.ts';

/**
 * Ends a query whose client went away while it waited for a response (`routing.cancelQueryOnDisconnect`): a DELETE of
 * the URL of its request, with its credentials, as clients cancel queries themselves. Never throws; what came of it is
 * logged.
 */
export function cancelQuery(
  { logger, onEnd }: { readonly logger: Logger; readonly onEnd: () => void },
  queryId: string,
  upstream: Upstream,
  request: OutgoingRequest,
): void {
  const { basePath, pool, proxyTo } = upstream;
  const cancelling = async () => {
    const { target, headers, headersTimeout } = request;
    const cancellation = {
      path: basePath + target,
      method: 'DELETE',
      headers: headers as string[],
      headersTimeout,
    } as const;
    const { statusCode, body } = await pool.request({ ...cancellation, bodyTimeout: headersTimeout });
    await body.dump();
    if (statusCode < 300 || statusCode === 404 || statusCode === 410) onEnd();
    logger.info({ queryId, proxyTo, status: statusCode }, 'query cancelled, as its client went away');
  };
  upstream.requestStarted();
  cancelling()
    .catch((error: unknown) => logger.warn({ queryId, proxyTo, err: error }, 'a query could not be cancelled'))
    .finally(() => upstream.requestEnded());
}
