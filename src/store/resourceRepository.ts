import { isDeepStrictEqual } from 'node:util';
import type { Knex } from 'knex';
import type { Kind, ResourceKey } from '../model/resource.ts';
import { Turns } from '../model/turns.ts';
import { batches, toColumns } from './columns.ts';
import { type Database, fenceHolds } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { BackendRow, Fence, SetDifference, StatusResult, StoredResource } from './store.ts';

type Row = Readonly<Record<string, string | number | null>>;

const columnNames = {
  registryName: 'registry_name',
  resourceVersion: 'resource_version',
  creationTimestamp: 'creation_timestamp',
  row: 'backend_row',
} as const;
const plainFields = [
  'kind',
  'namespace',
  'name',
  'registryName',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'source',
] as const;
const jsonFields = ['spec', 'labels', 'annotations', 'status', 'row'] as const;

/** `annotations` of the mark that a deletion through the gateway leaves. */
const DELETED_BY_API = JSON.stringify({ 'enginegateway.dev/deleted-by': 'api' });

/** Columns of a removed resource, which stays for a day so that all replicas see the removal. */
const REMOVAL = { backend_name: null, backend_row: null, spec: '{}', status: null, annotations: '{}' };

/** Name of the row of `eg_marks` that counts confirmations of losses. */
const CONFIRMATIONS = 'deletions';

/** Rows of one statement. */
const BATCH = 50;

const rowColumns = {
  name: 'name',
  routingGroup: 'routing_group',
  proxyTo: 'backend_url',
  externalUrl: 'external_url',
  active: 'active',
} as const;

/**
 * Selects rows as they are stored, nulls of hand-written rows read as the reference's defaults
 * (docs/compatibility.md#cluster-registry).
 */
export async function backendRows(query: Knex.QueryBuilder): Promise<readonly BackendRow[]> {
  const rows = (await query.select(rowColumns)) as Readonly<Record<keyof typeof rowColumns, string | null>>[];
  return rows.map(({ name, routingGroup, proxyTo, externalUrl, active }) => ({
    name: name ?? '',
    routingGroup: routingGroup ?? 'adhoc',
    proxyTo: proxyTo ?? '',
    externalUrl: externalUrl ?? proxyTo ?? '',
    active: Boolean(active),
  }));
}

function columnOf(field: string): string {
  return columnNames[field as keyof typeof columnNames] ?? field;
}

function toRow(resource: StoredResource): Row {
  const plain = plainFields.map((field) => [columnOf(field), resource[field]]);
  const json = jsonFields.map((field) => [columnOf(field), textOf(resource[field])]);
  return { ...Object.fromEntries([...plain, ...json]), backend_name: resource.row?.name ?? null, deleted_at: null };
}

