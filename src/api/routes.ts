import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest, onSendAsyncHookHandler, RouteOptions } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { type Checked, compileCheck } from '../model/validation.ts';
import type { ApiContext } from './apiContext.ts';
import { errorHandler, malformed } from './errors.ts';
import { jsonBody } from './requestBody.ts';
import { content, errorResponses, optionalTextField } from './schemas.ts';

/** A call of a route, with its parameters and its body as they were checked. */
export interface Call<Params = unknown, Query = unknown, Body = unknown> {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
}

/** A body with its check. */
export interface CheckedBody<T> {
  readonly schema: TSchema;
  readonly parse: (value: unknown) => Checked<T>;
  /** True if the call may have no body, which counts as an empty object. */
  readonly isOptional?: boolean;
}

/** One operation of the API: the OpenAPI document is made of these. */
export interface Route<Params extends TSchema, Query extends TSchema, Body> {
  readonly summary: string;
  readonly description?: string | undefined;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: CheckedBody<Body>;
  /** Description of a body that the route reads itself. */
  readonly rawBody?: object;
  /** Response 200: description and schema, null for an empty one. In envelopes the schema is that of `data`. */
  readonly returns?: readonly [description: string, schema: TSchema | null];
  /** True if the response is 202 while the database is unavailable. */
  readonly isPending?: boolean;
  /** Statuses of errors in addition to those of parameters and bodies. */
  readonly errors?: readonly number[];
  /** Further responses. */
  readonly responses?: Readonly<Record<string, unknown>>;
  /** True if responses have an ETag. */
  readonly hasTag?: boolean;
  readonly options?: Pick<RouteOptions, 'config' | 'exposeHeadRoute' | 'onRequest' | 'bodyLimit'>;
  /** Name of the object of the call, in the body: rights in its namespace suffice. */
  readonly named?: (call: Call<Static<Params>, Static<Query>, Body>) => string;
  /** Returns the body of the response, or the reply if that was sent. */
  handle(call: Call<Static<Params>, Static<Query>, Body>): unknown;
}

/** Adds a route. */
export type AddRoute = <Params extends TSchema, Query extends TSchema, Body>(
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  url: string,
  route: Route<Params, Query, Body>,
) => void;

/**
 * Family of calls: `envelope` responds `{"code": 200, "msg": "Successful.", "data": …}` (docs/compatibility.md#common-rules),
 * `anyType` ignores Content-Type, as its callers never sent the right one.
 */
export type RouteForm = 'plain' | 'envelope' | 'anyType';

const LATER = 'The database is unavailable; the change follows there by itself.';
const notModified = Type.Null({ description: 'Nothing changed since the version that `If-None-Match` names.' });

/** Returns what adds routes of a family. @param tag of the OpenAPI document */
export function routes({ app, names, logger }: ApiContext, tag: string, form: RouteForm = 'plain'): AddRoute {
  const isEnveloped = form === 'envelope';
  const errors = errorHandler(logger, ({ error }, status) => ({ code: status, msg: error.message, error }));
  return (method, url, route) => {
    const { summary, description, params, query, body, returns, hasTag = false } = route;
    const statuses = [
      ...(params === undefined && query === undefined ? [] : [400]),
      ...(body === undefined ? [] : [400, 413, ...(form === 'anyType' ? [] : [415])]),
    ];
    const success = returns === undefined ? undefined : successOf(isEnveloped, ...returns);
    const response = {
      ...(success === undefined ? {} : { 200: success }),
      ...(success === undefined || route.isPending !== true ? {} : { 202: { ...success, description: LATER } }),
      ...(hasTag ? { 304: notModified } : {}),
      ...errorResponses(isEnveloped, [...statuses, ...(route.errors ?? [])]),
      ...route.responses,
    };
    app.route({
      ...route.options,
      ...(route.named === undefined ? {} : { config: { inNamespace: 'body' } as const }),
      method,
      url,
      schema: {
        ...{ tags: [tag], summary, response },
        ...(description === undefined ? {} : { description }),
        ...(params === undefined ? {} : { params }),
        ...(query === undefined ? {} : { querystring: query }),
        ...(body === undefined ? {} : { body: body.schema }),
        ...(route.rawBody === undefined ? {} : { body: route.rawBody }),
        ...(body?.isOptional === true ? bodyIsOptional : {}),
      },
      ...(isEnveloped ? { errorHandler: errors } : {}),
      ...(hasTag ? { onSend: revalidate } : {}),
      handler: async (request, reply) => {
        const call = {
          ...{ request, reply, params: request.params as never, query: request.query as never },
          body: body === undefined ? (undefined as never) : bodyOf(request, body, form, names),
        };
        if (route.named !== undefined) await request.requireObject?.(route.named(call));
        const value = await route.handle(call);
        if (value === reply) return reply;
        return isEnveloped ? succeed(reply, value) : reply.send(value);
      },
    });
  };
}

