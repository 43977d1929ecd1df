import { randomUUID } from 'node:crypto';
import { MASK, maskUrls } from '../../config/logger.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import {
  API_FIELD_MANAGER,
  keyOf,
  keyOfText,
  keyText,
  type Resource,
  type ResourceKey,
  registryNameOf,
} from '../../model/resource.ts';
import { settlesWithin } from '../../model/timeLimit.ts';
import { Turns } from '../../model/turns.ts';
import type { RulesFile } from '../../rules/ruleCompiler.ts';
import type { AuditMark, NewAuditEntry, SourceChange } from '../../store/auditRepository.ts';
import { startJob } from '../../store/job.ts';
import type { Fence } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { OperatorOptions } from '../operator.ts';
import type { ResourceWrites } from '../registry/resourceWrites.ts';
import { fileRules } from '../registry/rulesFile/rulesFileWatch.ts';
import { digestOfState, type FieldWriter, stateDigest, stateOf, writeDigest } from '../sources/source.ts';

/** Time from a change to its comparison, in milliseconds. */
const COMPARE_MS = 250;
/** Longest time between two comparisons, in milliseconds: each refresh of the routing table has one. */
const IDLE_MS = 30_000;
/** Retry delay while the database is unavailable. */
const RETRY_MS = 2_000;
/** Time for which a change without a known author waits for the entry of a call. */
const SETTLE_MS = 3_000;
/** Longest time for which it waits if it changes again and again, and for which a change in the name of REST waits. */
const MAX_SETTLE_MS = 10_000;
/** Tolerated difference of clocks of replicas. */
const SKEW_MS = 60_000;

const MAX_CHARACTERS = 16_384;
/** Names of fields whose texts are secrets; a reference to a Secret is an object, and no secret itself. */
const secretName = /passw|secret|token|credential|authorization|api-?_?key|private-?_?key/i;

const sourceNames = { kubernetes: 'kubernetes', directory: 'file', database: 'database' } as const;

/** A resource, or a rule of the rules file, which has no namespace. */
interface AuditedThing {
  readonly key: ResourceKey;
  readonly title: string;
  readonly state: object;
  /** Undefined for a rule of the rules file. */
  readonly resource?: Resource;
}

/**
 * The operator's part of the audit (docs/authentication.md#audit). It records changes of resources that no call made: by kubectl and GitOps with
 * their field managers, in files, by another gateway. Only the leader does so. It compares with what was recorded last, so that a restart, a new
 * leader or another list of the same resources records nothing twice.
 */
export class OperatorAudit {
  readonly #options: OperatorOptions;
  readonly #leadership: Leadership;
  readonly #writes: ResourceWrites;
  /** Differences from the last recorded states, by `keyText` as the marks, in monotonic milliseconds. */
  readonly #waiting = new Map<string, { digest: string | undefined; readonly firstAt: number; lastAt: number }>();
  /** Epoch of the leadership in which everything was compared; null: it is to be compared. */
  #epoch: number | null = null;
  /** Keys of resources that changed since the last comparison. */
  #changed = new Set<string>();
  /** The rules file as it was compared last, and its rules; null: it cannot be read, which is no change of its rules. */
  #file: RulesFile | null = null;
  #rules: ReadonlyMap<string, AuditedThing> | null = new Map();
  #isFailing = false;
  #stop = async () => {};
  /** Resolves with the next refresh or change of leadership, or the end. */
  #wake = Promise.withResolvers<void>();

  constructor(options: OperatorOptions, leadership: Leadership, writes: ResourceWrites) {
    this.#options = options;
    this.#leadership = leadership;
    this.#writes = writes;
  }

