/** Groups that a real OpenID provider names: in the claims of its ID tokens, and in its answers about access tokens. */
import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { closeAll, startServer } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { type OidcServer, startOidcProvider } from '../../support/oidcProvider.ts';
import { worldOf } from '../../support/world.ts';

interface Asked {
  readonly user: string | null;
  readonly group: string;
  /** What each source said, in their order. */
  readonly said: readonly { readonly source: string; readonly groups: readonly string[]; readonly note?: string }[];
}

/** What the provider issues at a login. */
interface Tokens {
  /** A JWT. */
  readonly id_token: string;
  /** Of no form that says anything. */
  readonly access_token: string;
}

const callback = 'http://client.example/callback';
const people = {
  ann: ['etl', 'analysts'],
  eve: ['partners/etl', 'x'],
  'partners/grace': ['etl'],
};

describe('groups of a real OpenID provider', () => {
  const world = worldOf('suite');
  let provider: OidcServer;
  let gateway: GatewayProcess;

  beforeAll(async () => {
    provider = world.closing(await startOidcProvider(callback, 'engine', { groups: people }));
    let queries = 0;
    const { url } = await startServer((incoming, response) => {
      incoming.resume();
      response.setHeader('content-type', 'application/json');
      if (incoming.method === 'GET') return void response.end('{"starting":false}');
      queries += 1;
      const id = `20260101_000000_${String(queries).padStart(5, '0')}_pgrps`;
      response.end(JSON.stringify({ id, stats: { state: 'FINISHED' } }));
    });
    const rule = (group: string) => ({
      priority: 1,
      condition: `engineRequestUser.isInGroup("${group}")`,
      routeTo: { routingGroup: group.replace('/', '-') },
    });
    await world.declare(
      manifest('EngineCluster', 'a', { proxyTo: url, routingGroup: 'adhoc' }),
      manifest('RoutingRule', 'etl', rule('etl')),
      manifest('RoutingRule', 'partners', rule('partners/etl')),
    );
    const groupFile = world.path('groups.txt');
    await writeFile(groupFile, 'partners/etl:partners/grace\n');
    gateway = await world.startReady({
      authentication: 'none',
      requestAnalyzerConfig: {
        analyzeRequest: true,
        trustedUserSources: ['bearer'],
        tokenUserField: 'sub',
        oauthTokenInfoUrl: `${provider.issuer}/me`,
        tokenIssuers: {
          // Its keys are those that the provider's own document names.
          corp: { issuer: provider.issuer, audiences: [provider.clientId], userPrefix: '', groupPrefix: '' },
          partners: { issuer: 'https://partners.example', jwksUrl: `${provider.issuer}/jwks`, audiences: ['engine'] },
        },
      },
      userGroups: { token: {}, userInfo: {}, file: { path: groupFile } },
    });
  });
  afterAll(closeAll);

  /** Logs a user in at the provider, in the way of a command line. */
  const tokensOf = async (user: string): Promise<Tokens> => {
    const { issuer, clientId, clientSecret } = provider;
    const query = { client_id: clientId, response_type: 'code', redirect_uri: callback, scope: 'openid', state: 's' };
    const answered = await provider.login(`${issuer}/auth?${new URLSearchParams(query)}`, user);
    const code = answered.searchParams.get('code') ?? '';
    const answer = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: callback }),
    });
    expect(answer.status).toBe(200);
    return (await answer.json()) as Tokens;
  };
  /** What became of a query with a token. */
  const ask = async (token: string): Promise<Asked> => {
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers, body: 'SELECT 1' });
    const { id } = (await answer.json()) as { readonly id: string };
    const query = (await (await fetch(`${gateway.url}/api/queries/${id}`)).json()) as {
      readonly user: string | null;
      readonly routingGroup: string;
      readonly decision: { readonly userGroups: Asked['said'] };
    };
    return { user: query.user, group: query.routingGroup, said: query.decision.userGroups };
  };

  test('an ID token gives those of its claim, verified by the keys of the provider', async () => {
    const { id_token: token } = await tokensOf('ann');
    const note = 'the user does not come from a token exchange (bearer)';
    expect(await ask(token)).toEqual({
      user: 'ann',
      group: 'etl',
      said: [
        { source: 'token', groups: ['etl', 'analysts'] },
        { source: 'userInfo', groups: [], note },
        { source: 'file', groups: [] },
      ],
    });
    const forged = `${token.replace(/[^.]*$/, '')}${Buffer.alloc(256).toString('base64url')}`;
    expect(await ask(forged)).toMatchObject({ user: null, group: 'adhoc', said: [{ groups: [] }, {}, {}] });
  });

  test('an access token gives those of the answer about it', async () => {
    const { access_token: token } = await tokensOf('ann');
    expect(token).not.toContain('.');
    expect(await ask(token)).toEqual({
      user: 'ann',
      group: 'etl',
      said: [
        { source: 'token', groups: [], note: 'the user does not come from a JWT (exchange)' },
        { source: 'userInfo', groups: ['etl', 'analysts'] },
        { source: 'file', groups: [] },
      ],
    });
    expect(await ask('of-nobody')).toMatchObject({ user: null, group: 'adhoc' });
  });

  test('a user whom the provider has no groups of is in none', async () => {
    const { id_token, access_token } = await tokensOf('bob');
    const none = { groups: [], note: 'there is no claim groups' };
    expect(await ask(id_token)).toMatchObject({ user: 'bob', group: 'adhoc', said: [none, {}, {}] });
    expect(await ask(access_token)).toMatchObject({ user: 'bob', group: 'adhoc', said: [{}, none, {}] });
  });

  test('neither token gives a name or a group of another issuer', async () => {
    const grace = await tokensOf('partners/grace');
    for (const token of [grace.id_token, grace.access_token]) {
      expect(await ask(token)).toMatchObject({ user: null, group: 'adhoc', said: [{}, {}, { groups: [] }] });
    }
    await gateway.logged(({ msg }) => String(msg).startsWith('the token exchange names a user whose name begins with'));
    const eve = await tokensOf('eve');
    const own = {
      groups: ['x'],
      note: 'one group is left out: the names begin with the groupPrefix of another issuer',
    };
    expect(await ask(eve.id_token)).toMatchObject({ user: 'eve', group: 'adhoc', said: [own, {}, {}] });
    expect(await ask(eve.access_token)).toMatchObject({ user: 'eve', group: 'adhoc', said: [{}, own, {}] });
    // The other issuer's own user has them.
    const claims = { iss: 'https://partners.example', aud: 'engine', sub: 'grace', groups: ['etl'] };
    const token = await provider.sign({ ...claims, exp: Math.floor(Date.now() / 1000) + 300 });
    expect(await ask(token)).toMatchObject({ user: 'partners/grace', group: 'partners-etl' });
  });
});
