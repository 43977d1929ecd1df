import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { routingRule } from '../kinds/routingRule/kind.ts';
import { auditText } from '../operator/audit/operatorAudit.ts';
import type { ChangedThing } from '../operator/registry/resourceWrites.ts';
import { absenceDigest } from '../operator/sources/resourceDigest.ts';
import { type AuditEntry, type AuditFilter, auditActions, auditSources } from '../store/auditRepository.ts';
import type { ApiContext, StoreContext } from './apiContext.ts';
import { malformed, pathOf } from './errors.ts';
import { routes } from './routes.ts';
import { iso, list, oneOf, optionalTextField, type ResponseBody, textField, textOrNull, time } from './schemas.ts';

export const AuditedChange = Type.Object({
  id: Type.String(),
  at: time('When it was made, or first seen.'),
  source: oneOf(
    auditSources,
    '`rest`: a call or the pages; `kubernetes`: kubectl, GitOps; `file`: manifests or the rules file; `database`: another program; `gateway`: the gateway itself.',
  ),
  action: oneOf(auditActions, 'What was done.'),
  kind: textField('Kind of resource, or what else changed, such as `QueuedQuery`.'),
  namespace: textOrNull('Of its resource.'),
  name: textField('Name that it is listed by: of a cluster that in the registry.'),
  object: textField('In words.'),
  user: textOrNull('Who called; null where no call did it.'),
  manager: textOrNull('Field managers that changed it (Kubernetes), or the other program.'),
  recognisedBy: textOrNull('How the caller was recognised, such as `session` or `basic`.'),
  roles: list(Type.String(), 'Roles of the caller.'),
  address: textOrNull('Address of the caller.'),
  call: textOrNull('Method and path of the call.'),
  requestId: textOrNull('Id of the request, as its answer and the log have it.'),
  before: Type.Unknown({ description: 'Its fields as they were, secrets masked; null: it was not there.' }),
  after: Type.Unknown({ description: 'Its fields as they are; null: it is gone.' }),
});
export type AuditedChange = ResponseBody<typeof AuditedChange>;

export const AuditPage = Type.Object({
  changes: list(AuditedChange, 'Newest first.'),
  next: textOrNull('Value of `after` for the changes before these; null: there are no more.'),
});
export type AuditPage = ResponseBody<typeof AuditPage>;

/** Changes of one response, unless the caller wants fewer. */
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;

const exact = (description: string) => optionalTextField({ maxLength: 256, description });
const instant = (description: string) =>
  optionalTextField({ maxLength: 40, description: `${description} RFC 3339, or milliseconds since 1970.` });

const Filter = Type.Object({
  id: exact('Id of a change: that one alone.'),
  kind: exact('Kind of resource, or what else changed.'),
  namespace: exact('Namespace of its resource.'),
  name: exact('Name that it is listed by.'),
  user: exact('Who called.'),
  manager: exact('Field manager.'),
  source: Type.Optional(oneOf(auditSources, 'Where the change came from.')),
  match: Type.Optional(
    oneOf(
      ['exact', 'prefix'],
      'prefix: of kind, namespace, name, user and manager the beginning is enough. exact when absent.',
    ),
  ),
  from: instant('Changes at or after this time.'),
  to: instant('Changes before this time.'),
  limit: optionalTextField({
    pattern: '^0*([1-9][0-9]?|100)$',
    description: `How many, 1 to ${MAX_LIMIT}; ${DEFAULT_LIMIT} by default.`,
  }),
  after: optionalTextField({
    pattern: '^[0-9]{1,15}[.][0-9A-Za-z_-]{1,64}$',
    description: '`next` of the page before.',
  }),
});

/** Routes of the audit: user, object, time and address of changes (docs/authentication.md#audit). */
export function auditRoutes(api: StoreContext): void {
  routes(api, 'audit')('GET', '/api/audit', {
    summary: 'Lists changes with who made them, when and from where',
    query: Filter,
    returns: ['A page of changes.', AuditPage],
    errors: [503],
    handle: async ({ query }): Promise<AuditPage> => {
      const { limit = DEFAULT_LIMIT, after, from, to, ...texts } = query;
      const filter = { ...texts, ...timeOf('from', from), ...timeOf('to', to) };
      const [at, id = ''] = after?.split('.') ?? [];
      const place = at === undefined ? null : { at: Number(at), id };
      const entries = await api.store.audit.list(filter, Number(limit) + 1, place);
      const shown = entries.slice(0, Number(limit));
      const last = shown.at(-1);
      const next = entries.length === shown.length || last === undefined ? null : `${last.at}.${last.id}`;
      return { changes: shown.map(changeOf), next };
    },
  });
}

