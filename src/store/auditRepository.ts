import type { Knex } from 'knex';
import { keyText, type ResourceKey } from '../model/resource.ts';
import type {
  AuditEntry,
  AuditEntryPage,
  AuditedState,
  AuditFilter,
  AuditMark,
  SourceChange,
  SourceChangeResult,
} from './audit.ts';
import { whereBegins } from './columns.ts';
import { agedTable } from './deletion.ts';
import { cutToWidth, storable } from './historyText.ts';
import { fenceHolds } from './leaderRepository.ts';
import type { Fence } from './store.ts';

const ENTRIES = 'eg_audit';
const MARKS = 'eg_audited';
/** Row of `eg_marks` that states that the first marks are set. */
const BEGUN = 'audit';
/** Rows that one statement takes at most: entries may have 32 KB each, as marks. */
const BATCH = 50;

type Row = Readonly<Record<string, string | number | null>>;

/** Columns of the texts of an entry, with their widths in characters; null: as long as the text. */
const texts: readonly (readonly [field: keyof AuditEntry & string, column: string, width: number | null])[] = [
  ['kind', 'kind', 64],
  ['namespace', 'namespace', 253],
  ['name', 'name', 256],
  ['resource', 'resource', 253],
  ['object', 'object', 512],
  ['user', 'user_name', 256],
  ['manager', 'manager', 256],
  ['recognisedBy', 'recognised_by', 32],
  ['address', 'address', 64],
  ['call', 'call_text', 512],
  ['requestId', 'request_id', 64],
  ['before', 'before_text', null],
  ['after', 'after_text', null],
];

interface MarkRow extends ResourceKey {
  readonly title: string;
  readonly uid: string;
  readonly digest: string;
  readonly writers: string;
  readonly noted: number;
}

const equalities = { id: 'id', kind: 'kind', namespace: 'namespace', name: 'name', user: 'user_name' } as const;
const filters = Object.entries({ ...equalities, manager: 'manager', source: 'source' });

/** `eg_audit`, which is only added to, and `eg_audited`. */
export class AuditRepository extends agedTable('eg_audit', 'at') {
  insert(entries: readonly AuditEntry[]): Promise<void> {
    return this.database.run(async (knex) => {
      for (let start = 0; start < entries.length; start += BATCH) {
        const rows = entries.slice(start, start + BATCH).map(rowOf);
        await knex(ENTRIES).insert(rows).onConflict('id').ignore();
      }
    });
  }

  list(filter: AuditFilter, { limit, after }: AuditEntryPage): Promise<readonly AuditEntry[]> {
    return this.database.run(async (knex) => {
      const query = knex(ENTRIES);
      for (const [field, column] of filters) {
        const value = filter[field as keyof AuditFilter];
        if (value === undefined) continue;
        const isExact = filter.match !== 'prefix' || field === 'id' || field === 'source';
        if (isExact) query.where(column, storable(String(value)));
        else whereBegins(query, column, storable(String(value)));
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

  /** All marks; null before the first of them were set by `begin`. */
  marks(): Promise<readonly AuditMark[] | null> {
    return this.database.run(async (knex) => {
      if ((await knex('eg_marks').where('name', BEGUN).first('name')) === undefined) return null;
      const rows: MarkRow[] = await knex(MARKS).select(
        ...['kind', 'namespace', 'name', 'title', 'uid', 'digest', 'writers', 'noted'],
      );
      return rows.map((row) => ({ ...row, noted: Number(row.noted) }));
    });
  }

  /** Sets the first marks: what there is when the audit begins is no change. False when leadership was lost. */
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

  /** Records changes with their marks, at most 50 and each of another key, in one transaction: of several leaders one records each. */
  recordSourceChanges(changes: readonly SourceChange[], fence: Fence): Promise<SourceChangeResult> {
    return this.database.transaction(async (trx) => {
      // The fence locks the leader's row, so that no one else changes marks meanwhile.
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

  /** True if the last entry of a call, or of the gateway itself, at or after a time left a resource like this. */
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

  /** Deletes the oldest entries beyond a number; returns how many. */
  async deleteBeyond(entries: number, fence: Fence | null = null): Promise<number> {
    const last = await this.database.run((knex) =>
      knex(ENTRIES).orderBy('at', 'desc').offset(entries).limit(1).first('at'),
    );
    return last === undefined ? 0 : await this.deleteBefore(Number(last.at) + 1, fence);
  }
}

function whereKeys(query: Knex.QueryBuilder, changes: readonly SourceChange[]): Knex.QueryBuilder {
  for (const { key } of changes) query.orWhere({ kind: key.kind, namespace: key.namespace, name: key.name });
  return query;
}

function rowOf(entry: AuditEntry): Row {
  const { id, at, source, action, roles, digest } = entry;
  const row: Record<string, string | number | null> = { id, at, source, action, digest };
  row.roles = cutToWidth(roles.join(' '), 256);
  for (const [field, column, width] of texts) {
    const text = entry[field] as string | null;
    row[column] = text === null ? null : width === null ? storable(text) : cutToWidth(text, width);
  }
  return row;
}

function entryOf({ id, at, source, action, roles, digest, ...columns }: Row): AuditEntry {
  const fields = Object.fromEntries(texts.map(([field, column]) => [field, columns[column]]));
  const rest = { id, at: Number(at), source, action, digest, roles: roles === '' ? [] : String(roles).split(' ') };
  return { ...rest, ...fields } as unknown as AuditEntry;
}

function markRowOf({ kind, namespace, name, title, uid, digest, writers, noted, state }: AuditedState): object {
  return { kind, namespace, name, title: cutToWidth(title, 256), uid, digest, writers, noted, state: storable(state) };
}
