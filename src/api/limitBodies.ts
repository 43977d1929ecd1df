import type { FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import type { Problem } from '../model/errors.ts';
import { compileCheck } from '../model/validation.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';

const version = Type.String({ maxLength: 64, description: 'Of what was seen: 409 when it has changed.' });

/** The field of a body that states which version the caller has seen. */
export const Version = { version: Type.Optional(version) };

export const DeletedVersion = Type.Object({ version: Type.Optional(version) });

const checks = new WeakMap<TSchema, ReturnType<typeof compileCheck>>();

/**
 * The spec that a body holds, and the version that it replaces.
 * @param problems of the spec, in addition to what the schema states
 * @throws GatewayError EG_MALFORMED
 */
export function sentSpec<Spec extends object>(
  request: FastifyRequest,
  schema: TSchema,
  problems: (spec: unknown) => readonly Problem[],
): { readonly spec: Spec; readonly version: string | undefined } {
  const check = checks.get(schema) ?? compileCheck(schema);
  checks.set(schema, check);
  const checked = check(jsonBody(request));
  if (!checked.ok) throw malformed(checked.problems);
  const { version: seen, ...spec } = checked.value as Spec & { readonly version?: string };
  const mistakes = problems(spec).map((problem) => ({ ...problem, field: problem.field.replace(/^spec\./, '') }));
  if (mistakes.length > 0) throw malformed(mistakes);
  return { spec: spec as unknown as Spec, version: seen };
}

/** The version that a deletion is about; undefined: any. */
export function sentVersion(request: FastifyRequest): string | undefined {
  return (request.query as { readonly version?: string }).version;
}
