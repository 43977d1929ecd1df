/** Groups of users from real sources, and what rules, limits, traces and explanations make of them. */
import { rm, writeFile } from 'node:fs/promises';
import { type IncomingHttpHeaders, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { certificateFolder, hasOpenssl } from '../../support/certificates.ts';
import { closeAll, startServer, until } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { type LdapTestServer, ldapAvailable, startLdapServer } from '../../support/ldapServer.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcpProxy.ts';
import { basic as basicOf, call, worldOf } from '../../support/world.ts';

type Headers = Readonly<Record<string, string>>;

interface Decision {
  readonly group: string;
  readonly userMapping?: object;
  readonly userGroups?: readonly {
    readonly source: string;
    readonly groups: readonly string[];
    readonly note?: string;
  }[];
}

/** Requests that clusters got, oldest first. */
const received: { readonly line: string; readonly headers: IncomingHttpHeaders }[] = [];

/** A cluster that takes any submission, also without a user header. */
async function startEngine(): Promise<string> {
  let queries = 0;
  const { url } = await startServer((incoming, response) => {
    incoming.resume();
    received.push({ line: `${incoming.method} ${incoming.url}`, headers: incoming.headers });
    response.setHeader('content-type', 'application/json');
    if (incoming.method === 'GET') return void response.end('{"starting":false}');
    queries += 1;
    const id = `20260101_000000_${String(queries).padStart(5, '0')}_groups`.slice(0, 27);
    response.end(JSON.stringify({ id, stats: { state: 'FINISHED' } }));
  });
  return url;
}

/** A file of rules: the first pattern is of names that are not allowed. */
const mappings = ([denied, ...others]: readonly string[]): string => {
  const rules = others.map((pattern) => ({ pattern, case: 'lower' }));
  return JSON.stringify({ rules: [{ pattern: denied, allow: false }, ...rules] });
};

const basic = (user: string): Headers => basicOf(user, 'x');

describe.skipIf(!hasOpenssl)('groups of users', () => {
  const world = worldOf('suite');
  let groupFile: string;
  let userFile: string;
  let gateway: GatewayProcess;
  let bearer: (claims: object) => Promise<Headers>;
  let certificates: ReturnType<typeof certificateFolder>;

  beforeAll(async () => {
    groupFile = world.path('groups.txt');
    await writeFile(groupFile, '# people\r\n\r\netl: airflow ,airflow,\nanalysts:ann , bob\nempty:\n');
    userFile = world.path('users.json');
    await writeFile(userFile, mappings(['root.*', '(.*)@example\\.com', '(.*)']));
    certificates = certificateFolder();
    const { privateKey, publicKey } = await generateKeyPair('ES256');
    const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' };
    const keys = await startServer((_request, response) => response.end(JSON.stringify({ keys: [jwk] })));
    bearer = async (claims) => {
      const token = await new SignJWT({ iss: 'https://corp.example', aud: 'engine', ...claims })
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setExpirationTime('5m')
        .sign(privateKey);
      return { authorization: `Bearer ${token}` };
    };
    await world.declare(
      manifest('EngineCluster', 'a', { proxyTo: await startEngine(), routingGroup: 'adhoc' }),
      manifest('RoutingRule', 'etl', {
        priority: 3,
        condition: 'engineRequestUser.isInGroup("etl")',
        routeTo: { routingGroup: 'etl' },
      }),
      manifest('RoutingRule', 'several', {
        priority: 2,
        condition: 'engineRequestUser.getGroups().size() > 1',
        actions: ['result.put("routingGroup", engineRequestUser.getGroups().toString())'],
      }),
      manifest('RoutingRule', 'denied', {
        priority: 9,
        condition: 'engineRequestUser.isInGroup("denied")',
        deny: { message: 'Not you.' },
      }),
      manifest('QueryLimit', 'analysts', {
        match: { userGroups: [{ type: 'RegularExpression', value: 'analyst.*' }] },
        per: 'User',
        rate: { queries: 1, period: '24h' },
      }),
    );
    gateway = await world.startReady({
      authentication: 'none',
      requestAnalyzerConfig: {
        analyzeRequest: true,
        tokenUserField: 'sub',
        jwksUrl: keys.url,
        issuer: 'https://corp.example',
        tokenIssuers: {
          partners: { issuer: 'https://partners.example', jwksUrl: keys.url, audiences: ['engine'] },
        },
        clientCertificateIdentityField: 'CN',
      },
      server: { trustedProxies: ['127.0.0.1'], clientCertificateHeader: 'X-Client-Cert' },
      userMapping: { file: userFile, refreshPeriod: '100ms', rewriteUserHeader: true },
      userGroups: {
        claimedUsers: ['basic'],
        token: { claim: 'realm_access.roles' },
        certificate: {},
        header: { name: 'X-Groups' },
        file: { path: groupFile, refreshPeriod: '100ms' },
      },
    });
  });
  afterAll(async () => {
    await closeAll();
    certificates?.dispose();
  });

  /** Submits a statement; from `localAddress` where it is given, which is no trusted proxy's. */
  const submit = async (headers: Headers, localAddress = '127.0.0.1'): Promise<string> => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const options = { method: 'POST', headers, localAddress };
    request(`${gateway.url}/v1/statement`, options, (answer) => void text(answer).then(resolve, reject))
      .on('error', reject)
      .end('SELECT 1');
    return (JSON.parse(await promise) as { readonly id: string }).id;
  };
  /** How a query was routed. */
  const decided = async (headers: Headers, localAddress?: string): Promise<Decision> => {
    const answer = await fetch(`${gateway.url}/api/queries/${await submit(headers, localAddress)}`);
    expect(answer.status).toBe(200);
    return ((await answer.json()) as { readonly decision: Decision }).decision;
  };
  /** The routing group of a query, and what one source said. */
  const from = async (source: string, headers: Headers, localAddress?: string) => {
    const { group, userGroups = [] } = await decided(headers, localAddress);
    const [said] = userGroups.filter((each) => each.source === source);
    return { group, groups: said?.groups, ...(said?.note === undefined ? {} : { note: said.note }) };
  };
  const explain = async (description: object) => {
    const { status, json } = await call(gateway, 'POST', '/api/explain', description);
    return { status, body: json as Record<string, never> };
  };

  test('rules route by group, and the decision has what each source said, in their order', async () => {
    expect(await from('file', basic('airflow'))).toEqual({ group: 'etl', groups: ['etl'] });
    expect(await from('file', basic('eve'))).toEqual({ group: 'adhoc', groups: [] });
    const { userGroups } = await decided(basic('airflow'));
    expect(userGroups?.map(({ source }) => source)).toEqual(['token', 'certificate', 'header', 'file']);
  });

  test('a name from a source that is not believed is in no group', async () => {
    expect(await from('file', { 'x-engine-user': 'airflow' })).toEqual({
      group: 'adhoc',
      groups: [],
      note: 'the user is only a claim of the client (header); userGroups.claimedUsers does not name it',
    });
  });

  test('a claim of a verified token counts, and one that nobody signed does not', async () => {
    const claims = { sub: 'zed', realm_access: { roles: ['etl', 'x'] } };
    const token = await bearer(claims);
    expect(await from('token', token)).toEqual({ group: 'etl', groups: ['etl', 'x'] });
    expect(await from('token', { ...token, 'x-engine-user': 'zed' })).toEqual({
      group: 'adhoc',
      groups: [],
      note: 'the user does not come from a JWT (header)',
    });
    const forged = `${(token.authorization ?? '').replace(/[^.]*$/, '')}${Buffer.alloc(64).toString('base64url')}`;
    expect(await from('token', { authorization: forged })).toMatchObject({ group: 'adhoc', groups: [] });
    expect(await from('file', await bearer({ sub: 'airflow' }))).toEqual({ group: 'etl', groups: ['etl'] });
  });

  test('an issuer gives its users neither names nor groups of those of another', async () => {
    const claims = { iss: 'https://partners.example', sub: 'airflow', realm_access: { roles: ['etl'] } };
    const token = await bearer(claims);
    expect(await from('token', token)).toEqual({ group: 'adhoc', groups: ['partners/etl'] });
    expect(await from('file', token)).toEqual({ group: 'adhoc', groups: [] });
    expect(await from('file', await bearer({ ...claims, iss: 'https://else.example' }))).toEqual({
      group: 'adhoc',
      groups: [],
      note: 'no user was recognised',
    });
    const { body } = await explain({ headers: token });
    expect(body).toMatchObject({ request: { user: 'partners/airflow' } });
    // The issuer whose groups have no prefix says that its user is one of the partners'.
    const other = { sub: 'zed', realm_access: { roles: ['partners/etl', 'x', 'partners/x'] } };
    const note = '2 groups are left out: the names begin with the groupPrefix of another issuer';
    expect(await from('token', await bearer(other))).toEqual({ group: 'adhoc', groups: ['x'], note });
    expect((await explain({ headers: await bearer(other) })).body).toMatchObject({
      request: { groups: [{ source: 'token', groups: ['x'], note }, {}, {}, {}] },
    });
  });

  test('organisational units of a client certificate count', async () => {
    const authority = certificates.authority('clients');
    const pem = (subject: string) => encodeURIComponent(authority.issueTo(subject).cert);
    expect(await from('certificate', { 'x-client-cert': pem('/O=Example/OU=etl/OU=people/CN=kim') })).toEqual({
      group: 'etl',
      groups: ['people', 'etl'],
    });
    expect(await from('file', { 'x-client-cert': pem('/O=Example/CN=airflow') })).toMatchObject({ groups: ['etl'] });
    const others = await from('certificate', basic('kim'));
    expect(others).toMatchObject({ note: 'the user does not come from a client certificate (basic)' });
  });

  test('a header counts from trusted proxies alone', async () => {
    const headers = { 'x-engine-user': 'zed', 'x-groups': 'etl, x' };
    expect(await from('header', headers)).toEqual({ group: 'etl', groups: ['etl', 'x'] });
    expect(await from('header', headers, '127.0.0.2')).toEqual({
      group: 'adhoc',
      groups: [],
      note: 'the connection is not of a proxy in server.trustedProxies',
    });
  });

  test('limits are about groups, with a counter for each user', async () => {
    const waits = async (user: string) => (await submit(basic(user))).endsWith('_queue');
    expect([await waits('ann'), await waits('ann'), await waits('bob')]).toEqual([false, true, false]);
    expect([await waits('eve'), await waits('eve')]).toEqual([false, false]);
  });

  test('explanations have the groups of a user, or those that they are given', async () => {
    const looked = await explain({ user: 'airflow', headers: { 'X-Groups': 'x' } });
    expect(looked.body).toMatchObject({
      routingGroup: 'etl',
      request: { user: 'airflow', groups: [{}, {}, { source: 'header', groups: ['x'] }, { groups: ['etl'] }] },
      conditions: [
        { rule: 'several' },
        { rule: 'etl', values: [{ value: 'true', source: 'group' }] },
        { rule: 'denied' },
      ],
    });
    const given = await explain({ user: 'airflow', groups: ['x', 'b'] });
    expect(given.body).toMatchObject({
      routingGroup: '[b, x]',
      request: { groups: [{ source: 'described', groups: ['x', 'b'] }] },
    });
    // As clients send it, and as it is mapped already.
    const mapped = { user: 'airflow', userMapping: { from: 'Airflow@example.com' } };
    const claimed = await explain({ user: 'Airflow@example.com', mapUser: true });
    expect(claimed.body).toMatchObject({ routingGroup: 'etl', request: mapped });
    expect((await explain({ user: 'root', mapUser: true })).body).toMatchObject({ outcome: 'rejected' });
    expect((await explain({ user: 'Airflow@example.com' })).body).toMatchObject({
      routingGroup: 'adhoc',
      request: { user: 'Airflow@example.com', userMapping: null },
    });
    expect(await explain({ groups: [''] })).toMatchObject({ status: 400, body: { error: { field: 'groups[0]' } } });
  });

  test('groups, history and trace have the mapped name, and the trace has the one before', async () => {
    const id = await submit(basic('Airflow@example.com'));
    const query = await (await fetch(`${gateway.url}/api/queries/${id}`)).json();
    expect(query).toMatchObject({
      user: 'airflow',
      routingGroup: 'etl',
      decision: { userMapping: { from: 'Airflow@example.com', isForwarded: false } },
    });
    const listed = async () => (await fetch(`${gateway.url}/api/queries?user=airflow&queryId=${id}`)).text();
    await until(
      async () => (await listed()).includes(`"queryId":"${id}"`),
      'the query in the history of the mapped name',
    );
    const { body } = await explain({ headers: { 'X-Engine-User': 'Airflow@example.com' } });
    expect(body.request).toMatchObject({ user: 'airflow', userMapping: { from: 'Airflow@example.com' } });
    // A user that is described is one whose name is mapped already.
    const { body: described } = await explain({ user: 'Root' });
    expect(described.request).toMatchObject({ user: 'Root', userMapping: null });
  });

  test('history and statistics know queries by group, those that were refused too', async () => {
    const token = await bearer({ sub: 'noa', realm_access: { roles: ['lab', 'denied'] } });
    const denied = await submit(token);
    const queries = async (query: string) => {
      const answer = await fetch(`${gateway.url}/api/queries?${query}`);
      return ((await answer.json()) as { queries: { queryId: string }[] }).queries.map(({ queryId }) => queryId);
    };
    await until(async () => (await queries('userGroup=lab')).includes(denied), 'the query under its group');
    expect(await queries('userGroup=lab')).toEqual([denied]);
    expect(await (await fetch(`${gateway.url}/api/queries/export?userGroup=lab`)).text()).toContain(denied);
    const counted = async () => {
      const answer = await fetch(`${gateway.url}/api/statistics?by=userGroup`);
      const { values } = (await answer.json()) as { values: { value: string; queries: number }[] };
      return values.find(({ value }) => value === 'lab')?.queries;
    };
    await until(async () => (await counted()) === 1, 'the query in the statistics');
  });

  test('users whom no rule lets pass are refused, with the reason', async () => {
    const message = 'The user "root@example.com" is refused by the user mapping of the gateway: it is not allowed.';
    const ask = (path: string, method: string) =>
      fetch(`${gateway.url}${path}`, { method, headers: basic('root@example.com') });
    const answer = await ask('/v1/statement', 'POST');
    expect(answer.status).toBe(200);
    const { id, error } = (await answer.json()) as { readonly id: string; readonly error: object };
    expect(error).toMatchObject({ message, errorName: 'PERMISSION_DENIED' });
    const kept = await fetch(`${gateway.url}/api/queries/${id}`);
    expect(await kept.json()).toMatchObject({ outcome: { state: 'REFUSED', errorMessage: message } });
    const other = await ask('/v1/query', 'GET');
    expect([other.status, await other.text()]).toEqual([403, `${message}\n`]);
    // Probes and pages have no user.
    expect((await ask('/v1/info', 'GET')).status).toBe(200);
    const { body } = await explain({ headers: basic('root@example.com') });
    expect(body).toMatchObject({ outcome: 'rejected', message });
  });

  test('clusters get the mapped names of verified users, and of no others', async () => {
    const userOf = async (headers: Headers) => {
      await submit(headers);
      const { headers: sent } = received.findLast(({ line }) => line === 'POST /v1/statement') ?? {};
      return [sent?.['x-engine-user'], sent?.['x-engine-original-user'], sent?.authorization];
    };
    const verified = await bearer({ sub: 'Zed@example.com' });
    expect(await userOf(verified)).toEqual(['zed', 'zed', verified.authorization]);
    const claimed = basic('Zed@example.com');
    expect(await userOf(claimed)).toEqual([undefined, undefined, claimed.authorization]);
    const other = { ...verified, 'x-engine-user': 'Kim@example.com' };
    expect(await userOf(other)).toEqual(['Kim@example.com', undefined, verified.authorization]);
    const pem = encodeURIComponent(certificates.authority('clients').issueTo('/CN=Zed@example.com').cert);
    expect(await userOf({ 'x-client-cert': pem })).toEqual(['zed', 'zed', undefined]);
    // What follows of a query is asked for in the same name.
    const id = await submit(verified);
    const path = `/v1/statement/executing/${id}/y/1`;
    await fetch(`${gateway.url}${path}`, { method: 'DELETE', headers: verified });
    const [followUp] = received.filter(({ line }) => line === `DELETE ${path}`);
    expect(followUp?.headers['x-engine-user']).toBe('zed');
  });

  test('a changed file of mappings counts, and one that cannot be used leaves the last good rules', async () => {
    const mapped = async (user: string) => {
      const { body } = await explain({ headers: { 'X-Engine-User': user } });
      return JSON.parse(JSON.stringify(body.request)).user as string | null;
    };
    await writeFile(userFile, mappings(['root.*', '(.*)-(.*)', '(.*)']));
    await until(async () => (await mapped('ann-x')) === 'ann', 'the changed rules');
    await writeFile(userFile, '{"rules": [{"pattern": "("}]}');
    await gateway.logged(({ msg }) => msg === 'changed user mapping file rejected; last valid rules stay active');
    expect(await mapped('ann-x')).toBe('ann');
    await writeFile(userFile, mappings(['root.*', '(.*)@example\\.com', '(.*)']));
    await until(async () => (await mapped('ann-x')) === 'ann-x', 'the rules as they were');
  });

  test('a changed file counts, and one that cannot be read leaves the last known groups, with a note', async () => {
    await writeFile(groupFile, 'etl:zoe\n');
    await until(async () => (await explain({ user: 'zoe' })).body.routingGroup === 'etl', 'the changed file');
    await writeFile(groupFile, 'etl');
    const noted = async () => JSON.stringify((await explain({ user: 'zoe' })).body.request).includes('last known');
    await until(noted, 'the note');
    expect(await from('file', basic('zoe'))).toEqual({
      group: 'etl',
      groups: ['etl'],
      note: expect.stringContaining('line 1 must be group:user1,user2'),
    });
  });
});

