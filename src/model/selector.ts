import { type Static, Type } from 'typebox';
import { engineDurationMs, engineSizeBytes } from './engineUnits.ts';
import type { Problem } from './errors.ts';
import { type Checked, compileCheck } from './validation.ts';

const Id = { minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
const text = (maxLength: number, description: string) =>
  Type.Optional(Type.Union([Type.String({ maxLength }), Type.Null()], { description }));
const newer = "Only where the engine's own migrations have added the column.";
const regex = (what: string, maxLength = 512, note = '') =>
  text(maxLength, `Regular expression (Java's syntax) that the ${what} must match whole. ${note}`.trim());

const fields = {
  priority: Type.Optional(
    Type.Union([Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
      description: 'The highest that matches is taken; 0 when absent.',
    }),
  ),
  userRegex: regex('user'),
  sourceRegex: regex('source'),
  queryType: text(
    512,
    'SELECT, EXPLAIN, DESCRIBE, INSERT, UPDATE, DELETE, MERGE, ANALYZE, ALTER_TABLE_EXECUTE or DATA_DEFINITION.',
  ),
  clientTags: text(512, 'JSON list of tags that the query must have, as text: `["a","b"]`.'),
  selectorResourceEstimate: text(1024, 'JSON object with ranges of executionTime, cpuTime and peakMemory, as text.'),
  userGroupRegex: regex('user group', 2048, newer),
  originalUserRegex: regex('original user', 512, newer),
  authenticatedUserRegex: regex('authenticated user', 512, newer),
};

/** A selector in responses; null fields are omitted. */
export const Selector = Type.Object(
  {
    resourceGroupId: Type.Integer({ ...Id, description: 'Group that the selector points to.' }),
    ...fields,
    priority: Type.Integer(),
    id: Type.Optional(Type.Integer({ description: `Key of the row. ${newer}` })),
  },
  { $id: 'Selector', description: 'A selector (spec: Selector).' },
);

export const SelectorCreate = Type.Object(
  {
    resourceGroupId: Type.Optional(
      Type.Union([Type.Integer(Id), Type.Literal(0), Type.Null()], { description: 'The newest group when absent.' }),
    ),
    ...fields,
  },
  { $id: 'SelectorCreate', additionalProperties: false },
);

export const SelectorMatch = Type.Object(
  {
    resourceGroupId: Type.Integer(Id),
    ...fields,
    id: Type.Optional(
      Type.Union([Type.Integer(), Type.Null()], { description: 'Narrows the match to one row where sent.' }),
    ),
  },
  {
    $id: 'SelectorMatch',
    additionalProperties: false,
    description: 'All fields: what is absent is null (priority: 0).',
  },
);

/** The schema within another body: a schema with an `$id` cannot be nested. */
const side = Type.Object(SelectorMatch.properties, { additionalProperties: false });

export const SelectorUpdate = Type.Object(
  { current: side, update: side },
  {
    $id: 'SelectorUpdate',
    additionalProperties: false,
    description: 'Rows equal to `current` become `update`; without one, `update` is created.',
  },
);

/** Text columns of `selectors` by field name; the last three are the engine's own additions. */
export const selectorTextColumns = {
  userRegex: 'user_regex',
  sourceRegex: 'source_regex',
  queryType: 'query_type',
  clientTags: 'client_tags',
  selectorResourceEstimate: 'selector_resource_estimate',
  userGroupRegex: 'user_group_regex',
  originalUserRegex: 'original_user_regex',
  authenticatedUserRegex: 'authenticated_user_regex',
} as const;

export type SelectorText = keyof typeof selectorTextColumns;

/** All columns of a selector; a missing column of the table is null. */
export type SelectorColumns = { readonly resourceGroupId: number; readonly priority: number } & {
  readonly [field in SelectorText]: string | null;
};

/** A stored selector, or a filter: `id` is null if the table has no key, or none was sent. */
export type SelectorRow = SelectorColumns & { readonly id: number | null };

/** A new selector; without group it goes to the newest one. */
export type NewSelector = Omit<SelectorColumns, 'resourceGroupId'> & { readonly resourceGroupId: number | null };

const checkCreate = compileCheck(SelectorCreate);
const checkMatch = compileCheck(SelectorMatch);
const checkUpdate = compileCheck(SelectorUpdate);

/** Checks a new selector: types, and values that the engine could not load. */
export function parseSelectorCreate(value: unknown): Checked<NewSelector> {
  const checked = checkCreate(value);
  if (!checked.ok) return checked;
  const problems = textProblems(checked.value, '');
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, value: { ...columnsOf(checked.value), resourceGroupId: checked.value.resourceGroupId || null } };
}

