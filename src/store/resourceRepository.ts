import { isDeepStrictEqual } from 'node:util';
import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import { type Kind, keyText, type ResourceKey } from '../model/resource.ts';
import { Turns } from '../model/turns.ts';
import { backendColumns, backendRow } from './backendRepository.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import {
  type KeptRow,
  keptAt,
  keptOfText,
  keptText,
  type MergedRow,
  mergeKept,
  seenRow,
  settleRow,
} from './derivedRow.ts';
import { isDatabaseAway } from './failures.ts';
import { GroupedWork } from './groupedWork.ts';
import { fenceHolds } from './leaderRepository.ts';
import {
  type BackendRow,
  type DerivedRow,
  type DerivedRowCount,
  type Fence,
  KEPT_ROW,
  KEPT_STATUS,
  type ProjectedResource,
  type ProjectionResult,
  type ResourceRepository,
  type SourceName,
  type StoredMark,
  type StoredResource,
} from './store.ts';

interface Row {
  readonly kind: ResourceKey['kind'];
  readonly namespace: string;
  readonly name: string;
  readonly registry_name: string;
  readonly uid: string;
  readonly resource_version: string;
  readonly generation: number;
  readonly creation_timestamp: string;
  readonly spec: string;
  readonly labels: string;
  readonly annotations: string;
  readonly status: string | null;
  readonly source: SourceName;
  readonly backend_name: string | null;
  readonly backend_row: string | null;
  readonly deleted_at: number | null;
}

/** `annotations` of the tombstone of a resource that was deleted through the gateway. */
const DELETED_BY_API = JSON.stringify({ 'enginegateway.dev/deleted-by': 'api' });

/** Name of the row of `eg_marks` that counts confirmations of losses. */
const CONFIRMATIONS = 'deletions';

/**
 * @param kept what is kept of the derived row; null for none
 * @param stored what there is of the resource
 */
function toColumns(resource: ProjectedResource, kept: KeptRow | null, stored: Row | undefined): Row {
  return {
    kind: resource.kind,
    namespace: resource.namespace,
    name: resource.name,
    registry_name: resource.registryName,
    uid: resource.uid,
    resource_version: resource.resourceVersion,
    generation: resource.generation,
    creation_timestamp: resource.creationTimestamp,
    spec: JSON.stringify(resource.spec),
    labels: JSON.stringify(resource.labels),
    annotations: JSON.stringify(resource.annotations),
    status: resource.status === KEPT_STATUS ? (stored?.status ?? null) : textOf(resource.status),
    source: resource.source,
    backend_name: kept?.projected.name ?? null,
    backend_row: kept === null ? null : keptText(kept),
    deleted_at: null,
  };
}

function textOf(status: StoredResource['status']): string | null {
  return status === null ? null : JSON.stringify(status);
}

function fromRow(row: Row): StoredResource {
  return {
    kind: row.kind,
    namespace: row.namespace,
    name: row.name,
    registryName: row.registry_name,
    uid: row.uid,
    resourceVersion: row.resource_version,
    generation: row.generation,
    creationTimestamp: row.creation_timestamp,
    spec: JSON.parse(row.spec),
    labels: JSON.parse(row.labels),
    annotations: JSON.parse(row.annotations),
    status: row.status === null ? null : JSON.parse(row.status),
    source: row.source,
  };
}

function markOf(row: Row): StoredMark {
  return { uid: row.uid, resourceVersion: row.resource_version, removed: row.deleted_at !== null };
}

/** Compares two versions as the whole numbers they are; -1, 0 or 1. */
function compareVersions(a: string, b: string): number {
  const [left, right] = [BigInt(a || '0'), BigInt(b || '0')];
  return left < right ? -1 : left > right ? 1 : 0;
}

/**
 * Whether a projection comes too late. Of one uid the higher version is newer; a uid of Kubernetes that was removed never
 * returns, while a file's may (with a higher version). Of two uids the one created later is newer.
 */
