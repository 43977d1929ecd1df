import { type Static, Type } from 'typebox';
import type { Problem } from './errors.ts';
import { type Checked, compileCheck } from './validation.ts';

const text = (maxLength: number, description: string) => Type.String({ minLength: 1, maxLength, description });

/** A selector for one exact source (docs/compatibility.md#tables); engines read it if configured to. */
export const ExactMatchSelector = Type.Object(
  {
    resourceGroupId: text(256, 'Resource group, as the engine writes its path.'),
    updateTime: Type.Optional(
      Type.Union([Type.String(), Type.Null()], {
        description: '`YYYY-MM-DD hh:mm:ss` in UTC, or ISO 8601; now when absent.',
      }),
    ),
    source: text(512, 'Source of the queries.'),
    environment: text(128, "The engine's node.environment."),
    queryType: text(128, 'Resource group query type, such as SELECT.'),
  },
  { $id: 'ExactMatchSelector' },
);

/** A stored row; `updateTime` as `YYYY-MM-DD hh:mm:ss`, UTC. */
export type ExactMatchSelectorRow = { readonly [field in keyof Static<typeof ExactMatchSelector>]-?: string };

const check = compileCheck(ExactMatchSelector);

/**
 * Checks a new selector.
 * @param now milliseconds since 1970, for an absent time
 */
export function parseExactMatchSelector(value: unknown, now: number): Checked<ExactMatchSelectorRow> {
  const checked = check(value);
  if (!checked.ok) return checked;
  const { resourceGroupId, updateTime, source, environment, queryType } = checked.value;
  const texts = { resourceGroupId, source, environment, queryType };
  const time = updateTime == null ? now : Date.parse(inUtc(updateTime));
  const problems: Problem[] = Object.entries(texts)
    .filter(([, part]) => part.includes('\0'))
    .map(([field]) => ({ field, message: 'must not hold the character NUL' }));
  if (!Number.isFinite(time) || time < 0 || time >= 253_402_300_800_000) {
    problems.push({ field: 'updateTime', message: 'must be a time such as 2026-01-31 23:59:59 (UTC)' });
  }
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, value: { ...texts, updateTime: new Date(time).toISOString().slice(0, 19).replace('T', ' ') } };
}

function inUtc(time: string): string {
  const iso = time.trim().replace(' ', 'T');
  return /T.*(?:Z|[+-]\d\d:?\d\d)$/i.test(iso) ? iso : `${iso}${iso.includes('T') ? 'Z' : ''}`;
}
