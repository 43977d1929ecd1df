import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { declare, manifest } from '../../support/queueing.ts';
import { addCluster, call, worldOf } from '../../support/world.ts';

const world = worldOf('test');

test('a rule that names a group without clusters shows it, until the group has clusters or a fallback that has some', async () => {
  const rules = world.path('rules.yaml');
  const rule = (name: string, group: string) =>
    `---\nname: ${name}\ncondition: 'true'\nactions: ['result.put("routingGroup", ${group})']\n`;
  await writeFile(
    rules,
    rule('literal', '"etl"') + rule('computed', 'request.getHeader("X-Group")') + rule('default', '"adhoc"'),
  );
  const directory = world.subfolder('manifests');
  await declare(
    directory,
    ...[{ routingGroup: 'etl' }, { cluster: 'gone' }].map((routeTo, index) =>
      manifest('RoutingRule', `r${index}`, { condition: 'true', routeTo }),
    ),
  );
  const gateway = await world.start({
    resources: { source: 'directory', directory },
    routingRules: { rulesEngineEnabled: true, rulesConfigPath: rules },
  });
  const unresolved = async () => {
    const { rules: listed } = (await call(gateway, 'GET', '/api/rules')).json as {
      readonly rules: readonly { readonly name: string; readonly unresolved: string | null }[];
    };
    return Object.fromEntries(listed.map(({ name, unresolved: why }) => [name, why]));
  };
  const absent = 'no cluster belongs to the routing group etl';
  const others = { computed: null, default: null, r1: 'there is no cluster gone' };
  expect(await unresolved()).toEqual({ ...others, literal: absent, r0: absent });
  await addCluster(gateway, 'a', 'http://a:1', 'spill');
  expect(await unresolved()).toEqual({ ...others, literal: absent, r0: absent });
  expect((await call(gateway, 'PUT', '/api/groups/etl', { fallbacks: ['spill'] })).status).toBe(200);
  expect(await unresolved()).toEqual({ ...others, literal: null, r0: null });
  expect((await call(gateway, 'DELETE', '/api/groups/etl')).status).toBe(200);
  await addCluster(gateway, 'b', 'http://b:1', 'etl');
  expect(await unresolved()).toEqual({ ...others, literal: null, r0: null });
});
