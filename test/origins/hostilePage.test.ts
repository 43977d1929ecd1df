/**
 * A page of a hostile cluster, in a real browser in which an administrator is logged in to the gateway. The table's last
 * rows are a gateway at one address: there the page succeeds, which shows that the attacks work (docs/serving.md).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasOpenssl } from '../support/certificates.ts';
import { freePort } from '../support/freePort.ts';
import { canBrowse, type Window } from '../ui/support/browser.ts';
import { logIn } from '../ui/support/login.ts';
import { type Attacks, type HostileCluster, startHostileCluster } from './support/hostileCluster.ts';
import { type Site, startSite } from './support/site.ts';

const warning = "Engines' web pages share the address of this page";
const own = /Engine-Gateway-/i;

describe.skipIf(!canBrowse || !hasOpenssl)('a page of a hostile cluster', () => {
  let cluster: HostileCluster;
  beforeAll(async () => {
    cluster = await startHostileCluster();
  });
  afterAll(async () => await cluster?.[Symbol.asyncDispose]());

  /** Logs in at the gateway's pages. */
  async function administrator(site: Site, host: string): Promise<Window> {
    const window = await site.open(`${site.at(host)}/engine-gateway/clusters`);
    await logIn(window, 'ada');
    await window.page.getByRole('heading', { level: 1, name: 'Active Backends' }).waitFor();
    return window;
  }

  describe('with host names of their own for API and pages', () => {
    let site: Site;
    beforeAll(async () => {
      const clusters = [{ name: 'hostile', proxyTo: cluster.url }];
      site = await startSite({ adminHosts: ['admin.gateway.test'] }, 'admin.gateway.test', clusters);
    });
    afterAll(async () => await site?.[Symbol.asyncDispose]());

    test('neither adds clusters, nor reads the token, nor installs a worker, nor touches the cookies', async () => {
      await using window = await administrator(site, 'admin');
      const { page, context } = window;
      const admin = site.at('admin');
      const ownCookies = async () => (await context.cookies(admin)).filter(({ name }) => own.test(name));
      const before = await ownCookies();
      expect(before.map(({ name, domain, secure }) => [name, domain, secure]).sort()).toEqual([
        ['__Host-Engine-Gateway-CSRF', 'admin.gateway.test', true],
        ['__Host-Engine-Gateway-Session', 'admin.gateway.test', true],
      ]);
      expect(await page.getByText(warning).count()).toBe(0);
      // As by a link of the gateway's pages, so that the hostile page has an opener and a referrer where there could be any.
      const evil = `${site.at('queries')}/ui/evil.html?admin=${encodeURIComponent(admin)}`;
      const [opened] = await Promise.all([
        context.waitForEvent('page'),
        page.evaluate(`void window.open(${JSON.stringify(evil)})`),
      ]);
      await opened.waitForFunction('window.attacked !== undefined');
      const attacks = (await opened.evaluate('window.attacked')) as Attacks;
      expect(attacks).toEqual({
        addWithToken: 'TypeError',
        // Opaque: whether it worked is looked up below.
        addWithCookies: '0',
        addWithoutCookies: '0',
        addByOtherHost: '404',
        tokenFromCookie: 'none',
        tokenFromFetch: 'TypeError',
        tokenFromFrame: 'no document',
        tokenFromWindow: expect.stringMatching(/^(severed|SecurityError)$/),
        tokenFromOpener: 'no opener',
        referrer: '',
        workerOfAll: 'TypeError',
        workerOfItsFolder: 'TypeError',
        cookies: 'Engine-Gateway-Session,Engine-Gateway-CSRF',
      } satisfies Record<keyof Attacks, unknown>);
      expect(await site.clusters()).toEqual(['hostile']);
      expect(opened.frames().map((frame) => frame.url())).not.toContain(`${admin}/engine-gateway/clusters`);
      // What the page set for the whole domain has other names than the gateway's cookies over TLS.
      const after = await ownCookies();
      expect(after.filter(({ name }) => name.startsWith('__Host-'))).toEqual(before);
      await page.reload();
      await page.getByRole('heading', { level: 1, name: 'Active Backends' }).waitFor();
      await page.getByRole('switch', { name: 'hostile takes new queries' }).press('Space');
      await page.getByRole('button', { name: 'Switch off' }).click();
      await page.getByText('hostile takes no new queries').waitFor();
      await page.getByRole('switch', { name: 'hostile takes new queries' }).press('Space');
      await page.getByText('hostile takes new queries.').waitFor();
    });

    test('its answers set no cookie of the gateway, clear nothing and force no TLS', async () => {
      await using window = await administrator(site, 'admin');
      const { page, context } = window;
      const before = (await context.cookies(site.at('admin'))).filter(({ name }) => own.test(name));
      for (const path of ['/ui/evil.html', '/v1/info', '/oauth2/callback', '/v1/spooled/x']) {
        const response = await page.goto(`${site.at('queries')}${path}`);
        expect(response?.status()).toBe(200);
        const headers = (await response?.allHeaders()) ?? {};
        expect(
          Object.keys(headers).filter((name) => /service-worker|clear-site|transport-security/.test(name)),
        ).toEqual([]);
      }
      const all = await context.cookies([site.at('admin'), site.at('queries')]);
      expect(all.filter(({ name }) => own.test(name))).toEqual(before);
      expect(all.map(({ name }) => name)).toContain('harmless');
      const { port } = new URL(site.clearText);
      await page.goto(`http://queries.gateway.test:${port}/livez`);
      expect(new URL(page.url()).protocol).toBe('http:');
    });
  });

  test('with a port of its own for API and pages: it reads the token, as cookies know no ports, and gains nothing by it', async () => {
    const adminPort = await freePort();
    const clusters = [{ name: 'hostile', proxyTo: cluster.url }];
    await using site = await startSite({ adminPort }, 'gateway.gateway.test', clusters);
    const admin = site.at('gateway', adminPort);
    await using window = await site.open(`${admin}/engine-gateway/clusters`);
    const { page, context } = window;
    await logIn(window, 'ada');
    await page.getByRole('heading', { level: 1, name: 'Active Backends' }).waitFor();
    const session = async () => (await context.cookies(admin)).find(({ name }) => name.endsWith('-Session'));
    const before = await session();
    await page.goto(`${site.at('gateway')}/ui/evil.html?admin=${encodeURIComponent(admin)}`);
    await page.waitForFunction('window.attacked !== undefined');
    expect(await page.evaluate('window.attacked')).toMatchObject({
      tokenFromCookie: 'token',
      addWithToken: 'TypeError',
      addWithCookies: '0',
      tokenFromFetch: 'TypeError',
      workerOfItsFolder: 'TypeError',
    } satisfies Partial<Attacks>);
    expect(await site.clusters()).toEqual(['hostile']);
    expect(await session()).toEqual(before);
  });

  describe('with one address, where pages of engines are redirected', () => {
    let site: Site;
    beforeAll(async () => {
      const clusters = [{ name: 'hostile', proxyTo: cluster.url, externalUrl: `${cluster.url}/external` }];
      site = await startSite({ enginePages: 'redirect' }, 'gateway.gateway.test', clusters);
    });
    afterAll(async () => await site?.[Symbol.asyncDispose]());

    test('its pages are of its own address, and no other answer becomes a page of the gateway', async () => {
      await using window = await administrator(site, 'gateway');
      const { page } = window;
      expect(await page.getByText(warning).count()).toBe(0);
      const gateway = site.at('gateway');
      await page.goto(`${gateway}/ui/evil.html`);
      expect(page.url()).toBe(`${cluster.url}/external/ui/evil.html`);
      const query = '20261121_015745_00000_abcde';
      for (const path of [
        '/v1/info',
        '/oauth2/callback',
        '/v1/spooled/x',
        `/v1/query/${query}`,
        `/v1/statement/queued/${query}/y/1`,
      ]) {
        await page.goto(`${gateway}${path}`);
        expect([page.url(), await page.title(), await page.locator('body').getAttribute('data-ran')]).toEqual([
          `${gateway}${path}`,
          'evil',
          null,
        ]);
      }
      expect(await site.clusters()).toEqual(['hostile']);
    });
  });

  describe('with one address, as a configuration of the reference has it', () => {
    let site: Site;
    beforeAll(async () => {
      site = await startSite({}, 'gateway.gateway.test', [{ name: 'hostile', proxyTo: cluster.url }]);
    });
    afterAll(async () => await site?.[Symbol.asyncDispose]());

    test('acts as the administrator, who is warned of it', async () => {
      await using window = await administrator(site, 'gateway');
      const { page } = window;
      await page.getByText(warning).waitFor();
      await page.goto(`${site.at('gateway')}/ui/evil.html`);
      await page.waitForFunction('window.attacked !== undefined');
      const attacks = (await page.evaluate('window.attacked')) as Attacks;
      expect(attacks).toMatchObject({
        addWithToken: '200',
        tokenFromCookie: 'token',
        // What is dropped at every address.
        workerOfAll: 'TypeError',
        workerOfItsFolder: 'TypeError',
        tokenFromFrame: 'no document',
      });
      expect(await site.clusters()).toContain('evil-token');
    });

    test('users who are no administrators are not shown the warning', async () => {
      await using window = await site.open(`${site.at('gateway')}/engine-gateway/clusters`);
      await logIn(window, 'ursula');
      await window.page.getByRole('heading', { level: 1, name: 'Active Backends' }).waitFor();
      expect(await window.page.getByText(warning).count()).toBe(0);
    });
  });
});
