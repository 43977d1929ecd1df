import { expect, test } from 'vitest';
import { configFields } from '../../../src/config/gatewayConfig.ts';

type FieldSchema = typeof configFields;

/** Node.js timers of more than this begin at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const ages = ['authentication.session.lifetime', 'resources.massDeletion.confirmAfter', 'audit.retention'];

/** Every duration with an effect, by its key. */
function* durations(field: FieldSchema, key: string): Generator<[key: string, field: FieldSchema]> {
  if (field.withoutEffect !== undefined) return;
  if (field.kind === 'duration') yield [key, field];
  if (field.items !== undefined) yield* durations(field.items, `${key}[]`);
  for (const [name, inner] of Object.entries(field.properties ?? {})) {
    yield* durations(inner, key === '' ? name : `${key}.${name}`);
  }
}

const all = [...durations(configFields, '')];

test('there are durations', () => {
  expect(all.length).toBeGreaterThan(20);
});

test.each(all)('%s has bounds that a timer can wait for', (key, { range }) => {
  const [minimum, maximum] = range ?? [];
  expect(minimum).toBeGreaterThanOrEqual(0);
  expect(maximum).toBeGreaterThan(minimum ?? Number.NaN);
  if (!ages.includes(key)) expect(maximum).toBeLessThanOrEqual(MAX_TIMER_MS);
});
