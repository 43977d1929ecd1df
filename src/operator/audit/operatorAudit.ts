import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { MASK, maskUrls } from '../../config/secrets.ts';
import { API_FIELD_MANAGER, keyOf, keyText, type Resource, type ResourceKey } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { Turns } from '../../model/turns.ts';
import type { RulesFile } from '../../rules/ruleCompiler.ts';
import type { AuditMark, SourceChange } from '../../store/auditRepository.ts';
import type { Fence } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { OperatorOptions } from '../operatorOptions.ts';
import type { Controller } from '../reconcile/controller.ts';
import { fileRules } from '../registry/rulesFile/ruleDocument.ts';
import { absenceDigest, digestOfState, stateDigest, stateOf, writeDigest } from '../sources/resourceDigest.ts';
import type { FieldWriter, ResourceSource } from '../sources/source.ts';

/** Interval at which reported changes are compared, in milliseconds. */
const LOOK_MS = 250;
/** Retry delay while the database is unavailable. */
const RETRY_MS = 2_000;
/** Time for which a change without a known author waits for the entry of a call. */
const SETTLE_MS = 3_000;
/** Longest time for which it waits if it changes again and again, and for which a change in the name of REST waits. */
const MAX_SETTLE_MS = 10_000;
/** Tolerated difference between clocks of replicas. */
const SKEW_MS = 60_000;

const MAX_CHARACTERS = 16_384;
/** Names of fields whose texts are secrets; a reference to a Secret is an object, and no secret itself. */
const secretName = /passw|secret|token|credential|authorization|api-?_?key|private-?_?key/i;

const sourceNames = { kubernetes: 'kubernetes', directory: 'file', database: 'database' } as const;

/** A resource, or a rule of the rules file, which has no namespace. */
interface AuditedThing {
  readonly key: ResourceKey;
  readonly title: string;
  readonly digest: string;
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
  readonly #source: ResourceSource;
  readonly #leadership: Leadership;
  readonly #controller: Controller;
  readonly #stop = new AbortController();
  /** Differences from the last recorded states, by `keyText` as the marks, in monotonic milliseconds. */
  readonly #waiting = new Map<string, { digest: string | undefined; firstAt: number; lastAt: number }>();
  #marks = new Map<string, AuditMark>();
  /** Epoch of the leadership in which the marks were read; null: they are to be read. */
  #epoch: number | null = null;
  #isChanged = true;
  #running: Promise<void> = Promise.resolve();

  constructor(options: OperatorOptions, source: ResourceSource, leadership: Leadership, controller: Controller) {
    this.#options = options;
    this.#source = source;
    this.#leadership = leadership;
    this.#controller = controller;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  note(): void {
    this.#isChanged = true;
  }

