import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProductNames } from '../../model/names.ts';
import type { SpecWrite } from '../../operator/registry/specWrites.ts';
import { recordChange } from '../auth/audit.ts';
import { apiFamily, reportPending } from './writeFamily.ts';

/** A change of a routing group's limits or of a query limit. */
export interface LimitChange<State extends object> {
  /** In words, e.g. `routing group etl`. */
  readonly object: string;
  /** As it is listed. */
  readonly name: string;
  /** What is listed of it now; null: nothing. */
  readonly state: () => State | null;
  readonly write: () => Promise<SpecWrite>;
}

/**
 * Makes a change of limits: it is in the audit with what was declared before and after, and the answer reports what is not in
 * the database yet. Returns what is listed now; rejects as the write does.
 */
export async function auditedLimitChange<State extends { readonly spec: unknown }>(
  request: FastifyRequest,
  reply: FastifyReply,
  names: ProductNames,
  { object, name, state, write }: LimitChange<State>,
): Promise<State | null> {
  const before = state()?.spec ?? null;
  const { pending, resource } = await write();
  const after = state();
  const subject = { kind: resource.kind, name };
  recordChange(request, { object, subject, regarding: resource, before, after: after?.spec ?? null });
  if (pending) reportPending(reply, apiFamily, names);
  return after;
}
