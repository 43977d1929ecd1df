import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Demo, startDemo, stopDemo, stopDemos } from '../../support/demo.ts';
import { follow, submit } from '../../support/statementClient.ts';

const run = promisify(execFile);

/** As the script starts it, and as `npm start` does. */
let demo: Demo;
let second: Demo;
beforeAll(async () => {
  [demo, second] = [await startDemo(), await startDemo(['npm', 'start', '--'])];
});
afterAll(stopDemos);

const query = (sql: string) => run('node', ['demo/query.ts', '--url', demo.url, sql]);
const clusters = async ({ url }: Demo) =>
  (await (await fetch(`${url}/api/clusters`)).json()) as readonly {
    readonly name: string;
    readonly proxyTo: string;
    readonly routingGroup: string;
    readonly running: number | null;
    readonly queued: number | null;
  }[];
const refuses = (url: string) =>
  fetch(url).then(
    () => false,
    () => true,
  );

test('a demo prints commands that give rows and the page of the query', async () => {
  const command = demo.lines.find((line) => line.includes('npm run -s query'));
  expect(command).toBe(`  npm run -s query -- --url ${demo.url} 'SELECT name FROM tpch.tiny.nation LIMIT 3'`);
  expect(demo.lines).toContain(
    `  trino --server ${demo.url} --user me --execute 'SELECT name FROM tpch.tiny.nation LIMIT 3'`,
  );
  const { stdout, stderr } = await query('SELECT name FROM tpch.tiny.nation LIMIT 3');
  expect(stdout).toBe('["ALGERIA"]\n["ARGENTINA"]\n["BRAZIL"]\n');
  const [, page = '', id] = /^page: (\S+\/queries\/(\S+))\n$/.exec(stderr) ?? [];
  expect(await (await fetch(page)).text()).toContain('<meta name="shared-origin" content="false" />');
  await expect.poll(async () => (await fetch(`${demo.url}/api/queries/${id}`)).status).toBe(200);
  const rejected = await fetch(`${demo.url}/v1/statement`, { method: 'POST', body: 'SELECT 1' });
  expect([rejected.status, await rejected.text()]).toEqual([
    401,
    "The request has no user. Send the header X-Engine-User, such as curl -H 'X-Engine-User: me', or Basic authentication",
  ]);
});

test('the figures of clusters are what runs there', async () => {
  const sum = async () => (await clusters(demo)).map(({ running, queued }) => [running, queued]);
  await expect.poll(sum).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
  ]);
  const headers = { 'X-Engine-Source': 'airflow' };
  let page = await submit(demo.url, 'SELECT * FROM TABLE(slow(seconds => 60))', { headers });
  await expect.poll(sum).toEqual([
    [0, 0],
    [0, 0],
    [0, 1],
  ]);
  while (page.stats.state === 'QUEUED') page = await follow(page.nextUri ?? '', { headers });
  await expect.poll(sum).toEqual([
    [0, 0],
    [0, 0],
    [1, 0],
  ]);
});

test('two demos have different ports and files', async () => {
  const addresses = [...(await clusters(demo)), ...(await clusters(second))].map(({ proxyTo }) => proxyTo);
  expect(new Set(addresses).size).toBe(6);
  await fetch(`${demo.url}/gateway/backend/deactivate/adhoc-1`, { method: 'POST' });
  const manifest = ({ port }: Demo) => readFileSync(`demo/data/${port}/manifests/clusters.yaml`, 'utf8');
  await expect.poll(() => manifest(demo)).toContain('"active":false');
  expect(manifest(second)).not.toContain('"active":false');
  expect(existsSync(`demo/data/${second.port}/gateway.db`)).toBe(true);
});

test('gateways and engines end when what started them is killed', async () => {
  const urls = [
    demo.url,
    second.url,
    ...[...(await clusters(demo)), ...(await clusters(second))].map((each) => each.proxyTo),
  ];
  await Promise.all([stopDemo(demo, 'SIGKILL'), stopDemo(second, 'SIGKILL')]);
  for (const url of urls) await expect.poll(() => refuses(url)).toBe(true);
});
