import { Type } from 'typebox';
import { cel } from './cel.ts';
import { engineDurationMs } from './engineUnits.ts';

/** Least and greatest value of a duration, such as `1s` and `24h`. */
export interface DurationBounds {
  readonly least: string;
  readonly most: string;
  /** A usual one, for messages: 30s by default. */
  readonly example?: string;
}

/** A number and `ms`, `s`, `m` or `h`; RE2 as well, as the API server compiles it. */
const FORM = '^[0-9]{1,9}([.][0-9]{1,9})?(ms|s|m|h)$';

/**
 * Schema of a duration of a resource, within its bounds.
 * @param name the field, for messages
 */
export function durationField(name: string, bounds: DurationBounds, description: string) {
  const { least, most } = bounds;
  const rule = `duration(self) >= duration('${least}') && duration(self) <= duration('${most}')`;
  return Type.String({ pattern: FORM, maxLength: 32, description, ...cel([rule, outOfBounds(name, bounds)]) });
}

/** What the schema's pattern lets through and the bounds do not; null when nothing is wrong, or the pattern says so. */
export function durationProblem(name: string, text: unknown, bounds: DurationBounds): string | null {
  if (typeof text !== 'string' || text.length > 32 || !new RegExp(FORM).test(text)) return null;
  const value = durationMs(text);
  return value >= durationMs(bounds.least) && value <= durationMs(bounds.most) ? null : outOfBounds(name, bounds);
}

/** Milliseconds of a duration that is valid; NaN of another text. */
export function durationMs(text: string): number {
  return engineDurationMs(text) ?? Number.NaN;
}

/** What is wrong with a duration that is out of its bounds. */
function outOfBounds(name: string, { least, most, example = '30s' }: DurationBounds): string {
  return `${name} must be a duration from ${least} to ${most}, such as ${example}`;
}
