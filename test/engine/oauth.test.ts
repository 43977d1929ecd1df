/**
 * Logins by OAuth2 at two real Trino servers behind the gateway, with a real OpenID provider. Each server signs the state
 * of logins with a key of its own and keeps their tokens in its memory, as without further settings: a step that goes to
 * the other server fails.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { Browser, type Page } from '../support/browser.ts';
import { certificateFolder, hasOpenssl, type TestAuthority } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { freePort } from '../support/freePort.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { fillInForms, type OidcServer, startOidcProvider } from '../support/oidcProvider.ts';
import { addClusters } from './addClusters.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import { clusterOf, ExternalAuthentication, runCommandLine } from './externalAuthentication.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

/** Seconds that the provider's access tokens live. */
const LIFETIME = 3600;
const names = ['trino-a', 'trino-b'] as const;
/** Of no catalog: a server that has just started may not know yet that it serves them itself. */
const sql = 'SELECT current_user, 6 * 7';
/** Logins that are tried at least, and at most until each server had one. */
const [ENOUGH, TOO_MANY] = [4, 40];

describe.skipIf(!available || !hasOpenssl)('logins by OAuth2', () => {
  let distribution: Distribution;
  let certificates: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let folder: string;
  let provider: OidcServer;
  let trinos: readonly TrinoServer[] = [];
  /** One gateway that proxies engines' pages, and one that redirects them. */
  const gateways = new Map<string, { readonly process: GatewayProcess; readonly url: string }>();

  let clients: (Browser | ExternalAuthentication)[] = [];

  beforeAll(async () => {
    distribution = await installDistribution();
    certificates = certificateFolder();
    authority = certificates.authority('authority');
    folder = await mkdtemp(join(tmpdir(), 'oauth-'));
    const ports = [await freePort(), await freePort(), await freePort()] as const;
    const callback = (port: number) => `https://localhost:${port}/oauth2/callback`;
    provider = await startOidcProvider([callback(ports[0]), callback(ports[1]), callback(ports[2])], 'engine');
    const { issuer, clientId, clientSecret } = provider;
    const oauth2 = {
      issuer,
      'client-id': clientId,
      'client-secret': clientSecret,
      scopes: 'openid',
      'oidc.discovery': 'false',
      'auth-url': `${issuer}/auth`,
      'token-url': `${issuer}/token`,
      'jwks-url': `${issuer}/jwks`,
      'userinfo-url': `${issuer}/me`,
      'refresh-tokens': 'true',
      'refresh-tokens.secret-key': Buffer.alloc(32, 'common to both').toString('base64'),
    };
    const settings = {
      'http-server.authentication.type': 'oauth2',
      'internal-communication.shared-secret': 'shared by the nodes of a cluster',
      ...Object.fromEntries(
        Object.entries(oauth2).map(([key, value]) => [`http-server.authentication.oauth2.${key}`, value]),
      ),
    };
    trinos = await Promise.all(names.map((name) => startTrino(name, distribution, {}, settings)));
    await Promise.all([
      startOne('cookies', ports[0]),
      startOne('redirected', ports[2], {}, { enginePages: 'redirect' }),
    ]);
  }, 540_000);

  afterEach(async () => {
    provider.accessTokenLifetime = LIFETIME;
    await Promise.all(clients.map((client) => client.close()));
    clients = [];
  });

  afterAll(async () => {
    await Promise.all([...gateways.values()].map((gateway) => gateway.process.stop()));
    await Promise.all([...trinos.map((trino) => trino.kill()), provider?.close()]);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    certificates?.dispose();
  });

  type Keys = Readonly<Record<string, unknown>>;
  async function startOne(name: string, port: number, routing: Keys = {}, server: Keys = {}): Promise<void> {
    const process = await startGateway({
      protocol: { productName: 'Trino' },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, `${name}.db`)}` },
      resources: { source: 'database' },
      monitor: { taskDelay: '1s', timeout: '10s' },
      gatewayCookieConfiguration: { enabled: true, cookieSigningSecret: 'the same on all replicas' },
      routing: { explainHeader: true, ...routing },
      server,
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': port,
        'http-server.https.keystore.path': authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file,
      },
    });
    gateways.set(name, { process, url: `https://localhost:${port}` });
    await addClusters([process], trinos);
  }

  const urlOf = (gateway: string) => gateways.get(gateway)?.url ?? '';
  const newBrowser = () => opened(new Browser(authority.cert));
  const newClient = (gateway: string) => opened(new ExternalAuthentication(urlOf(gateway), authority.cert));
  function opened<T extends Browser | ExternalAuthentication>(one: T): T {
    clients.push(one);
    return one;
  }
  /** Opens an address, logs in at the provider where that is asked, and ends where it leads. */
  const visit = async (browser: Browser, address: string) => fillInForms(browser, await browser.open(address), 'ann');
  /** The servers that answered, each once. */
  const serversOf = ({ visits }: Page) => [...new Set(visits.map(clusterOf).filter((name) => name !== null))];

  /** Logs a client in: the user opens the address that he is shown. */
  async function logIn(client: ExternalAuthentication, browser: Browser) {
    const challenge = await client.challenge();
    if (challenge?.redirectServer == null) throw new Error('the engine does not ask for a login');
    // The poll is there first, as with Trino's clients.
    const polled = client.poll(challenge);
    const page = await visit(browser, challenge.redirectServer);
    return { page, ...(await polled) };
  }

  /** Repeats a login until no server was spared. @param attempt answers the server of all its steps */
  async function untilBoth(attempt: (count: number) => Promise<string>): Promise<void> {
    const usedClusters = new Set<string>();
    for (let count = 0; count < ENOUGH || usedClusters.size < names.length; count++) {
      expect(count, `logins that all went to ${[...usedClusters]}`).toBeLessThan(TOO_MANY);
      usedClusters.add(await attempt(count));
    }
    expect([...usedClusters].toSorted()).toEqual(names);
  }

  test("a client's login where engines' pages are redirected", async () => {
    const client = newClient('redirected');
    await untilBoth(async (count) => {
      const { page, token, clusters } = await logIn(client, newBrowser());
      const [server, ...others] = serversOf(page);
      expect([page.status, page.url.pathname, others], page.text).toEqual([200, '/oauth2/callback', []]);
      expect(clusters).toEqual(clusters.map(() => server));
      // The page that says so runs no script at the gateway's address.
      expect(page.visits.at(-1)?.headers.get('content-security-policy')).toMatch(/(^|, )sandbox$/);
      if (count === 0) expect(await client.query(sql, token)).toEqual([['ann', 42]]);
      return server ?? '';
    });
    const page = await newBrowser().open(`${urlOf('redirected')}/ui/`);
    expect([page.status, page.text]).toEqual([404, expect.stringContaining('Set its externalUrl')]);
  });

  describe.each(['cookies'])('with %s', (gateway) => {
    test.each([
      ['again', 1],
      ['once', TOO_MANY],
    ])("a client's login, in a browser that is started %s", async (_, logins) => {
      const client = newClient(gateway);
      let browser = newBrowser();
      await untilBoth(async (count) => {
        if (count % logins === 0) browser = newBrowser();
        const { page, token, clusters } = await logIn(client, browser);
        expect([page.status, page.url.pathname], page.text).toEqual([200, '/oauth2/callback']);
        const [server, ...others] = serversOf(page);
        expect([others, clusters]).toEqual([[], clusters.map(() => server)]);
        if (count === 0) expect(await client.query(sql, token)).toEqual([['ann', 42]]);
        return server ?? '';
      });
    });

    test('a token that a server renews', async () => {
      const client = newClient(gateway);
      provider.accessTokenLifetime = 1;
      const { token } = await logIn(client, newBrowser());
      provider.accessTokenLifetime = LIFETIME;
      await vi.waitFor(async () => expect(await client.challenge(token)).not.toBeNull(), {
        timeout: 20_000,
        interval: 100,
      });
      await untilBoth(async (count) => {
        const challenge = await client.challenge(token);
        if (challenge?.redirectServer !== null) throw new Error('the engine does not renew the token');
        const { token: renewed, clusters } = await client.poll(challenge);
        expect(clusters).toEqual(clusters.map(() => challenge.cluster));
        if (count === 0) expect(await client.query(sql, renewed)).toEqual([['ann', 42]]);
        return challenge.cluster ?? '';
      });
    });

    test("a login and renewals of Trino's command line, whose cookies are not the browser's", async () => {
      provider.accessTokenLifetime = 1;
      const before = provider.calls.get('/token') ?? 0;
      const open = (address: string) => visit(newBrowser(), address);
      const statements = Array.from({ length: 30 }, () => sql);
      const printed = await runCommandLine(distribution, urlOf(gateway), authority.file, statements.join(';'), open);
      expect(printed.match(/ann\t42\n/g)).toHaveLength(statements.length);
      // The first one is that of the login.
      expect((provider.calls.get('/token') ?? 0) - before).toBeGreaterThan(1);
    });

    /** A login at the web interface and a logout; answers the server. */
    async function logInAndOut(browser: Browser): Promise<string> {
      const page = await visit(browser, `${urlOf(gateway)}/ui/`);
      expect([page.status, page.url.pathname], page.text).toEqual([200, '/ui/']);
      const steps = page.visits.map((step) => [step.url.pathname, clusterOf(step)] as const);
      const [, server] = steps[0] ?? [];
      expect(steps.filter(([path]) => path === '/oauth2/callback')).toEqual([['/oauth2/callback', server]]);
      const stats = await browser.open(`${urlOf(gateway)}/ui/api/stats`);
      expect([stats.status, stats.text]).toEqual([200, expect.stringContaining('runningQueries')]);
      const out = await visit(browser, `${urlOf(gateway)}/ui/logout`);
      expect(out.status, out.text).toBe(200);
      const kept = browser.cookieNames(`${urlOf(gateway)}/ui/`);
      expect(kept.filter((name) => name.endsWith('Trino-ID-Token'))).toEqual([]);
      return server ?? '';
    }

    test('logins at the web interface and logouts, each with a new browser', async () => {
      await untilBoth(() => logInAndOut(newBrowser()));
    });

    test('logins at the web interface and logouts with one browser', async () => {
      const browser = newBrowser();
      await untilBoth(() => logInAndOut(browser));
    });
  });
});
