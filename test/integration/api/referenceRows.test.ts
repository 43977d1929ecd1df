import { expect, test } from 'vitest';
import { runCommand } from '../../support/commandLine.ts';
import { describeReferenceDatabases } from '../../support/referenceDatabases.ts';
import { call, worldOf } from '../../support/world.ts';

/** Names that Trino Gateway accepts, as it checks none, and that are no names in Kubernetes. */
const names = ['Upper_Case', 'team/etl', 'a b', 'ünï%20?#', 'long'.repeat(60)];
/** What it accepts and no resource can have. */
const impossible = [
  [' space', 'http://127.0.0.1:9'],
  ['no url', 'nohost'],
  ['empty', ''],
  ['query', 'http://127.0.0.1:9/?a=b'],
  ['credentials', 'http://user:secret@127.0.0.1:9'],
] as const;
const rows = [...names.map((name) => [name, 'http://127.0.0.1:9'] as const), ...impossible];

const world = worldOf('suite');

describeReferenceDatabases(({ fixture, create }) => {
  /** A database with rows, and a configuration for it. */
  const prepare = async (clusters: readonly (readonly [name: string, url: string])[]) => {
    const { settings, run } = await create();
    await run(fixture);
    await run(['DELETE FROM gateway_backend']);
    await run(
      clusters.map(
        ([name, url]) =>
          `INSERT INTO gateway_backend (name, routing_group, backend_url, external_url, active) VALUES ('${name}', 'adhoc', '${url}', '${url}', true)`,
      ),
    );
    const spillDirectory = world.path('spill');
    return {
      run,
      config: { protocol: { productName: 'Trino' }, dataStore: settings, queryHistory: { spillDirectory } },
    };
  };
  const file = (name: string, content: string | object): string => world.file(name, content);

  test('names that are no Kubernetes names are exported as valid manifests', async () => {
    const { config } = await prepare(names.map((name) => [name, 'http://127.0.0.1:9']));
    const exported = await runCommand(['export', '--config', file('config.yaml', config)]);
    expect(exported).toMatchObject({ code: 0, stderr: '' });
    const manifests = file('manifests.yaml', exported.stdout);
    expect(await runCommand(['validate', '--product', 'Trino', manifests])).toMatchObject({
      code: 0,
      stdout: `1 files, ${names.length} resources, 0 rules: no mistakes\n`,
    });
  });

  test('what no resource can have is exported with a warning', async () => {
    const { config } = await prepare(impossible);
    const { code, stderr } = await runCommand(['export', '--config', file('config.yaml', config)]);
    expect(code).toBe(0);
    const warnings = stderr.trimEnd().split('\n');
    expect(warnings).toHaveLength(impossible.length);
    expect(warnings).toContainEqual(
      expect.stringMatching(
        /^warning: EngineCluster no-url-\w+ \("no url"\): spec\.proxyTo must start with .*; correct it before it is applied$/,
      ),
    );
    expect(stderr).not.toContain('secret');
  });

  test('every row is switched and deleted by REST, whatever its name and URL', async () => {
    const { run, config } = await prepare(rows);
    const gateway = await world.start({ ...config, resources: { source: 'database' } });
    const post = async (path: string, body?: string): Promise<number> =>
      (await fetch(`${gateway.url}/gateway/backend/${path}`, { method: 'POST', body: body ?? null })).status;
    const listed = async (): Promise<Record<string, boolean>> => {
      const all: { name: string; active: boolean }[] = (await call(gateway, 'GET', '/gateway/backend/all')).json;
      return Object.fromEntries(all.map(({ name, active }) => [name, active]));
    };
    await expect.poll(async () => Object.keys(await listed()).length).toBe(rows.length);
    for (const [name] of rows) {
      for (const [verb, active] of [
        ['deactivate', false],
        ['deactivate', false],
        ['activate', true],
        ['deactivate', false],
      ] as const) {
        expect(await post(`${verb}/${encodeURIComponent(name)}`), `${verb} ${name}`).toBe(200);
        const [stored] = await run([`SELECT active FROM gateway_backend WHERE name = '${name}'`]);
        expect([name, stored?.map((row) => Boolean(row.active))]).toEqual([name, [active]]);
        expect((await listed())[name], name).toBe(active);
      }
    }
    for (const [name] of rows) expect(await post('modify/delete', name), `delete ${name}`).toBe(200);
    expect(await listed()).toEqual({});
    expect(await run(['SELECT name FROM gateway_backend'])).toEqual([[]]);
  });
});
