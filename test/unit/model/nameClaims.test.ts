import { describe, expect, test } from 'vitest';
import { claimNames, nameConflictMessage } from '../../../src/model/nameClaims.ts';
import { API_GROUP_VERSION, type Resource } from '../../../src/model/resource.ts';

const resource = (name: string, creationTimestamp: string, more: object = {}, spec: object = {}): Resource => ({
  apiVersion: API_GROUP_VERSION,
  kind: 'EngineCluster',
  metadata: { name, namespace: 'default', uid: name, resourceVersion: '1', generation: 1, creationTimestamp, ...more },
  spec: { name: 'etl', ...spec },
});

describe('of several resources that claim a name', () => {
  const early = '2026-01-01T00:00:00Z';
  const late = '2026-01-01T00:00:01Z';
  test.each([
    ['the older one has it', [resource('a', late), resource('b', early)], 'b'],
    ['of equally old ones the first by key', [resource('b', early), resource('a', early)], 'a'],
    ['a time is compared, not its text', [resource('b', early), resource('a', '2026-01-01T00:00:00.000Z')], 'a'],
    ['one without a time counts as equally old', [resource('b', early), resource('a', '')], 'a'],
    [
      'one that is being deleted has none',
      [resource('a', early, { deletionTimestamp: late }), resource('b', late)],
      'b',
    ],
  ])('%s', (_, resources, holder) => {
    expect(claimNames(resources).get('etl')?.metadata.name).toBe(holder);
  });

  test.each([[''], [7], [null]])('spec.name %j is no name: metadata.name is claimed', (name) => {
    expect([...claimNames([resource('a', early, {}, { name })]).keys()]).toEqual(['a']);
  });

  test('the message names the holder and the way out', () => {
    expect(nameConflictMessage(resource('b', late), resource('a', early))).toBe(
      'the name etl belongs to the older EngineCluster default/a; set another spec.name or delete one of the two',
    );
  });
});
