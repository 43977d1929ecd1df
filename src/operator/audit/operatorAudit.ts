import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { API_FIELD_MANAGER, keyOf, keyOfText, keyText, type Resource, type ResourceKey } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { Turns } from '../../model/turns.ts';
import type { RulesFile } from '../../rules/ruleCompiler.ts';
import type { AuditEntry, AuditedState, AuditMark, SourceChange } from '../../store/audit.ts';
import type { AuditRepository } from '../../store/auditRepository.ts';
import type { AuditWriter } from '../../store/auditWriter.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { Fence } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ExternalChange } from '../reconcile/externalChanges.ts';
import { fileRuleKey, fileRules } from '../registry/rulesFile/ruleDocument.ts';
import type { FieldWriter, ResourceSource } from '../sources/source.ts';
import { auditText, digestOf, digestOfAbsence, digestOfState, digestOfWrite, stateOf } from './auditText.ts';

/** Interval at which reported changes are compared, in milliseconds. */
const LOOK_MS = 250;
/** Retry delay while the database is unavailable. */
const RETRY_MS = 2_000;
/** Time for which a change without a known author waits for the entry of a call. */
const SETTLE_MS = 3_000;
/** Longest time for which it waits if it changes again and again, and for which a change in the name of REST waits. */
const MAX_SETTLE_MS = 10_000;
const BATCH = 50;
/** Tolerated difference between clocks of replicas. */
const SKEW_MS = 60_000;
/** Program that writes rows of the registry next to the gateway. */
const OTHER_GATEWAY = 'another gateway (gateway_backend)';

const sourceNames = { kubernetes: 'kubernetes', directory: 'file', database: 'database' } as const;

export interface OperatorAuditOptions {
  readonly repository: Pick<AuditRepository, 'marks' | 'begin' | 'recordSourceChanges' | 'isRecorded'>;
  readonly writer: Pick<AuditWriter, 'add'>;
  readonly source: Pick<ResourceSource, 'name' | 'writers' | 'get' | 'lastWrite'>;
  readonly leadership: Pick<Leadership, 'fence' | 'noteFenced'>;
  readonly controller: Pick<Controller, 'outcomes' | 'isFromSource'>;
  readonly rulesFile: () => RulesFile | null;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A resource, or a rule of the rules file. */
interface AuditedThing {
  readonly key: ResourceKey;
  readonly title: string;
  readonly uid: string;
  readonly digest: string;
  readonly state: object;
}

/** A difference from the last recorded state. Times are monotonic, except `seenAt`. */
interface Difference {
  readonly digest: string | null;
  readonly firstAt: number;
  readonly lastAt: number;
  readonly seenAt: number;
}

/**
 * The operator's part of the audit (docs/authentication.md#audit). It records changes of resources that no call made: by kubectl and GitOps with
 * their field managers, in files, by another gateway. Only the leader does so. It compares with what was recorded last, so that a restart, a new
 * leader or another list of the same resources records nothing twice.
 */
export class OperatorAudit {
  readonly #options: OperatorAuditOptions;
  readonly #stop = new AbortController();
  readonly #waiting = new Map<string, Difference>();
  /** By `keyText`; null: to be read. */
  #marks: Map<string, AuditMark> | null = null;
  #epoch: number | null = null;
  #isChanged = true;
  #lastFile: { readonly file: RulesFile; readonly rules: readonly AuditedThing[] | null } | null = null;
  #running: Promise<void> = Promise.resolve();

  constructor(options: OperatorAuditOptions) {
    this.#options = options;
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

  /**
   * Digest of what a call left of a resource, so that its change is not recorded again as one of the source.
   * @param uid of the resource that was changed or deleted
   */
  digestOfResource(key: ResourceKey, uid: string): string {
    const written = this.#options.source.lastWrite(key);
    if (written?.resource.metadata.uid === uid) return digestOfWrite(digestOf(written.resource), written.writers);
    const resource = this.#options.source.get(key);
    return resource === null || resource.metadata.uid !== uid ? digestOfAbsence(uid) : digestOf(resource);
  }

  /** As `digestOfResource`, of a rule of the rules file; null if the file has no such rule. */
  async digestOfFileRule(name: string): Promise<string | null> {
    const file = this.#options.rulesFile();
    const rules = file === null ? null : await thingsOfFile(file);
    return rules?.find(({ key }) => keyText(key) === keyText(fileRuleKey(name)))?.digest ?? null;
  }

  /** Records that annotations of a resource were removed because their effect had ended. */
  recordEnded(before: Resource): void {
    const after = this.#options.source.get(keyOf(before));
    const states = { before: auditText(stateOf(before)), after: after === null ? null : auditText(stateOf(after)) };
    this.#add(before, { source: 'gateway', action: 'change', manager: null, ...states });
  }

  /** Records that a change of a row by another gateway was adopted. */
  recordExternalChange({ resource, fields }: ExternalChange): void {
    const values = (of: 'row' | 'resource') => Object.fromEntries(fields.map((field) => [field.field, field[of]]));
    const isDeleted = fields.length === 0;
    this.#add(resource, {
      source: 'database',
      action: isDeleted ? 'delete' : 'change',
      manager: OTHER_GATEWAY,
      before: auditText(isDeleted ? stateOf(resource) : values('resource')),
      after: isDeleted ? null : auditText(values('row')),
    });
  }

