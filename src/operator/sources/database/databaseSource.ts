import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { activeAnnotation } from '../../../kinds/engineCluster/clusterOutcome.ts';
import type { KindRegistry } from '../../../kinds/resourceKind.ts';
import type { Clock } from '../../../model/clock.ts';
import {
  ACTIVE_ANNOTATION,
  apiVersionOf,
  type Kind,
  keyOfText,
  keyText,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../../model/resource.ts';
import { type FieldChange, rowChanges } from '../../../store/externalRow.ts';
import type { ResourceChanges } from '../../../store/resourceRepository.ts';
import type { BackendRow, Fence, Store, StoredResource } from '../../../store/store.ts';
import {
  type ApplyOptions,
  changedResource,
  FencedWrite,
  type NewResource,
  noSuchResource,
  PolledSource,
  type ResourceChange,
  resourceExists,
  resourceOfStored,
  storedOfResource,
  VersionConflict,
} from '../source.ts';

export interface DatabaseSourceOptions {
  readonly store: Pick<Store, 'resources' | 'backends'>;
  /** Kinds that there are; left out, all of `registry.ts`. */
  readonly kinds: KindRegistry;
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time between looks for changes by other replicas and other programs, in milliseconds: 500. */
  readonly pollMs?: number;
  /** Called with each change by another program that this replica took over. Must not throw. */
  readonly onExternalChange?: (resource: Resource, fields: readonly FieldChange[]) => void;
}

interface ResourceRow {
  readonly stored: StoredResource;
  /** Null: it is not listed, as the row of its cluster is missing. */
  readonly listed: Resource | null;
}

/** A row has to be missing for this time, in milliseconds: a table that is being filled again is not empty. */
const MISSING_MS = 1_000;
/** All resources are read again after a change, if that was not done for this time: a program of the version before may write. */
const READ_ALL_MS = 30_000;

/**
 * Resources as rows of `eg_resources`, which are the truth; changes by other replicas are seen by a change mark. Of a cluster the
 * row of `gateway_backend` is the truth for name, URLs, group and `active`: what another program writes there is taken over, and
 * a cluster without its row is not listed.
 */
export class DatabaseSource extends PolledSource {
  readonly name = 'database';
  readonly writeNamespace: string;
  readonly #options: DatabaseSourceOptions;
  #rows: ReadonlyMap<string, ResourceRow> = new Map();
  /** Since when rows of clusters are missing, monotonic milliseconds by `keyText`. */
  readonly #missing = new Map<string, number>();
  #mark: string | null = null;
  #readAllAt = Number.NEGATIVE_INFINITY;
  #writes = 0;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  #running = false;

  constructor(options: DatabaseSourceOptions) {
    super();
    this.#options = options;
    this.writeNamespace = options.namespace;
  }

  async start(syncTimeoutMs: number): Promise<void> {
    this.#running = true;
    void this.#poll();
    await this.whenSynced(syncTimeoutMs);
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    await this.#turn;
  }

  protected readAll(kind: Kind): readonly Resource[] {
    return [...this.#rows.values()].flatMap(({ listed }) => (listed?.kind === kind ? [listed] : []));
  }

  protected read(key: ResourceKey): Resource | null {
    return this.#rows.get(keyText(key))?.listed ?? null;
  }

  protected placeOf(key: ResourceKey): string {
    return `eg_resources: ${keyText(key)}`;
  }

  protected async createResource(fresh: NewResource): Promise<Resource> {
    const resource: Resource = {
      apiVersion: apiVersionOf(fresh.kind),
      kind: fresh.kind,
      metadata: {
        name: fresh.name,
        namespace: fresh.namespace,
        uid: randomUUID(),
        resourceVersion: '0',
        generation: 1,
        creationTimestamp: new Date(this.#options.clock.now()).toISOString(),
        labels: fresh.labels ?? {},
        annotations: fresh.annotations ?? {},
      },
      spec: fresh.spec,
    };
    for (const isLast of [false, true]) {
      // One of which another program deleted the row may still be stored, or be removed by the leader by now.
      const before = this.read(fresh) === null ? this.#rows.get(keyText(fresh)) : undefined;
      const version = before?.stored.resourceVersion ?? null;
      const written = await this.#edit(fresh, version, () => this.#toStored(resource, null));
      if (written !== null) return written;
      await this.#readRows();
      if (isLast || this.read(fresh) !== null) break;
    }
    throw resourceExists(fresh);
  }

  protected async applyChange(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource> {
    const current = this.read(key);
    if (current === null) throw noSuchResource(key);
    const isExpected = current.metadata.resourceVersion === options.expectedVersion;
    const changed = (resource: Resource): Resource => changedResource(resource, change);
    const written = isExpected ? await this.#change(key, options.expectedVersion, changed) : null;
    if (written !== null) return written;
    await this.#readRows();
    throw new VersionConflict(key);
  }

  protected async deleteResource(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    const only = expectedVersion === null ? {} : { resourceVersion: expectedVersion };
    if (await this.#options.store.resources.delete(key, only)) {
      this.#take(keyText(key), null);
      return true;
    }
    await this.#readRows();
    if (expectedVersion !== null && this.read(key) !== null) throw new VersionConflict(key);
    return false;
  }

  protected async writeStatus(
    key: ResourceKey,
    uid: string,
    status: ResourceStatus,
    fence: Fence | null,
  ): Promise<void> {
    const result = await this.#options.store.resources.putStatus(key, uid, { ...status }, fence);
    if (result === 'fenced') throw new FencedWrite();
    // Deleted or changed meanwhile: the response to a later transaction may come before that to an earlier one.
    const stored = this.#rows.get(keyText(key))?.stored;
    if (result === 'written' && stored?.uid === uid) this.#take(keyText(key), { ...stored, status: { ...status } });
  }

  /** Changes a resource of this version, which takes over first what another program wrote into its row. */
  async #change(
    key: ResourceKey,
    expectedVersion: string,
    work: (resource: Resource) => Resource,
  ): Promise<Resource | null> {
    let fields: readonly FieldChange[] = [];
    const written = await this.#edit(key, expectedVersion, (stored, row) => {
      if (stored === null) return null;
      const at = new Date(this.#options.clock.now()).toISOString();
      const before = resourceOfStored(stored);
      fields = stored.row === null || row === null ? [] : rowChanges(stored.row, row);
      const isTakenOver = stored.row !== null && row !== null && fields.length > 0;
      const changed = work(isTakenOver ? resourceWithRow(before, stored.row, row, at) : before);
      return changed === before ? null : this.#toStored(changed, row ?? stored.row);
    });
    if (written !== null && fields.length > 0) this.#options.onExternalChange?.(written, fields);
    return written;
  }

  /** @param row of a resource that gives none by itself, as it is suspended or not valid */
  #toStored(resource: Resource, row: BackendRow | null): StoredResource {
    const ownRow = this.#options.kinds.of(resource.kind).rows?.ofResource(resource) ?? row;
    return storedOfResource(resource, 'database', ownRow);
  }

  async #edit(
    key: ResourceKey,
    expectedVersion: string | null,
    work: (stored: StoredResource | null, row: BackendRow | null) => StoredResource | null,
  ): Promise<Resource | null> {
    const written = await this.#options.store.resources.edit(key, expectedVersion, work);
    if (written === null) return null;
    this.#missing.delete(keyText(key));
    this.#take(keyText(key), written);
    return resourceOfStored(written);
  }

  /** Takes over one resource that we wrote, unless a newer one has been read meanwhile. */
  #take(key: string, stored: StoredResource | null): void {
    const before = this.#rows.get(key)?.stored;
    const isSame = stored !== null && before?.uid === stored.uid;
    if (isSame && BigInt(before.resourceVersion) > BigInt(stored.resourceVersion)) return;
    this.#writes += 1;
    const others = [...this.#rows.values()].map((row) => row.stored).filter((each) => keyText(each) !== key);
    this.#replace(stored === null ? others : [...others, stored]);
  }

  #replace(all: Iterable<StoredResource>): void {
    const before = this.#rows;
    const missingSince = this.#options.clock.monotonic() - MISSING_MS;
    const rows = new Map<string, ResourceRow>();
    for (const stored of all) {
      const key = keyText(stored);
      const last = before.get(key);
      const isMissing = (this.#missing.get(key) ?? Number.POSITIVE_INFINITY) <= missingSince;
      const present = last?.stored === stored ? last.listed : null;
      rows.set(key, { stored, listed: isMissing ? null : (present ?? resourceOfStored(stored)) });
    }
    this.#rows = rows;
    for (const key of new Set([...before.keys(), ...rows.keys()])) {
      const [last, next] = [before, rows].map((each) => each.get(key)?.listed ?? null);
      if (last !== next) this.reportChange(keyOfText(key), last ?? null);
    }
  }

  /** Takes over what another program wrote into the rows of clusters, and notes which rows are missing. */
  async #followRows(rows: readonly BackendRow[]): Promise<void> {
    const byName = new Map(rows.map((row) => [row.name, row]));
    const now = this.#options.clock.monotonic();
    let isChanged = false;
    for (const [key, { stored, listed }] of this.#rows) {
      if (stored.row === null) continue;
      const present = byName.get(stored.row.name);
      if (present === undefined) {
        const since = this.#missing.get(key) ?? now;
        this.#missing.set(key, since);
        isChanged ||= now - since >= MISSING_MS && listed !== null;
      } else {
        isChanged = this.#missing.delete(key) || isChanged;
        // Another replica may be quicker.
        if (rowChanges(stored.row, present).length > 0)
          await this.#change(stored, stored.resourceVersion, (same) => same);
      }
    }
    if (isChanged) this.#replace([...this.#rows.values()].map(({ stored }) => stored));
  }

  async #poll(): Promise<void> {
    try {
      const mark = await this.#options.store.resources.changeMark();
      if (mark !== this.#mark) {
        const isRecent = this.#options.clock.monotonic() - this.#readAllAt < READ_ALL_MS;
        await this.#readRows(this.#mark !== null && isRecent ? { since: this.#mark, until: mark } : null);
        this.#mark = mark;
      }
      await this.#followRows(await this.#options.store.backends.rows());
      this.setState({ available: true, synced: true, reason: null, lastEventAt: this.#options.clock.monotonic() });
    } catch (error) {
      const reason = (error as Error).message;
      if (this.setState({ available: false, reason })) {
        this.#options.logger.warn({ reason }, 'database with the resources unavailable');
      }
    }
    if (this.#running) this.#timer = setTimeout(() => void this.#poll(), this.#options.pollMs ?? 500);
  }

  /** @param marks between which changes are read; null: all resources */
  async #readRows(marks: { readonly since: string; readonly until: string } | null = null): Promise<void> {
    const { resources } = this.#options.store;
    const result = this.#turn.then(async () => {
      let writes: number;
      let changes: ResourceChanges | null;
      let all: readonly StoredResource[] | null = null;
      do {
        // Own writes during the read are newer than the rows.
        writes = this.#writes;
        changes = marks === null ? null : await resources.changes(marks.since, marks.until);
        if (changes === null) all = await resources.all();
      } while (writes !== this.#writes);
      if (all !== null) this.#readAllAt = this.#options.clock.monotonic();
      const next = new Map<string, StoredResource>();
      if (all === null) for (const [key, { stored }] of this.#rows) next.set(key, stored);
      for (const key of changes?.removed ?? []) next.delete(keyText(key));
      for (const fresh of all ?? changes?.stored ?? []) {
        const current = this.#rows.get(keyText(fresh))?.stored;
        next.set(keyText(fresh), current !== undefined && isDeepStrictEqual(current, fresh) ? current : fresh);
      }
      this.#replace(next.values());
    });
    this.#turn = result.catch(() => undefined);
    await result;
  }
}

