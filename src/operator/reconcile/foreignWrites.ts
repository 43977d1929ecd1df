import type { Logger } from 'pino';
import { isAccepted } from '../../kinds/acceptance.ts';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { parseRegistryCluster, type RegistryCluster } from '../../model/registryCluster.ts';
import { API_FIELD_MANAGER, keyText, type Resource, type ResourceKey } from '../../model/resource.ts';
import type { BackendRow, DerivedRow, Fence, Store } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import { type ResourceSource, VersionConflict } from '../sources/source.ts';
import type { DeletionGuardSettings } from './deletionGuard.ts';
import type { DriftFindings } from './driftFindings.ts';
import type { OperatorMetrics } from './metrics.ts';
import { rowOfOutcome } from './projection.ts';
import { type ClusterField, type FieldChange, registryClusterOf, rowChange } from './rowChange.ts';

/** `resources.foreignWrites`. */
export type ForeignWriteMode = 'adopt' | 'refuse';

/** Deletions of rows within this time count as one loss, in milliseconds. */
const AT_ONCE_MS = 60_000;
/** A row has to be missing for this time, in milliseconds: a table that is being filled again is not empty. */
const SETTLE_MS = 1_000;
/** Who changed a cluster, in annotations. */
const BY = 'another gateway (gateway_backend)';

/** How often a foreign write is read again as the resource changed under its settlement. */
const ATTEMPTS = 5;
/** Time before the second of these, in milliseconds; before each further one that much more. */
const PAUSE_MS = 50;

/** Fields that are written together. */
export type WrittenFields = Partial<Omit<RegistryCluster, 'name' | 'active'>>;

/** Who writes; each write is refused where the resource is changed at the same time, as the row may be another as well. */
interface AdopterContext {
  readonly by: string;
  readonly force: boolean;
  readonly once: true;
}

const WITHOUT_EFFECT = 'the resource is not accepted as it is; its status has the reason';

const context: AdopterContext = { by: BY, force: false, once: true };

/** The registry, as far as it takes over what another gateway wrote: with the rules that REST writes have. */
export interface RowAdopter {
  setActive(name: string, active: boolean, context: AdopterContext): Promise<unknown>;
  /** Changes only these fields, whatever the others are by now; EG_CONFLICT where one is not as expected any more. */
  updateFields(name: string, fields: WrittenFields, expected: WrittenFields, context: AdopterContext): Promise<unknown>;
  delete(name: string, context: AdopterContext): Promise<unknown>;
}

/** What became of a foreign write: `overruled` as the resource was changed as well. */
export type ForeignWriteOutcome = 'adopted' | 'refused' | 'overruled';

/** A foreign write that was settled, for log, events and condition. */
export interface ForeignWrite {
  readonly resource: Resource;
  /** Registry name. */
  readonly cluster: string;
  readonly outcome: ForeignWriteOutcome;
  /** The fields with both values; empty: the row was deleted. */
  readonly fields: readonly Pick<FieldChange, 'field' | 'row' | 'resource'>[];
  /** Why it was put back; empty when it was adopted. */
  readonly reason: string;
}

/** Options of the settlement of foreign writes. */
export interface ForeignWritesOptions {
  readonly kinds: KindRegistry;
  readonly store: Pick<Store, 'resources'>;
  readonly source: Pick<ResourceSource, 'get' | 'provenance'>;
  readonly leadership: Pick<Leadership, 'fence' | 'noteFenced'>;
  readonly adopter: () => RowAdopter;
  /** `resources.foreignWrites`, as it is now. */
  readonly mode: () => ForeignWriteMode;
  /** `resources.massDeletion`, as it is now. */
  readonly deletionGuard: () => DeletionGuardSettings;
  /** What a resource means now; undefined when it is gone. */
  readonly outcome: (key: string) => ResourceOutcome | undefined;
  /** Whether a resource is routed although the source has lost it. */
  readonly holds: (key: ResourceKey) => boolean;
  readonly findings: DriftFindings;
  readonly clock: Clock;
  readonly metrics: Pick<OperatorMetrics, 'foreignWrites'>;
  readonly logger: Logger;
  /** Called with each foreign write that was settled. Must not throw. */
  readonly onSettled?: (write: ForeignWrite) => void;
}

/** What one settlement works on. */
interface Subject {
  readonly outcome: ResourceOutcome;
  readonly wanted: BackendRow;
  /** Both rows as they were read. */
  readonly derived: DerivedRow;
  readonly fence: Fence;
}

/** Fields that were put back for one reason. */
interface Refusal {
  readonly fields: readonly FieldChange[];
  readonly reason: string;
}

