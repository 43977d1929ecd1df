/**
 * `npm run screenshots`: pictures of the pages for docs/images, those that the documentation shows, of a gateway with
 * simulated engines and queries. `-- --png FOLDER` writes every page and dialog there as PNG instead, to look at: whole
 * pages, at three widths, in both themes; `--only NAME` those whose name begins so, e.g. `rule` or
 * `queue`, `--width N` at one width alone.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import type { Page } from 'playwright-core';
import { stringify } from 'yaml';
import { engineCluster } from '../src/kinds/engineCluster/kind.ts';
import { queryLimit } from '../src/kinds/queryLimit/kind.ts';
import { routingGroup } from '../src/kinds/routingGroup/kind.ts';
import { routingRule } from '../src/kinds/routingRule/kind.ts';
import { cancel, follow, type QueryResults, runQuery, submit } from '../test/support/statementClient.ts';
import { canBrowse, closeBrowsers, openWindow } from '../test/ui/support/browser.ts';
import { logIn } from '../test/ui/support/login.ts';
import { formAccess, type Rig, startRig } from '../test/ui/support/rig.ts';

const { values } = parseArgs({
  options: { png: { type: 'string' }, only: { type: 'string', default: '' }, width: { type: 'string' } },
});
const toLookAt = values.png !== undefined;
const folder = values.png ?? 'docs/images';
if (!canBrowse) process.exit(1);
await mkdir(folder, { recursive: true });

/** Pictures that the documentation shows, light and 1280 pixels wide. */
const inDocumentation = ['clusters', 'query', 'rules', 'resource-groups'];
const widths = values.width !== undefined ? [Number(values.width)] : toLookAt ? [1440, 1280, 420] : [1280];
const schemes = toLookAt ? (['light', 'dark'] as const) : (['light'] as const);

const rules = `name: airflow
description: Scheduled jobs go to the etl clusters
priority: 10
condition: request.getHeader("X-Engine-Source") == "airflow"
actions:
  - result.put("routingGroup", "etl")
---
name: large joins
description: Joins of many tables go to the etl clusters
priority: 20
condition: engineQueryProperties.getTables().size() > 2
actions:
  - result.put("routingGroup", "etl")
`;

/** What is declared beside the clusters of the rig: a queue, limits, rules, one of them to a group that is none. */
const declared = [
  resource(routingGroup.kind, 'etl', { maxRunningQueries: 2, queue: { hold: '10ms', maxWait: '30m' } }),
  resource(routingGroup.kind, 'adhoc', { maxRunningQueries: 40, fallbacks: ['etl'] }),
  resource(queryLimit.kind, 'dashboards', {
    match: { sources: [{ value: 'superset' }] },
    per: 'Source',
    maxRunningQueries: 20,
  }),
  resource(queryLimit.kind, 'everybody', {
    match: { everyone: true },
    per: 'User',
    rate: { queries: 600, period: '1m' },
    mode: 'Observe',
    message: 'Ask the platform team for more.',
  }),
  resource(routingRule.kind, 'no-exports', {
    priority: 5,
    description: 'Whole tables are not exported by notebooks',
    condition: 'engineRequestUser.getUser() == "notebook"',
    deny: { message: 'Use the export service instead.' },
  }),
  resource(routingRule.kind, 'finance', {
    priority: 30,
    condition: 'request.getHeader("X-Engine-Source") == "month-end-closing"',
    routeTo: { routingGroup: 'finance' },
  }),
];

/** A picture: the page, and what is done before it is taken. */
interface Shot {
  readonly name: string;
  /** Address below the pages'. */
  readonly path: string;
  readonly prepare?: (page: Page) => Promise<unknown>;
  /** Heading before which the picture in the documentation ends; absent: it is as large as the window. */
  readonly end?: string;
  /** Who looks: ada has all roles, ursula USER alone. */
  readonly as?: 'ursula';
}

const rigConfig = {
  ...formAccess(),
  requestAnalyzerConfig: { analyzeRequest: true },
  server: { address: '127.0.0.1', enginePages: 'redirect' },
};
await using rig = await startRig(rigConfig, rules);
for (const { metadata, ...more } of declared)
  await writeFile(join(rig.manifests, `${metadata.name}.yaml`), stringify({ ...more, metadata }));
