import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { manifest as declared } from '../../support/manifest.ts';

let folder: string;
let gateway: GatewayProcess | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'unresolved-'));
});
afterEach(async () => {
  await gateway?.stop();
  await rm(folder, { recursive: true, force: true });
});

const call = async (method: string, path: string, body?: object): Promise<number> => {
  const response = await fetch(`${gateway?.url}${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return response.status;
};
const cluster = (name: string, routingGroup: string) =>
  call('POST', '/gateway/backend/modify/add', { name, proxyTo: `http://${name}:1`, active: true, routingGroup });

test('a rule that names a group without clusters shows it, until the group has clusters or a fallback that has some', async () => {
  const rules = join(folder, 'rules.yaml');
  const rule = (name: string, group: string) =>
    `---\nname: ${name}\ncondition: 'true'\nactions: ['result.put("routingGroup", ${group})']\n`;
  await writeFile(
    rules,
    rule('literal', '"etl"') + rule('computed', 'request.getHeader("X-Group")') + rule('default', '"adhoc"'),
  );
  await mkdir(join(folder, 'manifests'));
  await writeFile(
    join(folder, 'manifests', 'rule.yaml'),
    [{ routingGroup: 'etl' }, { cluster: 'gone' }]
      .map((routeTo, index) => declared('RoutingRule', `r${index}`, { condition: 'true', routeTo }))
      .map((manifest) => `---\n${JSON.stringify(manifest)}\n`)
      .join(''),
  );
  gateway = await startGateway({
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'x.db')}` },
    resources: { source: 'directory', directory: join(folder, 'manifests') },
    routingRules: { rulesEngineEnabled: true, rulesConfigPath: rules },
  });
  const unresolved = async () => {
    const { rules: listed } = (await (await fetch(`${gateway?.url}/api/rules`)).json()) as {
      readonly rules: readonly { readonly name: string; readonly unresolved: string | null }[];
    };
    return Object.fromEntries(listed.map(({ name, unresolved: why }) => [name, why]));
  };
  const absent = 'no cluster belongs to the routing group etl';
  const others = { computed: null, default: null, r1: 'there is no cluster gone' };
  expect(await unresolved()).toEqual({ ...others, literal: absent, r0: absent });
  await cluster('a', 'spill');
  expect(await unresolved()).toEqual({ ...others, literal: absent, r0: absent });
  expect(await call('PUT', '/api/groups/etl', { fallbacks: ['spill'] })).toBe(200);
  expect(await unresolved()).toEqual({ ...others, literal: null, r0: null });
  expect(await call('DELETE', '/api/groups/etl')).toBe(200);
  await cluster('b', 'etl');
  expect(await unresolved()).toEqual({ ...others, literal: null, r0: null });
});
