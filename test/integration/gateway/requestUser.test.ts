import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, test } from 'vitest';
import { UserGroups } from '../../../src/gateway/user/groups/userGroups.ts';
import { UserInfoGroups } from '../../../src/gateway/user/groups/userInfoGroups.ts';
import { userAndQueryAnalyzer } from '../../../src/gateway/user/userAndQueryAnalyzer.ts';
import { UserExtractor, type UserSettings } from '../../../src/gateway/user/userExtractor.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { createRuleCompiler } from '../../../src/rules/compiler.ts';
import type { RuleSet } from '../../../src/rules/decision.ts';
import { requestAnalysis } from '../../../src/sql/analyzeRequest.ts';
import { closeAll, closing, clusterAt, startGateway, startServer, type TestGateway } from '../../support/gateway.ts';

const names = productNames('Engine');
const RESOURCE = 'urn:engine';
const account = 'alice@example.com';

/** A real OpenID provider: opaque access tokens for accounts, signed JWTs for the resource. */
interface OpenIdProvider {
  readonly issuer: string;
  /** Requests of its UserInfo endpoint so far. */
  readonly userInfoCalls: () => number;
  /** An opaque access token that stands for the account. */
  opaqueToken(scope?: string): Promise<string>;
  /** A JWT access token whose claim `email` is the account, from the token endpoint. */
  jwtToken(): Promise<string>;
}

async function startProvider(): Promise<OpenIdProvider> {
  let userInfoCalls = 0;
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'engine-client',
        client_secret: 'client-secret',
        redirect_uris: ['https://client.example/cb'],
        grant_types: ['authorization_code', 'client_credentials'],
        response_types: ['code'],
      },
    ],
    scopes: ['openid', 'email', 'groups'],
    claims: { openid: ['sub'], email: ['email'], groups: ['groups'] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      userinfo: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => false,
        getResourceServerInfo: () => ({ scope: 'query', audience: RESOURCE, accessTokenFormat: 'jwt' }),
      },
    },
    extraTokenClaims: () => ({ email: account }),
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: sub, groups: ['etl'] }),
    }),
    cookies: { keys: ['test'] },
    ttl: { AccessToken: 600, ClientCredentials: 600, Grant: 600 },
  });
  const handle = provider.callback();
  server.on('request', (request, response) => {
    if (request.url === '/me') userInfoCalls += 1;
    void handle(request, response);
  });
  closing({
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
  return {
    issuer,
    userInfoCalls: () => userInfoCalls,
    async opaqueToken(scope = 'openid email') {
      const client = await provider.Client.find('engine-client');
      if (client === undefined) throw new Error('the client is not registered');
      const grant = new provider.Grant({ accountId: account, clientId: client.clientId });
      grant.addOIDCScope(scope);
      const grantId = await grant.save();
      const token = new provider.AccessToken({
        accountId: account,
        client,
        grantId,
        gty: 'authorization_code',
        scope,
      } as ConstructorParameters<typeof provider.AccessToken>[0]);
      return token.save();
    },
    async jwtToken() {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from('engine-client:client-secret').toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource: RESOURCE, scope: 'query' }),
      });
      const answer = (await response.json()) as { access_token?: string };
      if (answer.access_token === undefined) throw new Error(`no token: ${JSON.stringify(answer)}`);
      return answer.access_token;
    },
  };
}

let queries = 0;
let engines = 0;

/** A cluster that takes any submission, also without a user header. */
function engine(): Promise<{ readonly url: string }> {
  const suffix = `abcd${engines++ % 10}`;
  return startServer((request, response) => {
    request.resume();
    queries += 1;
    const id = `20260101_000000_${String(queries).padStart(5, '0')}_${suffix}`;
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ id, stats: { state: 'QUEUED' } }));
  });
}