const failed = await queries(rig);
await resourceGroups(rig);
const wanted = shots(failed).filter(({ name }) =>
  toLookAt ? name.startsWith(values.only) : inDocumentation.includes(name),
);
for (const colorScheme of schemes) {
  for (const width of widths) {
    const ending = toLookAt ? `-${width}-${colorScheme}` : `-${width}`;
    for (const user of ['ada', 'ursula'] as const) {
      const own = wanted.filter((shot) => (shot.as ?? 'ada') === user);
      if (own.length === 0) continue;
      await using window = await openWindow(rig.pages, { width, height: width === 420 ? 900 : 860, colorScheme });
      const { page } = window;
      await logIn(window, user);
      await page.getByRole('button', { name: /^User/ }).waitFor();
      for (const { name, path, prepare, end } of own) {
        await page.goto(`${rig.pages}/${path}`);
        await page.getByRole('heading', { level: 1 }).waitFor();
        for (const loading of await page.getByRole('status', { name: /^Loading/ }).all())
          await loading.waitFor({ state: 'detached' });
        await prepare?.(page);
        await page.waitForTimeout(400);
        await save(page, `${name}${ending}`, end);
      }
    }
    if (!toLookAt || !'login'.startsWith(values.only)) continue;
    await using login = await openWindow(rig.pages, { width, height: 700, colorScheme });
    await login.page.getByRole('button', { name: 'Log in' }).waitFor();
    await save(login.page, `login${ending}`);
    await logIn(login, 'ada', 'wrong');
    await login.page.getByRole('alert').waitFor();
    await save(login.page, `login-refused${ending}`);
  }
}
if (toLookAt && 'outage'.startsWith(values.only)) await outage();
await closeBrowsers();

/** All pages, then their dialogs. @param failedQuery id of a query that failed */
function shots(failedQuery: string): readonly Shot[] {
  const press = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click();
  return [
    { name: 'dashboard', path: '' },
    { name: 'clusters', path: 'clusters' },
    { name: 'cluster-details', path: 'clusters?details=adhoc-2' },
    { name: 'cluster-edit', path: 'clusters', prepare: press('Edit adhoc-1') },
    { name: 'cluster-delete', path: 'clusters', prepare: press('Delete adhoc-1') },
    { name: 'history', path: 'history' },
    { name: 'history-none', path: 'history?user=nobody-of-this-name' },
    {
      name: 'query',
      path: 'history?source=airflow&state=FINISHED',
      end: 'As it would be decided now',
      prepare: async (page) => {
        await page
          .getByRole('link', { name: /^\d{8}_/ })
          .first()
          .click();
        await page.getByRole('list', { name: 'Values' }).first().waitFor();
      },
    },
    { name: 'query-failed', path: `queries/${failedQuery}` },
    { name: 'query-unknown', path: 'queries/20260101_000000_00000_aaaaa' },
    { name: 'rules', path: 'routing-rules' },
    { name: 'rule-new', path: 'routing-rules?new=' },
    {
      name: 'rule-edit',
      path: 'routing-rules?rule=airflow',
      prepare: async (page) => {
        const dialog = page.getByRole('dialog');
        await dialog.getByLabel('Description').fill('Scheduled jobs of Airflow');
        await dialog.getByLabel('Headers').fill('X-Engine-Source: airflow');
        await dialog.getByRole('button', { name: 'Where would it go?' }).click();
        await dialog.getByRole('list', { name: 'Rules in firing order' }).waitFor();
      },
    },
    {
      name: 'rule-impact',
      path: 'routing-rules?rule=airflow',
      prepare: async (page) => {
        const dialog = page.getByRole('dialog');
        await dialog.getByLabel('Condition').fill('request.getHeader("X-Engine-Source") == "superset"');
        await dialog.getByRole('button', { name: 'What would move?' }).click();
        await dialog.getByRole('region', { name: 'By user' }).waitFor();
        await dialog.getByRole('region', { name: 'Impact' }).getByRole('button', { name: /→/ }).first().click();
      },
    },
    { name: 'replays', path: 'replays' },
    { name: 'replay', path: 'replays/default/upgrade' },
    { name: 'replay-new', path: 'replays?new=' },
    { name: 'limits', path: 'limits' },
    { name: 'queue', path: 'queue' },
    { name: 'queue-drop', path: 'queue', prepare: press(/^Drop /) },
    { name: 'queue-end', path: 'queue', prepare: press(/^End /) },
    { name: 'resource-groups', path: 'resource-groups' },
    { name: 'resource-group-edit', path: 'resource-groups', prepare: press('Edit global') },
    { name: 'selector-add', path: 'resource-groups', prepare: press('Add a selector of global') },
    { name: 'audit', path: 'audit' },
    { name: 'audit-change', path: 'audit', prepare: press(new RegExp(`: difference of ${engineCluster.kind}`)) },
    {
      name: 'search',
      path: 'limits',
      prepare: async (page) => {
        await page.keyboard.press('Control+k');
        await page.getByRole('dialog').getByRole('textbox').fill('adhoc');
        await page.getByRole('option', { name: /adhoc-1/ }).waitFor();
      },
    },
    { name: 'display', path: 'limits', prepare: press(/^Display/) },
    { name: 'nowhere', path: 'nowhere' },
    { name: 'reader-history', path: 'history', as: 'ursula' },
    { name: 'reader-clusters', path: 'clusters', as: 'ursula' },
    {
      name: 'reader-rules',
      path: 'routing-rules',
      as: 'ursula',
      prepare: async (page) => {
        await page.getByRole('button', { name: 'Where would it go?' }).click();
        await page.getByRole('list', { name: 'Clusters considered' }).waitFor();
      },
    },
    { name: 'reader-queue', path: 'queue', as: 'ursula' },
  ];
}