  /** True for a rule of the rules file. */
  #isOfFile({ kind, namespace }: Pick<ResourceKey, 'kind' | 'namespace'>): boolean {
    return namespace === '' && this.#options.kinds.find(kind)?.isClusterScoped === false;
  }

  start(): void {
    this.#writes.controller.onRefresh((changed) => {
      for (const key of changed) this.#changed.add(key);
      this.#wake.resolve();
    });
    this.#leadership.onChange(() => this.#wake.resolve());
    this.#stop = startJob(0, () => this.#round());
  }

  stop(): Promise<void> {
    this.#wake.resolve();
    return this.#stop();
  }

  /** Records that annotations of a resource were removed because their effect had ended. */
  recordEnded(before: Resource, after: Resource): void {
    const states = { before: auditText(stateOf(before)), after: auditText(stateOf(after)) };
    const at = this.#options.clock.now();
    const entry = entryOf(keyOf(before), registryNameOf(before), { at, source: 'gateway', ...states });
    this.#options.auditWriter?.add({ ...entry, digest: writeDigest(after, this.#writes.source.writers(after)) });
  }

  async #round(): Promise<number> {
    const { fence } = this.#leadership;
    const isWriter = fence !== null && this.#writes.controller.isFromSource;
    if (!isWriter) {
      this.#epoch = null;
      this.#waiting.clear();
    }
    const isSameFile = (this.#options.rules.file?.current ?? null) === this.#file;
    const isCompared = this.#epoch === fence?.epoch && isSameFile && this.#changed.size + this.#waiting.size === 0;
    if (!isWriter || isCompared) {
      this.#wake = Promise.withResolvers();
      await settlesWithin(this.#wake.promise, IDLE_MS);
      return COMPARE_MS;
    }
    try {
      await this.#compare(fence);
      this.#isFailing = false;
    } catch (error) {
      this.#epoch = null;
      if (!this.#isFailing) this.#options.logger.warn({ err: error }, 'audit of resource changes delayed');
      this.#isFailing = true;
    }
    return this.#isFailing ? RETRY_MS : COMPARE_MS;
  }

  /** Compares resources and rules of the rules file with the marks, and records the differences. */
  async #compare(fence: Fence): Promise<void> {
    const file = this.#options.rules.file?.current ?? null;
    const isSame = this.#epoch === fence.epoch && file === this.#file;
    const changed = [...this.#changed.union(this.#waiting)];
    this.#changed.clear();
    const read = await this.#options.store.audit.marks(isSame ? changed.map(keyOfText) : undefined);
    const marks = new Map(read?.map((mark) => [keyText(mark), mark]));
    if (!isSame) this.#rules = await rulesOf(file);
    this.#epoch = fence.epoch;
    this.#file = file;
    const { outcomes } = this.#writes.controller;
    const rules = this.#rules;
    const all = isSame ? changed : [...outcomes.keys(), ...(rules?.keys() ?? []), ...marks.keys(), ...changed];
    const turns = new Turns();
    const changes: SourceChange[] = [];
    for (const text of new Set(all)) {
      if (!isSame && turns.isOver) await turns.next();
      // The controller's outcomes still have what the source lost by accident.
      const outcome = outcomes.get(text);
      const [thing, mark] = [outcome === undefined ? rules?.get(text) : thingOf(outcome), marks.get(text)];
      const isUnknown = thing === undefined && rules === null && mark !== undefined && this.#isOfFile(mark);
      if ((thing && digestOf(thing)) === mark?.digest || isUnknown) this.#waiting.delete(text);
      // Things that exist at first are no change.
      else if (read === null && thing) changes.push({ key: thing.key, to: this.#markOf(thing), entry: null });
      else changes.push(...(await this.#changeOf(text, thing, mark)));
    }
    if (changes.length > 0 || read === null) await this.#record(changes, fence);
  }

  /** A difference as a change to be recorded; empty: not yet. */
  async #changeOf(text: string, thing?: AuditedThing, mark?: AuditMark): Promise<SourceChange[]> {
    const { clock, store } = this.#options;
    const now = clock.monotonic();
    const digest = thing && digestOf(thing);
    const waiting = this.#waiting.getOrInsert(text, { digest, firstAt: now, lastAt: now });
    if (waiting.digest !== digest) Object.assign(waiting, { digest, lastAt: now });
    const last = waiting.firstAt + MAX_SETTLE_MS;
    const key = (thing?.key ?? mark) as ResourceKey;
    const resource = thing?.resource;
    const writers = resource === undefined ? [] : this.#writes.source.writers(resource);
    // Only Kubernetes knows authors, of what is there.
    const isWriterKnown = resource !== undefined && this.#writes.source.name === 'kubernetes';
    const managers = isWriterKnown ? changedBy(writers, mark) : [];
    const others = managers.filter((manager) => manager !== API_FIELD_MANAGER);
    let isRecorded = false;
    if (others.length === 0) {
      const isDue = now >= (isWriterKnown ? last : Math.min(waiting.lastAt + SETTLE_MS, last));
      if (!isWriterKnown && !isDue) return [];
      // Any client can call itself as REST does, or no name at all: only the entry of a call shows that one made the change.
      const ofRule = digest ?? digestOfState([mark?.uid ?? '']);
      const left = resource === undefined ? ofRule : writeDigest(resource, writers);
      isRecorded = await store.audit.isRecorded(key, left, (mark?.noted ?? 0) - SKEW_MS);
      if (!isRecorded && !isDue) return [];
    }
    const to = thing === undefined ? null : this.#markOf(thing);
    if (isRecorded) return [{ key, to, entry: null }];
    const source = this.#isOfFile(key) ? 'file' : sourceNames[this.#writes.source.name];
    const manager = source === 'database' ? 'another program' : (others.length > 0 ? others : managers).join(', ');
    const states = { before: mark?.state ?? null, after: to?.state ?? null };
    const at = Math.round(clock.now() - (now - waiting.firstAt));
    const entry = entryOf(key, (to ?? mark)?.title ?? key.name, { at, source, ...states });
    return [{ key, to, entry: { ...entry, manager: manager === '' ? null : manager } }];
  }

  /** Records changes; if another leader does so by now, the marks are read again. */
  async #record(changes: readonly SourceChange[], fence: Fence): Promise<void> {
    if (!(await this.#options.store.audit.recordSourceChanges(changes, fence))) {
      this.#leadership.noteFenced(fence);
      this.#epoch = null;
      return;
    }
    for (const { key, entry } of changes) {
      this.#waiting.delete(keyText(key));
      if (entry !== null) this.#options.logger.info({ audit: entry }, 'changed');
    }
  }

  #markOf(thing: AuditedThing): AuditMark {
    const { key, title, state, resource } = thing;
    const writers = JSON.stringify(resource === undefined ? [] : this.#writes.source.writers(resource));
    const [uid, noted] = [resource?.metadata.uid ?? '', this.#options.clock.now()];
    return { ...key, title, uid, digest: digestOf(thing), writers, noted, state: auditText(state) ?? 'null' };
  }
}

function thingOf({ key, resource, registryName: title }: ResourceOutcome): AuditedThing {
  return { key, title, state: stateOf(resource), resource };
}

/** Rules of the rules file by key; null if it cannot be read. */
async function rulesOf(file: RulesFile | null): Promise<ReadonlyMap<string, AuditedThing> | null> {
  const rules = file === null ? [] : await fileRules(file);
  const things = new Map<string, AuditedThing>();
  // Of two rules of a name the first is asked first.
  for (const { key, fields: state } of rules ?? []) things.getOrInsert(keyText(key), { key, title: key.name, state });
  return rules && things;
}

function digestOf({ resource, state }: AuditedThing): string {
  return resource === undefined ? digestOfState(state) : stateDigest(resource);
}

type OfChange = Pick<NewAuditEntry, 'at' | 'source' | 'before' | 'after'>;

function entryOf({ kind, namespace, name: resource }: ResourceKey, name: string, change: OfChange): NewAuditEntry {
  const action = change.before === null ? 'create' : change.after === null ? 'delete' : 'change';
  return { ...change, id: randomUUID(), action, kind, namespace, name, resource, object: `${kind} ${name}` };
}

/**
 * Managers that changed a resource since it was recorded: those with new entries or another time. Times are in seconds: if no time differs, all
 * managers with the last time.
 */
function changedBy(writers: readonly FieldWriter[], mark: AuditMark | undefined): readonly string[] {
  const text = ({ manager, operation, time }: FieldWriter): string => `${manager} ${operation} ${time}`;
  const recorded = new Set((JSON.parse(mark?.writers ?? '[]') as FieldWriter[]).map(text));
  const byTime = writers.toSorted((a, b) => (a.time < b.time ? -1 : 1));
  const later = byTime.filter((writer) => !recorded.has(text(writer)));
  const changed = later.length > 0 ? later : byTime.filter(({ time }) => time === byTime.at(-1)?.time);
  return [...new Set(changed.map(({ manager }) => manager))];
}

/**
 * The JSON of a state as the audit keeps it: secrets are masked (docs/authentication.md#audit), what is too long is replaced by its
 * beginning. Null stays null: there is nothing.
 */
export function auditText(state: unknown): string | null {
  if (state === null || state === undefined) return null;
  const masked = (name: string, value: unknown) =>
    typeof value !== 'string' ? value : secretName.test(name) ? MASK : maskUrls(value);
  let text = '';
  try {
    text = JSON.stringify(state, masked);
    if (text.length <= MAX_CHARACTERS) return text;
  } catch {
    // A body that was sent may be nested deeper than the stack.
  }
  return JSON.stringify({ truncated: true, beginning: text.slice(0, MAX_CHARACTERS) });
}
