import { describe, expect, test } from 'vitest';
import type { Condition } from '../../../src/model/condition.ts';
import { DriftFindings } from '../../../src/operator/reconcile/driftFindings.ts';

const DAY_MS = 24 * 3_600_000;
const start = Date.parse('2026-01-01T00:00:00Z');
const written: Condition = {
  type: 'Drift',
  status: 'True',
  reason: 'ForeignWriteRefused',
  message: 'put back',
  observedGeneration: 3,
  lastTransitionTime: '2026-01-01T00:00:00Z',
};

describe('the condition Drift', () => {
  let now = start;
  const findings = (): DriftFindings => {
    now = start;
    return new DriftFindings({ now: () => now, monotonic: () => now });
  };

  test('stays until the resource or its row is another', () => {
    for (const [generation, row] of [
      [4, 'row'],
      [3, 'another row'],
    ] as const) {
      const drift = findings();
      drift.note('a', 3, 'row', 'ForeignWriteRefused', 'put back');
      expect(drift.condition('a', 3, 'row', undefined)).toMatchObject({ status: 'True', message: 'put back' });
      expect(drift.condition('a', generation, row, written)).toBeNull();
      expect(drift.condition('a', 3, 'row', written)).toBeNull();
    }
  });

  test('stays for a day', () => {
    const drift = findings();
    drift.note('a', 3, 'row', 'ForeignWriteRefused', 'put back');
    now = start + DAY_MS - 1;
    expect(drift.condition('a', 3, 'row', undefined)).not.toBeNull();
    expect(drift.over).toEqual([]);
    now += 1;
    expect(drift.over).toEqual(['a']);
    expect(drift.condition('a', 3, 'row', written)).toBeNull();
    expect(drift.over).toEqual([]);
  });

  test('is taken over from the status that the last leader wrote, also where that is read late', () => {
    const drift = findings();
    expect(drift.condition('a', 3, 'row', undefined)).toBeNull();
    expect(drift.condition('a', 3, 'row', { ...written, status: 'False' })).toBeNull();
    expect(drift.condition('a', 3, 'row', written)).toMatchObject({
      reason: 'ForeignWriteRefused',
      message: 'put back',
    });
    // From then on this leader knows it, whatever the status says.
    expect(drift.condition('a', 3, 'row', undefined)).not.toBeNull();
    now = start + DAY_MS;
    expect(drift.condition('a', 3, 'row', written)).toBeNull();
  });

  test('of an older generation is not taken over', () => {
    const drift = findings();
    expect(drift.condition('a', 4, 'row', written)).toBeNull();
  });
});