/** A checked body. @param parse checks it, by the schema if left out */
export function checkedBody<S extends TSchema>(schema: S): CheckedBody<Static<S>>;
export function checkedBody<T>(schema: TSchema, parse: (value: unknown) => Checked<T>): CheckedBody<T>;
export function checkedBody(schema: TSchema, parse: (value: unknown) => Checked<unknown> = compileCheck(schema)) {
  return { schema, parse };
}

/** Options of a call on a named object, for which rights in its namespace suffice. */
export const ofNamespace = { config: { inNamespace: 'object' } } as const;

/** Options of a list, for which rights in a namespace suffice: it has what such callers may see. */
export const ofNamespaces = { config: { inNamespace: 'list' } } as const;

/** Operations marked so by their schema can be called without a body; the generator knows only required ones. */
export const bodyIsOptional = { 'x-body-optional': true } as const;

/** The value of a check. @throws GatewayError EG_MALFORMED */
export function valid<T>(checked: Checked<T>): T {
  if (!checked.ok) throw malformed(checked.problems);
  return checked.value;
}

/** The error of a name that nothing has. */
export function notFound(message: string, field?: string): GatewayError {
  return new GatewayError('EG_NOT_FOUND', message, field === undefined ? {} : { field });
}

/** Responds in the form of the web application; without data if it is missing. */
export function succeed(reply: FastifyReply, data: unknown): FastifyReply {
  return reply.send({ code: 200, msg: 'Successful.', ...(data === undefined || data === null ? {} : { data }) });
}

function successOf(isEnveloped: boolean, description: string, schema: TSchema | null): TSchema {
  if (isEnveloped) {
    const data = schema === null ? {} : { data: Type.Optional(schema) };
    return content(description, Type.Object({ code: Type.Literal(200), msg: Type.String(), ...data }));
  }
  return schema === null ? Type.Null({ description }) : content(description, schema);
}

/** The body, checked. No body in an envelope is an empty object, as callers of the reading calls send none. */
function bodyOf<T>(request: FastifyRequest, { parse }: CheckedBody<T>, form: RouteForm, names: ProductNames): T {
  const bytes = request.body as Buffer | undefined;
  const isMissing = form === 'envelope' && (bytes === undefined || bytes.length === 0);
  const value = isMissing ? {} : jsonBody(request, form === 'anyType' ? 'any' : 'json');
  const checked = parse(value);
  if (checked.ok || form !== 'envelope' || !names.isReference) return valid(checked);
  const read = parse(withReadStrings(value, new Set(checked.problems.map(({ field }) => field))));
  return valid(read.ok ? read : checked);
}

/**
 * The object with the strings of some fields read as booleans and numbers, as Trino Gateway reads them
 * (docs/migration.md#rest-api); `data.x` is the field x of the object data.
 */
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

/**
 * Adds an ETag to a successful response, and responds 304 to callers who have that version (RFC 9110 §8.8.3, §13.1.2).
 * Browsers store the response and send `If-None-Match` by themselves.
 */
const revalidate: onSendAsyncHookHandler = async (request, reply, payload) => {
  if (reply.statusCode !== 200 || typeof payload !== 'string') return payload;
  // Weak: compression does not change it. Equal bodies have the same tag at every replica.
  const opaque = `"${createHash('sha256').update(payload).digest('base64url')}"`;
  reply.headers({ ETag: `W/${opaque}`, 'Cache-Control': 'private, no-cache', Vary: 'Authorization, Cookie' });
  const tags = (request.headers['if-none-match'] ?? '').split(',').map((each) => each.trim());
  if (!tags.some((each) => each === '*' || each.replace(/^W\//, '') === opaque)) return payload;
  reply.code(304).removeHeader('content-type');
  return null;
};

/** Query of a list of which callers may read a page: without it they get the whole list. */
export const ListPage = Type.Object({
  limit: optionalTextField({ pattern: '^[1-9][0-9]{0,5}$', description: 'Elements of a page; all when absent.' }),
  after: optionalTextField({
    maxLength: 1024,
    description: 'Name of the last element of the page before: its successors follow.',
  }),
});

/**
 * Returns the elements that the query asks for.
 * @throws GatewayError EG_MALFORMED if no element has the name `after`
 */
export function listPageOf<T>(
  elements: readonly T[],
  { limit, after }: Static<typeof ListPage>,
  nameOf: (element: T) => string,
): readonly T[] {
  const last = after === undefined ? -1 : elements.findLastIndex((element) => nameOf(element) === after);
  if (after !== undefined && last === -1) {
    throw malformed([{ field: 'after', message: 'must be the name of an element of the list' }]);
  }
  return elements.slice(last + 1, limit === undefined ? undefined : last + 1 + Number(limit));
}

/** A text that rows are searched by. NUL is in no row, and PostgreSQL rejects it: U+FFFD stands for it. */
export function searchText(text: string): string {
  return text.replaceAll('\0', '\ufffd');
}
