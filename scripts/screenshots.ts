/**
 * `npm run screenshots`: pictures of the pages for docs/images, wide and narrow, of a gateway with simulated engines
 * and queries. `-- --png FOLDER` writes them there as PNG instead, to look at: whole pages, in both themes.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import type { Page } from 'playwright-core';
import { runQuery } from '../test/support/statementClient.ts';
import { canBrowse, openWindow } from '../test/ui/support/browser.ts';
import { formAccess, type Rig, startRig } from '../test/ui/support/rig.ts';

const { values } = parseArgs({ options: { png: { type: 'string' } } });
const folder = values.png ?? 'docs/images';
if (!canBrowse) process.exit(1);
await mkdir(folder, { recursive: true });

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

await using rig = await startRig({ requestAnalyzerConfig: { analyzeRequest: true } }, rules);
await queries(rig);
await resourceGroups(rig);
await using closed = await startRig(formAccess());
const toLookAt = values.png !== undefined;
for (const colorScheme of toLookAt ? (['light', 'dark'] as const) : (['light'] as const)) {
  const theme = toLookAt ? `-${colorScheme}` : '';
  for (const width of [1280, 420]) {
    await using window = await openWindow(rig.pages, { width, height: width === 1280 ? 860 : 900, colorScheme });
    const { page } = window;
    for (const [name, path, prepare] of shots()) {
      await page.goto(`${rig.pages}/${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await prepare(page);
      await page.waitForTimeout(400);
      await save(page, `${name}-${width}${theme}`);
    }
    const loginScheme = toLookAt ? colorScheme : 'dark';
    await using login = await openWindow(closed.pages, { width, height: 700, colorScheme: loginScheme });
    await login.page.getByRole('button', { name: 'Log in' }).waitFor();
    await save(login.page, `login-${width}${theme}`);
  }
}

/** Name of the picture, address below the pages', and what is done before it is taken. */
function shots(): readonly (readonly [string, string, (page: Page) => Promise<void>])[] {
  const nothing = async () => undefined;
  return [
    ['dashboard', '', nothing],
    ['clusters', 'clusters', nothing],
    ['cluster-details', 'clusters', (page) => page.getByRole('button', { name: 'Details of adhoc-2' }).click()],
    ['history', 'history', nothing],
    ['rules', 'routing-rules', nothing],
    [
      'rule-edit',
      'routing-rules',
      async (page) => {
        await page.getByRole('button', { name: 'Edit airflow' }).click();
        await page.getByRole('dialog').getByLabel('Headers').fill('X-Engine-Source: airflow');
        await page.getByRole('dialog').getByRole('button', { name: 'Where would it go?' }).click();
        await page.getByRole('dialog').getByRole('list', { name: 'Rules in firing order' }).waitFor();
      },
    ],
    ['resource-groups', 'resource-groups', nothing],
    [
      'query',
      'history',
      async (page) => {
        const row = page.getByRole('row').filter({ hasText: 'airflow' }).first();
        await row.getByRole('button', { name: /^Show query/ }).click();
        await page.getByRole('tab', { name: 'Why it went there' }).click();
      },
    ],
  ];
}

/** Queries of several users, spread over the clusters by rules; one cluster is switched off, one is unavailable. */
async function queries({ gateway, engines, database }: Rig): Promise<void> {
  const statements = [
    'SELECT name, count(*) AS orders FROM tpch.tiny.nation GROUP BY name',
    'SELECT 1',
    'SELECT * FROM tpch.tiny.nation',
    'SELECT region_key FROM tpch.tiny.region',
  ];
  const people = ['ada', 'grace', 'katherine', 'margaret'];
  const sources = ['dbeaver', 'airflow', 'superset', 'cli'];
  for (let i = 0; i < 240; i += 1) {
    const headers = {
      'X-Engine-User': people[i % people.length] as string,
      'X-Engine-Source': sources[(i * 7) % sources.length] as string,
    };
    await runQuery(gateway.url, statements[i % statements.length] as string, { headers });
  }
  await spread(database, 55);
  await fetch(`${gateway.url}/gateway/backend/deactivate/adhoc-2`, { method: 'POST' });
  engines[1]?.setState({ failing: 503 });
}

/** A few resource groups with selectors. */
async function resourceGroups({ gateway }: Rig): Promise<void> {
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${gateway.url}/engine/${path}/create`, { method: 'POST', body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    return (await answer.json()) as { resourceGroupId: number };
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
  const connection = new DatabaseSync(database);
  const ids = connection.prepare('select query_id from query_history order by created').all() as { query_id: string }[];
  const move = connection.prepare('update query_history set created = created - ? where query_id = ?');
  for (const [i, { query_id }] of ids.entries()) {
    // More of them lately, in waves.
    const ago = (minutes * (ids.length - i)) / ids.length + 2 * Math.sin(i);
    move.run(Math.round(Math.max(0, ago) * 60_000), query_id);
  }
  connection.close();
}

async function save(page: Page, name: string): Promise<void> {
  // What lies over the page is as large as the window.
  const fullPage = toLookAt && (await page.getByRole('dialog').count()) === 0;
  const png = await page.screenshot({ animations: 'disabled', fullPage });
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
