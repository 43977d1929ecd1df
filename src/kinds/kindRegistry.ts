import type { Problem } from '../model/errors.ts';
import type { Kind } from '../model/resource.ts';
import type { ResourceKind } from './resourceKind.ts';

/** The registered kinds. Code that works on any kind takes a registry. */
export class KindRegistry {
  /** In the order in which they are worked out: a kind may look at what those before it mean. */
  readonly all: readonly ResourceKind[];
  readonly names: readonly Kind[];
  readonly #byName: ReadonlyMap<Kind, ResourceKind>;

  /** @throws TypeError when two have a name in common */
  constructor(all: readonly ResourceKind[]) {
    this.all = all;
    this.names = all.map(({ kind }) => kind);
    this.#byName = new Map(all.map((kind) => [kind.kind, kind]));
    const names = new Set(all.flatMap(({ kind, plural, shortName }) => [kind, plural, shortName]));
    if (names.size !== all.length * 3) throw new TypeError('two kinds have a kind, plural or shortName in common');
  }

  /** The kind of a name, or null. */
  find(kind: string): ResourceKind | null {
    return this.#byName.get(kind) ?? null;
  }

  /**
   * The kind of a name that a registered resource has.
   * @throws TypeError when it is missing
   */
  of(kind: Kind): ResourceKind {
    const entry = this.#byName.get(kind);
    if (entry === undefined) throw new TypeError(`no kind ${kind} is registered`);
    return entry;
  }

  /**
   * Mistakes in the spec of a resource; see `ResourceKind.specProblems`.
   * @throws TypeError when the kind is not registered
   */
  specProblems(kind: Kind, spec: unknown): readonly Problem[] {
    return this.of(kind).specProblems(spec);
  }
}
