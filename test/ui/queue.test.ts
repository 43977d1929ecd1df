import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { until } from '../support/gateway.ts';
import { follow, type QueryResults, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

const toEtl = (user: string) => ({ user, headers: { 'X-Engine-Routing-Group': 'etl', 'X-Engine-Source': 'dbt' } });

describe.skipIf(!canBrowse)('the page of the queue', () => {
  let rig: Rig;
  /** A query that waited, and has the one slot. */
  let ran: { readonly queuedAs: string; readonly id: string };
  beforeAll(async () => {
    rig = await startRig(formAccess());
    const etl = { maxRunningQueries: 1, queue: { hold: '10ms', maxWait: '10m' } };
    const resource = { apiVersion: 'enginegateway.dev/v1', kind: 'RoutingGroup', metadata: { name: 'etl' }, spec: etl };
    await writeFile(join(rig.manifests, 'etl.yaml'), stringify(resource));
    const headers = { Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}` };
    const isInForce = async () => {
      const response = await fetch(`${rig.gateway.url}/api/groups/etl`, { headers });
      return ((await response.json()) as { inForce: boolean }).inForce;
    };
    await until(isInForce, 'the limit to be in force');
    let first = await untilSent(await waitingQuery('zoe'));
    const second = await waitingQuery('zoe');
    while (first.nextUri !== undefined) first = await follow(first.nextUri, toEtl('zoe'));
    // It runs for ever, as nobody follows it: what comes later waits.
    ran = { queuedAs: second.id, id: (await untilSent(second)).id };
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  async function open(user: string, colorScheme: 'light' | 'dark' = 'light'): Promise<Window> {
    const window = await openWindow(`${rig.pages}/queue`, { colorScheme });
    await logIn(window, user);
    await window.page.getByRole('heading', { level: 1, name: 'Queue' }).waitFor();
    return window;
  }
  const queries = ({ page }: Window) => page.getByRole('table', { name: 'Queries' }).getByRole('row');
  const rowOf = (window: Window, { id }: QueryResults) => queries(window).filter({ hasText: id });
  const textOf = async (window: Window, query: QueryResults) => (await rowOf(window, query).textContent()) ?? '';

  async function untilSent(query: QueryResults): Promise<QueryResults> {
    return query.id.endsWith('_queue') ? await untilSent(await follow(query.nextUri ?? '', toEtl('zoe'))) : query;
  }
  const waitingQuery = (user: string) => submit(rig.gateway.url, 'SELECT 1', toEtl(user));

  test('says that nothing waits', async () => {
    await using window = await open('ada');
    await window.page.getByText('No query waits.').waitFor();
    await expectSound(window);
  });

  test('an administrator sees what waits and why, moves one first and drops one, after a question', async () => {
    const alices = [await waitingQuery('alice'), await waitingQuery('alice')] as const;
    const bobs = await waitingQuery('bob');
    await using window = await open('ada', 'dark');
    const { page } = window;
    await expect.poll(() => textOf(window, alices[0])).toContain('1 of 3');
    expect(await textOf(window, alices[0])).toContain('group etl: 1 of 1 running (maxRunningQueries of the group)');
    expect(await textOf(window, alices[1])).toContain('3 of 3');
    expect(await textOf(window, bobs)).toContain('dbt');
    const group = page.getByRole('table', { name: 'Groups' }).getByRole('row').filter({ hasText: 'etl' });
    expect(await group.textContent()).toContain('alice 2, bob 1');
    await expectSound(window);

    await page.getByRole('button', { name: `Move ${alices[1].id} first` }).click();
    const question = page.getByRole('dialog');
    await question.getByText('before all others that wait for etl').waitFor();
    await expectSound(window);
    await question.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: `Move ${alices[1].id} first` }).click();
    await question.getByRole('button', { name: 'Move first' }).click();
    await expect.poll(() => textOf(window, alices[1])).toContain('1 of 3moved first');
    expect(await textOf(window, alices[0])).toContain('2 of 3');

    await page.getByRole('textbox', { name: 'Id, group, user, source or reason' }).fill('bob');
    await expect.poll(() => queries(window).count()).toBe(2);
    await page.getByText('3 queries wait; 1 match.').waitFor();
    await page.getByRole('button', { name: `Drop ${bobs.id}` }).click();
    await question.getByRole('button', { name: 'Drop' }).click();
    await page.getByText('No query that waits matches.').waitFor();
    const outcome = await follow(bobs.nextUri ?? '', toEtl('bob'));
    expect(outcome.error).toMatchObject({ errorName: 'ADMINISTRATIVELY_KILLED' });
    const audits = rig.gateway.log.flatMap(({ audit }) => (audit === undefined ? [] : [audit]));
    expect(audits).toContainEqual(expect.objectContaining({ user: 'ada', path: `/api/queue/${alices[1].id}/first` }));
    expect(audits).toContainEqual(
      expect.objectContaining({ user: 'ada', method: 'DELETE', path: `/api/queue/${bobs.id}` }),
    );
  });

  test('the history finds a query by the id that it waited under, and leads to the queue while it waits', async () => {
    const waiting = await waitingQuery('carol');
    await using window = await openWindow(`${rig.pages}/history?queryId=${waiting.id}`);
    await logIn(window, 'ada');
    const { page } = window;
    await page.getByRole('link', { name: 'To the queries that wait for a cluster' }).click();
    await expect.poll(() => textOf(window, waiting)).toContain('carol');

    await page.goto(`${rig.pages}/history?queryId=${ran.queuedAs}`);
    await page.getByRole('button', { name: `Show query ${ran.id}` }).click();
    await page.getByRole('tab', { name: 'Why it went there' }).click();
    await page.getByText(`While it waited its id was ${ran.queuedAs}.`).waitFor();
    await page.getByText(/^It waited: group etl: 1 of 1 running .* as 1st of 1 \(fair by user, weight 1\)/).waitFor();
    await expectSound(window);
  });

  test('a user sees the own queries, and cannot change them', async () => {
    const own = await waitingQuery('ursula');
    const others = await waitingQuery('bob');
    await using window = await open('ursula');
    await expect.poll(() => textOf(window, own)).toContain('ursula');
    expect(await rowOf(window, others).count()).toBe(0);
    expect(await window.page.getByRole('button', { name: /^(Move|Drop)/ }).count()).toBe(0);
    await expectSound(window);
  });
});
