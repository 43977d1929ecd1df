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

/** Bounds of the times of health checks, in the configuration and in resources. */
export const checkTimes = {
  interval: { least: '100ms', most: '24h' },
  timeout: { least: '10ms', most: '10m' },
} as const;

/** A number and `ms`, `s`, `m` or `h`; valid in RE2 too, as the API server compiles it. */
export const DURATION_FORM = '^[0-9]{1,9}([.][0-9]{1,9})?(ms|s|m|h)$';

/**
 * Schema of a duration in a resource.
 * @param name the field, for messages
 */
export function durationField(name: string, bounds: DurationBounds, description: string) {
  const { least, most, example = '30s' } = bounds;
  const [min, max] = durationRange(bounds);
  const bounded = cel([
    // The form first: a text that is no duration would fail the conversion, which has no message of ours.
    `self.matches('${DURATION_FORM}') && duration(self) >= duration('${least}') && duration(self) <= duration('${most}')`,
    `${name} must be a duration from ${least} to ${most}, such as ${example}`,
    (text: string) => (durationMs(text) >= min && durationMs(text) <= max ? null : ''),
  ]);
  return Type.String({ pattern: DURATION_FORM, maxLength: 32, description, ...bounded });
}

/** Bounds in milliseconds. */
export function durationRange({ least, most }: DurationBounds): [least: number, most: number] {
  return [durationMs(least), durationMs(most)];
}

/** Milliseconds of a valid duration; NaN for other text. */
export function durationMs(text: string): number {
  return engineDurationMs(text) ?? Number.NaN;
}
