import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProductNames } from '../../model/names.ts';
import type { ResourceReference } from '../../operator/registry/appliedChange.ts';
import type { WriteContext } from '../../operator/registry/clusterRegistry.ts';
import { recordChange } from '../auth/audit.ts';
import { isForced, writerOf } from '../auth/guard.ts';

/** A family of REST calls, as far as its writes differ from those of others. */
export interface WriteFamily {
  /** Name of the writer in override annotations, without distinguishing callers. */
  readonly writer: 'api' | 'webapp' | 'entity';
  /** Status of a response while the database is unavailable: 202, or 200 in families whose callers know no other. */
  readonly pendingStatus: 200 | 202;
}

/** The cluster registry and `/api`. */
export const apiFamily: WriteFamily = { writer: 'api', pendingStatus: 202 };
export const webappFamily: WriteFamily = { writer: 'webapp', pendingStatus: 200 };
export const entityFamily: WriteFamily = { writer: 'entity', pendingStatus: 200 };

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

/** Makes the changes of a family of calls: the audit has each with the states before and after. */
export class AuditedWrites {
  readonly #names: ProductNames;
  readonly #family: WriteFamily;

  constructor(names: ProductNames, family: WriteFamily) {
    this.#names = names;
    this.#family = family;
  }

  /**
   * Makes a change. The response reports if it is not in the database yet. Rejects as `write` does.
   * @param after the state after the change; null: the object is deleted
   */
  async make<Written extends { readonly pending: boolean; readonly resource: ResourceReference | null }>(
    request: FastifyRequest,
    reply: FastifyReply,
    { object, kind, name, before }: ChangedObject,
    write: (context: WriteContext) => Promise<Written>,
    after: (written: Written) => unknown,
  ): Promise<Written> {
    const context = { by: writerOf(request, this.#family.writer), force: isForced(request) };
    const written = await write(context);
    const change = { object, subject: { kind, name }, regarding: written.resource ?? 'gateway', before } as const;
    const present = after(written);
    if (before !== null || present !== null) recordChange(request, { ...change, after: present });
    if (written.pending) reply.code(this.#family.pendingStatus).header(pendingHeader(this.#names), 'database');
    return written;
  }
}
