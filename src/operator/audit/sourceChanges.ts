import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { Clock } from '../../model/clock.ts';
import { API_FIELD_MANAGER, keyOfText, keyText, type ResourceKey } from '../../model/resource.ts';
import type { RulesFile } from '../../rules/ruleCompiler.ts';
import type { AuditedState, AuditMark, AuditRepository, AuditSource, SourceChange } from '../../store/audit.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { Fence } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { FieldWriter, ResourceSource } from '../sources/source.ts';
import {
  type AuditedThing,
  type FollowedThing,
  sourceNames,
  thingOfResource,
  thingsOfRulesFile,
} from './auditedThings.ts';
import { auditText, digestOfAbsence, digestOfWrite } from './auditText.ts';

/** Time between two looks at what was reported as changed, in milliseconds. */
const LOOK_MS = 250;
/** Time between tries while the database is unavailable. */
const RETRY_MS = 2_000;
/** A change whose author the source does not know waits so long for the entry of a call. */
const SETTLE_MS = 3_000;
/** Longest time for which it waits as it changes again and again, and for which one in the name of REST waits. */
const MAX_SETTLE_MS = 10_000;
/** Changes of one transaction. */
const BATCH = 50;
/** Difference between clocks of replicas that is borne. */
const SKEW_MS = 60_000;

/** What the recorder works with. Times in milliseconds. */
export interface SourceChangesOptions {
  readonly repository: Pick<AuditRepository, 'marks' | 'begin' | 'recordSourceChanges' | 'isRecorded'>;
  readonly source: Pick<ResourceSource, 'name' | 'writers'>;
  readonly leadership: Pick<Leadership, 'fence' | 'noteFenced'>;
  /** What is routed and why, by `keyText`: what the source lost by accident is still there. */
  readonly outcomes: () => ReadonlyMap<string, ResourceOutcome>;
  /** Whether these are the source's, and not the database's copy. */
  readonly isFromSource: () => boolean;
  readonly rulesFile: () => RulesFile | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly settleMs?: number;
}

/** A difference from what was recorded last, that waits. */
interface Difference {
  readonly digest: string | null;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Wall clock when it was first there. */
  readonly at: number;
}

/**
 * Records in the audit what changes in the resource source other than by REST: by kubectl and GitOps with their field
 * managers, in files, by another gateway. The leader alone does so, and compares with what was recorded last, so that a
 * restart, a new leader or a list that is read again records nothing twice (docs/authentication.md#audit).
 */
export class SourceChanges {
  readonly #options: SourceChangesOptions;
  readonly #stop = new AbortController();
  readonly #waiting = new Map<string, Difference>();
  #marks: Map<string, AuditMark> | null = null;
  /** Epoch of leadership that the marks were read in. */
  #epoch: number | null = null;
  #isChanged = true;
  #lastFile: { readonly file: RulesFile; readonly rules: ReadonlyMap<string, FollowedThing> } | null = null;
  #running: Promise<void> = Promise.resolve();
  #isFailing = false;

