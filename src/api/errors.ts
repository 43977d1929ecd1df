import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { type ErrorCode, GatewayError, type Problem } from '../model/errors.ts';

/** Seconds of `Retry-After` where the error itself knows no better. */
const DEFAULT_RETRY_SECONDS = 5;

const codeOfStatus = new Map<number, ErrorCode>([
  [404, 'EG_NOT_FOUND'],
  [405, 'EG_METHOD_NOT_ALLOWED'],
  [413, 'EG_TOO_LARGE'],
  [415, 'EG_MEDIA_TYPE'],
]);

/** The error of a body whose fields are wrong: names the first field and lists all. */
export function malformed(problems: readonly Problem[]): GatewayError {
  const text = problems.map(({ field, message }) => `${field === '' ? 'The body' : field} ${message}`).join('; ');
  const field = problems[0]?.field;
  return new GatewayError('EG_MALFORMED', text.endsWith('?') ? text : `${text}.`, {
    problems,
    ...(field === undefined || field === '' ? {} : { field }),
  });
}

type ErrorForm = (body: ReturnType<GatewayError['toBody']>, status: number) => unknown;

/**
 * Responds to every API error in its one form, or that of its family; others than a GatewayError are logged as EG_INTERNAL.
 */
export function errorHandler(logger: Logger, form: ErrorForm = (body) => body) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const gatewayError = toGatewayError(error);
    const { id: requestId, method } = request;
    const path = pathOf(request);
    if (gatewayError === null) logger.error({ err: error, requestId, method, path }, 'api call failed');
    else if (gatewayError.status >= 500) logger.warn({ err: gatewayError, requestId, method, path }, 'api call failed');
    const text = `A defect of the gateway; its log has the details under request id ${request.id}.`;
    const failure = gatewayError ?? new GatewayError('EG_INTERNAL', text);
    const { status } = failure;
    const retry = failure.retryAfterSeconds ?? (status === 503 ? DEFAULT_RETRY_SECONDS : undefined);
    if (retry !== undefined) reply.header('Retry-After', String(Math.max(1, Math.ceil(retry))));
    reply.code(status).type('application/json; charset=utf-8').send(form(failure.toBody(), status));
  };
}

/** Path without the query, which may hold anything. */
export function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}

function toGatewayError(error: unknown): GatewayError | null {
  if (error instanceof GatewayError) return error;
  const { statusCode, message } = error as Partial<FastifyError>;
  if (statusCode === undefined || statusCode < 400 || statusCode >= 500) return null;
  return new GatewayError(codeOfStatus.get(statusCode) ?? 'EG_MALFORMED', `${message ?? 'The request is malformed'}.`, {
    cause: error,
  });
}