function textOf(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

function fromRow(row: Row): StoredResource {
  const plain = plainFields.map((field) => [field, row[columnOf(field)]]);
  const json = jsonFields.map((field) => [field, JSON.parse((row[columnOf(field)] as string | null) ?? 'null')]);
  return Object.fromEntries([...plain, ...json]) as unknown as StoredResource;
}

export interface ResourceChanges {
  readonly stored: readonly StoredResource[];
  readonly removed: readonly ResourceKey[];
}

/** `eg_resources` and the rows of `gateway_backend` that its resources give (docs/decisions/0005-guarded-projection.md). */
export class ResourceRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  /** @param kinds left out, every kind */
  all(kinds?: readonly Kind[]): Promise<readonly StoredResource[]> {
    return this.database.run(async (knex) => {
      const query = knex('eg_resources').whereNull('deleted_at').orderBy(['kind', 'namespace', 'name']);
      const rows: Row[] = await (kinds === undefined ? query : query.whereIn('kind', kinds));
      const turns = new Turns();
      const resources: StoredResource[] = [];
      for (const row of rows) {
        resources.push(fromRow(row));
        if (turns.isOver) await turns.next();
      }
      return resources;
    });
  }

  /**
   * Resources that changed between two marks, and those that were removed.
   * @returns null if a program that notes no marks in rows has written since: all have to be read
   */
  changes(since: string, until: string): Promise<ResourceChanges | null> {
    return this.database.run(async (knex) => {
      const rows: Row[] = await knex('eg_resources').where('changed', '>', Number(since));
      if (!rows.some(({ changed }) => Number(changed) >= Number(until))) return null;
      return {
        stored: rows.filter((row) => row.deleted_at === null).map(fromRow),
        removed: rows.filter((row) => row.deleted_at !== null).map(fromRow),
      };
    });
  }

  get(key: ResourceKey): Promise<StoredResource | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_resources').where(keyColumns(key)).whereNull('deleted_at').first();
      return row === undefined ? null : fromRow(row);
    });
  }

  /**
   * Stores a difference with the rows that its resources give, in one transaction (docs/decisions/0005-guarded-projection.md).
   * @returns the rows of these names as they were before
   */
  writeDifference(difference: SetDifference, fence: Fence): Promise<readonly BackendRow[] | 'fenced'> {
    const { stored, removed, removedRows } = difference;
    const rows = stored.map(({ row }) => row).filter((row) => row !== null);
    return this.database.transaction(async (trx) => {
      if (!(await fenceHolds(trx, this.database, fence))) return 'fenced';
      const present = await this.presentRows(trx, [...rows.map(({ name }) => name), ...removedRows]);
      for (const [, group] of Map.groupBy(removed, ({ kind, namespace }) => `${kind}/${namespace}`)) {
        const [{ kind, namespace }] = group as [ResourceKey];
        const names = group.map(({ name }) => name);
        await trx('eg_resources').where({ kind, namespace }).whereIn('name', names).whereNull('deleted_at').delete();
      }
      if (removedRows.length > 0) await trx('gateway_backend').whereIn('name', removedRows).delete();
      await putResources(trx, stored);
      const before = new Map(present.map((row) => [row.name, row]));
      await putRows(
        trx,
        rows.filter((row) => !isDeepStrictEqual(before.get(row.name), row)),
      );
      return present;
    });
  }

  /**
   * Changes a resource as the source (`source: database`), with the row that it gives. It gets the next resourceVersion, and the
   * next generation if the spec differs. The status of a resource that exists stays.
   * @param expectedVersion null: it must not exist
   * @param work returns the resource as it is to be, null for no change; `row` is the row of the stored resource as it is now
   * @returns the stored resource; null if it has another version, or for no change
   */
  edit(
    key: ResourceKey,
    expectedVersion: string | null,
    work: (stored: StoredResource | null, row: BackendRow | null) => StoredResource | null,
  ): Promise<StoredResource | null> {
    return this.marked(async (trx, mark) => {
      const current = await storedRow(trx, key);
      const before = current === undefined || current.deleted_at !== null ? null : fromRow(current);
      if ((before?.resourceVersion ?? null) !== expectedVersion) return null;
      const [present = null] = before?.row == null ? [] : await this.presentRows(trx, [before.row.name]);
      const edited = work(before, present);
      if (edited === null) return null;
      const isNew = before === null || before.uid !== edited.uid;
      const sameSpec = !isNew && isDeepStrictEqual(before.spec, edited.spec);
      const written: StoredResource = {
        ...edited,
        resourceVersion: laterVersion(mark, current?.resource_version as string | undefined),
        generation: isNew ? 1 : before.generation + (sameSpec ? 0 : 1),
        // Who writes the spec may have read an older status than there is.
        status: isNew ? edited.status : before.status,
      };
      await putResources(trx, [written], mark + 1);
      if (before?.row != null && before.row.name !== written.row?.name) await dropRow(trx, before.row.name);
      if (written.row !== null && !isDeepStrictEqual(written.row, present)) await putRows(trx, [written.row]);
      await setMark(trx, mark + 1);
      return written;
    });
  }

  putStatus(
    key: ResourceKey,
    uid: string,
    status: StoredResource['status'],
    fence: Fence | null,
  ): Promise<StatusResult> {
    return this.marked(async (trx, mark) => {
      if (fence !== null && !(await fenceHolds(trx, this.database, fence))) return 'fenced';
      const live = trx('eg_resources').where(keyColumns(key)).where({ uid }).whereNull('deleted_at');
      const current = await live.clone().first('status');
      if (current === undefined) return 'gone';
      if (current.status === textOf(status)) return 'written';
      await live.update({ status: textOf(status), changed: mark + 1 });
      await setMark(trx, mark + 1);
      return 'written';
    });
  }

  /** Deletes a resource and its row for a call of the REST API; false if it is not there, or another one. Its uid is kept for a day. */
  delete(key: ResourceKey, only: { readonly uid?: string; readonly resourceVersion?: string }): Promise<boolean> {
    return this.marked(async (trx, mark) => {
      const current = await storedRow(trx, key);
      if (current === undefined || current.deleted_at !== null) return false;
      if (only.uid !== undefined && current.uid !== only.uid) return false;
      if (only.resourceVersion !== undefined && current.resource_version !== only.resourceVersion) return false;
      const deletion = { ...REMOVAL, annotations: DELETED_BY_API };
      const now = await this.database.time(trx);
      await trx('eg_resources')
        .where(keyColumns(key))
        .update({ ...deletion, deleted_at: now, changed: mark + 1 });
      if (current.backend_name !== null) await dropRow(trx, String(current.backend_name));
      await setMark(trx, mark + 1);
      return true;
    });
  }

  /** Deletes a resource if its row was deleted by another program. @returns what was deleted */
  removeWithoutRow(key: ResourceKey, fence: Fence): Promise<StoredResource | null> {
    return this.marked(async (trx, mark) => {
      if (!(await fenceHolds(trx, this.database, fence))) return null;
      const current = await storedRow(trx, key);
      if (current === undefined || current.deleted_at !== null || current.backend_name === null) return null;
      const present = await this.presentRows(trx, [String(current.backend_name)]);
      if (present.length > 0) return null;
      const removal = { ...REMOVAL, deleted_at: await this.database.time(trx), changed: mark + 1 };
      await trx('eg_resources').where(keyColumns(key)).update(removal);
      await setMark(trx, mark + 1);
      return fromRow(current);
    });
  }

  /** uids of resources that were deleted by the REST API within a day. */
  deletedByApi(): Promise<readonly string[]> {
    return this.database.run(async (knex) => {
      const marks = knex('eg_resources').whereNotNull('deleted_at').where('annotations', DELETED_BY_API);
      const rows: readonly { readonly uid: string }[] = await marks.select('uid');
      return rows.map(({ uid }) => uid);
    });
  }

  /** Counts a confirmation that losses of resources are meant, for every replica. */
  confirmDeletions(): Promise<void> {
    return this.marked(async (trx) => {
      const row = await trx('eg_marks').where('name', CONFIRMATIONS).first('value');
      if (row === undefined) await trx('eg_marks').insert({ name: CONFIRMATIONS, value: 1 });
      else await trx('eg_marks').where('name', CONFIRMATIONS).increment('value', 1);
    });
  }

  deletionConfirmations(): Promise<number> {
    return this.database.run(async (knex) => {
      const row = await knex('eg_marks').where('name', CONFIRMATIONS).first('value');
      return Number(row?.value ?? 0);
    });
  }

  /** Grows with every change by `edit`, `putStatus` and `delete`; cheap to ask, so that replicas poll it. */
  changeMark(): Promise<string> {
    return this.database.run(async (knex) => {
      const row = await knex('eg_marks').where('name', 'resources').first('value');
      return String(row?.value ?? 0);
    });
  }

  /** Deletes marks of deletions that are older than the bound; for the retention job. */
  deleteMarksBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_resources', 'deleted_at', before, fence);
  }

  /** A transaction that holds the lock of the table's mark: changes happen one after the other, and the mark grows in their order. */
  private marked<T>(work: (trx: Knex.Transaction, mark: number) => Promise<T>): Promise<T> {
    return this.database.transaction(async (trx) => {
      const query = trx('eg_marks').where('name', 'resources').first('value');
      const row = await (this.database.dialect.forUpdate === '' ? query : query.forUpdate());
      return work(trx, Number(row?.value ?? 0));
    });
  }

  /** Rows of `gateway_backend` as they are, locked until the transaction ends: another program may be about to write them. */
  private async presentRows(trx: Knex.Transaction, names: readonly string[]): Promise<readonly BackendRow[]> {
    if (names.length === 0) return [];
    const query = trx('gateway_backend').whereIn('name', names).orderBy('name');
    return backendRows(this.database.dialect.forUpdate === '' ? query : query.forUpdate());
  }
}

