import { type Static, Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { type AuditEntry, type AuditFilter, type AuditSource, auditSources } from '../store/audit.ts';
import type { AuditRepository } from '../store/auditRepository.ts';
import { type AuditedChange, AuditPage } from './answers/audit.ts';
import { oneOf } from './answers/response.ts';
import { type RouteContext, routes } from './routes.ts';
import { iso } from './schemas.ts';

/** Changes of one response, unless the caller wants fewer. */
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;

const exact = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));
const time = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, description: `${description} RFC 3339, or milliseconds since 1970.` }));

const Filter = Type.Object({
  id: exact('Id of a change: that one alone.'),
  kind: exact('Kind of resource, or what else changed.'),
  namespace: exact('Namespace of its resource.'),
  name: exact('Name that it is listed by.'),
  user: exact('Who called.'),
  manager: exact('Field manager.'),
  source: Type.Optional(oneOf<AuditSource>(auditSources, 'Where the change came from.')),
  match: Type.Optional(
    oneOf(
      ['exact', 'prefix'],
      'prefix: of kind, namespace, name, user and manager the beginning is enough. exact when absent.',
    ),
  ),
  from: time('Changes at or after this time.'),
  to: time('Changes before this time.'),
  limit: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,4}$', description: `How many, 1 to ${MAX_LIMIT}; ${DEFAULT_LIMIT} by default.` }),
  ),
  after: exact('`next` of the page before.'),
});

/** Routes of the audit: user, object, time and address of changes (docs/authentication.md#audit). */
export function auditRoutes(api: RouteContext, repository: Pick<AuditRepository, 'list'>): void {
  routes(api, 'audit')('GET', '/api/audit', {
    summary: 'Lists changes with who made them, when and from where',
    query: Filter,
    returns: ['A page of changes.', AuditPage],
    errors: [503],
    handle: async ({ query }): Promise<AuditPage> => {
      const limit = Number(query.limit ?? DEFAULT_LIMIT);
      if (limit < 1 || limit > MAX_LIMIT) throw wrong('limit', `must be from 1 to ${MAX_LIMIT}`);
      const after = query.after === undefined ? {} : { after: placeOf(query.after) };
      const entries = await repository.list(filterOf(query), { limit: limit + 1, ...after });
      const shown = entries.slice(0, limit);
      const last = shown.at(-1);
      const next = entries.length <= limit || last === undefined ? null : `${last.at}.${last.id}`;
      return { changes: shown.map(changeOf), next };
    },
  });
}

function filterOf({ limit: _limit, after: _after, from, to, ...texts }: Static<typeof Filter>): AuditFilter {
  const range = {
    ...(from === undefined ? {} : { from: timeOf('from', from) }),
    ...(to === undefined ? {} : { to: timeOf('to', to) }),
  };
  return { ...(texts as AuditFilter), ...range };
}

function timeOf(field: string, text: string): number {
  const time = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isNaN(time)) throw wrong(field, 'must be a time as 2026-01-31T12:00:00Z, or milliseconds since 1970');
  return Math.floor(time);
}

function placeOf(text: string): Pick<AuditEntry, 'at' | 'id'> {
  const [, at, id] = /^(\d{1,15})\.([\w-]{1,64})$/.exec(text) ?? [];
  if (at === undefined || id === undefined) throw wrong('after', 'must be the "next" of the page before');
  return { at: Number(at), id };
}

function wrong(field: string, message: string): GatewayError {
  return new GatewayError('EG_MALFORMED', `${field} ${message}.`, { field });
}

function changeOf({ at, namespace, before, after, resource: _, digest: __, ...entry }: AuditEntry): AuditedChange {
  return {
    ...entry,
    at: iso(at),
    namespace: namespace === '' ? null : namespace,
    before: before === null ? null : JSON.parse(before),
    after: after === null ? null : JSON.parse(after),
  };
}
