/** Times of a time zone, by the browser's tables. Independent of the DOM, so that tests need no browser. */

const formats = new Map<string, Intl.DateTimeFormat>();

function formatFor(timeZone: string): Intl.DateTimeFormat {
  const existing = formats.get(timeZone);
  if (existing !== undefined) return existing;
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
  formats.set(timeZone, format);
  return format;
}

function partsOf(epochMillis: number, timeZone: string): Record<string, string> {
  return Object.fromEntries(
    formatFor(timeZone)
      .formatToParts(epochMillis)
      .map(({ type, value }) => [type, value]),
  );
}

/** `2026-11-21 08:15:30` in a time zone. */
export function dateTimeText(epochMillis: number, timeZone: string): string {
  const { year, month, day, hour, minute, second } = partsOf(epochMillis, timeZone);
  return `${year}-${month}-${day} ${hour}:${minute}:${second}`;
}

/** `08:15` in a time zone. */
export function clockText(epochMillis: number, timeZone: string): string {
  const { hour, minute } = partsOf(epochMillis, timeZone);
  return `${hour}:${minute}`;
}

/** Offset of a zone from UTC at a time, in milliseconds. */
function offsetAt(epochMillis: number, timeZone: string): number {
  const { year, month, day, hour, minute, second } = partsOf(epochMillis, timeZone);
  const wall = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  return wall - Math.floor(epochMillis / 1000) * 1000;
}

/**
 * Returns the time at which a zone's clocks show `2026-11-21T08:15` (the value of an input of type datetime-local);
 * null if invalid. A skipped time is read with the offset before the change; of two times the first counts.
 */
export function timeOfWall(wall: string, timeZone: string): number | null {
  const utc = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(wall) ? Date.parse(`${wall}Z`) : Number.NaN;
  if (Number.isNaN(utc)) return null;
  const day = 86_400_000;
  const before = offsetAt(utc - day, timeZone);
  const after = offsetAt(utc + day, timeZone);
  const fits = [before, after].map((offset) => utc - offset).filter((time) => utc - offsetAt(time, timeZone) === time);
  return fits.length === 0 ? utc - before : Math.min(...fits);
}

/** Time as the value of an input of type datetime-local. */
export function wallOfTime(epochMillis: number, timeZone: string): string {
  return dateTimeText(epochMillis, timeZone).replace(' ', 'T').slice(0, 16);
}

/** Age in one unit: `12 s ago`, `3 min ago`. */
export function agoText(epochMillis: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - epochMillis) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