  constructor(options: SourceChangesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** Notes that something may have changed. */
  note(): void {
    this.#isChanged = true;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      let pause = LOOK_MS;
      try {
        await this.#look();
        this.#isFailing = false;
      } catch (error) {
        pause = RETRY_MS;
        this.#marks = null;
        if (!this.#isFailing && !(error instanceof Outdated)) {
          const { logger } = this.#options;
          if (isDatabaseAway(error)) logger.warn({ err: error }, 'changes of resources wait for the audit');
          else logger.error({ err: error }, 'changes of resources cannot be recorded in the audit; trying again');
        }
        this.#isFailing = true;
      }
      await sleep(pause, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const { leadership, isFromSource } = this.#options;
    const { fence } = leadership;
    if (fence === null || !isFromSource()) {
      this.#marks = null;
      this.#waiting.clear();
      return;
    }
    if (this.#epoch !== fence.epoch) this.#marks = null;
    if (this.#marks === null && !(await this.#readMarks(fence))) return;
    if (!this.#isChanged && this.#waiting.size === 0) return;
    this.#isChanged = false;
    const marks = this.#marks as Map<string, AuditMark>;
    const things = await this.#things(marks);
    const due: SourceChange[] = [];
    const add = async (text: string, thing: AuditedThing | null): Promise<void> => {
      const change = await this.#changeOf(text, thing, marks.get(text) ?? null);
      if (change !== null) due.push(change);
      if (due.length >= BATCH) await this.#record(due.splice(0), fence);
    };
    for (const [text, { digest, thing }] of things) {
      if (marks.get(text)?.digest === digest) this.#waiting.delete(text);
      else await add(text, thing());
    }
    for (const text of [...marks.keys()]) if (!things.has(text)) await add(text, null);
    if (due.length > 0) await this.#record(due, fence);
    // What came and went before it was due.
    for (const text of [...this.#waiting.keys()]) if (!things.has(text) && !marks.has(text)) this.#waiting.delete(text);
  }

  /** Reads what was recorded last; what there is when the audit begins is no change. */
  async #readMarks(fence: Fence): Promise<boolean> {
    const { repository, clock } = this.#options;
    let marks = await repository.marks();
    if (marks === null) {
      const things = await this.#things(new Map());
      const states = [...things.values()].map(({ thing }) => markOf(thing(), clock.now()));
      if (!(await repository.begin(states, fence))) {
        this.#options.leadership.noteFenced(fence);
        return false;
      }
      marks = states;
    }
    this.#marks = new Map(marks.map((mark) => [keyText(mark), withoutState(mark)]));
    this.#epoch = fence.epoch;
    this.#isChanged = true;
    return true;
  }

  /** All that is followed now; rules of a file that cannot be read are as they were. */
  async #things(marks: ReadonlyMap<string, AuditMark>): Promise<ReadonlyMap<string, FollowedThing>> {
    const { source, outcomes, rulesFile } = this.#options;
    const things = new Map<string, FollowedThing>();
    for (const [text, outcome] of outcomes()) things.set(text, thingOfResource(outcome, source));
    const file = rulesFile();
    if (file === null) return things;
    if (this.#lastFile?.file !== file) {
      const rules = await thingsOfRulesFile(file);
      if (rules !== null) this.#lastFile = { file, rules };
      else if (this.#lastFile === null) {
        for (const [text, mark] of marks) if (mark.namespace === '') things.set(text, unreadable(mark));
        return things;
      }
    }
    for (const [text, rule] of this.#lastFile?.rules ?? []) things.set(text, rule);
    return things;
  }

  /** A difference as a change to be recorded; null: not yet. */
  async #changeOf(text: string, thing: AuditedThing | null, mark: AuditMark | null): Promise<SourceChange | null> {
    const { repository, clock, settleMs = SETTLE_MS } = this.#options;
    const key = thing?.key ?? keyOfText(text);
    const difference = this.#noteDifference(text, thing?.digest ?? null);
    const managers = thing?.writers == null ? null : changedBy(thing.writers, mark);
    const others = managers?.filter((manager) => manager !== API_FIELD_MANAGER) ?? [];
    const digest = thing?.digest ?? digestOfAbsence(mark?.uid ?? '');
    let isRecorded = false;
    if (others.length === 0) {
      const last = difference.firstAt + MAX_SETTLE_MS;
      const isDue = clock.monotonic() >= (managers === null ? Math.min(difference.lastAt + settleMs, last) : last);
      if (managers === null && !isDue) return null;
      // Any client can call itself as REST does, or no name at all: only the entry of a call shows that one made the change.
      const left = thing?.writers == null ? digest : digestOfWrite(digest, thing.writers);
      isRecorded = await repository.isRecorded(key, left, (mark?.noted ?? 0) - SKEW_MS);
      if (!isRecorded && !isDue) return null;
    }
    const name = thing?.name ?? mark?.title ?? key.name;
    const entry: SourceChange['entry'] = isRecorded
      ? null
      : {
          ...entryDefaults,
          id: randomUUID(),
          at: difference.at,
          source: thing?.source ?? this.#sourceOf(key),
          action: thing === null ? 'delete' : mark === null ? 'create' : 'change',
          kind: key.kind,
          namespace: key.namespace,
          name,
          resource: key.name,
          object: `${key.kind} ${name}`,
          manager: (others.length > 0 ? others : managers)?.join(', ') || null,
          after: auditText(thing?.state ?? null),
          digest,
        };
    return { key, from: mark?.digest ?? null, to: thing === null ? null : markOf(thing, clock.now()), entry };
  }

  /** @throws Outdated when what is known of the audit is old, and has to be read again */
  async #record(changes: readonly SourceChange[], fence: Fence): Promise<void> {
    const { repository, leadership, logger } = this.#options;
    const marks = this.#marks as Map<string, AuditMark>;
    const result = await repository.recordSourceChanges(changes, fence);
    if (result === 'fenced') leadership.noteFenced(fence);
    if (result !== 'recorded') throw new Outdated();
    for (const { key, to, entry } of changes) {
      if (to === null) marks.delete(keyText(key));
      else marks.set(keyText(key), withoutState(to));
      this.#waiting.delete(keyText(key));
      if (entry !== null) logger.info({ audit: entry }, 'changed');
    }
  }

  #noteDifference(text: string, digest: string | null): Difference {
    const { clock } = this.#options;
    const now = clock.monotonic();
    const before = this.#waiting.get(text);
    const difference: Difference = {
      digest,
      firstAt: before?.firstAt ?? now,
      lastAt: before?.digest === digest ? before.lastAt : now,
      at: before?.at ?? clock.now(),
    };
    this.#waiting.set(text, difference);
    return difference;
  }

  #sourceOf({ namespace }: ResourceKey): AuditSource {
    return namespace === '' ? 'file' : sourceNames[this.#options.source.name];
  }
}

/** Another leader recorded what was to be recorded here. */
class Outdated extends Error {
  override readonly name = 'Outdated';
}

/** What entries have that no call made. */
export const entryDefaults = {
  user: null,
  recognisedBy: null,
  roles: [],
  address: null,
  call: null,
  requestId: null,
} as const;

/**
 * Managers that changed a resource since it was recorded: those
 * whose entries are new or have another time. Within one second times are the same; then all with the last time are meant.
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

function markOf({ key, name, uid, digest, writers, state }: AuditedThing, noted: number): AuditedState {
  const text = auditText(state) ?? 'null';
  return { ...key, title: name, uid, digest, writers: JSON.stringify(writers ?? []), noted, state: text };
}

function withoutState({ kind, namespace, name, title, uid, digest, writers, noted }: AuditMark): AuditMark {
  return { kind, namespace, name, title, uid, digest, writers, noted };
}

/** A rule of a file that cannot be read now: as it was. */
function unreadable({ kind, namespace, name, title, uid, digest }: AuditMark): FollowedThing {
  const key = { kind, namespace, name };
  return { digest, thing: () => ({ key, name: title, uid, source: 'file', digest, state: {}, writers: null }) };
}