function isStale(stored: Row, resource: ProjectedResource): boolean {
  const order = compareVersions(resource.resourceVersion, stored.resource_version);
  if (stored.source !== resource.source) return false;
  if (stored.uid === resource.uid) {
    if (stored.deleted_at === null) return order < 0;
    return resource.source === 'kubernetes' || order <= 0;
  }
  const created = Date.parse(resource.creationTimestamp) - Date.parse(stored.creation_timestamp);
  return created === 0 || Number.isNaN(created) ? order < 0 : created < 0;
}

/** A resource and the row that it gives; null for none. */
interface Projection {
  readonly resource: ProjectedResource;
  readonly backend: BackendRow | typeof KEPT_ROW | null;
}

function nameOfRow({ resource, backend }: Projection): string {
  return backend === null || backend === KEPT_ROW ? resource.registryName : backend.name;
}

const widths = { name: 256, routingGroup: 256, proxyTo: 256, externalUrl: 256 } as const;

function checkWidths(backend: BackendRow | typeof KEPT_ROW | null): void {
  if (backend === null || backend === KEPT_ROW) return;
  for (const [field, width] of Object.entries(widths) as [keyof typeof widths, number][]) {
    const value = backend[field];
    if (value.length > width && [...value].length > width) {
      throw new GatewayError('EG_IMPOSSIBLE', `${field} is longer than ${width} characters; shorten it`, { field });
    }
  }
}

/** `eg_resources` and the rows of `gateway_backend` derived from it (docs/decisions/0005-guarded-projection.md). */
export class KnexResourceRepository implements ResourceRepository {
  private readonly database: Database;
  /** Projections of the leader: thousands come at once when it starts, and a transaction each would take minutes. */
  private readonly projections: GroupedWork<Projection, Fence, ProjectionResult>;

  constructor(database: Database) {
    this.database = database;
    this.projections = new GroupedWork({
      keyOf: ({ resource }) => keyText(resource),
      work: (group, fence) => this.projectGroup(group, fence),
      isShared: isDatabaseAway,
    });
  }

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

