import { isDeepStrictEqual } from 'node:util';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { SourceName } from '../../store/store.ts';
import { sameStored } from '../sources/storedResource.ts';
import { rowOfOutcome } from './projection.ts';
import type { DatabaseView } from './unmanagedRows.ts';

/** How the database compares with what it should have; keys are those of `keyText`. */
export interface Drift {
  /** Outcomes that it has as they are. */
  readonly same: ReadonlyMap<string, ResourceOutcome>;
  /** Keys that are missing, differ, or are there although the resource was deleted. */
  readonly differs: readonly string[];
}

/** Compares the read state of the database with the outcomes. Kinds that were not read are left out. */
export function findDrift(
  view: DatabaseView,
  kinds: KindRegistry,
  outcomes: ReadonlyMap<string, ResourceOutcome>,
  source: SourceName,
): Drift {
  const stored = new Map(view.stored.map((row) => [`${row.kind}/${row.namespace}/${row.name}`, row]));
  const rows = new Map(view.rows.map((row) => [row.name, row]));
  const same = new Map<string, ResourceOutcome>();
  // Rows that are the resources themselves are deleted by who deletes the resource, and may be another gateway's.
  const differs = source === 'database' ? [] : [...stored.keys()].filter((key) => !outcomes.has(key));
  for (const [key, outcome] of outcomes) {
    if (!view.kinds.has(outcome.key.kind)) continue;
    const row = stored.get(key);
    const derived = rowOfOutcome(kinds, outcome);
    const isSame =
      row !== undefined &&
      sameStored(row, outcome.resource, source) &&
      (derived === null || isDeepStrictEqual(rows.get(derived.name), derived));
    if (isSame) same.set(key, outcome);
    else differs.push(key);
  }
  return { same, differs };
}
