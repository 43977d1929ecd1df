/**
 * The web interfaces of two real Trino servers behind one address, in a real browser. Each signs the cookies of its logins
 * with a secret of its own, so that a login at one is none at the other (docs/routing.md#engines-web-pages).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installEngine, missingTools } from '../engine/distribution.ts';
import { startTrino, type TrinoServer } from '../engine/trinoServer.ts';
import { hasOpenssl } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { runQuery } from '../support/statementClient.ts';
import { canBrowse, type Window } from '../ui/support/browser.ts';
import { type Site, startSite } from './support/site.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);
const names = ['one', 'two'] as const;
const SIGNING = { enabled: true, cookieSigningSecret: 'of all replicas, for cookies' };

/** A page or data below `/ui`: the cluster that answered, path and status. */
type Answer = readonly [cluster: string, path: string, status: number];

describe.skipIf(!available || !canBrowse || !hasOpenssl)("two Trino servers' web interfaces", () => {
  const servers: TrinoServer[] = [];
  const sites: Site[] = [];

  beforeAll(async () => {
    const engine = await installEngine();
    const started = names.map((name) =>
      startTrino(
        name,
        engine,
        {},
        {
          // Its form asks for a name and no password.
          'web-ui.authentication.type': 'insecure',
          'web-ui.shared-secret': `of ${name} alone`,
          'web-ui.preview.enabled': 'true',
        },
      ),
    );
    for (const one of await Promise.allSettled(started)) {
      if (one.status === 'rejected') throw one.reason;
      servers.push(one.value);
    }
  }, 600_000);
  afterAll(async () => {
    await Promise.all(sites.map((site) => site[Symbol.asyncDispose]()));
    await Promise.all(servers.map((server) => server.kill()));
  });

  async function siteOf(more: Readonly<Record<string, unknown>>): Promise<Site> {
    const clusters = servers.map(({ name, url }) => ({ name, proxyTo: url }));
    const settings = { protocol: { productName: 'Trino' }, routing: { explainHeader: true }, ...more };
    const site = await startSite({ adminHosts: ['admin.gateway.test'] }, 'admin.gateway.test', clusters, settings);
    sites.push(site);
    return site;
  }

  /** Addresses: to a name without TLS browsers send no `Sec-Fetch-Dest`. */
  const addresses = {
    TLS: (site: Site) => site.at('queries'),
    'clear text': (site: Site) => site.clearText.replace('127.0.0.1', 'queries.gateway.test'),
  };

  /** A browser that remembers who answered. */
  async function browse(site: Site): Promise<{ readonly window: Window; readonly answers: Answer[] }> {
    const window = await site.open('about:blank');
    const answers: Answer[] = [];
    window.page.on('response', (answer) => {
      const { pathname } = new URL(answer.url());
      const [, cluster = ''] = /cluster=(\w+)/.exec(answer.headers()['x-trino-routing-decision'] ?? '') ?? [];
      // Scripts and styles may come from the browser's cache.
      const isAsset = !['document', 'fetch', 'xhr'].includes(answer.request().resourceType());
      if (pathname.startsWith('/ui') && !isAsset) answers.push([cluster, pathname, answer.status()]);
    });
    return { window, answers };
  }

  async function logIn({ page }: Window): Promise<void> {
    await page.locator('#username').fill('ann');
    await page.locator('#submit').click();
    await page.waitForURL((url) => !/\/login/.test(url.pathname));
  }

  /** Waits for numbers of the overview, which the page asks for every second. */
  const overview = async ({ page }: Window) => {
    await Promise.all([
      page.waitForResponse((answer) => /\/ui\/api\/stats$/.test(answer.url()) && answer.status() === 200),
      page.getByText('Cluster Overview', { exact: false }).first().waitFor(),
    ]);
  };

  /** Clusters that answered from a position on. */
  const clustersIn = (answers: readonly Answer[]) => [...new Set(answers.map(([cluster]) => cluster))];

  /** One query of each cluster, run through the gateway. */
  async function queriesOf({ clearText }: Site): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>();
    for (let count = 0; count < 60 && found.size < names.length; count++) {
      const { id } = await runQuery(clearText, 'SELECT 6 * 7', { user: 'ann', productName: 'Trino' });
      for (const { name, url } of servers) {
        const answer = await fetch(`${url}/v1/query/${id}`, { headers: { 'X-Trino-User': 'ann' } });
        if (answer.status === 200) found.set(name, id);
        await answer.text();
      }
    }
    expect([...found.keys()].sort()).toEqual(names);
    return found;
  }

  test('without the cookie a login does not last: the other cluster refuses it', async () => {
    const site = await siteOf({
      uiGatewayCookieConfiguration: { enabled: false },
      gatewayCookieConfiguration: SIGNING,
    });
    const at = addresses.TLS(site);
    const { window, answers } = await browse(site);
    await using _ = window;
    const { page } = window;
    await page.goto(`${at}/ui/login.html`);
    const statuses = await page.evaluate(async () => {
      const statusesOfPage: number[] = [];
      await fetch('/ui/login', { method: 'POST', body: new URLSearchParams({ username: 'ann', password: '' }) });
      for (let count = 0; count < 20; count++) statusesOfPage.push((await fetch('/ui/api/stats')).status);
      return statusesOfPage;
    });
    expect(new Set(statuses)).toEqual(new Set([200, 401]));
    expect(clustersIn(answers).sort()).toEqual([...names]);
  });

  test.each(['TLS', 'clear text'] as const)(
    'over %s a login and all pages stay on one cluster; links to queries lead to theirs, where the browser then is',
    async (how) => {
      const site = await siteOf({ gatewayCookieConfiguration: SIGNING });
      const queries = await queriesOf(site);
      const at = addresses[how](site);
      const { window, answers } = await browse(site);
      await using _ = window;
      const { page, context } = window;
      await page.goto(`${at}/ui/`);
      await logIn(window);
      await overview(window);
      const [first = ''] = clustersIn(answers);
      const second = names.find((name) => name !== first)!;
      const loggedIn = answers.length;
      for (let count = 0; count < 10; count++) {
        for (const path of ['/ui/', '/ui/workers.html', `/ui/query.html?${queries.get(first)}`]) {
          await page.goto(at + path);
          if (path === '/ui/') await overview(window);
        }
      }
      await Promise.all([
        page.waitForResponse((answer) => /\/ui\/api\/stats$/.test(answer.url())),
        page.goto(`${at}/ui/preview/`),
      ]);
      expect(clustersIn(answers)).toEqual([first]);
      expect(answers.filter(([, path]) => !path.startsWith('/ui/api/')).length).toBeGreaterThan(30);
      expect(answers.slice(loggedIn).filter(([, , status]) => status >= 400)).toEqual([]);

      const moved = answers.length;
      await page.goto(`${at}/ui/query.html?${queries.get(second)}`);
      await logIn(window);
      await page.getByText(queries.get(second)!).first().waitFor();
      await page.getByText('FINISHED').first().waitFor();
      expect(page.url()).toBe(`${at}/ui/query.html?${queries.get(second)}`);
      await page.goto(`${at}/ui/`);
      await overview(window);
      // What the page before asked for last may still be answered.
      expect(
        new Set(
          answers
            .slice(moved)
            .filter(([, path]) => !path.startsWith('/ui/api/'))
            .map(([one]) => one),
        ),
      ).toEqual(new Set([second]));

      // Both logins last, under names of their own.
      for (const name of [first, second, first]) {
        await page.goto(`${at}/ui/query.html?${queries.get(name)}`);
        await page.getByText('FINISHED').first().waitFor();
        const here = answers.length;
        await page.goto(`${at}/ui/`);
        await overview(window);
        expect(clustersIn(answers.slice(here).filter(([, path]) => !path.includes('/api/query/')))).toEqual([name]);
      }
      const cookies = (await context.cookies(`${at}/ui/`)).map(({ name, httpOnly, secure, sameSite, path }) => [
        name.replace(/TG-[\w-]{16}~/, 'TG-KEY~'),
        ...[httpOnly, secure, sameSite, path],
      ]);
      expect(cookies.filter(([name]) => name === 'EG.UI')).toEqual([['EG.UI', true, how === 'TLS', 'Lax', '/ui']]);
      expect(cookies.filter(([name]) => name === 'TG-KEY~Trino-UI-Token')).toHaveLength(2);
    },
  );

  test('a deactivated cluster gives its browsers to the other one, where they log in', async () => {
    const site = await siteOf({ gatewayCookieConfiguration: SIGNING });
    const at = addresses.TLS(site);
    const { window, answers } = await browse(site);
    await using _ = window;
    const { page } = window;
    await page.goto(`${at}/ui/`);
    await logIn(window);
    await overview(window);
    const [first = ''] = clustersIn(answers);
    await page.goto('about:blank');
    await site.deactivate(first);
    answers.length = 0;
    await page.goto(`${at}/ui/`);
    await page.locator('#username').waitFor();
    await logIn(window);
    await overview(window);
    for (let count = 0; count < 5; count++) {
      await page.goto(`${at}/ui/`);
      await overview(window);
    }
    expect(clustersIn(answers)).toEqual(names.filter((name) => name !== first));
  });
});