function keyColumns({ kind, namespace, name }: ResourceKey): { kind: string; namespace: string; name: string } {
  return { kind, namespace, name };
}

async function storedRow(trx: Knex.Transaction, key: ResourceKey): Promise<Row | undefined> {
  return trx('eg_resources').where(keyColumns(key)).first();
}

/** @param changed the mark of the change; null: others do not follow the table */
async function putResources(
  trx: Knex.Transaction,
  resources: readonly StoredResource[],
  changed: number | null = null,
): Promise<void> {
  for (const some of batches(resources, BATCH)) {
    await trx('eg_resources')
      .insert(some.map((resource) => ({ ...toRow(resource), changed })))
      .onConflict(['kind', 'namespace', 'name'])
      .merge();
  }
}

async function putRows(trx: Knex.Transaction, rows: readonly BackendRow[]): Promise<void> {
  // In the order of the table's key, as statements of other programs on all rows go: in another one both could wait for each other.
  const inOrder = rows.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  for (const some of batches(inOrder, BATCH)) {
    await trx('gateway_backend')
      .insert(some.map((row) => toColumns(row, rowColumns)))
      .onConflict('name')
      .merge();
  }
}

async function setMark(trx: Knex.Transaction, value: number): Promise<void> {
  await trx('eg_marks').where('name', 'resources').update({ value });
}

/** Deletes a row of `gateway_backend` that no live resource gives any more. */
async function dropRow(trx: Knex.Transaction, name: string): Promise<void> {
  const other = await trx('eg_resources').where('backend_name', name).whereNull('deleted_at').first('name');
  if (other === undefined) await trx('gateway_backend').where('name', name).delete();
}

/** A version later than the mark and the one that is stored. */
function laterVersion(mark: number, version: string | undefined): string {
  const next = BigInt(version ?? '0') + 1n;
  return String(next > BigInt(mark) ? next : BigInt(mark) + 1n);
}
