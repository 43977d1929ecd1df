/** The web interface of a real Trino server, at the host name of queries and redirected to, in a real browser. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Site, startSite } from '../origins/support/site.ts';
import { hasOpenssl } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { shareOf } from '../support/sharedServer.ts';
import { runQuery } from '../support/statementClient.ts';
import { canBrowse } from '../ui/support/browser.ts';
import { missingTools } from './distribution.ts';
import type { SharedTrino, TrinoPair } from './sharedTrinos.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

describe.skipIf(!available || !canBrowse || !hasOpenssl)("Trino's web interface", () => {
  let trino: SharedTrino;
  const sites = new Map<string, Site>();

  beforeAll(async () => {
    [, trino] = (await shareOf<TrinoPair>('trinoPair')).trinos;
    const clusters = [{ name: 'trino', proxyTo: trino.url, externalUrl: trino.url.replace('127.0.0.1', 'localhost') }];
    const more = { protocol: { productName: 'Trino' } };
    const admin = 'admin.gateway.test';
    sites.set('separated', await startSite({ adminHosts: [admin] }, admin, clusters, more));
    sites.set('redirected', await startSite({ enginePages: 'redirect' }, 'gateway.gateway.test', clusters, more));
  }, 600_000);
  afterAll(async () => {
    await Promise.all([...sites.values()].map((site) => site[Symbol.asyncDispose]()));
  });

  test.each([
    [
      'separated',
      'at the host name of queries',
      (site: Site) => site.at('queries'),
      (site: Site) => site.at('queries'),
    ],
    [
      'redirected',
      'at its own address',
      (site: Site) => site.at('gateway'),
      () => trino.url.replace('127.0.0.1', 'localhost'),
    ],
  ] as const)('%s: works %s', async (name, _, from, to) => {
    const site = sites.get(name)!;
    const { id, rows } = await runQuery(site.clearText, 'SELECT 6 * 7', { user: 'ann', productName: 'Trino' });
    expect(rows).toEqual([[42]]);
    await using window = await site.open('about:blank');
    const { page } = window;
    const answers: (readonly [path: string, status: number])[] = [];
    page.on('response', (answer) => {
      const url = new URL(answer.url());
      if (url.origin === to(site)) answers.push([url.pathname, answer.status()]);
    });
    await page.goto(`${from(site)}/ui/`);
    await page.getByText('Cluster Overview', { exact: false }).first().waitFor();
    await expect.poll(() => answers.some(([path, status]) => path === '/ui/api/stats' && status === 200)).toBe(true);
    expect(page.url().startsWith(`${to(site)}/ui/`)).toBe(true);
    await page.goto(`${from(site)}/ui/query.html?${id}`);
    await page.getByText(id).first().waitFor();
    await page.getByText('FINISHED').first().waitFor();
    expect(page.url()).toBe(`${to(site)}/ui/query.html?${id}`);
    expect(answers.filter(([, status]) => status >= 400)).toEqual([]);
    expect(window.defects.filter((defect) => defect.startsWith('exception'))).toEqual([]);
  });

  test('at the host name of API and pages it is not there', async () => {
    const site = sites.get('separated')!;
    await using window = await site.open(`${site.at('admin')}/ui/`);
    expect(await window.page.locator('body').textContent()).toContain('This address serves the REST API and the pages');
  });
});
