import type { Knex } from 'knex';
import type { ResourceKey } from '../model/resource.ts';
import { batches, cutToWidth, storable, whereGiven, whereWithin } from './columns.ts';
import { fenceHolds } from './database.ts';
import { agedTable } from './deletion.ts';
import type { Fence } from './store.ts';

const ENTRIES = 'eg_audit';
const MARKS = 'eg_audited';
/** Row of `eg_marks` that states that the first marks are set. */
const BEGUN = 'audit';
/** Rows that one statement takes at most: entries may have 32 KB each, as marks. */
const BATCH = 50;

type Row = Readonly<Record<string, string | number | null>>;

/** Columns of the texts of an entry, with their widths in characters; without one as long as the text. */
const texts = {
  kind: ['kind', 64],
  namespace: ['namespace', 253],
  name: ['name', 256],
  resource: ['resource', 253],
  object: ['object', 512],
  user: ['user_name', 256],
  manager: ['manager', 256],
  recognisedBy: ['recognised_by', 32],
  address: ['address', 64],
  call: ['call_text', 512],
  requestId: ['request_id', 64],
  before: ['before_text', Number.POSITIVE_INFINITY],
  after: ['after_text', Number.POSITIVE_INFINITY],
} as const;
type Field = keyof typeof texts;
const fields = Object.keys(texts) as Field[];

/** Source of a change: `gateway` is the gateway itself, `database` another program that wrote into its tables. */
export const auditSources = ['rest', 'kubernetes', 'file', 'database', 'gateway'] as const;
export type AuditSource = (typeof auditSources)[number];

export const auditActions = ['create', 'change', 'delete'] as const;

/** Texts that each entry has. */
type Texts = Readonly<Record<'id' | 'kind' | 'namespace' | 'name' | 'resource' | 'object', string>>;

/**
 * A row of `eg_audit`: one change (docs/authentication.md#audit), as `GET /api/audit` describes it. An entry that is inserted twice is
 * there once; texts that do not fit are cut. `resource` is the name of its resource, empty without one; `before` and `after` are JSON;
 * `digest` is that of what a call, or the gateway itself, left of a resource, null for other changes.
 */
export interface AuditEntry extends Texts, Readonly<Record<Exclude<Field, keyof Texts> | 'digest', string | null>> {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly source: AuditSource;
  readonly action: (typeof auditActions)[number];
  readonly roles: readonly string[];
}

/** An entry as it is added: without a call, the members about the caller are left out. */
export type NewAuditEntry = Texts &
  Pick<AuditEntry, 'at' | 'source' | 'action' | 'before' | 'after'> &
  Partial<AuditEntry>;

type FilterText = 'id' | 'kind' | 'namespace' | 'name' | 'source' | 'user' | 'manager' | 'match';
/**
 * Filters of the audit; absent means any. Times in milliseconds, `from` inclusive, `to` exclusive. With `match: prefix` the beginning of all
 * texts but id and source is enough.
 */
type AuditFilter = Partial<Record<FilterText, string> & Record<'from' | 'to', number>>;

/**
 * Audit state of a resource of the source: a row of `eg_audited`. `writers` has authors and times by field manager, as JSON; `state` is JSON
 * as entries have it.
 */
export interface AuditMark
  extends ResourceKey,
    Readonly<Record<'title' | 'uid' | 'digest' | 'writers' | 'state', string>> {
  /** When that was noted, milliseconds since 1970. */
  readonly noted: number;
}

export interface SourceChange {
  readonly key: ResourceKey;
  /** New state; null: the resource is deleted. */
  readonly to: AuditMark | null;
  /** Null: no change, or one that a call recorded. */
  readonly entry: NewAuditEntry | null;
}

/** `eg_audit`, which is only added to, and `eg_audited`. */
export class AuditRepository extends agedTable('eg_audit', 'at') {
  async insert(entry: NewAuditEntry): Promise<void> {
    await this.database.run((knex) => knex(ENTRIES).insert(rowOf(entry)).onConflict('id').ignore());
  }

