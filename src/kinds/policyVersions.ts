import { isDeepStrictEqual } from 'node:util';
import type { Resource } from '../model/resource.ts';

interface Version<Made> {
  readonly spec: unknown;
  readonly key: string;
  readonly made: Made;
}

/**
 * Cache of results by uid: returns the same object while the spec is unchanged. A resource with a new status, or read
 * again, is another object with the same spec.
 */
export class PolicyVersions<Made> {
  readonly #versions = new Map<string, Version<Made>>();

  /** @param key what else it is made of: where that changes, it is made again */
  of({ metadata, spec }: Resource, key: string, make: () => Made): Made {
    const before = this.#versions.get(metadata.uid);
    const isSame = before?.key === key && (before.spec === spec || isDeepStrictEqual(before.spec, spec));
    if (isSame) return before.made;
    const version = { spec, key, made: make() };
    this.#versions.set(metadata.uid, version);
    return version.made;
  }

  keep(uids: ReadonlySet<string>): void {
    for (const uid of this.#versions.keys()) if (!uids.has(uid)) this.#versions.delete(uid);
  }
}