/**
 * Settles what other programs wrote into rows of `gateway_backend`: takes it over into the resource as a REST write would, or
 * puts the row back and reports it (docs/decisions/0020-foreign-writes.md). The leader's part of a reconcile.
 */
export class ForeignWrites {
  readonly #options: ForeignWritesOptions;
  /** Monotonic milliseconds at which the row of a key was first missing. */
  readonly #missing = new Map<string, number>();
  /** Monotonic milliseconds of deletions that were taken over. */
  #deletions: readonly number[] = [];
  /** Monotonic milliseconds until which no deletion is believed. */
  #distrustUntil = Number.NEGATIVE_INFINITY;

  constructor(options: ForeignWritesOptions) {
    this.#options = options;
  }

  /**
   * Settles the foreign write of a resource, if there is one. Rejects when it is to be tried again: source or database are
   * unavailable.
   */
  async settle(outcome: ResourceOutcome): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const now = attempt === 1 ? outcome : this.#options.outcome(keyText(outcome.key));
      if (now === undefined) return;
      try {
        await this.#settleOnce(now);
        return;
      } catch (error) {
        if (!isConflict(error) || attempt === ATTEMPTS) throw error;
        // Read again, not written again: a value that is out of date by now is not to be taken over.
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * attempt));
      }
    }
  }

  async #settleOnce(outcome: ResourceOutcome): Promise<void> {
    const { kinds, store, leadership } = this.#options;
    const { fence } = leadership;
    const wanted = rowOfOutcome(kinds, outcome);
    if (fence === null || wanted === null) return;
    const derived = await store.resources.derivedRow(outcome.key, fence);
    if (derived === 'fenced') leadership.noteFenced(fence);
    if (derived === null || derived === 'fenced') return;
    const { projected, present } = derived;
    const subject = { outcome, wanted, derived, fence };
    const change = rowChange(projected, present, wanted);
    if (change.kind === 'deleted') {
      await this.#settleDeletion(subject, change.overruled);
      return;
    }
    this.#missing.delete(keyText(outcome.key));
    await this.#settleFields(subject, change.fields);
  }

  /** Forgets a resource that is gone. @param key as `keyText` has it */
  forget(key: string): void {
    this.#missing.delete(key);
    this.#options.findings.forget(key);
  }

  /** Reports that a resource was deleted whose row another gateway had changed. @param key as `keyText` has it */
  reportLost(key: string): void {
    const { metrics, logger } = this.#options;
    metrics.foreignWrites.inc({ outcome: 'overruled' });
    const reason = 'its resource was deleted at the same time; add the cluster again if it is still wanted';
    logger.warn({ key, outcome: 'overruled', reason }, 'a change of gateway_backend by another gateway was dropped');
  }

  async #settleFields(subject: Subject, fields: readonly FieldChange[]): Promise<void> {
    const overruled = fields.filter((field) => field.overruled);
    const adopted: FieldChange[] = [];
    const refusals: Refusal[] = [];
    const progress = { adopted, refusals, isSuperseded: false };
    try {
      const adoptable = fields.filter((field) => !field.overruled);
      await this.#adopt(subject, adoptable, progress);
    } finally {
      // Also where the rest is to be tried again.
      if (adopted.length > 0) this.#report(subject.outcome, 'adopted', adopted, '');
    }
    const isToWrite = adopted.length < fields.length || fields.length === 0 || progress.isSuperseded;
    if (isToWrite) await this.#putBack(subject);
    for (const { fields: refused, reason } of refusals) this.#report(subject.outcome, 'refused', refused, reason);
    const reason = 'the resource was changed at the same time; make the change again if it is still wanted';
    if (overruled.length > 0) this.#report(subject.outcome, 'overruled', overruled, reason);
  }

  /** Takes fields over into the resource, each or all; adds which of them, and why not the others. */
  async #adopt(
    { outcome, wanted, derived: { present } }: Subject,
    fields: readonly FieldChange[],
    progress: Progress,
  ): Promise<void> {
    if (fields.length === 0 || present === null) return;
    const { adopted, refusals } = progress;
    const general = this.#generalRefusal(outcome);
    if (general !== null) {
      refusals.push({ fields, reason: general });
      return;
    }
    const adopter = this.#options.adopter();
    const { name } = present;
    const theirs = registryClusterOf(present);
    const attempt = async (part: readonly FieldChange[], write: () => Promise<unknown>): Promise<void> => {
      if (part.length === 0) return;
      const refusal = await refusalOf(write);
      const effect = refusal === null ? this.#effectOf(outcome.key, theirs, part) : 'none';
      if (effect !== 'none') adopted.push(...part);
      else refusals.push({ fields: part, reason: refusal ?? WITHOUT_EFFECT });
      if (effect === 'superseded') progress.isSuperseded = true;
    };
    const invalid = invalidFields(theirs, fields);
    if (invalid !== null) refusals.push(invalid);
    const valid = fields.filter((field) => invalid?.fields.includes(field) !== true);
    await attempt(ofFields(valid, ['active']), () => adopter.setActive(name, theirs.active, context));
    // What one manager owns does not keep the rest from being taken over; a URL and the link that goes with it are one.
    const parts = [ofFields(valid, ['routingGroup']), ofFields(valid, ['proxyTo', 'externalUrl'])];
    const ours = registryClusterOf(wanted);
    for (const part of parts) {
      await attempt(part, () => adopter.updateFields(name, valuesOf(theirs, part), valuesOf(ours, part), context));
    }
  }

  async #settleDeletion(subject: Subject, isOverruled: boolean): Promise<void> {
    const { outcome, wanted } = subject;
    const text = keyText(outcome.key);
    const now = this.#options.clock.monotonic();
    const since = this.#missing.get(text) ?? Number.NEGATIVE_INFINITY;
    // It may have been there again since.
    const isFirstLook = now - since > AT_ONCE_MS;
    if (isFirstLook) this.#missing.set(text, now);
    // The next look at the database comes back to it.
    if (isFirstLook || now - since < SETTLE_MS) return;
    this.#missing.delete(text);
    const reason = isOverruled
      ? 'the resource was changed at the same time; delete it again if that is still wanted'
      : ((await this.#deletionRefusal(outcome)) ?? (await this.#delete(wanted.name)));
    if (reason === null) {
      this.#report(outcome, 'adopted', [], '');
      return;
    }
    await this.#putBack(subject);
    this.#report(outcome, isOverruled ? 'overruled' : 'refused', [], reason);
  }

  async #delete(name: string): Promise<string | null> {
    const reason = await refusalOf(() => this.#options.adopter().delete(name, context));
    if (reason === null) this.#deletions = [...this.#recentDeletions(), this.#options.clock.monotonic()];
    return reason;
  }

  async #deletionRefusal(outcome: ResourceOutcome): Promise<string | null> {
    const general = this.#generalRefusal(outcome);
    if (general !== null) return general;
    const { source, holds } = this.#options;
    if (holds(outcome.key))
      return 'most resources of its kind are gone from the source, which is to be confirmed first';
    const managers = source.provenance(outcome.key)?.managers ?? [];
    const owners = managers.filter(({ manager }) => manager !== API_FIELD_MANAGER);
    const names = [...new Set(owners.map(({ manager }) => manager))];
    if (names.length > 0) return `the resource is managed by ${names.join(', ')}; delete it there`;
    if (!(await this.#isMassDeletion())) return null;
    return 'most rows are gone at once; delete the resources themselves, or fewer at a time (resources.massDeletion)';
  }

  /** Whether more than half of the rows were deleted at once: a table that was emptied deletes nothing. */
  async #isMassDeletion(): Promise<boolean> {
    const { store, deletionGuard, clock } = this.#options;
    const { enabled, minimum } = deletionGuard();
    if (!enabled) return false;
    if (clock.monotonic() < this.#distrustUntil) return true;
    const { projected, missing } = await store.resources.countDerivedRows();
    this.#deletions = this.#recentDeletions();
    // Rows of the same loss may have been put back while this one was waiting for the count.
    if (clock.monotonic() < this.#distrustUntil) return true;
    const losses = missing + this.#deletions.length;
    if (losses < minimum || losses <= projected - missing) return false;
    this.#distrustUntil = clock.monotonic() + AT_ONCE_MS;
    return true;
  }

  #recentDeletions(): readonly number[] {
    const now = this.#options.clock.monotonic();
    return this.#deletions.filter((at) => now - at < AT_ONCE_MS);
  }

  /** Why nothing of a foreign write is taken over; null where something may be. */
  #generalRefusal({ paused }: ResourceOutcome): string | null {
    if (this.#options.mode() === 'refuse') return 'resources.foreignWrites is refuse; make the change by this gateway';
    return paused ? 'the resource is paused; remove its annotation enginegateway.dev/paused first' : null;
  }

  /** What became of a write into the resource: in effect, changed by somebody since, or not accepted. */
  #effectOf(
    key: ResourceKey,
    theirs: RegistryCluster,
    part: readonly FieldChange[],
  ): 'inEffect' | 'superseded' | 'none' {
    const { kinds, outcome: outcomeOf } = this.#options;
    const outcome = outcomeOf(keyText(key));
    const row = outcome === undefined ? null : rowOfOutcome(kinds, outcome);
    const now = row === null ? null : registryClusterOf(row);
    if (part.every(({ field }) => now?.[field] === theirs[field])) return 'inEffect';
    // It was in effect, and somebody has changed the resource since.
    return outcome !== undefined && isAccepted(outcome) && !isRewritten(theirs, part) ? 'superseded' : 'none';
  }

  /** Has the row say what the resource says, where nobody has written since. */
  async #putBack({ outcome, wanted, derived, fence }: Subject): Promise<void> {
    const { kinds, store, leadership } = this.#options;
    const now = this.#options.outcome(keyText(outcome.key));
    const row = (now === undefined ? null : rowOfOutcome(kinds, now)) ?? wanted;
    const result = await store.resources.settleRow(outcome.key, row, derived, fence);
    if (result === 'fenced') leadership.noteFenced(fence);
  }

  #report(
    { key, registryName, resource: decided }: ResourceOutcome,
    outcome: ForeignWriteOutcome,
    fields: readonly FieldChange[],
    reason: string,
  ): void {
    const { kinds, source, findings, metrics, logger, onSettled } = this.#options;
    const text = keyText(key);
    const resource = source.get(key) ?? decided;
    const shown = fields.map(({ field, row, resource: value }) => ({ field, row, resource: value }));
    const write: ForeignWrite = { resource, cluster: registryName, outcome, fields: shown, reason };
    metrics.foreignWrites.inc({ outcome });
    const facts = { key: text, cluster: registryName, deleted: fields.length === 0, fields: shown };
    if (outcome === 'adopted') logger.info(facts, 'a change of gateway_backend by another gateway was taken over');
    else {
      logger.warn({ ...facts, outcome, reason }, 'a change of gateway_backend by another gateway was put back');
      const now = this.#options.outcome(text);
      const row = now === undefined ? null : rowOfOutcome(kinds, now);
      const word = outcome === 'refused' ? 'ForeignWriteRefused' : 'ForeignWriteOverruled';
      findings.note(text, resource.metadata.generation, JSON.stringify(row), word, foreignWriteText(write));
    }
    onSettled?.(write);
  }
}

