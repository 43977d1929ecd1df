import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SignJWT } from 'jose';
import Provider, { type Configuration } from 'oidc-provider';
import { Browser, type Page } from './browser.ts';

/** A real OpenID provider, with one client. */
export interface OidcServer {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Logs a user in at the address that a login begins with; answers where the provider sends the browser. */
  login(authorizationUrl: string, user: string): Promise<URL>;
  /** Gives the client another secret; the provider rejects the earlier one from then on. */
  changeClientSecret(secret: string): void;
  /** A JWT signed with the provider's own key, whatever it says. */
  sign(claims: Record<string, unknown>, header?: { alg?: string; kid?: string }): Promise<string>;
  /** Calls of its endpoints by path. */
  readonly calls: Map<string, number>;
  /** Seconds that access tokens live from now on. */
  accessTokenLifetime: number;
  close(): Promise<void>;
}

/** What a provider has that is not as usual. */
export interface OidcServerOptions {
  /** Privileges of its users, in the claim `groups`. */
  readonly groups?: Readonly<Record<string, readonly string[] | undefined>>;
  /** Where it may send browsers after a logout. */
  readonly logoutRedirectUri?: string;
}

/** Privileges of the provider's users, in the claim `groups`. */
const usualGroups: Record<string, readonly string[] | undefined> = { grace: ['ADMIN', 'USER', 'API'], linus: ['USER'] };

/**
 * Starts a provider on a free port, with a key of its own.
 * @param redirectUris where it may send browsers; `login` ends at the first
 * @param client `gateway` binds its logins to their beginning by PKCE; `engine` does not, and gets refresh tokens
 */
export async function startOidcProvider(
  redirectUris: string | readonly [string, ...string[]],
  client: 'gateway' | 'engine' = 'gateway',
  { groups = usualGroups, logoutRedirectUri }: OidcServerOptions = {},
): Promise<OidcServer> {
  const allowed = typeof redirectUris === 'string' ? ([redirectUris] as const) : redirectUris;
  const http = createServer();
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'provider-key', use: 'sig', alg: 'RS256' };
  const clientId = 'gateway';
  const clientSecret = 'a-client-secret-that-is-long-enough-for-anything';
  const configuration = (secret: string): Configuration => ({
    clients: [
      {
        client_id: clientId,
        client_secret: secret,
        redirect_uris: [...allowed],
        ...(logoutRedirectUri === undefined ? {} : { post_logout_redirect_uris: [logoutRedirectUri] }),
        grant_types: client === 'engine' ? ['authorization_code', 'refresh_token'] : ['authorization_code'],
      },
    ],
    issueRefreshToken: async () => client === 'engine',
    ttl: { AccessToken: () => server.accessTokenLifetime },
    jwks: { keys: [jwk as never] },
    cookies: { keys: ['cookie-key'] },
    claims: { openid: ['sub', 'groups', 'email'] },
    conformIdTokenClaims: false,
    pkce: { required: () => client === 'gateway' },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: `${sub}@example.com`, ...(groups[sub] ? { groups: groups[sub] } : {}) }),
    }),
    features: { devInteractions: { enabled: true } },
  });
  const calls = new Map<string, number>();
  let callback = new Provider(issuer, configuration(clientSecret)).callback();
  http.on('request', (request, response) => {
    const path = request.url?.split('?', 1)[0] ?? '';
    calls.set(path, (calls.get(path) ?? 0) + 1);
    void callback(request, response);
  });
  const server: OidcServer = {
    issuer,
    clientId,
    clientSecret,
    calls,
    accessTokenLifetime: 3600,
    changeClientSecret(secret) {
      callback = new Provider(issuer, configuration(secret)).callback();
    },
    login: (url, user) => browse(url, user, allowed[0]),
    sign: (claims, header = {}) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'provider-key', ...header }).sign(privateKey),
    close: () =>
      new Promise((resolve) => {
        http.closeAllConnections();
        http.close(() => resolve());
      }),
  };
  return server;
}

/** What a browser and a user do at the provider, until it sends the browser back. */
async function browse(start: string, user: string, redirectUri: string): Promise<URL> {
  const browser = new Browser(undefined, (url) => url.href.startsWith(redirectUri));
  try {
    return (await fillInForms(browser, await browser.open(start), user)).url;
  } finally {
    await browser.close();
  }
}

/**
 * Fills in the provider's forms, login and consent, where the browser stands at one.
 * @returns the page that they lead to
 */
export async function fillInForms(browser: Browser, start: Page, user: string): Promise<Page> {
  const visits = [...start.visits];
  let page = start;
  for (let forms = 0; forms < 5; forms++) {
    const action = /action="([^"]+)"/.exec(page.text)?.[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(page.text)?.[1];
    if (action === undefined || prompt === undefined) return { ...page, visits };
    const form = prompt === 'login' ? { prompt, login: user, password: 'any' } : { prompt };
    page = await browser.open(new URL(action, page.url), new URLSearchParams(form));
    visits.push(...page.visits);
  }
  throw new Error(`the login at the provider does not end: ${page.status} ${page.url}`);
}
