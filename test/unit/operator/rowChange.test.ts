import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rowChange } from '../../../src/operator/reconcile/rowChange.ts';
import {
  type KeptRow,
  keptAt,
  keptOfText,
  keptText,
  type MergedRow,
  mergeKept,
  mergeRow,
  type RowField,
  rowFields,
  seenRow,
  settleRow,
} from '../../../src/store/derivedRow.ts';
import type { BackendRow } from '../../../src/store/store.ts';

const urls = ['http://a:1', 'http://b:1', 'http://c:1'];
const groups = ['adhoc', 'etl', 'large'];
const row = (more: Partial<BackendRow> = {}): BackendRow => ({
  name: 'x',
  routingGroup: 'adhoc',
  proxyTo: 'http://a:1',
  externalUrl: 'http://a:1',
  active: true,
  ...more,
});
const anyRow = fc.record({
  name: fc.constant('x'),
  routingGroup: fc.constantFrom(...groups),
  proxyTo: fc.constantFrom(...urls),
  externalUrl: fc.constantFrom(...urls),
  active: fc.boolean(),
});
const anyKept = fc.record({
  projected: anyRow,
  seen: fc.record({ routingGroup: fc.constantFrom(...groups), active: fc.boolean() }),
  seenAt: fc.nat(),
  missing: fc.boolean(),
});
const values: Readonly<Record<RowField, readonly unknown[]>> = {
  routingGroup: groups,
  proxyTo: urls,
  externalUrl: urls,
  active: [true, false],
};
const anyField = fc
  .constantFrom(...rowFields)
  .chain((field) => fc.constantFrom(...values[field]).map((value) => ({ [field]: value }) as Partial<BackendRow>));

describe('the three-way comparison', () => {
  test.each([
    ['nobody wrote', row(), row(), row(), { row: row(), projected: row(), foreign: false }],
    [
      'only the resource',
      row(),
      row(),
      row({ active: false }),
      { row: row({ active: false }), projected: row({ active: false }), foreign: false },
    ],
    [
      'only the other gateway',
      row(),
      row({ active: false }),
      row(),
      { row: row({ active: false }), projected: row(), foreign: true },
    ],
    [
      'both, different fields',
      row(),
      row({ active: false }),
      row({ routingGroup: 'etl' }),
      {
        row: row({ active: false, routingGroup: 'etl' }),
        projected: row({ routingGroup: 'etl' }),
        foreign: true,
      },
    ],
    [
      'both, one field alike',
      row(),
      row({ active: false }),
      row({ active: false }),
      { row: row({ active: false }), projected: row({ active: false }), foreign: false },
    ],
    [
      'both, one field in two ways',
      row(),
      row({ routingGroup: 'large' }),
      row({ routingGroup: 'etl' }),
      { row: row({ routingGroup: 'large' }), projected: row(), foreign: true },
    ],
    ['the row was deleted', row(), null, row(), { row: null, projected: row(), foreign: true }],
    [
      'what was projected is not known',
      null,
      row({ active: false }),
      row(),
      { row: row(), projected: row(), foreign: false },
    ],
  ] satisfies readonly (readonly [string, BackendRow | null, BackendRow | null, BackendRow, MergedRow])[])(
    '%s',
    (_what, projected, present, wanted, merged) => {
      expect(mergeRow(projected, present, wanted)).toEqual(merged);
    },
  );

  test('names fields as resources do, and leaves out what differs in form alone', () => {
    const present = row({ routingGroup: 'large', proxyTo: 'http://a:1/', externalUrl: '', active: false });
    expect(rowChange(row(), present, row({ routingGroup: 'etl' }))).toEqual({
      kind: 'changed',
      fields: [
        { field: 'active', row: false, resource: true, overruled: false },
        { field: 'routingGroup', row: 'large', resource: 'etl', overruled: true },
      ],
    });
    expect(rowChange(row(), row({ externalUrl: '' }), row())).toEqual({ kind: 'changed', fields: [] });
    expect(rowChange(row(), null, row({ active: false }))).toEqual({ kind: 'deleted', overruled: true });
  });

  test('a settled row is put back, and what was written since is not', () => {
    fc.assert(
      fc.property(anyRow, anyRow, anyRow, anyRow, anyRow, (projected, present, wanted, before, seen) => {
        expect(settleRow(projected, present, wanted, { projected, present })).toEqual({
          ...{ row: wanted, projected: wanted, foreign: false },
        });
        const { row: settled } = settleRow(projected, present, wanted, { projected: before, present: seen });
        for (const field of rowFields) {
          const isSeen = present[field] === seen[field] && projected[field] === before[field];
          const isKept = present[field] !== projected[field] && !isSeen;
          expect(settled?.[field]).toBe(isKept ? present[field] : wanted[field]);
        }
      }),
    );
    expect(settleRow(row(), null, row(), { projected: row(), present: null }).row).toEqual(row());
    const again = row({ active: false });
    expect(settleRow(row(), again, row(), { projected: row(), present: null })).toMatchObject({ foreign: true });
    expect(settleRow(row(), null, row(), { projected: row(), present: row() })).toMatchObject({ row: null });
  });

  test('a row is kept as a text', () => {
    fc.assert(
      fc.property(anyKept, (each) => {
        expect(keptOfText(keptText(each))).toEqual(each);
      }),
    );
  });
});

