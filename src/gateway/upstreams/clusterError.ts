/** Reason of a missing response, a label of the metrics. */
export type ClusterErrorType = 'connect' | 'reset' | 'timeout' | 'protocol';

/** A failure between gateway and cluster, as text and for the metrics. */
export interface ClusterError {
  readonly type: ClusterErrorType;
  /** Text for log, trace and rejections: `connection refused`. */
  readonly reason: string;
}

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not resolved',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  UND_ERR_SOCKET: 'connection closed',
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'answer stalled',
};

export function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/**
 * Classifies the failure of a request to a cluster.
 * @param isSent true if the request was written to a connection
 */
export function classify(error: Error, isSent: boolean): ClusterError {
  const code = codeOf(error);
  const reason = words[code] ?? (code === '' ? error.message : `${error.message} (${code})`);
  if (!isSent) return { type: 'connect', reason };
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') return { type: 'timeout', reason };
  return { type: isReset(error) ? 'reset' : 'protocol', reason };
}

/** True if the connection broke, as opposed to a timeout or a response that is not HTTP. */
export function isReset(error: Error): boolean {
  return ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ECONNABORTED'].includes(codeOf(error));
}

/** True if the head of the cluster's response exceeds the limit: a retry would fail too. */
export function isHeadTooLarge(error: Error): boolean {
  return codeOf(error) === 'UND_ERR_HEADERS_OVERFLOW';
}

/** True if the request itself could not be written: a retry at another cluster would fail too. */
export function isOwnFault(error: Error): boolean {
  const code = codeOf(error);
  return code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED' || code.startsWith('UND_ERR_REQ_');
}