  get(key: ResourceKey): Promise<StoredResource | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_resources').where(keyColumns(key)).whereNull('deleted_at').first();
      return row === undefined ? null : fromRow(row);
    });
  }

  async project(
    resource: ProjectedResource,
    backend: BackendRow | typeof KEPT_ROW | null,
    fence: Fence | null,
    replaces?: StoredMark,
  ): Promise<ProjectionResult> {
    checkWidths(backend);
    if (fence !== null && replaces === undefined) return this.projections.add({ resource, backend }, fence);
    return this.guarded(fence, async (trx, mark) => {
      const stored = await storedRow(trx, resource);
      const isReplaced = replaces !== undefined && stored !== undefined && isDeepStrictEqual(markOf(stored), replaces);
      const { result, columns, derived } = await this.projected(trx, stored, resource, backend, isReplaced);
      if (columns === null) return result;
      await this.store(trx, stored, columns, derived);
      await setMark(trx, mark + 1);
      return result;
    });
  }

  /** Projects several resources, each another, in one transaction. */
  private projectGroup(group: readonly Projection[], fence: Fence): Promise<readonly ProjectionResult[]> {
    return this.marked(async (trx, mark) => {
      if (!(await fenceHolds(trx, this.database, fence))) return group.map(() => 'fenced' as const);
      const rows = await storedRows(
        trx,
        group.map(({ resource }) => resource),
      );
      const results = new Map<Projection, ProjectionResult>();
      const fresh: Row[] = [];
      let changes = 0;
      // In the order of the table's key, as statements of other programs on all rows go: in another one both could wait for each other.
      const inOrder = [...group].sort((one, other) => (nameOfRow(one) < nameOfRow(other) ? -1 : 1));
      for (const projection of inOrder) {
        const { resource, backend } = projection;
        const stored = rows.get(keyText(resource));
        const { result, columns, derived } = await this.projected(trx, stored, resource, backend, false);
        results.set(projection, result);
        if (columns === null) continue;
        changes += 1;
        if (stored === undefined && derived === null) fresh.push(columns);
        else await this.store(trx, stored, columns, derived);
      }
      if (fresh.length > 0) await trx('eg_resources').insert(fresh);
      if (changes > 0) await setMark(trx, mark + changes);
      return group.map((projection) => results.get(projection) as ProjectionResult);
    });
  }

  /**
   * What a projection would make of what is stored.
   * @param isReplaced what is stored is replaced although it seems newer
   * @returns `columns` null where nothing is to be stored
   */
  private async projected(
    trx: Knex.Transaction,
    stored: Row | undefined,
    resource: ProjectedResource,
    backend: Projection['backend'],
    isReplaced: boolean,
  ): Promise<{
    readonly result: ProjectionResult;
    readonly columns: Row | null;
    readonly derived: WrittenRow | null;
  }> {
    if (stored !== undefined && !isReplaced && isStale(stored, resource)) {
      return { result: 'stale', columns: null, derived: null };
    }
    const derived = await derivedRow(trx, this.database, stored, backend);
    const columns = toColumns(resource, derived?.kept ?? null, stored);
    const isSame = stored !== undefined && isDeepStrictEqual({ ...stored }, columns) && derived?.isWritten !== true;
    const result = derived?.foreign === true ? 'foreign' : isSame ? 'unchanged' : 'applied';
    return { result, columns: isSame ? null : columns, derived };
  }

  derivedRow(key: ResourceKey, fence: Fence): Promise<DerivedRow | 'fenced' | null> {
    // Under the mark's lock no projection of ours comes between the two.
    return this.marked(async (trx) => {
      if (!(await fenceHolds(trx, this.database, fence))) return 'fenced';
      const stored = await storedRow(trx, key);
      if (stored?.backend_row == null || stored.deleted_at !== null) return null;
      const { projected } = keptOfText(stored.backend_row);
      const present = await presentRow(trx, this.database, projected.name);
      const text = keptText(seenRow(projected, present, await this.database.time(trx)));
      if (text !== stored.backend_row) await trx('eg_resources').where(keyColumns(key)).update({ backend_row: text });
      return { projected, present };
    });
  }

  settleRow(key: ResourceKey, backend: BackendRow, settled: DerivedRow, fence: Fence): Promise<ProjectionResult> {
    return this.guarded(fence, async (trx, mark) => {
      const stored = await storedRow(trx, key);
      if (stored === undefined || stored.deleted_at !== null || stored.backend_name !== backend.name) return 'stale';
      const derived = await derivedRow(trx, this.database, stored, backend, settled);
      const columns = { ...stored, backend_row: derived === null ? null : keptText(derived.kept) };
      await this.store(trx, stored, columns, derived);
      await setMark(trx, mark + 1);
      return derived?.foreign === true ? 'foreign' : 'applied';
    });
  }

  countDerivedRows(): Promise<DerivedRowCount> {
    return this.marked(async (trx) => {
      const projected: readonly { readonly backend_name: string }[] = await trx('eg_resources')
        .whereNull('deleted_at')
        .whereNotNull('backend_row')
        .select('backend_name');
      const rows: readonly { readonly name: string }[] = await trx('gateway_backend').select('name');
      const names = new Set(rows.map(({ name }) => name));
      const missing = projected.filter(({ backend_name: name }) => !names.has(name));
      return { projected: projected.length, missing: missing.length };
    });
  }

  mark(key: ResourceKey): Promise<StoredMark | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_resources').where(keyColumns(key)).first();
      return row === undefined ? null : markOf(row);
    });
  }

  remove(key: ResourceKey, uid: string, fence: Fence | null): Promise<ProjectionResult> {
    return this.guarded(fence, async (trx, mark) => {
      const stored = await storedRow(trx, key);
      if (stored !== undefined && stored.uid !== uid) return 'stale';
      const byApi = fence === null;
      if (stored !== undefined && stored.deleted_at !== null) {
        if (byApi) await trx('eg_resources').where(keyColumns(key)).update({ annotations: DELETED_BY_API });
        return 'unchanged';
      }
      const last = stored?.backend_row == null ? null : keptOfText(stored.backend_row);
      const present = last === null || last.missing ? null : await presentRow(trx, this.database, last.projected.name);
      await this.bury(trx, key, uid, stored, byApi);
      await setMark(trx, mark + 1);
      const isForeign = last !== null && present !== null && !isDeepStrictEqual(present, last.projected);
      return isForeign ? 'foreign' : 'applied';
    });
  }

  async write(
    resource: StoredResource,
    backend: BackendRow | typeof KEPT_ROW | null,
    expectedVersion: string | null,
  ): Promise<StoredResource | null> {
    checkWidths(backend);
    return this.marked(async (trx, mark) => {
      const stored = await storedRow(trx, resource);
      const live = stored !== undefined && stored.deleted_at === null ? stored : undefined;
      if (live?.resource_version !== (expectedVersion ?? undefined)) return null;
      const version = [String(mark + 1), nextVersion(stored?.resource_version)].reduce((a, b) =>
        compareVersions(a, b) < 0 ? b : a,
      );
      const sameSpec = live !== undefined && isDeepStrictEqual(JSON.parse(live.spec), resource.spec);
      const generation = live === undefined ? 1 : sameSpec ? live.generation : live.generation + 1;
      // Who writes the spec may have read an older status than there is.
      const status = live === undefined ? resource.status : fromRow(live).status;
      const written: StoredResource = { ...resource, resourceVersion: version, generation, status };
      const derived = await derivedRow(trx, this.database, stored, backend);
      await this.store(trx, stored, toColumns(written, derived?.kept ?? null, stored), derived);
      await setMark(trx, mark + 1);
      return written;
    });
  }

  delete(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    return this.marked(async (trx, mark) => {
      const stored = await storedRow(trx, key);
      if (stored === undefined || stored.deleted_at !== null) return false;
      if (expectedVersion !== null && stored.resource_version !== expectedVersion) return false;
      await this.bury(trx, key, stored.uid, stored, true);
      await setMark(trx, mark + 1);
      return true;
    });
  }

  deletedByApi(): Promise<readonly string[]> {
    return this.database.run(async (knex) => {
      const tombstones = knex('eg_resources').whereNotNull('deleted_at').where('annotations', DELETED_BY_API);
      const rows: readonly { readonly uid: string }[] = await tombstones.select('uid');
      return rows.map(({ uid }) => uid);
    });
  }

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

  changeMark(): Promise<string> {
    return this.database.run(async (knex) => {
      const row = await knex('eg_marks').where('name', 'resources').first('value');
      return String(row?.value ?? 0);
    });
  }

  /** Deletes tombstones older than the bound; for the retention job. */
  deleteTombstonesBefore(before: number, fence: Fence | null = null): Promise<number> {
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

  private guarded(
    fence: Fence | null,
    work: (trx: Knex.Transaction, mark: number) => Promise<ProjectionResult>,
  ): Promise<ProjectionResult> {
    return this.marked(async (trx, mark) => {
      if (fence !== null && !(await fenceHolds(trx, this.database, fence))) return 'fenced';
      return work(trx, mark);
    });
  }

  private async store(trx: Knex.Transaction, stored: Row | undefined, columns: Row, derived: WrittenRow | null) {
    if (stored === undefined) await trx('eg_resources').insert(columns);
    else await trx('eg_resources').where(keyColumns(columns)).update(columns);
    if (stored?.backend_name !== undefined && stored.backend_name !== columns.backend_name) {
      await dropBackend(trx, stored.backend_name);
    }
    if (derived === null || derived.row === null || !derived.isWritten) return;
    await trx('gateway_backend').insert(backendColumns(derived.row)).onConflict('name').merge();
  }

  /** Leaves a tombstone, also for a resource never stored: a replica may still be about to project it. */
  private async bury(
    trx: Knex.Transaction,
    key: ResourceKey,
    uid: string,
    stored: Row | undefined,
    byApi: boolean,
  ): Promise<void> {
    const now = await this.database.time(trx);
    const annotations = byApi ? DELETED_BY_API : '{}';
    const tombstone = {
      ...{ backend_name: null, backend_row: null, deleted_at: now },
      ...{ spec: '{}', status: null, annotations },
    };
    if (stored !== undefined) {
      await trx('eg_resources').where(keyColumns(key)).update(tombstone);
      // The deletion follows that of the row, which the other gateway has added again meanwhile.
      const isOthers = byApi && stored.backend_row !== null && keptOfText(stored.backend_row).missing;
      if (!isOthers) await dropBackend(trx, stored.backend_name);
      return;
    }
    const unknown = {
      resourceVersion: '0',
      generation: 0,
      creationTimestamp: '',
      registryName: key.name,
      source: 'kubernetes',
    };
    const empty = { ...unknown, spec: {}, labels: {}, annotations: {}, status: null };
    await trx('eg_resources').insert({
      ...toColumns({ ...key, uid, ...empty } as StoredResource, null, stored),
      ...tombstone,
    });
  }
}