/** The user of an override that another program made, in annotations. */
const BY = 'another gateway (gateway_backend)';

/**
 * A cluster with what another program wrote into its row: group and URLs in the spec, `active` as an override. Pure.
 * @param written the row as it was written last
 * @param at when the change was noticed, RFC 3339
 */
function resourceWithRow(resource: Resource, written: BackendRow, present: BackendRow, at: string): Resource {
  const values = new Map(rowChanges(written, present).map(({ field, row }) => [field, row]));
  const spec: Record<string, unknown> = { ...resource.spec };
  if (values.has('routingGroup')) spec.routingGroup = values.get('routingGroup');
  if (values.has('proxyTo')) {
    spec.proxyTo = values.get('proxyTo');
    delete spec.serviceRef;
  }
  if (values.has('externalUrl')) spec.externalUrl = values.get('externalUrl');
  if (spec.externalUrl === spec.proxyTo) delete spec.externalUrl;
  const active = values.get('active');
  const annotation = typeof active === 'boolean' ? activeAnnotation({ ...resource, spec }, active, BY, at) : undefined;
  const { [ACTIVE_ANNOTATION]: before, ...others } = resource.metadata.annotations ?? {};
  const text = annotation === undefined ? before : annotation;
  const annotations = text == null ? others : { ...others, [ACTIVE_ANNOTATION]: text };
  return { ...resource, metadata: { ...resource.metadata, annotations }, spec };
}
