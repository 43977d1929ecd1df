import { expect, test } from 'vitest';
import { GatewayError } from '../../../src/model/errors.ts';
import { type SchemaRules, schemaStores } from '../../../src/store/resourceGroupStore.ts';

type ResourceGroupStore = Parameters<typeof schemaStores>[0];

/** Stores that are only compared by identity. */
const named = (name: string) => ({ name }) as unknown as ResourceGroupStore;
const nameOf = async (store: ResourceGroupStore) => (store as unknown as { name: string }).name;

function pool(rules: Partial<SchemaRules> = {}) {
  const events: string[] = [];
  const open = (name: string) => {
    events.push(`open ${name}`);
    return { store: named(name), close: async () => void events.push(`close ${name}`) };
  };
  return { events, stores: schemaStores(named('own'), open, { allowed: null, maxOpen: 2, ...rules }) };
}

test('keeps as many databases open as it may, and closes the one not used for the longest time', async () => {
  const { events, stores } = pool();
  for (const name of ['a', 'b', 'a', 'c', 'b']) expect(await stores.use(name, nameOf)).toBe(name);
  expect(events).toEqual(['open a', 'open b', 'open c', 'close b', 'open b', 'close a']);
  await stores.close();
  expect(events.slice(6).sort()).toEqual(['close b', 'close c']);
});

test('a database is closed only after the last call that uses it', async () => {
  const { events, stores } = pool({ maxOpen: 1 });
  const gate = Promise.withResolvers<void>();
  const slow = stores.use('a', () => gate.promise);
  await stores.use('b', nameOf);
  expect(events).toEqual(['open a', 'open b']);
  gate.resolve();
  await slow;
  expect(events).toEqual(['open a', 'open b', 'close a']);
  await stores.close();
});

test.each([
  ['', 'EG_MALFORMED'],
  ['../other', 'EG_MALFORMED'],
  ['a/b', 'EG_MALFORMED'],
  ['a?user=root', 'EG_MALFORMED'],
  ['a;drop database a', 'EG_MALFORMED'],
  ['a b', 'EG_MALFORMED'],
  ['ä', 'EG_MALFORMED'],
  ['x'.repeat(65), 'EG_MALFORMED'],
  ['a\n', 'EG_MALFORMED'],
  ['mysql', 'EG_IMPOSSIBLE'],
  ['Information_Schema', 'EG_IMPOSSIBLE'],
  ['performance_schema', 'EG_IMPOSSIBLE'],
  ['sys', 'EG_IMPOSSIBLE'],
  ['template1', 'EG_IMPOSSIBLE'],
  ['postgres', 'EG_IMPOSSIBLE'],
  ['other', 'EG_IMPOSSIBLE'],
])('refuses %j with %s', async (name, code) => {
  const { events, stores } = pool({ allowed: ['trino-1_$'] });
  const error = await stores.use(name, nameOf).catch((failure: unknown) => failure);
  expect(error).toBeInstanceOf(GatewayError);
  expect(error).toMatchObject({ code, field: 'useSchema' });
  expect(await stores.use('trino-1_$', nameOf)).toBe('trino-1_$');
  expect(events).toEqual(['open trino-1_$']);
});
