import type { Knex } from 'knex';
import { keyText, type ResourceKey } from '../model/resource.ts';
import type {
  AuditAction,
  AuditEntry,
  AuditedState,
  AuditFilter,
  AuditMark,
  AuditPage,
  AuditRepository,
  AuditSource,
  SourceChange,
  SourceChangeResult,
} from './audit.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { cutToWidth, storable } from './historyText.ts';
import { fenceHolds } from './leaderRepository.ts';
import { whereBegins } from './prefix.ts';
import type { Fence } from './store.ts';

const ENTRIES = 'eg_audit';
const MARKS = 'eg_audited';
/** Row of `eg_marks` that says that the first marks are set. */
const BEGUN = 'audit';
/** Rows that one statement takes at most: entries may have 32 KB each, as marks. */
const BATCH = 50;

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly id: string;
  readonly at: number | string;
  readonly source: AuditSource;
  readonly action: AuditAction;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly resource: string;
  readonly object: string;
  readonly user_name: string | null;
  readonly manager: string | null;
  readonly recognised_by: string | null;
  readonly roles: string;
  readonly address: string | null;
  readonly call_text: string | null;
  readonly request_id: string | null;
  readonly before_text: string | null;
  readonly after_text: string | null;
  readonly digest: string | null;
}

interface MarkRow extends ResourceKey {
  readonly title: string;
  readonly uid: string;
  readonly digest: string;
  readonly writers: string;
  readonly noted: number | string;
}

const equalities: readonly [keyof AuditFilter, string][] = [
  ['id', 'id'],
  ['kind', 'kind'],
  ['namespace', 'namespace'],
  ['name', 'name'],
  ['user', 'user_name'],
  ['manager', 'manager'],
  ['source', 'source'],
];

/** Fields whose beginning may be enough. */
const beginnings: ReadonlySet<keyof AuditFilter> = new Set(['kind', 'namespace', 'name', 'user', 'manager']);

/** `eg_audit` and `eg_audited`. */
export class KnexAuditRepository implements AuditRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  insert(entries: readonly AuditEntry[]): Promise<void> {
    return this.database.run(async (knex) => {
      for (let start = 0; start < entries.length; start += BATCH) {
        const rows = entries.slice(start, start + BATCH).map(rowOf);
        await knex(ENTRIES).insert(rows).onConflict('id').ignore();
      }
    });
  }

  list(filter: AuditFilter, { limit, after }: AuditPage): Promise<readonly AuditEntry[]> {
    return this.database.search(async (knex) => {
      const query = knex(ENTRIES);
      for (const [field, column] of equalities) {
        const value = filter[field];
        if (value === undefined) continue;
        const text = storable(String(value));
        if (filter.match === 'prefix' && beginnings.has(field)) whereBegins(query, column, text);
        else query.where(column, text);
      }
      if (filter.from !== undefined) query.where('at', '>=', filter.from);
      if (filter.to !== undefined) query.where('at', '<', filter.to);
      if (after !== undefined) {
        query.where('at', '<=', after.at);
        query.where((older) => older.where('at', '<', after.at).orWhere('id', '<', after.id));
      }
      const rows: Row[] = await query
        .orderBy([
          { column: 'at', order: 'desc' },
          { column: 'id', order: 'desc' },
        ])
        .limit(limit);
      return rows.map(entryOf);
    });
  }

  marks(): Promise<readonly AuditMark[] | null> {
    return this.database.run(async (knex) => {
      if ((await knex('eg_marks').where('name', BEGUN).first('name')) === undefined) return null;
      const rows: MarkRow[] = await knex(MARKS).select(
        ...['kind', 'namespace', 'name', 'title', 'uid', 'digest', 'writers', 'noted'],
      );
      return rows.map((row) => ({ ...row, noted: Number(row.noted) }));
    });
  }

  begin(states: readonly AuditedState[], fence: Fence): Promise<boolean> {
    return this.database.transaction(async (trx) => {
      if (!(await fenceHolds(trx, this.database, fence))) return false;
      await trx(MARKS).delete();
      for (let start = 0; start < states.length; start += BATCH) {
        await trx(MARKS).insert(states.slice(start, start + BATCH).map(markRowOf));
      }
      await trx('eg_marks').insert({ name: BEGUN, value: 1 }).onConflict('name').ignore();
      return true;
    });
  }

  recordSourceChanges(changes: readonly SourceChange[], fence: Fence): Promise<SourceChangeResult> {
    return this.database.transaction(async (trx) => {
      // The fence locks the leader's row, so that nobody else changes marks meanwhile.
      if (!(await fenceHolds(trx, this.database, fence))) return 'fenced';
      const rows: (MarkRow & { readonly state: string })[] = await whereKeys(trx(MARKS), changes).select('*');
      const marks = new Map(rows.map((row) => [keyText(row), row]));
      const current = changes.filter(({ key, from }) => (marks.get(keyText(key))?.digest ?? null) === from);
      if (current.length > 0) {
        await whereKeys(trx(MARKS), current).delete();
        const states = current.flatMap(({ to }) => (to === null ? [] : [markRowOf(to)]));
        if (states.length > 0) await trx(MARKS).insert(states);
        const entries = current.flatMap(({ key, entry }) =>
          entry === null ? [] : [rowOf({ ...entry, before: marks.get(keyText(key))?.state ?? null })],
        );
        if (entries.length > 0) await trx(ENTRIES).insert(entries).onConflict('id').ignore();
      }
      return current.length === changes.length ? 'recorded' : 'stale';
    });
  }

  isRecorded({ kind, namespace, name }: ResourceKey, digest: string, since: number): Promise<boolean> {
    return this.database.run(async (knex) => {
      const row = await knex(ENTRIES)
        .where({ kind, namespace, resource: cutToWidth(name, 253) })
        .whereIn('source', ['rest', 'gateway', 'database'])
        .whereNotNull('digest')
        .where('at', '>=', since)
        .orderBy('at', 'desc')
        .first('digest');
      return row?.digest === digest;
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, ENTRIES, 'at', before, fence);
  }

  async deleteBeyond(entries: number, fence: Fence | null = null): Promise<number> {
    const last = await this.database.search((knex) =>
      knex(ENTRIES).orderBy('at', 'desc').offset(entries).limit(1).first('at'),
    );
    return last === undefined ? 0 : await this.deleteBefore(Number(last.at) + 1, fence);
  }
}

