import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { auditText } from '../../operator/audit/auditText.ts';
import type { AppliedChange, ChangedThing } from '../../operator/registry/resourceWrites.ts';
import type { AuditAction, AuditEntry } from '../../store/audit.ts';
import { pathOf } from '../errors.ts';

export interface Change {
  /** Changed object, e.g. `EngineCluster adhoc-1`. */
  readonly object: string;
  /**
   * Subject in the database's audit: kind of resource or name of another thing, and its name; null: only in the log,
   * for objects that do not last (sessions).
   */
  readonly subject: { readonly kind: string; readonly name: string } | null;
  /** Regarded object of an event; null: no event, for objects that do not last (sessions). */
  readonly regarding: ChangedThing | null;
  /** As it was; null: it was not there. */
  readonly before: unknown;
  /** As it is; null: it is gone. */
  readonly after: unknown;
}

export interface AuditTrail {
  /** Never throws, never waits. */
  add(entry: AuditEntry): void;
  /** Digest of what a call left of a thing, so that the same change is not recorded as one of its source. */
  digestOf(change: Change): Promise<string | null>;
  readonly clock: Clock;
}

declare module 'fastify' {
  interface FastifyRequest {
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
 * rejected. A call whose route records no change is written with what was sent. Never a credential: logins have no body
 * here.
 * @param isWrite whether a route may change something
 * @param onChange gets every change that is to become an event
 * @param trail the audit in the database; null: only the log has them
 */
export function auditCalls(
  app: FastifyInstance,
  logger: Logger,
  isWrite: (request: FastifyRequest) => boolean,
  addressOf: (request: FastifyRequest) => string,
  onChange: (change: AppliedChange) => void,
  trail: AuditTrail | null,
): void {
  app.decorateRequest('changes');
  app.addHook('onRequest', async (request) => {
    request.changes = [];
  });
  app.addHook('onResponse', async (request, reply) => {
    const { statusCode } = reply;
    const user = request.caller?.name ?? null;
    const recognisedBy = request.caller?.by ?? null;
    const path = pathOf(request);
    const address = addressOf(request);
    const call = {
      ...{ user, recognisedBy, loginMethod: request.caller?.method ?? null, address },
      ...{ method: request.method, path, status: statusCode, requestId: request.id },
    };
    if (statusCode === 401 || statusCode === 403 || statusCode === 429) {
      logger.warn({ audit: call }, 'call rejected');
      return;
    }
    if (statusCode >= 400 || (request.changes.length === 0 && !isWrite(request))) return;
    const roles = await rolesOf(request);
    const addEntry = (change: Change, digest: string | null, action: AuditAction) => {
      const { object, subject, regarding } = change;
      const { kind, name } = subject ?? { kind: 'Call', name: path };
      const resource = regarding === 'gateway' ? null : regarding;
      trail?.add({
        ...{ id: randomUUID(), at: trail.clock.now(), source: 'rest', action, kind, name, object, digest },
        ...{ user, recognisedBy, roles, address, call: `${request.method} ${path}`, requestId: request.id },
        namespace: resource?.namespace ?? '',
        // A rule of the rules file has no resource, and is known by its name.
        resource: resource?.name ?? (digest === null ? '' : name),
        manager: null,
        before: auditText(change.before),
        after: auditText(change.after),
      });
    };
    for (const recorded of request.changes) {
      const { regarding, subject, ...change } = recorded;
      logger.info({ audit: { ...call, roles, ...change } }, 'changed');
      if (trail !== null && subject !== null && !isDeepStrictEqual(change.before, change.after)) {
        const digest = await trail.digestOf(recorded).catch(() => null);
        addEntry(recorded, digest, change.before === null ? 'create' : change.after === null ? 'delete' : 'change');
      }
      if (regarding === null || user === null || recognisedBy === null) continue;
      onChange({ ...change, regarding, user, recognisedBy, roles });
    }
    if (request.changes.length > 0) return;
    const after = { query: request.query, sent: sentBody(request) };
    logger.info({ audit: { ...call, ...after } }, 'changed');
    const object = `${request.method} ${path}`;
    addEntry({ object, subject: null, regarding: null, before: null, after }, null, 'change');
  });
}

/** Roles for the audit; none if they cannot be asked for now: the change is made, and reported without them. */
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