function keyColumns(key: ResourceKey): { kind: string; namespace: string; name: string } {
  return { kind: key.kind, namespace: key.namespace, name: key.name };
}

async function storedRow(trx: Knex.Transaction, key: ResourceKey): Promise<Row | undefined> {
  return trx('eg_resources').where(keyColumns(key)).first();
}

/** Rows by `keyText`. */
async function storedRows(trx: Knex.Transaction, keys: readonly ResourceKey[]): Promise<ReadonlyMap<string, Row>> {
  const rows = new Map<string, Row>();
  for (const [, group] of Map.groupBy(keys, ({ kind, namespace }) => `${kind}/${namespace}`)) {
    const [{ kind, namespace }] = group as [ResourceKey];
    const names = group.map(({ name }) => name);
    const query = trx('eg_resources').where({ kind, namespace }).whereIn('name', names);
    for (const row of (await query) as readonly Row[]) rows.set(keyText(row), row);
  }
  return rows;
}

async function setMark(trx: Knex.Transaction, value: number): Promise<void> {
  await trx('eg_marks').where('name', 'resources').update({ value });
}

/** The derived row of a transaction, and whether the table lacks it as it should be. */
interface WrittenRow extends MergedRow {
  readonly kept: KeptRow;
  readonly isWritten: boolean;
}