function whereKeys(query: Knex.QueryBuilder, changes: readonly SourceChange[]): Knex.QueryBuilder {
  for (const { key } of changes) query.orWhere({ kind: key.kind, namespace: key.namespace, name: key.name });
  return query;
}

const optional = (text: string | null, width: number): string | null =>
  text === null ? null : cutToWidth(text, width);

function rowOf(entry: AuditEntry): Row {
  const { id, at, source, action, before, after, digest } = entry;
  return {
    ...{ id, at, source, action, digest },
    kind: cutToWidth(entry.kind, 64),
    namespace: cutToWidth(entry.namespace, 253),
    name: cutToWidth(entry.name, 256),
    resource: cutToWidth(entry.resource, 253),
    object: cutToWidth(entry.object, 512),
    user_name: optional(entry.user, 256),
    manager: optional(entry.manager, 256),
    recognised_by: optional(entry.recognisedBy, 32),
    roles: cutToWidth(entry.roles.join(' '), 256),
    address: optional(entry.address, 64),
    call_text: optional(entry.call, 512),
    request_id: optional(entry.requestId, 64),
    before_text: before === null ? null : storable(before),
    after_text: after === null ? null : storable(after),
  };
}

function entryOf(row: Row): AuditEntry {
  const { id, source, action, kind, namespace, name, resource, object, manager, address, digest } = row;
  return {
    ...{ id, source, action, kind, namespace, name, resource, object, manager, address, digest },
    at: Number(row.at),
    user: row.user_name,
    recognisedBy: row.recognised_by,
    roles: row.roles === '' ? [] : row.roles.split(' '),
    call: row.call_text,
    requestId: row.request_id,
    before: row.before_text,
    after: row.after_text,
  };
}

function markRowOf({ kind, namespace, name, title, uid, digest, writers, noted, state }: AuditedState): object {
  return { kind, namespace, name, title: cutToWidth(title, 256), uid, digest, writers, noted, state: storable(state) };
}