  /** Digest of what a call left of a rule of the rules file, so that its change is not recorded again as one of the file. */
  async digestOfFileRule(name: string): Promise<string> {
    const rules = await thingsOf(this.#options.rulesFile());
    return rules?.find(({ title }) => title === name)?.digest ?? absenceDigest('');
  }

  /** Records that annotations of a resource were removed because their effect had ended. */
  recordEnded(before: Resource, after: Resource): void {
    this.#options.auditWriter?.add({
      ...entryOf(keyOf(before), registryNameOf(before)),
      ...{ at: this.#options.clock.now(), source: 'gateway', action: 'change', manager: null },
      ...{ before: auditText(stateOf(before)), after: auditText(stateOf(after)) },
      digest: writeDigest(after, this.#source.writers(after)),
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let isFailing = false;
    while (!signal.aborted) {
      try {
        await this.#look();
        isFailing = false;
      } catch (error) {
        this.#epoch = null;
        if (!isFailing) this.#options.logger.warn({ err: error }, 'audit of resource changes delayed');
        isFailing = true;
      }
      await sleep(isFailing ? RETRY_MS : LOOK_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const { fence } = this.#leadership;
    if (fence === null || !this.#controller.isFromSource) {
      this.#epoch = null;
      this.#waiting.clear();
      return;
    }
    const isNew = this.#epoch !== fence.epoch;
    const marks = isNew ? await this.#options.store.audit.marks() : [];
    if (isNew) this.#marks = new Map(marks?.map((mark) => [keyText(mark), mark]));
    this.#epoch = fence.epoch;
    if (!isNew && !this.#isChanged && this.#waiting.size === 0) return;
    this.#isChanged = false;
    const things = new Map<string, AuditedThing>();
    // The controller's outcomes still have what the source lost by accident.
    for (const [text, { key, resource, registryName: title }] of this.#controller.outcomes)
      things.set(text, { key, title, digest: stateDigest(resource), state: stateOf(resource), resource });
    const rules = await thingsOf(this.#options.rulesFile());
    // Of two rules of a name the first is asked first.
    for (const rule of rules ?? []) things.getOrInsert(keyText(rule.key), rule);
    // Things that exist at first are no change.
    if (marks === null) {
      const all = [...things.values()].map((thing) => ({ key: thing.key, to: this.#markOf(thing), entry: null }));
      return await this.#record(all, fence);
    }
    const changes: SourceChange[] = [];
    for (const text of new Set([...things.keys(), ...this.#marks.keys(), ...this.#waiting.keys()])) {
      const [thing, mark] = [things.get(text), this.#marks.get(text)];
      const isUnknown = thing === undefined && rules === null && mark?.namespace === '';
      if (thing?.digest === mark?.digest || isUnknown) this.#waiting.delete(text);
      else changes.push(...(await this.#changeOf(text, thing, mark)));
    }
    if (changes.length > 0) await this.#record(changes, fence);
  }

  /** A difference as a change to be recorded; empty: not yet. */
  async #changeOf(text: string, thing?: AuditedThing, mark?: AuditMark): Promise<SourceChange[]> {
    const { clock, store } = this.#options;
    const now = clock.monotonic();
    const { digest, ...before } = this.#waiting.get(text) ?? { digest: thing?.digest, firstAt: now, lastAt: now };
    const { firstAt, lastAt } = digest === thing?.digest ? before : { ...before, lastAt: now };
    this.#waiting.set(text, { digest: thing?.digest, firstAt, lastAt });
    const { kind, namespace, name } = (thing?.key ?? mark) as ResourceKey;
    const key = { kind, namespace, name };
    const resource = thing?.resource;
    // Only Kubernetes knows authors, of what is there.
    const isWriterKnown = resource !== undefined && this.#source.name === 'kubernetes';
    const managers = isWriterKnown ? changedBy(this.#source.writers(resource), mark) : [];
    const others = managers.filter((manager) => manager !== API_FIELD_MANAGER);
    let isRecorded = false;
    if (others.length === 0) {
      const last = firstAt + MAX_SETTLE_MS;
      const isDue = now >= (isWriterKnown ? last : Math.min(lastAt + SETTLE_MS, last));
      if (!isWriterKnown && !isDue) return [];
      // Any client can call itself as REST does, or no name at all: only the entry of a call shows that one made the change.
      const ofRule = thing?.digest ?? absenceDigest(mark?.uid ?? '');
      const left = resource === undefined ? ofRule : writeDigest(resource, this.#source.writers(resource));
      isRecorded = await store.audit.isRecorded(key, left, (mark?.noted ?? 0) - SKEW_MS);
      if (!isRecorded && !isDue) return [];
    }
    const to = thing === undefined ? null : this.#markOf(thing);
    const source = namespace === '' ? 'file' : sourceNames[this.#source.name];
    const manager = source === 'database' ? 'another program' : (others.length > 0 ? others : managers).join(', ');
    const entry = {
      ...entryOf(key, to?.title ?? mark?.title ?? name),
      ...{ at: Math.round(clock.now() - (now - firstAt)), source, manager: manager === '' ? null : manager },
      action: thing === undefined ? 'delete' : mark === undefined ? 'create' : 'change',
      ...{ before: mark?.state ?? null, after: to?.state ?? null },
    } as const;
    return [{ key, to, entry: isRecorded ? null : entry }];
  }

  /** Records changes; if another leader does so by now, the marks are read again. */
  async #record(changes: readonly SourceChange[], fence: Fence): Promise<void> {
    if (!(await this.#options.store.audit.recordSourceChanges(changes, fence))) {
      this.#leadership.noteFenced(fence);
      this.#epoch = null;
      return;
    }
    for (const { key, to, entry } of changes) {
      const text = keyText(key);
      if (to === null) this.#marks.delete(text);
      else this.#marks.set(text, to);
      this.#waiting.delete(text);
      if (entry !== null) this.#options.logger.info({ audit: entry }, 'changed');
    }
  }

  #markOf({ key, title, digest, state, resource }: AuditedThing): AuditMark {
    const writers = JSON.stringify(resource === undefined ? [] : this.#source.writers(resource));
    const [uid, noted] = [resource?.metadata.uid ?? '', this.#options.clock.now()];
    return { ...key, title, uid, digest, writers, noted, state: auditText(state) ?? 'null' };
  }
}

const rulesOfFiles = new WeakMap<RulesFile, Promise<readonly AuditedThing[] | null>>();

/** Rules of a rules file; null if it cannot be read, which is no change of its rules. */
async function thingsOf(file: RulesFile | null): Promise<readonly AuditedThing[] | null> {
  if (file === null) return [];
  return await rulesOfFiles.getOrInsertComputed(file, async () => {
    const rules = await fileRules(file);
    const turns = new Turns();
    const things: AuditedThing[] = [];
    for (const { key, fields } of rules ?? []) {
      things.push({ key, title: key.name, digest: digestOfState(fields), state: fields });
      if (turns.isOver) await turns.next();
    }
    return rules === null ? null : things;
  });
}

function entryOf({ kind, namespace, name: resource }: ResourceKey, name: string) {
  return {
    ...{ id: randomUUID(), kind, namespace, name, resource, object: `${kind} ${name}`, user: null },
    ...{ recognisedBy: null, roles: [], address: null, call: null, requestId: null, digest: null },
  };
}

/**
 * Managers that changed a resource since it was recorded: those with new entries or another time. Times are in seconds: if no time differs, all
 * managers with the last time.
 */
function changedBy(writers: readonly FieldWriter[], mark: AuditMark | undefined): readonly string[] {
  const text = ({ manager, operation, time }: FieldWriter): string => `${manager} ${operation} ${time}`;
  const recorded = new Set((JSON.parse(mark?.writers ?? '[]') as FieldWriter[]).map(text));
  const later = writers.filter((writer) => !recorded.has(text(writer)));
  const byTime = writers.toSorted((a, b) => (a.time < b.time ? -1 : 1));
  const changed = byTime.filter((writer) =>
    later.length > 0 ? later.includes(writer) : writer.time === byTime.at(-1)?.time,
  );
  return [...new Set(changed.map(({ manager }) => manager))];
}

/**
 * The JSON of a state as the audit keeps it: secrets are masked (docs/authentication.md#audit), what is too long is replaced by its
 * beginning. Null stays null: there is nothing.
 */
export function auditText(state: unknown): string | null {
  if (state === null || state === undefined) return null;
  let text = '';
  try {
    text = JSON.stringify(state, masked);
    if (text.length <= MAX_CHARACTERS) return text;
  } catch {
    // A body that was sent may be nested deeper than the stack.
  }
  return JSON.stringify({ truncated: true, beginning: text.slice(0, MAX_CHARACTERS) });
}

function masked(name: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return secretName.test(name) ? MASK : maskUrls(value);
}