  /** Newest first. @param after the entry before the first one; null: begins with the newest */
  async list(filter: AuditFilter, limit: number, after: Pick<AuditEntry, 'at' | 'id'> | null) {
    const { match, from: _from, to: _to, id, source, user: user_name, ...others } = filter;
    return await this.database.run(async (knex) => {
      const query = knex(ENTRIES).limit(limit);
      whereGiven(query, { id, source }, false);
      whereGiven(query, { ...others, user_name }, match === 'prefix');
      whereWithin(query, 'at', filter);
      if (after !== null) {
        query.where('at', '<=', after.at);
        query.where((older) => older.where('at', '<', after.at).orWhere('id', '<', after.id));
      }
      const rows: Row[] = await query.orderByRaw('at desc, id desc');
      return rows.map(entryOf);
    });
  }

  /** Marks of some keys, or all; null before the first of them were set. */
  marks(keys?: readonly ResourceKey[]): Promise<readonly AuditMark[] | null> {
    return this.database.run(async (knex) => {
      if ((await knex('eg_marks').where('name', BEGUN).first('name')) === undefined) return null;
      const marks: AuditMark[] = [];
      for (const some of keys === undefined ? [undefined] : batches(keys, BATCH))
        marks.push(...(await whereKeys(knex(MARKS), some).select('*')));
      return marks.map((mark) => ({ ...mark, noted: Number(mark.noted) }));
    });
  }

  /** Records changes, each of another key, with their marks in one transaction; false if leadership was lost. */
  recordSourceChanges(changes: readonly SourceChange[], fence: Fence): Promise<boolean> {
    return this.database.transaction(async (trx) => {
      // The fence locks the leader's row, so that no other replica changes marks meanwhile.
      if (!(await fenceHolds(trx, this.database, fence))) return false;
      for (const some of batches(changes, BATCH)) {
        const keys = some.map(({ key }) => key);
        await whereKeys(trx(MARKS), keys).delete();
        const marks = some.flatMap(({ to }) =>
          to === null ? [] : [{ ...to, title: cutToWidth(to.title, 256), state: storable(to.state) }],
        );
        if (marks.length > 0) await trx(MARKS).insert(marks);
        const entries = some.flatMap(({ entry }) => (entry === null ? [] : [rowOf(entry)]));
        if (entries.length > 0) await trx(ENTRIES).insert(entries).onConflict('id').ignore();
      }
      await trx('eg_marks').insert({ name: BEGUN, value: 1 }).onConflict('name').ignore();
      return true;
    });
  }

  /** True if the last entry of a call, or of the gateway itself, at or after a time left a resource like this. */
  isRecorded({ kind, namespace, name }: ResourceKey, digest: string, since: number): Promise<boolean> {
    return this.database.run(async (knex) => {
      const entries = knex(ENTRIES).where({ kind, namespace, resource: cutToWidth(name, 253) });
      const last = await entries.whereNotNull('digest').where('at', '>=', since).orderBy('at', 'desc').first('digest');
      return last?.digest === digest;
    });
  }

  /** Deletes the oldest entries beyond a number; returns how many. */
  async deleteBeyond(entries: number, fence: Fence | null = null): Promise<number> {
    const last = await this.database.run((knex) => knex(ENTRIES).orderBy('at', 'desc').offset(entries).first('at'));
    return last === undefined ? 0 : await this.deleteBefore(Number(last.at) + 1, fence);
  }
}

/** @param keys left out: any */
function whereKeys(query: Knex.QueryBuilder, keys: readonly ResourceKey[] = []): Knex.QueryBuilder {
  for (const { kind, namespace, name } of keys) query.orWhere({ kind, namespace, name });
  return query;
}

function rowOf({ id, at, source, action, roles = [], digest = null, ...entry }: NewAuditEntry): Row {
  const columns = fields.map((field) => {
    const [column, width] = texts[field];
    return [column, entry[field] == null ? null : cutToWidth(entry[field], width)];
  });
  return { id, at, source, action, digest, roles: cutToWidth(roles.join(' '), 256), ...Object.fromEntries(columns) };
}

function entryOf({ id, at, source, action, roles, digest, ...columns }: Row): AuditEntry {
  const values = Object.fromEntries(fields.map((field) => [field, columns[texts[field][0]]]));
  const rest = { id, at: Number(at), source, action, digest, roles: roles === '' ? [] : String(roles).split(' ') };
  return { ...rest, ...values } as unknown as AuditEntry;
}