/** A row as it is now, locked until the transaction ends: another gateway may be about to write it. */
async function presentRow(trx: Knex.Transaction, database: Database, name: string): Promise<BackendRow | null> {
  const query = trx('gateway_backend').where('name', name).first();
  const row = await (database.dialect.forUpdate === '' ? query : query.forUpdate());
  return row === undefined ? null : backendRow(row);
}

/** What becomes of the row that a resource gives; null where it gives none. @param settled what was decided on */
async function derivedRow(
  trx: Knex.Transaction,
  database: Database,
  stored: Row | undefined,
  given: BackendRow | typeof KEPT_ROW | null,
  settled?: DerivedRow,
): Promise<WrittenRow | null> {
  const last = stored?.deleted_at === null && stored.backend_row !== null ? keptOfText(stored.backend_row) : null;
  const wanted = given === KEPT_ROW ? (last?.projected ?? null) : given;
  if (wanted === null) return null;
  const present = await presentRow(trx, database, wanted.name);
  const previous = last?.projected.name === wanted.name ? last : null;
  const isSettling = previous !== null && Object.keys(previous.seen).length > 0;
  const before = isSettling ? keptAt(previous, await database.time(trx)) : previous;
  const { merged, kept } =
    settled === undefined
      ? mergeKept(before, present, wanted)
      : settledRow(settleRow(before?.projected ?? null, present, wanted, settled));
  return { ...merged, kept, isWritten: merged.row !== null && !isDeepStrictEqual(present, merged.row) };
}

function settledRow(merged: MergedRow): { readonly merged: MergedRow; readonly kept: KeptRow } {
  return { merged, kept: { projected: merged.projected, seen: {}, seenAt: 0, missing: false } };
}

/** Deletes a row of `gateway_backend` that no live resource derives any more. */
async function dropBackend(trx: Knex.Transaction, name: string | null): Promise<void> {
  if (name === null) return;
  const other = await trx('eg_resources').where('backend_name', name).whereNull('deleted_at').first('name');
  if (other === undefined) await trx('gateway_backend').where('name', name).delete();
}

function nextVersion(version: string | undefined): string {
  return String(BigInt(version ?? '0') + 1n);
}
