import { Type } from 'typebox';
import { cel } from './cel.ts';
import { engineDurationMs } from './engineUnits.ts';

/** Bounds of a duration, such as `1s` and `24h`. */
export interface DurationBounds {
  readonly least: string;
  readonly most: string;
  /** Typical value for messages; default: 30s. */
  readonly example?: string;
}

/** A number and `ms`, `s`, `m` or `h`; valid in RE2 too, as the API server compiles it. */
const FORM = '^[0-9]{1,9}([.][0-9]{1,9})?(ms|s|m|h)$';

/**
 * Schema of a duration in a resource.
 * @param name the field, for messages
 */
export function durationField(name: string, bounds: DurationBounds, description: string) {
  const { least, most } = bounds;
  const rule = `duration(self) >= duration('${least}') && duration(self) <= duration('${most}')`;
  return Type.String({ pattern: FORM, maxLength: 32, description, ...cel([rule, outOfBounds(name, bounds)]) });
}

/**
 * Returns a violation of the bounds that the schema's pattern cannot express; null if it is missing, or if the pattern
 * reports it.
 */
export function durationProblem(name: string, text: unknown, bounds: DurationBounds): string | null {
  if (typeof text !== 'string' || text.length > 32 || !new RegExp(FORM).test(text)) return null;
  const value = durationMs(text);
  return value >= durationMs(bounds.least) && value <= durationMs(bounds.most) ? null : outOfBounds(name, bounds);
}

/** Milliseconds of a valid duration; NaN for other text. */
export function durationMs(text: string): number {
  return engineDurationMs(text) ?? Number.NaN;
}

function outOfBounds(name: string, { least, most, example = '30s' }: DurationBounds): string {
  return `${name} must be a duration from ${least} to ${most}, such as ${example}`;
}
