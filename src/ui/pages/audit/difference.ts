/** A field that differs between two states; undefined if missing. */
export interface FieldDifference {
  readonly field: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

const MAX_FIELDS = 200;

/** Lists differences between two states by field, in the order of the fields. */
export function fieldDifferences(before: unknown, after: unknown): readonly FieldDifference[] {
  const old = fieldsOf(before);
  const now = fieldsOf(after);
  const fields = [...new Set([...old.keys(), ...now.keys()])];
  return fields
    .filter((field) => old.get(field) !== now.get(field))
    .slice(0, MAX_FIELDS)
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }));
}

/** Leaves of a state by path: texts unchanged, other values as JSON. */
function fieldsOf(state: unknown): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const add = (path: string, value: unknown): void => {
    if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) {
      for (const [name, inner] of Object.entries(value)) {
        add(Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`, inner);
      }
    } else fields.set(path, typeof value === 'string' ? value : JSON.stringify(value));
  };
  if (state !== null && state !== undefined) add('', state);
  return fields;
}
