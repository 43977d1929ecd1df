import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import {
  API_GROUP_VERSION,
  keyOf,
  keyText,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../../model/resource.ts';
import type { StoredResource } from '../../../store/store.ts';
import { resourceOfStored, type SourceProblem } from '../source.ts';
import type { Manifest, ManifestDocument } from './manifestDocuments.ts';
import type { FileStamp } from './manifestFiles.ts';

export interface AcceptedFile {
  readonly stamp: FileStamp;
  /** Source text of the documents; may be empty. */
  readonly text: string;
  readonly documents: readonly ManifestDocument[];
  /** Read error, or null. */
  readonly error: string | null;
}

interface IndexedResource {
  readonly resource: Resource;
  readonly path: string;
  /** Its document in the file; null while no file has it. */
  readonly document: (ManifestDocument & { readonly kind: 'resource' }) | null;
  /** Monotonic milliseconds since which no file has it; null while one has. */
  readonly missingSince: number | null;
}

interface DocumentPlace {
  readonly path: string;
  readonly document: ManifestDocument & { readonly kind: 'resource' };
  readonly stamp: FileStamp;
}

/**
 * Keeps the resources of all accepted files: what was read last of each, also while its document is broken or, for a
 * moment, gone. Gives each the metadata that a file does not hold. No I/O.
 *
 * - `uid` follows from kind, namespace and name: replicas that read copies of the directory agree on it.
 * - `resourceVersion` is the time at which the file was changed last (its inode's, which copying and restoring cannot
 *   set back), in microseconds, taken when the content of the resource changes; always more than before.
 * - `generation` counts changes of the spec; it continues from the database's copy after a restart.
 */
export class ManifestIndex {
  problems: readonly SourceProblem[] = [];
  readonly files = new Map<string, AcceptedFile>();
  readonly #confirmDeletionMs: number;
  readonly #confirmEmptyMs: number;
  readonly #resources = new Map<string, IndexedResource>();
  readonly #restored = new Map<string, StoredResource>();
  readonly #lastVersions = new Map<string, bigint>();

  /**
   * @param confirmDeletionMs a resource of which the manifest went is gone after this time, when it is still missing
   * @param confirmEmptyMs the same if all resources went together, e.g. as a volume was unmounted
   */
  constructor(confirmDeletionMs: number, confirmEmptyMs: number) {
    this.#confirmDeletionMs = confirmDeletionMs;
    this.#confirmEmptyMs = confirmEmptyMs;
  }

  /** True if a deletion waits to be confirmed. */
  get unconfirmed(): boolean {
    return this.#resources.values().some((entry) => entry.missingSince !== null);
  }

  restore(stored: readonly StoredResource[]): void {
    for (const resource of stored) {
      if (resource.source === 'directory') this.#restored.set(keyText(resource), resource);
    }
  }

  list(): readonly Resource[] {
    return this.#resources
      .values()
      .map((entry) => entry.resource)
      .toArray();
  }

  get(key: ResourceKey): Resource | null {
    return this.#resources.get(keyText(key))?.resource ?? null;
  }

  /** The file that holds a resource, or held it last, and the number of its document there, if it is in one; null: not known. */
  locate(key: ResourceKey): { readonly path: string; readonly number: number | null } | null {
    const entry = this.#resources.get(keyText(key));
    return entry === undefined ? null : { path: entry.path, number: entry.document?.number ?? null };
  }

  setStatus(key: ResourceKey, uid: string, status: ResourceStatus): boolean {
    const entry = this.#resources.get(keyText(key));
    if (entry === undefined || entry.resource.metadata.uid !== uid) return false;
    this.#resources.set(keyText(key), { ...entry, resource: { ...entry.resource, status } });
    return true;
  }

  /**
   * Takes over files that changed, came or (null) went, and works out what that means.
   * @param now monotonic milliseconds
   * @param deleted keys whose absence needs no confirmation, as the gateway itself deleted them
   * @returns keys of resources that came, changed or went
   */
  update(
    files: ReadonlyMap<string, AcceptedFile | null>,
    now: number,
    deleted: ReadonlySet<string> = new Set(),
  ): readonly ResourceKey[] {
    // Most looks at a directory find nothing new, and thousands of resources take a while to compare.
    if (files.size === 0 && deleted.size === 0 && !this.unconfirmed) return [];
    for (const [path, file] of files) {
      if (file === null) this.files.delete(path);
      else this.files.set(path, file);
    }
    const { places, problems } = this.#collect();
    this.problems = problems;
    const changed: ResourceKey[] = [];
    for (const [text, place] of places) {
      const before = this.#resources.get(text);
      const { path, document } = place;
      const isSame = before !== undefined && before.document?.manifest === document.manifest;
      const resource = isSame ? before.resource : this.#resourceOf(text, place, before?.resource);
      this.#resources.set(text, { resource, path, document, missingSince: null });
      if (resource !== before?.resource) changed.push(document.manifest.key);
    }
    changed.push(...this.#settleMissing(places, now, deleted));
    return changed;
  }

  /** Documents by key, each identity once: where it was before, otherwise in the first file by name. */
  #collect(): { readonly places: ReadonlyMap<string, DocumentPlace>; readonly problems: readonly SourceProblem[] } {
    const places = new Map<string, DocumentPlace>();
    const problems: SourceProblem[] = [];
    for (const path of [...this.files.keys()].sort()) {
      const file = this.files.get(path) as AcceptedFile;
      if (file.error !== null) problems.push({ place: path, document: null, line: null, message: file.error });
      for (const document of file.documents) {
        if (document.kind === 'broken') {
          problems.push({
            place: path,
            document: document.number,
            line: document.problemLine,
            message: document.message,
          });
        }
        if (document.kind !== 'resource') continue;
        const text = keyText(document.manifest.key);
        const here: DocumentPlace = { path, document, stamp: file.stamp };
        const there = places.get(text);
        if (there === undefined) places.set(text, here);
        else {
          const stays = this.#resources.get(text)?.path === path && there.path !== path ? here : there;
          const other = stays === here ? there : here;
          places.set(text, stays);
          problems.push({
            place: other.path,
            document: other.document.number,
            line: other.document.line,
            message: `${text} is also in ${stays.path}, document ${stays.document.number}, which is the one in force; remove one of the two`,
          });
        }
      }
    }
    return { places, problems };
  }

  #settleMissing(
    places: ReadonlyMap<string, DocumentPlace>,
    now: number,
    deleted: ReadonlySet<string>,
  ): readonly ResourceKey[] {
    const deletions: ResourceKey[] = [];
    const protectedKeys = this.#keptByBrokenDocuments();
    const limit = places.size === 0 && this.#resources.size > 1 ? this.#confirmEmptyMs : this.#confirmDeletionMs;
    for (const [text, entry] of this.#resources) {
      if (places.has(text)) continue;
      const { resource } = entry;
      const missingSince = protectedKeys(text, entry.path) ? null : (entry.missingSince ?? now);
      if (!deleted.has(text) && (missingSince === null || now - missingSince < limit)) {
        this.#resources.set(text, { ...entry, document: null, missingSince });
        continue;
      }
      this.#resources.delete(text);
      this.#restored.delete(text);
      this.#lastVersions.set(text, BigInt(resource.metadata.resourceVersion));
      deletions.push(keyOf(resource));
    }
    return deletions;
  }

  /** A broken document keeps the resource it is about; where that cannot be seen, all that its file held. */
  #keptByBrokenDocuments(): (text: string, path: string) => boolean {
    const keys = new Set<string>();
    const paths = new Set<string>();
    for (const [path, file] of this.files) {
      if (file.error !== null) paths.add(path);
      for (const document of file.documents) {
        if (document.kind !== 'broken') continue;
        if (document.key === null) paths.add(path);
        else keys.add(keyText(document.key));
      }
    }
    return (text, path) => keys.has(text) || paths.has(path);
  }

  #resourceOf(text: string, { document, stamp }: DocumentPlace, before: Resource | undefined): Resource {
    const { manifest } = document;
    if (before !== undefined && sameContent(before, manifest)) return before;
    const restored = before === undefined ? this.#restored.get(text) : undefined;
    const asBefore = before ?? (restored === undefined ? undefined : resourceOfStored(restored));
    if (before === undefined && asBefore !== undefined && sameContent(asBefore, manifest)) return asBefore;
    const last = before === undefined ? this.#lastVersions.get(text) : BigInt(before.metadata.resourceVersion);
    const version = last === undefined || stamp.changedAtMicros > last ? stamp.changedAtMicros : last + 1n;
    const generation = asBefore?.metadata.generation ?? 0;
    const sameSpec = asBefore !== undefined && isDeepStrictEqual(asBefore.spec, manifest.spec);
    return {
      apiVersion: API_GROUP_VERSION,
      kind: manifest.key.kind,
      metadata: {
        name: manifest.key.name,
        namespace: manifest.key.namespace,
        uid: directoryUid(manifest.key),
        resourceVersion: String(version),
        generation: sameSpec ? generation : generation + 1,
        creationTimestamp:
          manifest.creationTimestamp ??
          asBefore?.metadata.creationTimestamp ??
          new Date(
            Math.min(stamp.createdAtMs || Number.POSITIVE_INFINITY, Number(stamp.changedAtMicros / 1_000n)),
          ).toISOString(),
        labels: manifest.labels,
        annotations: manifest.annotations,
      },
      spec: manifest.spec,
      ...(asBefore?.status === undefined ? {} : { status: asBefore.status }),
    };
  }
}

/** uid of a resource of a directory: a UUID made of its identity (RFC 9562, version 8: custom, here SHA-256). */
function directoryUid(key: ResourceKey): string {
  const hex = createHash('sha256')
    .update(`directory/${keyText(key)}`)
    .digest('hex');
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

export function sameContent(resource: Resource, manifest: Manifest): boolean {
  return (
    isDeepStrictEqual(resource.spec, manifest.spec) &&
    isDeepStrictEqual(resource.metadata.labels ?? {}, manifest.labels) &&
    isDeepStrictEqual(resource.metadata.annotations ?? {}, manifest.annotations) &&
    (manifest.creationTimestamp === null ||
      Date.parse(manifest.creationTimestamp) === Date.parse(resource.metadata.creationTimestamp))
  );
}
