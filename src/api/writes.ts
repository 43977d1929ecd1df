import type { FastifyReply } from 'fastify';
import { type TSchema, Type } from 'typebox';
import type { Problem } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { compileCheck } from '../model/validation.ts';
import type { ResourceReference, WriteContext } from '../operator/registry/resourceWrites.ts';
import { isForced, writerOf } from './auth/guard.ts';
import { malformed } from './errors.ts';
import type { Call, CheckedBody } from './routes.ts';

/** Name of the header of responses to changes that are not in the database yet (docs/rest-api.md#cluster-registry). */
export function pendingHeader(names: ProductNames): string {
  return names.header('Gateway-Pending');
}

export interface ChangedObject {
  /** In words, e.g. `routing group etl`. */
  readonly object: string;
  readonly kind: string;
  readonly name: string;
  /** Its state before the change; null: it does not exist. */
  readonly before: unknown;
}

/**
 * Makes a change: the audit has it with the states before and after, and the response reports if it is not in the database yet, by 202 or,
 * in families of calls that have no 202, by the header only. Rejects as `write` does.
 * @param after the state after the change; null: the object is deleted
 */
export async function makeChange<Written extends { pending: boolean; resource: ResourceReference | null }>(
  names: ProductNames,
  { request, reply }: Call,
  { object, kind, name, before }: ChangedObject,
  write: (context: WriteContext) => Promise<Written>,
  after: (written: Written) => unknown,
): Promise<Written> {
  const [, family = ''] = /^\/(webapp|entity)\b/.exec(request.routeOptions.url ?? '') ?? [];
  const { namespace } = request.query as { readonly namespace?: string };
  const written = await write({ by: writerOf(request, family || 'api'), force: isForced(request), namespace });
  const change = { object, subject: { kind, name }, regarding: written.resource ?? 'gateway', before } as const;
  const present = after(written);
  if (before !== null || present !== null) request.changes.push({ ...change, after: present });
  if (written.pending) reply.code(family === '' ? 202 : 200).header(pendingHeader(names), 'database');
  return written;
}

const version = Type.String({ maxLength: 64, description: 'Of what was seen: 409 when it has changed.' });

/** The field of a body, or the query of a deletion, that states which version the caller has seen. */
export const Version = { version: Type.Optional(version) };
export const DeletedVersion = Type.Object(Version);

/** A spec that a caller sends whole, and the version that it replaces. */
export interface SpecBody<Spec> {
  readonly spec: Spec;
  readonly version: string | undefined;
}

/** The body that holds a spec of a schema with `Version`. */
export function specBody<Spec extends object>(schema: TSchema): CheckedBody<SpecBody<Spec>> {
  const check = compileCheck(schema);
  return {
    schema,
    parse: (value) => {
      const checked = check(value);
      if (!checked.ok) return checked;
      const { version, ...spec } = checked.value as Spec & { readonly version?: string };
      return { ok: true, value: { spec: spec as unknown as Spec, version } };
    },
  };
}

/** Rejects a body with mistakes of a spec. @param path what its fields are below in the body */
export function requireNone(problems: readonly Problem[], path = ''): void {
  const own = problems.map((problem) => ({ ...problem, field: problem.field.replace(/^spec\./, path) }));
  if (own.length > 0) throw malformed(own);
}

/** Most warnings of a response, and characters of one: headers have an end. */
const MAX_WARNINGS = 8;
const MAX_LENGTH = 500;

/**
 * Adds a `Warning` header (code 299, miscellaneous persistent warning) a text. Headers hold ASCII only: other characters
 * are percent-encoded as UTF-8.
 */
export function warn(reply: FastifyReply, texts: readonly string[]): void {
  const lines = texts.slice(0, MAX_WARNINGS).map((text) => {
    const ascii = text.replaceAll(/[^\x20-\x7e]+/g, (part) => encodeURIComponent(part.toWellFormed()));
    return `299 engine-gateway "${ascii.slice(0, MAX_LENGTH).replaceAll(/["\\]/g, '\\$&')}"`;
  });
  if (lines.length > 0) reply.header('Warning', lines);
}
