import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { type TSchema, Type } from 'typebox';
import { errorCatalog } from '../../model/errors.ts';
import type { Checked } from '../../model/validation.ts';
import { errorHandler, malformed } from '../errors.ts';
import { jsonBody } from '../jsonBody.ts';
import { answer, ErrorBody, reference } from '../schemas.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * True if booleans and numbers of the family's bodies may come as strings, as in Trino Gateway
     * (docs/migration.md#rest-api).
     */
    readsStrings: boolean;
  }
}

/** Error of this family: the HTTP status again as `code`, and the API's own error (docs/errors.md) beside it. */
export const WebappError = Type.Object(
  {
    code: Type.Integer({ description: 'The HTTP status.' }),
    msg: Type.String({ description: 'What is wrong and how to fix it.' }),
    error: Type.Index(ErrorBody, ['error']),
  },
  { $id: 'WebappError', description: 'An error of the web application family.' },
);

export interface EnvelopeRoutes {
  readonly logger: Logger;
}

/** Makes errors of the instance come in the family's form. */
export function envelopeErrors(app: FastifyInstance, { logger }: EnvelopeRoutes): void {
  app.setErrorHandler(errorHandler(logger, ({ error }, status) => ({ code: status, msg: error.message, error })));
}

/**
 * Answers `{"code": 200, "msg": "Successful.", "data": …}`; without data where it is missing
 * (docs/compatibility.md#common-rules).
 */
export function succeed(reply: FastifyReply, data?: unknown): FastifyReply {
  return reply.send({ code: 200, msg: 'Successful.', ...(data === undefined || data === null ? {} : { data }) });
}

export function successAnswer(description: string, data: TSchema): TSchema {
  const envelope = Type.Object({ code: Type.Literal(200), msg: Type.String(), data: Type.Optional(data) });
  return answer(description, envelope);
}

/** Descriptions of the error responses of these statuses. */
export function failureAnswers(...statuses: readonly number[]): Record<string, TSchema> {
  const meaning = (status: number) =>
    Object.values(errorCatalog)
      .filter((entry) => entry.status === status)
      .map((entry) => entry.meaning)
      .join(' ');
  return Object.fromEntries(statuses.map((status) => [status, answer(meaning(status), reference(WebappError))]));
}

/** The body, checked; no body at all is an empty object, as callers of the reading calls send none. */
export function bodyOf<T>(request: FastifyRequest, parse: (value: unknown) => Checked<T>): T {
  const body = request.body as Buffer | undefined;
  const value = body === undefined || body.length === 0 ? {} : jsonBody(request);
  const checked = parse(value);
  if (checked.ok) return checked.value;
  if (!request.server.readsStrings) throw malformed(checked.problems);
  const read = parse(withReadStrings(value, new Set(checked.problems.map(({ field }) => field))));
  if (!read.ok) throw malformed(checked.problems);
  return read.value;
}

/** The object with the strings of some fields read as booleans and numbers; `data.x` is the field x of the object data. */
function withReadStrings(value: unknown, fields: ReadonlySet<string>, prefix = ''): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const field = `${prefix}${key}`;
      if (typeof inner === 'object' && prefix === '') return [key, withReadStrings(inner, fields, `${field}.`)];
      return [key, typeof inner === 'string' && fields.has(field) ? readString(inner) : inner];
    }),
  );
}

function readString(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?[0-9]{1,15}$/.test(text) ? Number(text) : text;
}