/** Rules that route by user and by what is asked. */
function rules(): RuleSet {
  const compiled = createRuleCompiler({
    names,
    rulesEngineEnabled: true,
    rulesType: 'FILE',
    analyzeRequest: true,
    onRuleError: 'skip',
    onFileError: 'header',
    monotonic: () => performance.now(),
  }).compile([], {
    path: 'rules.yaml',
    text: `---
name: by-user
description: the known user
condition: 'engineRequestUser.userExistsAndEquals("${account}")'
actions: ['result.put("routingGroup", "vip")']
---
name: by-table
description: writers
priority: 1
condition: 'engineQueryProperties.tablesContains("lake.ops.facts") && engineQueryProperties.getQueryType() == "Insert"'
actions: ['result.put("routingGroup", "etl")']
`,
  });
  expect(compiled.fileProblems).toEqual([]);
  if (compiled.ruleSet === null) throw new Error('there is no rule set');
  return compiled.ruleSet;
}

interface Setting {
  readonly gateway: TestGateway;
  readonly extractor: UserExtractor;
}

async function start(settings: Partial<UserSettings>, groups: UserGroups | null = null): Promise<Setting> {
  const engines = await Promise.all(['adhoc', 'vip', 'etl'].map(engine));
  const extractor = closing(
    new UserExtractor(
      {
        tokenUserField: 'email',
        oauthTokenInfoUrl: null,
        jwksUrl: null,
        issuer: null,
        audience: null,
        trustedUserSources: ['header', 'basic', 'bearer', 'cookie'],
        ...settings,
      },
      {
        ...{ names, clock: systemClock, logger: pino({ level: 'silent' }), registry: new Registry() },
        exchangeTimeoutMs: 10_000,
      },
    ),
  );
  const analyze = requestAnalysis({
    names,
    maxBodySize: 1_000_000,
    clientsUseV2Format: false,
    cacheBytes: 1_000_000,
  });
  const gateway = await startGateway({
    clusters: engines.map((engine, i) => {
      const group = ['adhoc', 'vip', 'etl'][i] as string;
      return clusterAt(group, engine.url, { routingGroup: group });
    }),
    rules: rules(),
    analyzer: userAndQueryAnalyzer({ users: extractor, groups, analyze, logger: pino({ level: 'silent' }) }),
  });
  return { gateway, extractor };
}

/** Sends a statement as it is; gives the group and the user that the history holds. */
async function submitted(
  { gateway }: Setting,
  sql: string,
  headers: Record<string, string>,
): Promise<readonly [string, string | null]> {
  const response = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers, body: sql });
  const { id } = (await response.json()) as { id: string };
  const record = gateway.records.find(({ queryId }) => queryId === id);
  if (record === undefined) throw new Error(`query ${id} is not in the history`);
  return [record.routingGroup ?? '', record.user];
}