  #add(resource: Resource, change: Pick<AuditEntry, 'source' | 'action' | 'manager' | 'before' | 'after'>): void {
    const key = keyOf(resource);
    const digest = this.digestOfResource(key, resource.metadata.uid);
    const at = this.#options.clock.now();
    this.#options.writer.add({ ...entryOf(key, registryNameOf(resource)), ...change, at, digest });
  }

  async #run(): Promise<void> {
    const { logger } = this.#options;
    const { signal } = this.#stop;
    let isFailing = false;
    while (!signal.aborted) {
      try {
        await this.#look();
        isFailing = false;
      } catch (error) {
        this.#marks = null;
        if (!isFailing && isDatabaseAway(error)) logger.warn({ err: error }, 'audit of resource changes delayed');
        else if (!isFailing) logger.error({ err: error }, 'failed to record changes of resources; retrying');
        isFailing = true;
      }
      await sleep(isFailing ? RETRY_MS : LOOK_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const { fence } = this.#options.leadership;
    if (fence === null || !this.#options.controller.isFromSource) {
      this.#marks = null;
      this.#waiting.clear();
      return;
    }
    if (this.#marks === null || this.#epoch !== fence.epoch) this.#marks = await this.#readMarks(fence);
    const marks = this.#marks;
    if (marks === null || (!this.#isChanged && this.#waiting.size === 0)) return;
    this.#isChanged = false;
    const things = await this.#things(marks);
    const due: SourceChange[] = [];
    for (const text of new Set([...things.keys(), ...marks.keys(), ...this.#waiting.keys()])) {
      const thing = things.get(text) ?? null;
      const mark = marks.get(text) ?? null;
      if (thing?.digest === mark?.digest) this.#waiting.delete(text);
      else due.push(...(await this.#changeOf(keyOfText(text), thing, mark)));
      if (due.length >= BATCH && !(await this.#record(due.splice(0), marks, fence))) return;
    }
    if (due.length > 0) await this.#record(due, marks, fence);
  }

  /** Reads what was recorded last; what exists when the audit begins is no change. Null: leadership was lost. */
  async #readMarks(fence: Fence): Promise<Map<string, AuditMark> | null> {
    const { repository, leadership } = this.#options;
    let marks = await repository.marks();
    if (marks === null) {
      const states = [...(await this.#things(new Map())).values()].map((thing) => this.#markOf(thing));
      if (!(await repository.begin(states, fence))) {
        leadership.noteFenced(fence);
        return null;
      }
      marks = states;
    }
    this.#epoch = fence.epoch;
    this.#isChanged = true;
    return new Map(marks.map((mark) => [keyText(mark), withoutState(mark)]));
  }

  /** All that the audit follows, by `keyText`; rules of a file that cannot be read are as they were. */
  async #things(marks: ReadonlyMap<string, AuditMark>): Promise<ReadonlyMap<string, AuditedThing>> {
    const things = new Map<string, AuditedThing>();
    // The controller's outcomes still have what the source lost by accident.
    for (const [text, { key, resource }] of this.#options.controller.outcomes) {
      const title = registryNameOf(resource);
      const { uid } = resource.metadata;
      things.set(text, { key, title, uid, digest: digestOf(resource), state: stateOf(resource) });
    }
    const file = this.#options.rulesFile();
    if (file === null) return things;
    if (this.#lastFile?.file !== file) this.#lastFile = { file, rules: await thingsOfFile(file) };
    const asRecorded = [...marks.values()].filter(({ namespace }) => namespace === '');
    const rules = this.#lastFile.rules ?? asRecorded.map((mark) => ({ ...mark, key: mark, state: {} }));
    // Of two rules of a name the first is asked first.
    for (const rule of rules) if (!things.has(keyText(rule.key))) things.set(keyText(rule.key), rule);
    return things;
  }

  /** A difference as a change to be recorded; empty: not yet. */
  async #changeOf(key: ResourceKey, thing: AuditedThing | null, mark: AuditMark | null): Promise<SourceChange[]> {
    const { repository, clock } = this.#options;
    const { firstAt, lastAt, seenAt } = this.#noteDifference(keyText(key), thing?.digest ?? null);
    const writers = thing === null ? null : this.#writersOf(thing);
    const managers = writers === null ? null : changedBy(writers, mark);
    const others = managers?.filter((manager) => manager !== API_FIELD_MANAGER) ?? [];
    const digest = thing?.digest ?? digestOfAbsence(mark?.uid ?? '');
    let isRecorded = false;
    if (others.length === 0) {
      const last = firstAt + MAX_SETTLE_MS;
      const isDue = clock.monotonic() >= (managers === null ? Math.min(lastAt + SETTLE_MS, last) : last);
      if (managers === null && !isDue) return [];
      // Any client can call itself as REST does, or no name at all: only the entry of a call shows that one made the change.
      const left = writers === null ? digest : digestOfWrite(digest, writers);
      isRecorded = await repository.isRecorded(key, left, (mark?.noted ?? 0) - SKEW_MS);
      if (!isRecorded && !isDue) return [];
    }
    const to = thing === null ? null : this.#markOf(thing);
    const entry = {
      ...entryOf(key, to?.title ?? mark?.title ?? key.name),
      at: seenAt,
      source: key.namespace === '' ? 'file' : sourceNames[this.#options.source.name],
      action: thing === null ? 'delete' : mark === null ? 'create' : 'change',
      manager: (others.length > 0 ? others : managers)?.join(', ') || null,
      after: to?.state ?? null,
      digest,
    } as const;
    return [{ key, from: mark?.digest ?? null, to, entry: isRecorded ? null : entry }];
  }

  /** Returns false if the marks are outdated: another leader has recorded the changes. */
  async #record(changes: readonly SourceChange[], marks: Map<string, AuditMark>, fence: Fence): Promise<boolean> {
    const { repository, leadership, logger } = this.#options;
    const result = await repository.recordSourceChanges(changes, fence);
    if (result === 'fenced') leadership.noteFenced(fence);
    if (result !== 'recorded') {
      this.#marks = null;
      return false;
    }
    for (const { key, to, entry } of changes) {
      if (to === null) marks.delete(keyText(key));
      else marks.set(keyText(key), withoutState(to));
      this.#waiting.delete(keyText(key));
      if (entry !== null) logger.info({ audit: entry }, 'changed');
    }
    return true;
  }

  #noteDifference(text: string, digest: string | null): Difference {
    const { clock } = this.#options;
    const now = clock.monotonic();
    const before = this.#waiting.get(text) ?? { digest, firstAt: now, lastAt: now, seenAt: clock.now() };
    const difference = { ...before, digest, lastAt: before.digest === digest ? before.lastAt : now };
    this.#waiting.set(text, difference);
    return difference;
  }

  /** The field managers of a resource; null: its source does not know them. */
  #writersOf({ key }: AuditedThing): readonly FieldWriter[] | null {
    const { source } = this.#options;
    return source.name === 'kubernetes' && key.namespace !== '' ? source.writers(key) : null;
  }

  #markOf(thing: AuditedThing): AuditedState {
    const { key, title, uid, digest, state } = thing;
    const writers = JSON.stringify(this.#writersOf(thing) ?? []);
    const { kind, namespace, name } = key;
    const noted = this.#options.clock.now();
    return { kind, namespace, name, title, uid, digest, writers, noted, state: auditText(state) ?? 'null' };
  }
}

/** Rules of a rules file; null if it cannot be read, which is no change of its rules. */
async function thingsOfFile(file: RulesFile): Promise<readonly AuditedThing[] | null> {
  const rules = await fileRules(file);
  if (rules === null) return null;
  const turns = new Turns();
  const things: AuditedThing[] = [];
  for (const { key, fields } of rules) {
    things.push({ key, title: key.name, uid: '', digest: digestOfState(fields), state: fields });
    if (turns.isOver) await turns.next();
  }
  return things;
}

function entryOf({ kind, namespace, name: resource }: ResourceKey, name: string) {
  return {
    ...{ id: randomUUID(), kind, namespace, name, resource, object: `${kind} ${name}`, user: null },
    ...{ recognisedBy: null, roles: [], address: null, call: null, requestId: null },
  };
}

/**
 * Managers that changed a resource since it was recorded: those with new entries or another time. Times are in seconds: if no time differs, all
 * managers with the last time.
 */
function changedBy(writers: readonly FieldWriter[], mark: AuditMark | null): readonly string[] {
  const recorded = new Set(mark === null ? [] : (JSON.parse(mark.writers) as FieldWriter[]).map(writerText));
  const later = writers.filter((writer) => !recorded.has(writerText(writer)));
  const last = writers.reduce((time, writer) => (writer.time > time ? writer.time : time), '');
  const changed = later.length > 0 ? later : writers.filter(({ time }) => time === last);
  const names = changed.toSorted((a, b) => (a.time < b.time ? -1 : 1)).map(({ manager }) => manager);
  return [...new Set(names)];
}

const writerText = ({ manager, operation, time }: FieldWriter): string => `${manager} ${operation} ${time}`;

function withoutState({ kind, namespace, name, title, uid, digest, writers, noted }: AuditMark): AuditMark {
  return { kind, namespace, name, title, uid, digest, writers, noted };
}
