interface Place {
  readonly at: string;
  readonly hasSubGroups: boolean;
  isUsed: boolean;
}

/** The groups of a file by their paths, such as `global.adhoc`. */
export class FileGroupTree {
  readonly #places = new Map<string, Place>();

  /** @param at the group's field in the file */
  add(path: string, at: string, hasSubGroups: boolean): void {
    if (!this.#places.has(path)) this.#places.set(path, { at, hasSubGroups, isUsed: false });
  }

  /** The first missing part of a path, with its ancestors; null if the path exists. */
  absentPart(path: string): string | null {
    for (const above of pathsTo(path)) if (!this.#places.has(above)) return above;
    return null;
  }

  /**
   * Records that a selector leads to a group; returns true if queries may run in it, as in groups without sub-groups.
   */
  use(path: string): boolean {
    for (const above of pathsTo(path)) {
      const place = this.#places.get(above);
      if (place !== undefined) place.isUsed = true;
    }
    return this.#places.get(path)?.hasSubGroups === false;
  }

  /** Groups that no selector leads to directly or indirectly, without their descendants. */
  unused(): readonly { readonly at: string; readonly path: string }[] {
    return [...this.#places].flatMap(([path, { at, isUsed }]) => {
      const above = pathsTo(path).at(-2);
      const isNoted = isUsed || (above !== undefined && this.#places.get(above)?.isUsed === false);
      return isNoted ? [] : [{ at, path }];
    });
  }
}

function pathsTo(path: string): readonly string[] {
  const parts = path.split('.');
  return parts.map((_, index) => parts.slice(0, index + 1).join('.'));
}