describe('with an OpenID provider', () => {
  let provider: OpenIdProvider;
  afterEach(closeAll);

  test('an opaque bearer token is exchanged once; rules, history and log have the user', async () => {
    provider = await startProvider();
    const setting = await start({ oauthTokenInfoUrl: `${provider.issuer}/me` });
    const headers = { authorization: `Bearer ${await provider.opaqueToken()}` };
    expect(await submitted(setting, 'SELECT 1', headers)).toEqual(['vip', account]);
    expect(await submitted(setting, 'SELECT 2', headers)).toEqual(['vip', account]);
    expect(provider.userInfoCalls()).toBe(1);
    expect(await setting.extractor.user(['Authorization', headers.authorization])).toEqual({
      user: account,
      userInfo: { sub: account, email: account },
    });
    const lines = JSON.stringify(setting.gateway.log);
    expect(lines).toContain(account);
    expect(lines).not.toContain(headers.authorization.slice(7));
  });

  test('groups that the provider has of the user of an exchanged token', async () => {
    provider = await startProvider();
    const sources = [new UserInfoGroups({ claim: 'groups', delimiter: ',' }, null)];
    const groups = new UserGroups(sources, { combine: 'all', claimedUsers: [] });
    const setting = await start({ oauthTokenInfoUrl: `${provider.issuer}/me` }, groups);
    const said = async (headers: Record<string, string>) => {
      await submitted(setting, 'SELECT 1', headers);
      const { decision } = setting.gateway.records.at(-1) ?? {};
      return (JSON.parse(decision ?? '{}') as { readonly userGroups?: unknown }).userGroups;
    };
    const bearer = async (scope?: string) => ({ authorization: `Bearer ${await provider.opaqueToken(scope)}` });
    expect(await said(await bearer('openid email groups'))).toEqual([{ source: 'userInfo', groups: ['etl'] }]);
    expect(await said(await bearer())).toEqual([{ source: 'userInfo', groups: [], note: 'there is no claim groups' }]);
    expect(await said({ 'x-engine-user': account })).toEqual([
      { source: 'userInfo', groups: [], note: 'the user does not come from a token exchange (header)' },
    ]);
  });

  test('a token that the provider does not know: the query runs, for nobody', async () => {
    provider = await startProvider();
    const setting = await start({ oauthTokenInfoUrl: `${provider.issuer}/me` });
    expect(await submitted(setting, 'SELECT 1', { authorization: 'Bearer unknown' })).toEqual(['adhoc', null]);
    expect(await submitted(setting, 'SELECT 1', { authorization: 'Bearer unknown' })).toEqual(['adhoc', null]);
    expect(provider.userInfoCalls()).toBe(1);
  });

  test('a JWT of the provider names its user, and is verified where keys are configured', async () => {
    provider = await startProvider();
    const token = await provider.jwtToken();
    expect(await submitted(await start({}), 'SELECT 1', { authorization: `Bearer ${token}` })).toEqual([
      'vip',
      account,
    ]);

    const verifying = await start({
      jwksUrl: `${provider.issuer}/jwks`,
      issuer: provider.issuer,
      audience: RESOURCE,
    });
    expect(await submitted(verifying, 'SELECT 1', { authorization: `Bearer ${token}` })).toEqual(['vip', account]);
    expect(await submitted(verifying, 'SELECT 1', { cookie: `Engine-UI-Token=${token}` })).toEqual(['vip', account]);
    const [head, payload] = token.split('.') as [string, string];
    const forged = `${head}.${payload}.${'A'.repeat(342)}`;
    expect(await submitted(verifying, 'SELECT 1', { authorization: `Bearer ${forged}` })).toEqual(['adhoc', null]);
    const elsewhere = await start({
      jwksUrl: `${provider.issuer}/jwks`,
      issuer: provider.issuer,
      audience: 'urn:other',
    });
    expect(await submitted(elsewhere, 'SELECT 1', { authorization: `Bearer ${token}` })).toEqual(['adhoc', null]);
  });

  test('rules see the user and the statement together', async () => {
    provider = await startProvider();
    const setting = await start({ oauthTokenInfoUrl: `${provider.issuer}/me` });
    const headers = {
      authorization: `Bearer ${await provider.opaqueToken()}`,
      'X-Engine-Catalog': 'lake',
      'X-Engine-Schema': 'ops',
    };
    expect(
      await submitted(setting, 'INSERT INTO facts SELECT 1', { ...headers, authorization: 'Basic Ym9iOng=' }),
    ).toEqual(['etl', 'bob']);
    expect(await submitted(setting, 'INSERT INTO facts SELECT 1', headers)).toEqual(['vip', account]);
    expect(await submitted(setting, 'SELECT * FROM facts', { ...headers, authorization: 'Basic Ym9iOng=' })).toEqual([
      'adhoc',
      'bob',
    ]);
    expect(await submitted(setting, 'SELECT * FROM', { ...headers, 'X-Engine-User': 'carol' })).toEqual([
      'adhoc',
      'carol',
    ]);
  });

  test('a provider that is unavailable delays a query by nothing but the refused connection', async () => {
    const setting = await start({ oauthTokenInfoUrl: 'http://127.0.0.1:1/me' });
    expect(await submitted(setting, 'SELECT 1', { authorization: 'Bearer opaque' })).toEqual(['adhoc', null]);
  });
});
