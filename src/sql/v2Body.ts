/** A V2 body: a statement and the prepared statements that belong to it. */
export interface V2Body {
  readonly query: string;
  readonly preparedStatements: ReadonlyMap<string, string>;
}

/**
 * Reads a V2 body, `{"query": …, "preparedStatements": {name: text}}`; null for anything else, which is SQL then. Both
 * keys must be present and not null; other keys are ignored.
 */
export function v2Body(text: string): V2Body | null {
  if (!/^\s*\{/.test(text)) return null;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(parsed)) return null;
  const query = scalarText(parsed.query);
  const prepared = parsed.preparedStatements;
  if (query === null || !isObject(prepared)) return null;
  const statements = new Map<string, string>();
  for (const [name, value] of Object.entries(prepared)) {
    const statement = scalarText(value);
    if (statement === null && value !== null) return null;
    if (statement !== null) statements.set(name, statement);
  }
  return { query, preparedStatements: statements };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Text of a scalar: numbers and booleans are taken as their text, as lenient JSON readers do. */
function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;
}