/**
 * Queries of several users, spread over the clusters by rules and ending in every way; some run, some wait. One cluster
 * is switched off, one is unavailable. Gives the id of one that failed.
 */
async function queries({ gateway, engines, database }: Rig): Promise<string> {
  const statements = [
    'SELECT name, count(*) AS orders FROM tpch.tiny.nation GROUP BY name',
    'SELECT 1',
    'SELECT * FROM tpch.tiny.nation',
    'SELECT region_key FROM tpch.tiny.region',
    'SELECT x',
  ];
  const people = ['ada', 'grace', 'katherine.johnson@analytics.example.com', 'ursula'];
  const sources = ['dbeaver', 'airflow', 'superset', 'cli'];
  let failedQuery = '';
  await runQuery(engines[0]?.url ?? '', 'CREATE TABLE memory.default.numbers AS SELECT 1 AS n', { user: 'ada' });
  await runQuery(gateway.url, 'SELECT n FROM memory.default.numbers', { user: 'ada' });
  for (let i = 0; i < 240; i += 1) {
    const headers = {
      'X-Engine-User': people[i % people.length] as string,
      'X-Engine-Source': sources[(i * 7) % sources.length] as string,
    };
    const { id, error } = await runQuery(gateway.url, statements[i % statements.length] as string, { headers });
    if (error !== undefined) failedQuery = id;
  }
  await runQuery(gateway.url, 'SELECT * FROM tpch.tiny.nation', { user: 'notebook' });
  const left = await submit(gateway.url, 'SELECT * FROM tpch.tiny.region', { user: 'grace' });
  if (left.nextUri !== undefined) await cancel(left.nextUri, { user: 'grace' });
  await replay(gateway.url);
  await spread(database, 55);
  const headers = { 'X-Engine-Source': 'airflow' };
  await runQuery(gateway.url, statements[0] as string, { user: 'ada', headers });
  // The two that run have the slots of the group; nobody follows them to their end.
  for (const user of ['grace', 'ursula']) {
    let query = await submit(gateway.url, 'SELECT name FROM tpch.tiny.nation', { user, headers });
    const isAtCluster = ({ id, nextUri = '' }: QueryResults) => !id.endsWith('_queue') && !nextUri.includes('/queued/');
    while (!isAtCluster(query) && query.nextUri !== undefined) query = await follow(query.nextUri, { user, headers });
  }
  for (const user of ['ada', 'ada', 'ursula', 'katherine.johnson@analytics.example.com'])
    await submit(gateway.url, 'SELECT name FROM tpch.tiny.nation', { user, headers });
  const asAda = { Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}` };
  await fetch(`${gateway.url}/gateway/backend/deactivate/adhoc-2`, { method: 'POST', headers: asAda });
  engines[1]?.setState({ failing: 503 });
  return failedQuery;
}

/** A replay whose candidate lacks a table. */
async function replay(url: string): Promise<void> {
  const headers = {
    Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}`,
    'Content-Type': 'application/json',
  };
  const spec = { control: 'adhoc-1', candidate: 'adhoc-2', from: { history: {} }, replayAs: { username: 'replay' } };
  const path = `${url}/api/replays/default/upgrade`;
  await fetch(path, { method: 'PUT', headers, body: JSON.stringify(spec) });
  const isDone = async () =>
    ((await (await fetch(path, { headers })).json()) as { progress: { state: string } | null }).progress?.state ===
    'done';
  while (!(await isDone())) await new Promise((later) => setTimeout(later, 500));
}