/** A foreign write in a sentence: fields, both values, what became of it and what to do. */
export function foreignWriteText({ outcome, fields, reason }: ForeignWrite): string {
  const values = fields.map(
    ({ field, row, resource }) => `${field} ${JSON.stringify(row)} (the resource: ${JSON.stringify(resource)})`,
  );
  const what =
    fields.length === 0
      ? 'another gateway deleted the row of gateway_backend'
      : `another gateway wrote into gateway_backend ${values.join(', ')}`;
  return outcome === 'adopted' ? `${what}; taken over into the resource` : `${what}; put back: ${reason}`;
}

/** How far the taking over of fields has come. */
interface Progress {
  readonly adopted: FieldChange[];
  readonly refusals: Refusal[];
  /** Whether somebody has changed the resource since: the row says what was taken over, no more what the resource does. */
  isSuperseded: boolean;
}

/** Runs a write; answers why it was refused, null when it was not. Rejects where trying again may help. */
async function refusalOf(write: () => Promise<unknown>): Promise<string | null> {
  try {
    await write();
    return null;
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status >= 500 || isConflict(error)) throw error;
    return error.message;
  }
}

/** Whether a write was refused as the resource was changed at the same time. */
function isConflict(error: unknown): boolean {
  return error instanceof GatewayError && error.cause instanceof VersionConflict;
}

/** Whether a cluster has any of these fields in another form than the one that is stored. */
function isRewritten(theirs: RegistryCluster, part: readonly FieldChange[]): boolean {
  const checked = parseRegistryCluster(theirs);
  return !checked.ok || part.some(({ field }) => checked.value[field] !== theirs[field]);
}

/** Fields whose values no cluster may have. */
function invalidFields(theirs: RegistryCluster, fields: readonly FieldChange[]): Refusal | null {
  const checked = parseRegistryCluster(theirs);
  if (checked.ok) return null;
  const problems = checked.problems.filter(({ field }) => fields.some((each) => each.field === field));
  if (problems.length === 0) return null;
  const names = new Set(problems.map(({ field }) => field));
  const reason = problems.map(({ field, message }) => `${field} ${message}`).join('; ');
  return { fields: fields.filter(({ field }) => names.has(field)), reason };
}

function ofFields(fields: readonly FieldChange[], names: readonly ClusterField[]): readonly FieldChange[] {
  return fields.filter(({ field }) => names.includes(field));
}

function valuesOf(cluster: RegistryCluster, fields: readonly FieldChange[]): WrittenFields {
  return Object.fromEntries(fields.map(({ field }) => [field, cluster[field]]));
}