const person = (uid: string) =>
  `dn: uid=${uid},ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\n` +
  'employeeType: cn=by\\2Cattribute,ou=groups,dc=example,dc=com\nemployeeType: plain\n\n';
const groupOf = (cn: string, ...members: string[]) =>
  `dn: cn=${cn},ou=groups,dc=example,dc=com\nobjectClass: groupOfNames\ncn: ${cn}\n${members
    .map((member) => `member: ${member},dc=example,dc=com\n`)
    .join('')}\n`;
const unit = (ou: string) => `dn: ou=${ou},dc=example,dc=com\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;

describe.skipIf(!hasOpenssl || !ldapAvailable)('groups of a real LDAP server, over TLS', () => {
  const world = worldOf('suite');
  let ldap: LdapTestServer;
  let proxy: TcpProxy;
  let certificates: ReturnType<typeof certificateFolder>;
  let engine: string;
  let userFile: string;
  let gateway: GatewayProcess | null = null;

  beforeAll(async () => {
    certificates = certificateFolder();
    const authority = certificates.authority('ldap');
    const certificate = authority.issue(['IP:127.0.0.1']);
    const files = { cert: world.path('ldap.crt'), key: world.path('ldap.key') };
    await writeFile(files.cert, certificate.cert);
    await writeFile(files.key, certificate.key);
    ldap = await startLdapServer(
      [
        ...[unit('people'), unit('groups'), person('dag'), person('eve(*)')],
        groupOf('pipelines', 'uid=dag,ou=people', 'cn=etl,ou=groups'),
        // A group of a group, in a circle.
        groupOf('etl', 'cn=pipelines,ou=groups'),
        groupOf('others', 'uid=eve(*),ou=people'),
      ].join(''),
      files,
    );
    const lines = [
      `ldapHost: 127.0.0.1\nldapPort: ${ldap.port}\nuseTls: true\nldapTrustStorePath: ${authority.file}`,
      'ldapAdminBindDn: cn=reader,dc=example,dc=com\nldapAdminPassword: reader-secret',
      `ldapUserBaseDn: ou=people,dc=example,dc=com\nldapUserSearch: (uid=\${USER})\nldapGroupMemberAttribute: employeeType\n`,
    ];
    await writeFile(world.path('ldap.yaml'), lines.join('\n'));
    proxy = await startTcpProxy(ldap.port);
    const replaced = lines.join('\n').replace(`${ldap.port}`, `${proxy.port}`);
    await writeFile(world.path('proxied.yaml'), replaced);
    await writeFile(world.path('refused.yaml'), lines.join('\n').replace('reader-secret', 'wrong-secret'));
    userFile = world.path('users.json');
    const rules = [{ pattern: '(.*)@example\\.com', case: 'lower' }, { pattern: '(dag|eve.*)' }];
    await writeFile(userFile, JSON.stringify({ rules: rules.map((rule) => ({ user: '$1', ...rule })) }));
    engine = await startEngine();
    await world.declare(manifest('EngineCluster', 'a', { proxyTo: engine, routingGroup: 'adhoc' }));
  });
  afterAll(async () => {
    await closeAll();
    await proxy?.close();
    await ldap?.stop();
    certificates?.dispose();
  });

  const start = async (
    search: object,
    more: object = { authentication: 'none' },
    sources: object = {},
  ): Promise<void> => {
    await world.kill();
    gateway = await world.startReady({
      ...more,
      userGroups: {
        claimedUsers: ['header'],
        cacheDuration: '1s',
        timeout: '10s',
        ldap: { configPath: world.path('ldap.yaml'), ...search },
        ...sources,
      },
    });
  };
  const groupsOf = async (user: string) => (await allOf(user))?.[0];
  /** What each source said. */
  const allOf = async (user: string) => {
    const headers = { 'x-engine-user': user };
    const answer = await fetch(`${gateway?.url}/v1/statement`, { method: 'POST', headers, body: 'SELECT 1' });
    const { id } = (await answer.json()) as { readonly id: string };
    const query = await fetch(`${gateway?.url}/api/queries/${id}`);
    const { decision } = (await query.json()) as { readonly decision: Decision };
    return decision.userGroups;
  };

  test('by the attribute of an entry', async () => {
    await start({});
    expect(await groupsOf('dag')).toEqual({ source: 'ldap', groups: ['by,attribute', 'plain'] });
    expect(await groupsOf('nobody')).toEqual({ source: 'ldap', groups: [] });
  });

  test('groups give callers of the API their roles, beside their privileges', async () => {
    await start(
      { groupBaseDn: 'ou=groups,dc=example,dc=com' },
      {
        authentication: { form: { selfSignKeyPair: sessionKeyPaths() } },
        presetUsers: {
          dag: { password: 'x' },
          'eve(*)': { password: 'x', privileges: 'API' },
          'Eve(*)@example.com': { password: 'x' },
          nora: { password: 'x', privileges: 'USER' },
        },
        userMapping: { file: userFile },
        authorization: { api: 'API', user: 'USER', groupRoles: { admin: ['etl', 'none'], user: ['others'] } },
        server: { trustedProxies: ['127.0.0.1'] },
      },
      { header: { name: 'X-Groups' } },
    );
    const rolesOf = async (user: string) => {
      const answer = await fetch(`${gateway?.url}/userinfo`, { method: 'POST', headers: basic(user) });
      return answer.ok ? ((await answer.json()) as { readonly data: { readonly roles: string[] } }).data.roles : [];
    };
    expect(await rolesOf('dag')).toEqual(['ADMIN']);
    expect((await rolesOf('eve(*)')).toSorted()).toEqual(['API', 'USER']);
    // Groups and queries are those of the mapped name; privileges are those of the login. A name that no rule lets pass has neither.
    expect(await rolesOf('Eve(*)@example.com')).toEqual(['USER']);
    const statement = { method: 'POST', headers: { 'x-engine-user': 'EVE(*)@example.com' }, body: 'SELECT 1' };
    const { id } = (await (await fetch(`${gateway?.url}/v1/statement`, statement)).json()) as { readonly id: string };
    const seenBy = async (user: string) =>
      (await fetch(`${gateway?.url}/api/queries/${id}`, { headers: basic(user) })).status;
    expect([await seenBy('Eve(*)@example.com'), await seenBy('eve(*)'), await seenBy('nora')]).toEqual([200, 200, 404]);
    // Running queries are those of the mapped name, too; the cluster gets the name that it knows.
    const end = async (user: string) => {
      const headers = basic(user);
      const answer = await fetch(`${gateway?.url}/api/queries/running/${id}`, { method: 'DELETE', headers });
      return answer.status;
    };
    expect([await end('nora'), await end('Eve(*)@example.com')]).toEqual([404, 204]);
    const [killed] = received.filter(({ line }) => line === `DELETE /v1/query/${id}`);
    expect(killed?.headers['x-engine-user']).toBe('EVE(*)@example.com');
    const explain = async (user: string, description: object) => {
      const headers = { ...basic(user), 'content-type': 'application/json' };
      const body = JSON.stringify(description);
      const answer = await fetch(`${gateway?.url}/api/explain`, { method: 'POST', headers, body });
      const { error } = (await answer.json()) as { readonly error?: { readonly field: string } };
      return [answer.status, error?.field];
    };
    // What a caller without ADMIN cannot be in a request, it cannot be in one that is explained.
    expect(await explain('eve(*)', {})).toEqual([200, undefined]);
    expect(await explain('eve(*)', { groups: ['etl'] })).toEqual([403, 'groups']);
    expect(await explain('eve(*)', { headers: { 'x-groups': 'etl' } })).toEqual([403, 'headers.x-groups']);
    expect(await explain('dag', { groups: ['etl'], headers: { 'x-groups': 'etl' } })).toEqual([200, undefined]);
  });

  test('by a search without groups of groups', async () => {
    await start({ groupBaseDn: 'ou=groups,dc=example,dc=com', nested: false });
    expect(await groupsOf('dag')).toEqual({ source: 'ldap', groups: ['pipelines'] });
  });

  test('sources in the configured order, of which the first that has groups decides', async () => {
    const path = world.path('first.txt');
    await writeFile(path, 'filed:dag\n');
    const file = { source: 'file', groups: ['filed'] };
    const none = { source: 'file', groups: [] };
    await start({}, undefined, { combine: 'first', sources: ['file', 'ldap'], file: { path } });
    expect(await allOf('dag')).toEqual([file]);
    expect(await allOf('eve(*)')).toEqual([none, { source: 'ldap', groups: ['by,attribute', 'plain'] }]);
    expect(await allOf('nobody')).toEqual([none, { source: 'ldap', groups: [] }]);
    await start({}, undefined, { combine: 'first', sources: ['ldap', 'file'], file: { path } });
    expect(await allOf('dag')).toEqual([{ source: 'ldap', groups: ['by,attribute', 'plain'] }]);
    await start({}, undefined, { sources: ['file', 'ldap'], file: { path } });
    expect(await allOf('dag')).toEqual([file, { source: 'ldap', groups: ['by,attribute', 'plain'] }]);
  });

  test('the last known groups count for their time, then none until the source is available', async () => {
    const path = world.path('lost.txt');
    await writeFile(path, 'filed:dag\n');
    await start({ configPath: world.path('proxied.yaml') }, undefined, {
      keepLastKnown: '3s',
      file: { path, refreshPeriod: '100ms' },
    });
    const known = ['by,attribute', 'plain'];
    expect(await allOf('dag')).toEqual([
      { source: 'ldap', groups: known },
      { source: 'file', groups: ['filed'] },
    ]);
    proxy.refuse(true);
    await rm(path);
    const hasNone = async () => (await allOf('dag'))?.every(({ groups }) => groups.length === 0) === true;
    await until(hasNone, 'the last known groups to run out');
    expect(await allOf('dag')).toEqual([
      { source: 'ldap', groups: [], note: 'The LDAP server does not answer properly; try again soon.' },
      { source: 'file', groups: [], note: `userGroups.file.path: ${path}: cannot be read (ENOENT).` },
    ]);
    proxy.refuse(false);
    await writeFile(path, 'filed:dag\nagain:dag\n');
    const isBack = async () => (await allOf('dag'))?.map(({ groups }) => groups.length).join() === '2,2';
    await until(isBack, 'the groups once more');
  });

  test('the log says why the server cannot be used, and the trace that it cannot', async () => {
    await start({ configPath: world.path('refused.yaml') });
    const reason = 'The LDAP server does not answer properly; try again soon.';
    expect(await groupsOf('dag')).toEqual({ source: 'ldap', groups: [], note: reason });
    const line = await gateway?.logged(({ source }) => source === 'ldap');
    expect(line).toMatchObject({ reason, cause: 'the server rejects ldapAdminBindDn with ldapAdminPassword' });
    expect(JSON.stringify(gateway?.log)).not.toContain('wrong-secret');
  });

  test('by a search, with groups of groups, and the last known ones while the server is unavailable', async () => {
    await start({ groupBaseDn: 'ou=groups,dc=example,dc=com', groupFilter: '(objectClass=groupOfNames)' });
    expect(await groupsOf('dag')).toEqual({ source: 'ldap', groups: ['pipelines', 'etl'] });
    expect(await groupsOf('eve(*)')).toEqual({ source: 'ldap', groups: ['others'] });
    expect(await groupsOf('*')).toEqual({ source: 'ldap', groups: [] });
    await ldap.stop();
    const note = 'The LDAP server does not answer properly; try again soon.';
    const isKnownOnly = async () => (await groupsOf('dag'))?.note === `last known: ${note}`;
    await until(isKnownOnly, 'the groups to be the last known ones');
    expect((await groupsOf('dag'))?.groups).toEqual(['pipelines', 'etl']);
    expect(await groupsOf('new')).toEqual({ source: 'ldap', groups: [], note });
  });
});