/** Reads the selector of a request. Its texts are compared, not checked: stored texts are arbitrary. */
export function parseSelectorMatch(value: unknown): Checked<SelectorRow> {
  const checked = checkMatch(value);
  if (!checked.ok) return checked;
  const problems = nulProblems(checked.value, '');
  return problems.length === 0 ? { ok: true, value: rowOf(checked.value) } : { ok: false, problems };
}

/** Checks `{current, update}`: both are required, and the engine must be able to load `update`. */
export function parseSelectorUpdate(value: unknown): Checked<{ current: SelectorRow; update: SelectorColumns }> {
  const checked = checkUpdate(value);
  if (!checked.ok) return checked;
  const { current, update } = checked.value;
  const problems = [...nulProblems(current, 'current.'), ...textProblems(update, 'update.')];
  if (problems.length > 0) return { ok: false, problems };
  const { id: _unused, ...columns } = rowOf(update);
  return { ok: true, value: { current: rowOf(current), update: columns } };
}

function rowOf(body: Static<typeof SelectorMatch>): SelectorRow {
  return { ...columnsOf(body), resourceGroupId: body.resourceGroupId, id: body.id ?? null };
}

type SelectorBody = Partial<Record<SelectorText, string | null>> & { readonly priority?: number | null };

function columnsOf(body: SelectorBody): Omit<SelectorColumns, 'resourceGroupId'> {
  const texts = Object.keys(selectorTextColumns).map((field) => [field, body[field as SelectorText] ?? null]);
  return { priority: body.priority ?? 0, ...(Object.fromEntries(texts) as Record<SelectorText, string | null>) };
}

/** Kinds of queries in selectors (Trino: `QueryType`), case-insensitive. */
export const queryTypes: readonly string[] =
  'SELECT EXPLAIN DESCRIBE INSERT UPDATE DELETE MERGE ANALYZE ALTER_TABLE_EXECUTE DATA_DEFINITION'.split(' ');

export function isQueryType(text: string): boolean {
  return queryTypes.includes(text.toUpperCase());
}

/** Regular expressions are the engine's and are stored as they are. */
const textRules: Readonly<Partial<Record<SelectorText, (text: string) => string | null>>> = {
  queryType: (type) => (isQueryType(type) ? null : `must be one of ${queryTypes.join(', ')}`),
  clientTags: (tags) => {
    const list = json(tags);
    const fine = Array.isArray(list) && list.every((tag) => typeof tag === 'string');
    return fine ? null : 'must be a JSON list of texts, written as text: "[\\"a\\"]"';
  },
  selectorResourceEstimate: estimateProblem,
};

/** Finds NUL characters, which PostgreSQL cannot store. */
function nulProblems(body: SelectorBody, prefix: string): Problem[] {
  const fields = (Object.keys(selectorTextColumns) as SelectorText[]).filter((field) => body[field]?.includes('\0'));
  return fields.map((field) => ({ field: prefix + field, message: 'must not hold the character NUL' }));
}

/** Finds texts that the engine could not load: one such row prevents it from loading any change. */
function textProblems(body: SelectorBody, prefix: string): Problem[] {
  const problems = nulProblems(body, prefix);
  for (const [field, rule] of Object.entries(textRules)) {
    const value = body[field as SelectorText] ?? null;
    const message = value === null ? null : rule(value);
    if (message !== null) problems.push({ field: prefix + field, message });
  }
  return problems;
}

function estimateProblem(estimate: string): string | null {
  const value = json(estimate);
  if (!isObject(value)) return 'must be a JSON object, written as text';
  for (const [name, range] of Object.entries(value)) {
    const read = { executionTime: engineDurationMs, cpuTime: engineDurationMs, peakMemory: engineSizeBytes }[name];
    if (read === undefined) return `must not hold ${name}; it may hold executionTime, cpuTime and peakMemory`;
    if (range === null) continue;
    if (!isObject(range)) return `must hold a range {"min": …, "max": …} under ${name}`;
    for (const [end, limit] of Object.entries(range)) {
      if (end !== 'min' && end !== 'max') return `must not hold ${name}.${end}; a range has min and max`;
      if (limit === null) continue;
      if (typeof limit !== 'string' || read(limit) === null) {
        return `must hold a ${read === engineSizeBytes ? 'size such as 5GB' : 'duration such as 10m'} as ${name}.${end}`;
      }
    }
  }
  return null;
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
