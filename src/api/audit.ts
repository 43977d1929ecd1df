import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { auditText } from '../operator/audit/operatorAudit.ts';
import type { AppliedChange, ChangedThing } from '../operator/registry/resourceWrites.ts';
import { digestOfState } from '../operator/sources/source.ts';
import { type AuditEntry, auditActions, auditSources } from '../store/auditRepository.ts';
import type { ApiContext, StoreContext } from './apiContext.ts';
import { malformed, pathOf } from './errors.ts';
import { routes, searchText } from './routes.ts';
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
const form = (pattern: string, description: string) => optionalTextField({ pattern, description });

const Filter = Type.Object({
  id: exact('Id of a change: that one alone.'),
  kind: exact('Kind of resource, or what else changed.'),
  namespace: exact('Namespace of its resource.'),
  name: exact('Name that it is listed by.'),
  user: exact('Who called.'),
  manager: exact('Field manager.'),
  source: Type.Optional(oneOf(auditSources, 'Where the change came from.')),
  match: Type.Optional(oneOf(['exact', 'prefix'], 'prefix: the beginning of texts is enough. exact when absent.')),
  from: instant('Changes at or after this time.'),
  to: instant('Changes before this time.'),
  limit: form('^0*([1-9][0-9]?|100)$', `How many, 1 to ${MAX_LIMIT}; ${DEFAULT_LIMIT} by default.`),
  after: form('^[0-9]{1,15}[.][0-9A-Za-z_-]{1,64}$', '`next` of the page before.'),
});

/** Routes of the audit: user, object, time and address of changes (docs/authentication.md#audit). */
export function auditRoutes(api: StoreContext): void {
  routes(api, 'audit')('GET', '/api/audit', {
    summary: 'Lists changes with who made them, when and from where',
    query: Filter,
    returns: ['A page of changes.', AuditPage],
    errors: [503],
    handle: async ({ query }): Promise<AuditPage> => {
      const { limit = DEFAULT_LIMIT, after, ...given } = query;
      const filter = Object.fromEntries(Object.entries(given).map(([field, text]) => [field, filterOf(field, text)]));
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

/** A value of a filter: a time in milliseconds, or a text. */
function filterOf(field: string, text: string): number | string {
  if (field !== 'from' && field !== 'to') return searchText(text);
  const time = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isNaN(time)) return Math.floor(time);
  throw malformed([{ field, message: 'must be a time as 2026-01-31T12:00:00Z, or milliseconds since 1970' }]);
}

function changeOf({ at, namespace, before, after, resource: _, digest: __, ...entry }: AuditEntry): AuditedChange {
  const states = { before: JSON.parse(before ?? 'null'), after: JSON.parse(after ?? 'null') };
  return { ...entry, ...states, at: iso(at), namespace: namespace === '' ? null : namespace };
}

interface Change extends Pick<AppliedChange, 'object' | 'before' | 'after'> {
  /**
   * Subject in the database's audit: kind of resource or name of another thing, and its name; null: only in the log,
   * for objects that do not last (sessions).
   */
  readonly subject: { readonly kind: string; readonly name: string } | null;
  /** Regarded object of an event; null: no event, for objects that do not last (sessions). */
  readonly regarding: ChangedThing | null;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Changes that the call makes; written to the log when it has succeeded. */
    changes: Change[];
  }
}

/** Longest body that an audit line repeats, in bytes. */
const MAX_BODY = 16_384;

/**
 * Returns the audit of calls that were rejected, or changed something: a line for every change (user, address, call, object,
 * before and after); of a call that records none, with what was sent. Never a credential: logins have no body here.
 * Changes are in the database's audit as well.
 */
export function callAudit({ logger, onChange, authentication, auditWriter, clock }: ApiContext) {
  return async (request: FastifyRequest, status: number): Promise<void> => {
    const { caller, changes, method, id: requestId } = request;
    const path = pathOf(request);
    const { address } = authentication.parts.originOf(request.raw);
    const by = { user: caller?.name ?? null, recognisedBy: caller?.by ?? null, address, requestId };
    const call = { ...by, loginMethod: caller?.method ?? null, method, path, status };
    if (status >= 400) {
      logger.warn({ audit: call }, 'call rejected');
      return;
    }
    // None if they cannot be asked for now: the change is made, and reported without them.
    const roles = [...((await caller?.roles().catch(() => null)) ?? [])];
    const content = { query: request.query, sent: bodyText(request) };
    const [object, subject] = [`${method} ${path}`, { kind: 'Call', name: path }];
    const whole = { object, subject, regarding: null, before: undefined, after: content };
    for (const change of changes.length === 0 ? [whole] : changes) {
      const { subject: about, regarding, ...states } = change;
      const { before, after } = states;
      logger.info({ audit: { ...call, ...(change === whole ? content : { roles, ...states }) } }, 'changed');
      const reference = regarding === null || regarding === 'gateway' ? null : regarding;
      const { uid = '', digest = null, namespace = '', name: resource = '' } = reference ?? {};
      if (about !== null && !isDeepStrictEqual(before, after)) {
        auditWriter?.add({
          ...{ ...about, ...by, id: randomUUID(), at: clock.now(), source: 'rest', roles, call: object },
          action: before === null ? 'create' : after === null ? 'delete' : 'change',
          ...{ namespace, resource, digest: reference !== null && after === null ? digestOfState([uid]) : digest },
          ...{ object: change.object, before: auditText(before), after: auditText(after) },
        });
      }
      if (regarding === null || by.user === null || by.recognisedBy === null) continue;
      onChange({ ...states, regarding, user: by.user, recognisedBy: by.recognisedBy, roles });
    }
  };
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
