import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { AppliedChange, ChangedThing } from '../../operator/registry/appliedChange.ts';
import { pathOf } from '../errors.ts';

/** A change that a call made. */
export interface Change {
  /** What changed, e.g. `EngineCluster adhoc-1`. */
  readonly object: string;
  /** What an event about it is about; null: it becomes none, as it is nothing that lasts (sessions). */
  readonly regarding: ChangedThing | null;
  /** As it was; null: it was not there. */
  readonly before: unknown;
  /** As it is; null: it is gone. */
  readonly after: unknown;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What the call changed, as far as its route records it. */
    changes: Change[];
  }
}

/** Longest body that an audit line repeats, in bytes. */
const MAX_BODY = 16_384;

/** Records for the audit what a call changes; written to the log when the call has succeeded. */
export function recordChange(request: FastifyRequest, change: Change): void {
  request.changes.push(change);
}

/**
 * Writes a line for every change (who, from where, by which call, what, before and after) and for every call that was
 * refused. A call whose route records no change is written with what was sent. Never a credential: logins have no body here.
 * @param isWrite whether a route may change something
 * @param onChange gets every change that is to become an event
 */
export function auditCalls(
  app: FastifyInstance,
  logger: Logger,
  isWrite: (request: FastifyRequest) => boolean,
  addressOf: (request: FastifyRequest) => string,
  onChange: (change: AppliedChange) => void,
): void {
  app.decorateRequest('changes');
  app.addHook('onRequest', async (request) => {
    request.changes = [];
  });
  app.addHook('onResponse', async (request, reply) => {
    const { statusCode } = reply;
    const who = { user: request.caller?.name ?? null, recognisedBy: request.caller?.by ?? null };
    const call = {
      ...who,
      address: addressOf(request),
      method: request.method,
      path: pathOf(request),
      status: statusCode,
      requestId: request.id,
    };
    if (statusCode === 401 || statusCode === 403 || statusCode === 429) {
      logger.warn({ audit: call }, 'call refused');
      return;
    }
    if (statusCode >= 400) return;
    const roles = request.changes.length === 0 ? [] : await rolesOf(request);
    for (const { regarding, ...change } of request.changes) {
      logger.info({ audit: { ...call, roles, ...change } }, 'changed');
      const { user, recognisedBy } = who;
      if (regarding === null || user === null || recognisedBy === null) continue;
      onChange({ ...change, regarding, user, recognisedBy, roles });
    }
    if (request.changes.length > 0 || !isWrite(request)) return;
    logger.info({ audit: { ...call, query: request.query, sent: sentBody(request) } }, 'changed');
  });
}

/** Roles for the audit; none where they cannot be asked for now: the change is made, and reported without them. */
async function rolesOf({ caller }: FastifyRequest): Promise<readonly string[]> {
  const roles = await caller?.roles().catch(() => null);
  return [...(roles ?? [])];
}

function sentBody(request: FastifyRequest): unknown {
  const body = request.body;
  if (!Buffer.isBuffer(body)) return body ?? null;
  if (body.length > MAX_BODY) return `${body.length} bytes`;
  const text = body.toString();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
