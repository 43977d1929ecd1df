import { type Static, Type } from 'typebox';
import type { Problem } from './errors.ts';
import {
  checkFileSelector,
  mapSelectorFields,
  nullableFields,
  type SelectorTexts,
  selectorFields,
  selectorProblems,
  selectorTextNames,
} from './groupsFile/groupFields.ts';
import { type Checked, compileCheck } from './validation.ts';

const Id = { minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
const newer = "Only where the engine's own migrations have added the column.";

const fields = {
  priority: Type.Optional(
    Type.Union([Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
      description: 'The highest that matches is taken; 0 when absent.',
    }),
  ),
  ...nullableFields(selectorFields),
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

/** All columns of a selector; a missing column of the table is null. */
export type SelectorColumns = SelectorTexts & { readonly resourceGroupId: number; readonly priority: number };

/** A stored selector, or a filter: `id` is null if the table has no key, or none was sent. */
export type SelectorRow = SelectorColumns & { readonly id: number | null };

/** A new selector; without group it goes to the newest one. */
export type NewSelector = Omit<SelectorColumns, 'resourceGroupId'> & { readonly resourceGroupId: number | null };

const checkCreate = compileCheck(SelectorCreate);
const checkMatch = compileCheck(SelectorMatch);
const checkUpdate = compileCheck(SelectorUpdate);

/** Checks a new selector: types, and values that the engine could not load. */
function parseSelectorCreate(value: unknown): Checked<NewSelector> {
  const checked = checkCreate(value);
  if (!checked.ok) return checked;
  const { resourceGroupId } = checked.value;
  return without(textProblems(checked.value, ''), {
    ...columnsOf(checked.value),
    resourceGroupId: resourceGroupId || null,
  });
}

/** Reads a selector. Its texts are compared, not checked: stored texts are arbitrary. */
function parseSelectorMatch(value: unknown): Checked<SelectorRow> {
  const checked = checkMatch(value);
  if (!checked.ok) return checked;
  return without(nulProblems(checked.value, ''), rowOf(checked.value));
}

/** Checks `{current, update}`: both are required, and the engine must be able to load `update`. */
function parseSelectorUpdate(value: unknown): Checked<{ current: SelectorRow; update: SelectorColumns }> {
  const checked = checkUpdate(value);
  if (!checked.ok) return checked;
  const { current, update } = checked.value;
  const problems = [...nulProblems(current, 'current.'), ...textProblems(update, 'update.')];
  const { id: _unused, ...columns } = rowOf(update);
  return without(problems, { current: rowOf(current), update: columns });
}

const without = <T>(problems: readonly Problem[], value: T): Checked<T> =>
  problems.length === 0 ? { ok: true, value } : { ok: false, problems };

/** Bodies with their checks. */
export const selectorBodies = {
  create: { schema: SelectorCreate, parse: parseSelectorCreate },
  update: { schema: SelectorUpdate, parse: parseSelectorUpdate },
  delete: { schema: SelectorMatch, parse: parseSelectorMatch },
};

function rowOf(body: Static<typeof SelectorMatch>): SelectorRow {
  return { ...columnsOf(body), resourceGroupId: body.resourceGroupId, id: body.id ?? null };
}

type SelectorBody = Partial<SelectorTexts> & { readonly priority?: number | null };

function columnsOf(body: SelectorBody): Omit<SelectorColumns, 'resourceGroupId'> {
  return { priority: body.priority ?? 0, ...mapSelectorFields((name) => body[name] ?? null) };
}

/** Finds NUL characters, which PostgreSQL cannot store. */
function nulProblems(body: SelectorBody, prefix: string): Problem[] {
  const names = selectorTextNames.filter((name) => body[name]?.includes('\0'));
  return names.map((name) => ({ field: prefix + name, message: 'must not hold the character NUL' }));
}

/** Texts that the engine could not load. Regular expressions are stored as sent. */
function textProblems(body: SelectorBody, prefix: string): Problem[] {
  const { queryType = null, clientTags = null, selectorResourceEstimate = null } = body;
  const checked = checkFileSelector({
    ...{ group: 'any', queryType, clientTags: jsonOf(clientTags) },
    selectorResourceEstimate: jsonOf(selectorResourceEstimate),
  });
  const problems = checked.ok ? selectorProblems(checked.value) : checked.problems;
  const inJson = ({ field, message }: Problem) => (field === 'queryType' ? message : `${message}, in JSON as text`);
  return [
    ...nulProblems(body, prefix),
    ...problems.map((problem) => ({ field: prefix + problem.field, message: inJson(problem) })),
  ];
}

/** The value of a JSON text; the text itself if it is none. */
export function jsonOf(text: string | null): unknown {
  try {
    return text === null ? null : (JSON.parse(text) ?? text);
  } catch {
    return text;
  }
}