/** A bound of the times as a filter. */
function timeOf(field: 'from' | 'to', text: string | undefined): Pick<AuditFilter, 'from' | 'to'> {
  if (text === undefined) return {};
  const time = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isNaN(time)) return { [field]: Math.floor(time) };
  throw malformed([{ field, message: 'must be a time as 2026-01-31T12:00:00Z, or milliseconds since 1970' }]);
}

function changeOf({ at, namespace, before, after, resource: _, digest: __, ...entry }: AuditEntry): AuditedChange {
  return {
    ...entry,
    at: iso(at),
    namespace: namespace === '' ? null : namespace,
    before: JSON.parse(before ?? 'null'),
    after: JSON.parse(after ?? 'null'),
  };
}

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
 * here. What changed something is in the database's audit as well.
 * @param isWrite whether a route may change something
 */
export function auditCalls(api: ApiContext, isWrite: (request: FastifyRequest) => boolean): void {
  const { app, logger, onChange, authentication, auditWriter, clock } = api;
  app.decorateRequest('changes');
  app.addHook('onRequest', async (request) => {
    request.changes = [];
  });
  app.addHook('onResponse', async (request, { statusCode: status }) => {
    const { caller, changes, method, id: requestId } = request;
    const [user, recognisedBy] = [caller?.name ?? null, caller?.by ?? null];
    const path = pathOf(request);
    const { address } = authentication.parts.originOf(request.raw);
    const call = {
      ...{ user, recognisedBy, loginMethod: caller?.method ?? null, address, method, path, status, requestId },
    };
    if (status === 401 || status === 403 || status === 429) {
      logger.warn({ audit: call }, 'call rejected');
      return;
    }
    if (status >= 400 || (changes.length === 0 && !isWrite(request))) return;
    // None if they cannot be asked for now: the change is made, and reported without them.
    const roles = [...((await caller?.roles().catch(() => null)) ?? [])];
    const by = { user, recognisedBy, roles, address, call: `${method} ${path}`, requestId, manager: null };
    const content = { query: request.query, sent: bodyText(request) };
    const subjectOfCall = { kind: 'Call', name: path };
    const whole = { object: by.call, subject: subjectOfCall, regarding: null, before: undefined, after: content };
    for (const change of changes.length === 0 ? [whole] : changes) {
      const { object, subject, regarding, before, after } = change;
      logger.info(
        { audit: { ...call, ...(change === whole ? content : { roles, object, before, after }) } },
        'changed',
      );
      if (subject !== null && !isDeepStrictEqual(before, after)) {
        const action = before === null ? 'create' : after === null ? 'delete' : 'change';
        auditWriter?.add({
          ...{ id: randomUUID(), at: clock.now(), source: 'rest', action },
          ...{ ...subject, object, ...(await leftBy(api, change)), ...by },
          ...{ before: auditText(before), after: auditText(after) },
        });
      }
      if (regarding === null || user === null || recognisedBy === null) continue;
      onChange({ object, regarding, before, after, user, recognisedBy, roles });
    }
  });
}

/** Returns the digest of what a call left of a resource or a rule of the rules file, so that the same change is not recorded as one of its source. */
async function leftBy({ operator }: ApiContext, { subject, regarding, after }: Change) {
  if (regarding !== null && regarding !== 'gateway') {
    const { digest = null, uid, namespace, name: resource } = regarding;
    return { digest: after === null ? absenceDigest(uid) : digest, namespace, resource };
  }
  // A rule of the rules file has no resource, and is known by its name.
  const name = regarding === 'gateway' && subject?.kind === routingRule.kind ? subject.name : '';
  const digest = name === '' ? null : await operator?.audit?.digestOfFileRule(name).catch(() => null);
  return { digest: digest ?? null, namespace: '', resource: name };
}

function bodyText({ body }: FastifyRequest): unknown {
  if (!Buffer.isBuffer(body)) return body ?? null;
  if (body.length > MAX_BODY) return `${body.length} bytes`;
  try {
    return JSON.parse(body.toString());
  } catch {
    return body.toString();
  }
}
