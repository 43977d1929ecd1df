import { keyText, type Resource } from '../model/resource.ts';
import type { ReplicaObservation } from '../store/store.ts';

/** An observation with its times by this process's monotonic clock, in milliseconds. */
interface Entry {
  readonly observation: ReplicaObservation;
  readonly at: number;
  readonly until: number;
}

/** Times that differ by less are of one observation. */
const SAME_TIME_MS = 1_000;

/** What another replica observed last. */
export interface OthersObservation {
  readonly ok: boolean;
  readonly message: string;
  /** Monotonic milliseconds. */
  readonly at: number;
}

/** What the other replicas observed of resources, as the database has it, until its time is over. */
export class ReplicaObservations {
  /** By `keyText`, then by type and replica. */
  readonly #entries = new Map<string, Map<string, Entry>>();

  /**
   * Takes what was read from the database.
   * @param now monotonic milliseconds
   * @returns keys of the resources of which something is new
   */
  take(observations: readonly ReplicaObservation[], now: number): readonly string[] {
    const changed = new Set<string>();
    for (const observation of observations) {
      const key = keyText(observation.key);
      const ofKey = this.#entries.get(key) ?? new Map<string, Entry>();
      const place = `${observation.type} ${observation.replica}`;
      const before = ofKey.get(place);
      const at = now - observation.ageMs;
      // Each answer of the database is taken a while after it was made: the quickest one is nearest to the truth.
      const isReadAgain = before !== undefined && before.observation.observedAt === observation.observedAt;
      const entry = {
        observation,
        at: isReadAgain ? Math.min(before.at, at) : at,
        until: now + observation.remainingMs,
      };
      ofKey.set(place, entry);
      this.#entries.set(key, ofKey);
      if (before === undefined || entry.at < before.at || !isSame(before, entry)) changed.add(key);
    }
    return [...changed];
  }

  /**
   * Drops what is over.
   * @param now monotonic milliseconds
   * @returns keys of the resources of which something was dropped
   */
  expire(now: number): readonly string[] {
    const changed: string[] = [];
    for (const [key, ofKey] of this.#entries) {
      const { size } = ofKey;
      for (const [place, { until }] of ofKey) if (until <= now) ofKey.delete(place);
      if (ofKey.size < size) changed.push(key);
      if (ofKey.size === 0) this.#entries.delete(key);
    }
    return changed;
  }

  /**
   * The latest observation of a type of this resource; of one of the same name before it there is none.
   * @param generation that it must be of; null: any
   */
  latest(
    type: string,
    { kind, metadata: { namespace, name, uid } }: Resource,
    generation: number | null,
  ): OthersObservation | null {
    let latest: Entry | null = null;
    for (const entry of this.#entries.get(keyText({ kind, namespace, name }))?.values() ?? []) {
      const { observation } = entry;
      if (observation.type !== type || observation.uid !== uid) continue;
      if (generation !== null && observation.generation !== generation) continue;
      if (latest === null || entry.at > latest.at) latest = entry;
    }
    return latest === null ? null : { ok: latest.observation.ok, message: latest.observation.message, at: latest.at };
  }

  /** Drops what there is of a resource that is gone. @param key as `keyText` has it */
  forget(key: string): void {
    this.#entries.delete(key);
  }
}

function isSame(one: Entry, other: Entry): boolean {
  const [a, b] = [one.observation, other.observation];
  const isSameContent = a.uid === b.uid && a.generation === b.generation && a.ok === b.ok && a.message === b.message;
  // Made again, it may be the latest now; only stored again, it has its time, but for what two clocks differ.
  return isSameContent && Math.abs(one.at - other.at) < SAME_TIME_MS;
}
