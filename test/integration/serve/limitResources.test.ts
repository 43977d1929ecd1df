import { readdir, readFile, writeFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { declare, manifest } from '../../support/queueing.ts';
import { addCluster, call as callAt, worldOf } from '../../support/world.ts';

let gateway: GatewayProcess;

interface Stored {
  readonly name: string;
  readonly inForce: boolean;
  readonly message: string;
  readonly resource: { readonly name: string } | null;
}
const call = (method: string, path: string, body?: object) => callAt(gateway, method, path, body);
const limit = {
  per: 'User',
  maxRunningQueries: 10,
  match: { users: [{ type: 'RegularExpression', value: 'etl-.*' }] },
};

describe.each(['directory', 'database'] as const)('groups and limits by REST, source %s', (source) => {
  const world = worldOf('suite');
  const start = async (more: object = {}) => {
    const directory = source === 'directory' ? { directory: world.subfolder('manifests') } : {};
    gateway = await world.start({ resources: { source, ...directory, ...more } });
  };
  /** Starts another one, without what tests before it declared. */
  const restart = async (more: object) => {
    await world.end();
    world.begin();
    await start(more);
  };
  beforeAll(() => start());

  test('a group is declared, replaced and deleted; its clusters stay', async () => {
    await addCluster(gateway, 'a', 'http://a:1', 'etl');
    expect((await call('GET', '/api/groups/etl')).json).toMatchObject({
      clusters: [{ name: 'a', active: true, maxRunningQueries: null }],
      spec: null,
      inForce: false,
      running: null,
      resource: null,
    });
    const first = await call('PUT', '/api/groups/etl', { maxRunningQueries: 5, queue: { maxWait: '1m' } });
    expect(first).toMatchObject({
      status: 200,
      json: { spec: { maxRunningQueries: 5, queue: { maxWait: '1m' } }, inForce: true, resource: { name: 'etl' } },
    });
    const { version } = first.json;
    const second = await call('PUT', '/api/groups/etl', { fallbacks: ['adhoc'], version });
    expect(second).toMatchObject({ status: 200, json: { spec: { fallbacks: ['adhoc'] } } });
    expect(second.json.spec).not.toHaveProperty('maxRunningQueries');
    expect(await call('PUT', '/api/groups/etl', { version })).toMatchObject({
      status: 409,
      json: { error: { code: 'EG_CONFLICT', field: 'version' } },
    });
    expect((await call('DELETE', `/api/groups/etl?version=${version}`)).status).toBe(409);
    expect((await call('DELETE', `/api/groups/etl?version=${second.json.version}`)).status).toBe(200);
    expect((await call('GET', '/api/groups/etl')).json).toMatchObject({ clusters: [{ name: 'a' }], spec: null });
    expect((await call('DELETE', '/api/groups/etl')).status).toBe(404);
    expect((await call('GET', '/api/groups/none')).status).toBe(404);

    // A name that no Kubernetes resource can have is kept in the spec.
    const path = `/api/groups/${encodeURIComponent('Team A/etl')}`;
    const { status, json } = await call('PUT', path, { maxRunningQueries: 5 });
    expect([status, json.name, json.resource?.name]).toEqual([
      200,
      'Team A/etl',
      expect.stringMatching(/^team-a-etl-/),
    ]);
    expect(await call('PUT', path, { maxRunningQueries: 6 })).toMatchObject({
      status: 200,
      json: { name: 'Team A/etl', spec: { maxRunningQueries: 6 }, resource: { name: json.resource?.name } },
    });
  });

  test('a limit is declared, replaced and deleted', async () => {
    const path = '/api/limits/default/per-user';
    const first = await call('PUT', path, limit);
    expect(first).toMatchObject({ status: 200, json: { spec: limit, inForce: true } });
    expect(await call('PUT', path, { ...limit, maxRunningQueries: 11 })).toMatchObject({
      json: { spec: { maxRunningQueries: 11 } },
    });
    expect((await call('PUT', path, { ...limit, version: first.json.version })).status).toBe(409);
    await vi.waitFor(async () => {
      const conditions = JSON.stringify((await call('GET', path)).json.resource);
      expect(conditions).toContain('"type":"Ready","status":"True"');
    }, 20_000);
    expect((await call('GET', '/api/limits')).json).toHaveLength(1);
    expect((await call('GET', '/metrics')).text).toContain('engine_gateway_query_limits 1');
    expect((await call('DELETE', path)).status).toBe(200);
    expect((await call('GET', path)).status).toBe(404);
  });

  test('a limit that cannot be is rejected with its field, and nothing is stored', async () => {
    const path = '/api/limits/default/x';
    for (const [body, field] of [
      [{ match: limit.match, maxRunningQueries: 1 }, 'per'],
      [{ match: limit.match, per: 'User' }, 'maxRunningQueries'],
      [{ ...limit, match: {} }, 'match'],
      [{ ...limit, match: { users: [{ type: 'RegularExpression', value: '(' }] } }, 'match.users[0].value'],
      [{ ...limit, match: { digests: ['SELECT 1'] } }, 'match.digests[0]'],
      [{ ...limit, match: { estimate: ['unknown'] } }, 'match.estimate[0]'],
      [{ ...limit, gatewayClassName: 'blue' }, 'gatewayClassName'],
    ] as const) {
      expect(await call('PUT', path, body), field).toMatchObject({ status: 400, json: { error: { field } } });
      expect((await call('GET', path)).status, field).toBe(404);
    }
  });

  // In a database all resources are the platform's.
  if (source === 'directory')
    test('what a tenant is not granted is rejected before it is stored', async () => {
      await world.end();
      world.begin();
      await declare(
        world.subfolder('manifests'),
        manifest('EngineTenant', 'team', { namespaces: { names: ['team'] }, routingGroups: [{ value: 'team-own' }] }),
      );
      await start();
      const rejects = async (path: string, body: object, error: object) =>
        expect(await call('PUT', path, body)).toMatchObject({
          status: 422,
          json: { error: { code: 'EG_IMPOSSIBLE', ...error } },
        });
      await rejects('/api/limits/team/x', limit, { message: expect.stringContaining('spec.decides') });
      await rejects('/api/groups/own?namespace=team', {}, { field: 'name' });
      await rejects('/api/groups/team-own?namespace=team', { fallbacks: ['adhoc'] }, { field: 'fallbacks[0]' });
      expect((await call('GET', '/api/limits')).json).toEqual([]);
    });

  test('resources.apiWrites: activation-only refuses writes', async () => {
    await restart({ apiWrites: 'activation-only' });
    for (const path of ['/api/groups/etl', '/api/limits/default/x']) {
      expect(await call('PUT', path, path.includes('groups') ? {} : limit)).toMatchObject({
        status: 403,
        json: { error: { code: 'EG_API_WRITES_DISABLED' } },
      });
    }
  });
});

describe('a file of resources', () => {
  const world = worldOf('suite');

  test('writes go into the file that holds the resource, and a second one of the same name says who has it', async () => {
    const file = world.path('manifests.yaml');
    const group = (name: string, spec: string) =>
      `---\n# ${name}\napiVersion: enginegateway.dev/v1beta1\nkind: RoutingGroup\nmetadata: {name: ${name}}\nspec:\n${spec}`;
    await writeFile(file, `${group('etl', '  maxRunningQueries: 5 # enough\n')}${group('second', '  name: etl\n')}`);
    gateway = await world.start();
    const groups = (await call('GET', '/api/groups')).json as readonly Stored[];
    expect(groups.map(({ name, inForce, resource }) => [name, inForce, resource?.name])).toEqual([
      ['etl', true, 'etl'],
      ['etl', false, 'second'],
    ]);
    expect(groups[1]?.message).toContain('belongs to the older RoutingGroup default/etl');
    expect((await call('PUT', '/api/groups/etl', { maxRunningQueries: 6 })).status).toBe(200);
    expect(await readFile(file, 'utf8')).toContain('  maxRunningQueries: 6 # enough\n');
    expect((await call('PUT', '/api/limits/default/new', limit)).status).toBe(200);
    expect(await readdir(world.folder)).toContain('querylimit-new.yaml');
  });
});