test('what was looked at counts for a minute: after that the resource has a value for other reasons', () => {
  const kept: KeptRow = { projected: row(), seen: { active: false }, seenAt: 1_000, missing: false };
  expect(keptAt(kept, 60_999)).toEqual(kept);
  expect(keptAt(kept, 61_000)).toEqual({ ...kept, seen: {}, seenAt: 0 });
});

/** Two gateways on one row: this one with its resource, and another one that writes the row alone. */
type Step =
  | { readonly kind: 'resource' | 'other'; readonly change: Partial<BackendRow> }
  /** Either is in the middle of something when the other comes: the leader reads, and puts back or takes over later. */
  | { readonly kind: 'project' | 'read' | 'decide' | 'delete' };

test('in every order of writes, projections and settlements nothing is lost without a report, and both sides end alike', () => {
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('resource', 'other'), change: anyField }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom('project', 'read', 'decide') }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete') }) },
  ) as fc.Arbitrary<Step>;
  const owned = fc.subarray([...rowFields]);
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), owned, (steps, managed) => {
      let resource = row();
      let kept: KeptRow = { projected: row(), seen: {}, seenAt: 0, missing: false };
      let present: BackendRow | null = row();
      /** Fields that the other one wrote since the leader read. */
      const unread = new Set<RowField>();
      let read: { readonly projected: BackendRow; readonly present: BackendRow | null } | null = null;
      let reports: string[] = [];
      const store = ({ merged, kept: next }: { merged: MergedRow; kept: KeptRow }): void => {
        const { projected } = kept;
        // A value of another program leaves the row by a report alone.
        for (const field of rowFields) {
          if (present === null || merged.row === null || merged.row[field] === present[field]) continue;
          const isForeign = present[field] !== projected[field] && present[field] !== resource[field];
          if (isForeign && !reports.includes(field)) expect.fail(`${field} ${present[field]} was overwritten`);
        }
        if (present === null && merged.row !== null && !reports.includes('row')) expect.fail('the row came back');
        [present, kept] = [merged.row, next];
      };
      const project = (): void => store(mergeKept(kept, present, resource));
      const look = (): void => {
        read = { projected: kept.projected, present };
        kept = seenRow(kept.projected, present, 0);
        unread.clear();
      };
      const decide = (): void => {
        if (read === null) return;
        const seen = read;
        read = null;
        const change = rowChange(seen.projected, seen.present, resource);
        reports = change.kind === 'deleted' ? ['row'] : [];
        const taken: Partial<Record<RowField, unknown>> = {};
        for (const { field, row: value, overruled } of change.kind === 'deleted' ? [] : change.fields) {
          if (overruled || managed.includes(field)) reports.push(field);
          else taken[field] = value;
        }
        const before = present;
        // As the registry does it: the resource first, then its projection, then what is put back.
        resource = { ...resource, ...(taken as Partial<BackendRow>) };
        project();
        for (const field of rowFields) {
          // What was written after the leader had read is another write, even where it is the value before.
          if (!unread.has(field) || !(field in taken) || before === null || before[field] === taken[field]) continue;
          expect(present?.[field]).toBe(before[field]);
        }
        const merged = settleRow(kept.projected, present, resource, seen);
        if (reports.length > 0)
          store({ merged, kept: { projected: merged.projected, seen: {}, seenAt: 0, missing: false } });
        reports = [];
      };
      for (const each of steps) {
        if (each.kind === 'resource') resource = { ...resource, ...each.change };
        else if (each.kind === 'other') {
          present = { ...(present ?? row()), ...each.change };
          for (const field of rowFields) if (field in each.change) unread.add(field);
        } else if (each.kind === 'delete') present = null;
        else if (each.kind === 'project') project();
        else if (each.kind === 'read') look();
        else decide();
      }
      // Left alone, one look at the database settles everything.
      project();
      look();
      decide();
      expect([present, kept.projected]).toEqual([resource, resource]);
    }),
    { numRuns: 20_000 },
  );
});
