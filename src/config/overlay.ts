import type { SourceEntry, SourceNode } from './source.ts';

/**
 * A tree with another laid over it, as Helm lays files of values: maps are merged key by key, anything else of the upper tree
 * replaces what is below it, lists whole. An upper tree without content changes nothing.
 */
export function overlay(below: SourceNode, above: SourceNode): SourceNode {
  if (above.kind === 'null') return below;
  if (below.kind !== 'map' || above.kind !== 'map') return above;
  // A key that one file gives twice stays twice, so that the reader reports it.
  const entries: SourceEntry[] = below.entries.map((entry) => {
    const upper = above.entries.find(({ key }) => key === entry.key);
    if (upper === undefined) return entry;
    return { ...upper, node: entryNode(entry.node, upper.node) };
  });
  const keys = new Set(below.entries.map(({ key }) => key));
  const repeated = above.entries.filter(
    (entry, index) => above.entries.findIndex(({ key }) => key === entry.key) < index,
  );
  const added = above.entries.filter((entry) => !keys.has(entry.key) || repeated.includes(entry));
  return { kind: 'map', line: above.line, entries: [...entries, ...added] };
}

/** A key that is given without a value returns to its default. */
function entryNode(below: SourceNode, above: SourceNode): SourceNode {
  return above.kind === 'null' ? above : overlay(below, above);
}
