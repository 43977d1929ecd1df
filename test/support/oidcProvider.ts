import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SignJWT } from 'jose';
import Provider, { type Configuration } from 'oidc-provider';

/** A real OpenID provider, with one client. */
export interface OidcServer {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Logs a user in at the address that a login begins with; answers where the provider sends the browser. */
  login(authorizationUrl: string, user: string): Promise<URL>;
  /** A JWT signed with the provider's own key, whatever it says. */
  sign(claims: Record<string, unknown>, header?: { alg?: string; kid?: string }): Promise<string>;
  /** Calls of its endpoints by path. */
  readonly calls: Map<string, number>;
  close(): Promise<void>;
}

/** Privileges that the provider tells of its users in the claim `groups`. */
const groups: Record<string, readonly string[] | undefined> = { grace: ['ADMIN', 'USER', 'API'], linus: ['USER'] };

/** Starts a provider on a free port, with a key of its own. */
export async function startOidcProvider(redirectUri: string): Promise<OidcServer> {
  const http = createServer();
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'provider-key', use: 'sig', alg: 'RS256' };
  const clientId = 'gateway';
  const clientSecret = 'a-client-secret-that-is-long-enough-for-anything';
  const configuration: Configuration = {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
    jwks: { keys: [jwk as never] },
    cookies: { keys: ['cookie-key'] },
    claims: { openid: ['sub', 'groups', 'email'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: `${sub}@example.com`, ...(groups[sub] ? { groups: groups[sub] } : {}) }),
    }),
    features: { devInteractions: { enabled: true } },
  };
  const provider = new Provider(issuer, configuration);
  const calls = new Map<string, number>();
  const callback = provider.callback();
  http.on('request', (request, response) => {
    const path = request.url?.split('?', 1)[0] ?? '';
    calls.set(path, (calls.get(path) ?? 0) + 1);
    void callback(request, response);
  });
  return {
    issuer,
    clientId,
    clientSecret,
    calls,
    login: (url, user) => browse(url, user, redirectUri),
    sign: (claims, header = {}) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'provider-key', ...header }).sign(privateKey),
    close: () =>
      new Promise((resolve) => {
        http.closeAllConnections();
        http.close(() => resolve());
      }),
  };
}

/** What a browser and a user do at the provider: follow redirects, keep cookies, fill in its forms. */
async function browse(start: string, user: string, redirectUri: string): Promise<URL> {
  const jar = new Map<string, string>();
  let url = new URL(start);
  let body: URLSearchParams | null = null;
  for (let step = 0; step < 12; step++) {
    const response: Response = await fetch(url, {
      redirect: 'manual',
      headers: { Cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(body === null ? {} : { method: 'POST', body }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      jar.set(name, value);
    }
    body = null;
    const location = response.headers.get('location');
    const page = await response.text();
    if (location !== null) {
      url = new URL(location, url);
      if (url.href.startsWith(redirectUri)) return url;
      continue;
    }
    const action = /action="([^"]+)"/.exec(page)?.[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1];
    if (action === undefined || prompt === undefined)
      throw new Error(`${response.status} ${url}: ${page.slice(0, 500)}`);
    url = new URL(action, url);
    body = new URLSearchParams(prompt === 'login' ? { prompt, login: user, password: 'any' } : { prompt });
  }
  throw new Error('the login at the provider does not end');
}
