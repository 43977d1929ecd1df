export const COLORS = 12;

/**
 * Numbers of the colours of clusters: each has that of its name's hash, or the next that fewer clusters have. Of up to {@link COLORS}
 * clusters each has another one. Pure.
 */
export function clusterColors(names: Iterable<string>): ReadonlyMap<string, number> {
  const uses = new Array<number>(COLORS).fill(0);
  const colors = new Map<string, number>();
  let round = 0;
  for (const name of [...names].sort()) {
    if (colors.size === COLORS * (round + 1)) round += 1;
    let color = colorOfName(name);
    while ((uses[color] ?? 0) > round) color = (color + 1) % COLORS;
    uses[color] = (uses[color] ?? 0) + 1;
    colors.set(name, color);
  }
  return colors;
}

export function colorOfName(name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193) >>> 0;
  }
  // The lower bits of names that differ at their end differ least.
  return ((hash ^ (hash >>> 15)) >>> 0) % COLORS;
}
