import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProductNames } from '../../model/names.ts';
import type { WriteContext } from '../../operator/registry/clusterRegistry.ts';
import { isForced, writerOf } from '../auth/guard.ts';

/** A family of REST calls, as far as its writes differ from those of others. */
export interface WriteFamily {
  /** Who writes, where callers are not distinguished: the name in override annotations. */
  readonly writer: 'api' | 'webapp' | 'entity';
  /** Status of an answer while the database is unavailable: 202, or 200 in families whose callers know no other. */
  readonly pendingStatus: 200 | 202;
}

/** The cluster registry and `/api`. */
export const apiFamily: WriteFamily = { writer: 'api', pendingStatus: 202 };
/** Calls of the web application. */
export const webappFamily: WriteFamily = { writer: 'webapp', pendingStatus: 200 };
/** The entity editor's calls. */
export const entityFamily: WriteFamily = { writer: 'entity', pendingStatus: 200 };

/** Name of the header of answers whose change is not in the database yet (docs/rest-api.md#cluster-registry). */
export function pendingHeader(names: ProductNames): string {
  return names.header('Gateway-Pending');
}

/** Makes an answer report that its change is safe in the resource source and follows in the database. */
export function reportPending(reply: FastifyReply, { pendingStatus }: WriteFamily, names: ProductNames): void {
  reply.code(pendingStatus).header(pendingHeader(names), 'database');
}

/** Who writes, and whether fields of other managers are taken over. */
export function writeContext(request: FastifyRequest, { writer }: WriteFamily): WriteContext {
  return { by: writerOf(request, writer), force: isForced(request) };
}
