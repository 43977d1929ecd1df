import { isDeepStrictEqual } from 'node:util';
import { isObject } from './scrub.ts';

/** A place at which the program differs from the recording. */
export interface Difference {
  /** Names of the places, from the outermost, joined by ` > `. */
  readonly path: string;
  readonly recorded: string;
  readonly current: string;
}

/**
 * Compares a recording with the current value. A member that the recording lacks is an addition and no difference;
 * nor is a form that lacks null. Of texts of other lengths, each line that only one has is a difference, if nothing else differs.
 */
export function differences(recorded: unknown, current: unknown, path: readonly string[] = []): readonly Difference[] {
  if (isObject(recorded) && isObject(current)) {
    return Object.entries(recorded).flatMap(([key, value]) => differences(value, current[key], [...path, key]));
  }
  if (Array.isArray(recorded) && Array.isArray(current) && recorded.length === current.length) {
    return recorded.flatMap((value, index) => differences(value, current[index], [...path, String(index)]));
  }
  if (JSON.stringify(recorded) === JSON.stringify(current)) return [];
  // A form of scrub.ts: whether a member of a list is null may depend on times.
  if (typeof current === 'string' && [`null|${current}`, `${current}|null`].includes(String(recorded))) return [];
  if (Array.isArray(recorded) && Array.isArray(current)) {
    const common = recorded.filter((line) => typeof line === 'string' && current.includes(line));
    const [lost = [], added = []] = [recorded, current].map((lines) => lines.filter((line) => !common.includes(line)));
    const others = current.filter((line) => !added.includes(line));
    if (common.length > 0 && isDeepStrictEqual(common, others))
      return [...lost, ...added].flatMap((line) =>
        differences(lost.includes(line) ? line : undefined, added.includes(line) ? line : undefined, [...path, line]),
      );
  }
  return [{ path: path.join(' > '), recorded: shown(recorded), current: shown(current) }];
}

function shown(value: unknown): string {
  return value === undefined ? '(missing)' : JSON.stringify(value);
}

/** A row of `docs/removed.md`: differences that a decision explains. */
export interface Removal {
  readonly decision: string;
  /** Pattern of paths; `*` stands for any text. */
  readonly pattern: string;
}

/** Reads the rows `| decision | pattern | effect |` of the table in `docs/removed.md`. */
export function readRemovals(markdown: string): readonly Removal[] {
  const rows = [...markdown.matchAll(/^\| ([^|]+) \| `([^`]+)` \|/gm)];
  return rows.map(([, decision = '', pattern = '']) => ({ decision: decision.trim(), pattern }));
}

/** True if the pattern of the removal covers the path. */
export function covers({ pattern }: Removal, path: string): boolean {
  const source = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${source.join('.*')}$`, 's').test(path);
}