/** A few resource groups with selectors. */
async function resourceGroups({ gateway }: Rig): Promise<void> {
  const headers = { Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}` };
  const post = async (path: string, body: object) => {
    const call = { method: 'POST', headers, body: JSON.stringify(body) };
    const response = await fetch(`${gateway.url}/engine/${path}/create`, call);
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    return (await response.json()) as { resourceGroupId: number };
  };
  const limits = { maxQueued: 100, environment: 'production' };
  const whole = {
    ...limits,
    name: 'global',
    softMemoryLimit: '80%',
    hardConcurrencyLimit: 40,
    schedulingPolicy: 'weighted',
  };
  const { resourceGroupId: parent } = await post('resourcegroup', whole);
  for (const [name, weight, source] of [
    ['etl', 1, 'airflow'],
    ['interactive', 3, '(dbeaver|superset)'],
  ] as const) {
    const group = {
      ...limits,
      name,
      parent,
      schedulingWeight: weight,
      softMemoryLimit: '40%',
      hardConcurrencyLimit: 10,
    };
    const { resourceGroupId } = await post('resourcegroup', group);
    await post('selector', { resourceGroupId, priority: weight * 10, sourceRegex: source });
  }
  await post('globalproperty', { name: 'cpu_quota_period', value: '1h' });
}

/** Moves what just ran over the last minutes, so that the chart has something to show. */
async function spread(database: string, minutes: number): Promise<void> {
  await new Promise((written) => setTimeout(written, 1_000));
  const connection = new DatabaseSync(database, { timeout: 10_000 });
  const ids = connection.prepare('select query_id from query_history order by created').all() as { query_id: string }[];
  const move = connection.prepare('update query_history set created = created - ? where query_id = ?');
  for (const [i, { query_id }] of ids.entries()) {
    // More of them lately, in waves.
    const ago = (minutes * (ids.length - i)) / ids.length + 2 * Math.sin(i);
    move.run(Math.round(Math.max(0, ago) * 60_000), query_id);
  }
  connection.close();
}

/** What a page shows once the gateway is lost. */
async function outage(): Promise<void> {
  for (const width of widths) {
    await using window = await openWindow(`${rig.pages}/queue`, { width });
    await logIn(window, 'ada');
    await window.page.getByRole('heading', { level: 1, name: 'Queue' }).waitFor();
    await rig.stopGateway();
    await window.page.getByText('No connection to the gateway').waitFor();
    await save(window.page, `outage-${width}-light`);
    await rig.startGateway();
  }
}

function resource(kind: string, name: string, spec: object) {
  return { apiVersion: 'enginegateway.dev/v1beta1', kind, metadata: { name }, spec };
}

async function save(page: Page, name: string, end?: string): Promise<void> {
  // What lies over the page is as large as the window.
  const fullPage = toLookAt && (await page.getByRole('dialog').count()) === 0;
  const box = end === undefined || toLookAt ? null : await page.getByRole('heading', { name: end }).boundingBox();
  const png = await page.screenshot({
    animations: 'disabled',
    fullPage: fullPage || box !== null,
    // Without the border of the section that the heading belongs to.
    ...(box === null ? {} : { clip: { x: 0, y: 0, width: 1280, height: box.y - 30 } }),
  });
  if (toLookAt) await writeFile(join(folder, `${name}.png`), png);
  else await writeFile(join(folder, `${name}.webp`), await webp(page, png));
  console.log(join(folder, name));
}

/** The picture as WebP, made by the browser itself, in a page that has no policy against it. */
async function webp(page: Page, png: Buffer): Promise<Buffer> {
  const blank = await page.context().newPage();
  try {
    const text = (await blank.evaluate(`(async () => {
      const bytes = Uint8Array.fromBase64(${JSON.stringify(png.toString('base64'))});
      const bitmap = await createImageBitmap(new Blob([bytes]));
      const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
      canvas.getContext('2d').drawImage(bitmap, 0, 0);
      const blob = await canvas.convertToBlob({ type: 'image/webp', quality: 0.85 });
      return new Uint8Array(await blob.arrayBuffer()).toBase64();
    })()`)) as string;
    return Buffer.from(text, 'base64');
  } finally {
    await blank.close();
  }
}
