/** Units of sizes and durations in engines (airlift's DataSize and Duration). */

const sizeUnits: Readonly<Record<string, number>> = {
  B: 1,
  kB: 2 ** 10,
  MB: 2 ** 20,
  GB: 2 ** 30,
  TB: 2 ** 40,
  PB: 2 ** 50,
};

/** Milliseconds of one unit of a duration. */
export const durationUnits: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const form = /^\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*$/;

/** Bytes of a size such as `5GB`; null if invalid. Units are case-sensitive: B, kB, MB, GB, TB, PB. */
export function engineSizeBytes(text: string): number | null {
  return read(text, sizeUnits);
}

/** Milliseconds of a duration such as `1.5h`; null if invalid. Units: ns, us, ms, s, m, h, d. */
export function engineDurationMs(text: string): number | null {
  return read(text, durationUnits);
}

function read(text: string, units: Readonly<Record<string, number>>): number | null {
  const [, number = '', unit = ''] = form.exec(text) ?? [];
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
  if (factor === undefined) return null;
  const value = Number(number) * factor;
  return Number.isFinite(value) ? value : null;
}
