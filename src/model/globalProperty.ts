import { type Static, Type } from 'typebox';
import { engineDurationMs } from './engineUnits.ts';
import type { Problem } from './errors.ts';
import { type Checked, compileCheck } from './validation.ts';

/**
 * The only global property that the table's check and the engine support
 * (docs/compatibility.md#resource-groups-selectors-and-global-properties).
 */
const CPU_QUOTA_PERIOD = 'cpu_quota_period';

export const GlobalProperty = Type.Object(
  {
    name: Type.String({ maxLength: 128, description: `${CPU_QUOTA_PERIOD}, the only one there is.` }),
    value: Type.String({ maxLength: 512, description: 'A duration such as `1h`.' }),
  },
  { $id: 'GlobalProperty', additionalProperties: false },
);
export type GlobalProperty = Static<typeof GlobalProperty>;

/** A global property in responses; a null value from another writer is omitted. */
export const StoredGlobalProperty = Type.Object(
  { name: GlobalProperty.properties.name, value: Type.Optional(GlobalProperty.properties.value) },
  { $id: 'StoredGlobalProperty' },
);

/** A stored property; another writer may have set its value to null. */
export interface GlobalPropertyRow {
  readonly name: string;
  readonly value: string | null;
}

const check = compileCheck(GlobalProperty);

/** Checks a property: its name must be known, its value a duration above zero. */
export function parseGlobalProperty(value: unknown): Checked<GlobalProperty> {
  const checked = check(value);
  if (!checked.ok) return checked;
  const problems: Problem[] = [];
  if (checked.value.name !== CPU_QUOTA_PERIOD) {
    problems.push({ field: 'name', message: `must be ${CPU_QUOTA_PERIOD}, the only property there is` });
  }
  if (!((engineDurationMs(checked.value.value) ?? 0) > 0)) {
    problems.push({ field: 'value', message: 'must be a duration above zero, such as 1h' });
  }
  return problems.length === 0 ? checked : { ok: false, problems };
}
