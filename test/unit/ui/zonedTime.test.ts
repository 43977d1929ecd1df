import { describe, expect, test } from 'vitest';
import { agoText, clockText, dateTimeText, timeOfWall, wallOfTime } from '../../../src/ui/components/zonedTime.ts';

const at = Date.parse('2026-03-29T00:59:59Z');

describe('times of a zone', () => {
  test.each([
    ['UTC', '2026-03-29 00:59:59'],
    ['Europe/Berlin', '2026-03-29 01:59:59'],
    ['Asia/Kathmandu', '2026-03-29 06:44:59'],
    ['America/St_Johns', '2026-03-28 22:29:59'],
  ])('in %s', (zone, text) => {
    expect(dateTimeText(at, zone)).toBe(text);
    expect(clockText(at, zone)).toBe(text.slice(11, 16));
    expect(wallOfTime(at, zone)).toBe(text.replace(' ', 'T').slice(0, 16));
    expect(timeOfWall(wallOfTime(at, zone), zone)).toBe(at - 59_000);
  });

  test.each([
    // The clocks go from 02:00 to 03:00: 02:30 is not shown; taken as before the change.
    ['2026-03-29T02:30', '2026-03-29T01:30:00Z'],
    ['2026-03-29T03:00', '2026-03-29T01:00:00Z'],
    // And from 03:00 to 02:00: 02:30 is shown twice; the first.
    ['2026-10-25T02:30', '2026-10-25T00:30:00Z'],
    ['2026-10-25T03:00', '2026-10-25T02:00:00Z'],
  ])('%s in Berlin, where the clocks change', (wall, utc) => {
    expect(new Date(timeOfWall(wall, 'Europe/Berlin') ?? 0).toISOString()).toBe(utc.replace('Z', '.000Z'));
  });

  test.each(['', 'yesterday', '2026-13-01T00:00', '2026-01-01', '2026-01-01T00:00Z'])('%j is no time', (wall) => {
    expect(timeOfWall(wall, 'UTC')).toBeNull();
  });

  test.each([
    [-5_000, '0 s ago'],
    [59_000, '59 s ago'],
    [60_000, '1 min ago'],
    [3_599_000, '59 min ago'],
    [86_399_000, '23 h ago'],
    [86_400_000, '1 d ago'],
  ])('%d ms ago is %s', (ago, text) => {
    expect(agoText(at - ago, at)).toBe(text);
  });
});
