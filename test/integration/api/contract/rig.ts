import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { openStore } from '../../../../src/store/openStore.ts';
import { type Answer, send } from '../../../support/apiServer.ts';
import type { databases } from '../../../support/databases.ts';
import { startGateway } from '../../../support/gatewayProcess.ts';
import { startOidcProvider } from '../../../support/oidcProvider.ts';
import { type OpenapiDocument, openapiConformance } from '../../../support/openapiConformance.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';
import { cluster, clusterRows } from './clusters.ts';
import { otherRows } from './otherRows.ts';
import { group, resourceGroupRows } from './resourceGroups.ts';
import type { Known, OperationRows, RowCall } from './rows.ts';
import { quarantined, queuedId, stateRows } from './stateRows.ts';

const redirectUrl = 'http://gateway.example/oidc/callback';

/** All rows by operation, e.g. `POST /entity`. */
export function allRows(known: Known): Record<string, OperationRows> {
  return { ...clusterRows(known), ...resourceGroupRows(known), ...otherRows(known), ...stateRows };
}

/** For the names of tests, which must be there before anything has started. */
export const nothingKnown: Known = {
  group: 0,
  usedGroup: 0,
  otherDatabase: '',
  systemDatabase: '',
  callback: { query: '', cookie: '' },
  namedCallback: { query: '', cookie: '' },
  session: '',
};

/** A whole gateway with everything that the rows speak of. */
export interface ContractRig {
  readonly document: OpenapiDocument;
  readonly known: Known;
  /** Makes a call of an operation; the answer must be one that the document describes. */
  call(operation: string, call: RowCall): Promise<Answer>;
  /** What is in the tables: that they are there, and that the history is whole. */
  tables(): Promise<Readonly<Record<string, number | boolean>>>;
  dispose(): Promise<void>;
}

/** Authorization of a user of the rig: `root` has all roles, `nil` none. */
const basic = (name: string) => `Basic ${Buffer.from(`${name}:secret`).toString('base64')}`;

/** Starts a gateway as a process on a database, with login on and an OpenID provider. */
export async function startContractRig(family: (typeof databases)[number]): Promise<ContractRig> {
  const folder = mkdtempSync(join(tmpdir(), 'contract-'));
  const rulesConfigPath = join(folder, 'rules.yaml');
  writeFileSync(
    rulesConfigPath,
    `name: r\ndescription: d\ncondition: 'true'\nactions: ['result.put("routingGroup", "adhoc")']\n`,
  );
  const keys = sessionKeyPaths();
  const provider = await startOidcProvider(redirectUrl);
  const server = await family.start();
  const database = await server.create();
  const elsewhere = await server.create();
  const logger = pino({ level: 'silent' });
  const store = await openStore({ ...database, runMigrations: true, logger });
  await (await openStore({ ...elsewhere, runMigrations: true, logger })).close();
  const stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
  const record = (queryId: string, backendUrl: string, source: string, age: number) => ({
    ...{ queryId, queryText: 'select 1', user: source === 'cli' ? 'ann' : 'bob', source, backendUrl },
    ...{ created: Date.now() - age, routingGroup: 'adhoc', externalUrl: backendUrl, cluster: 'c1', decision: null },
  });
  await store.history.insert([
    record('q-1', 'http://c1.example:8080', 'cli', 30_000),
    record('q-2', 'http://c1.example:8080', 'cli', 20_000),
    record('q-3', 'http://gone:1', 'other', 10_000),
  ]);
  await store.queuedQueries.put({
    ...{ id: queuedId, group: 'adhoc', user: 'ann', source: 'cli', reason: 'group adhoc' },
    ...{ request: 'sealed', replica: '' },
  });
  for (const lost of ['c1', 'c2']) {
    await store.quarantine.note({ ...quarantined, queryId: `of ${lost}`, cluster: lost });
  }
  const gateway = await startGateway({
    dataStore: database,
    resources: { source: 'database' },
    routingRules: { rulesEngineEnabled: true, rulesConfigPath },
    authentication: {
      form: { selfSignKeyPair: keys },
      oauth: {
        issuer: provider.issuer,
        clientId: provider.clientId,
        clientSecret: provider.clientSecret,
        redirectUrl,
        privilegesField: 'groups',
      },
      loginLimit: { maxAttempts: 10_000 },
    },
    authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
    presetUsers: {
      root: { password: 'secret', privileges: 'ADMIN_USER_API' },
      nil: { password: 'secret', privileges: '' },
    },
  });
  const document: OpenapiDocument = JSON.parse((await send(gateway.url, 'GET', '/openapi.json')).text);
  const documented = openapiConformance(document);

  const call = async (operation: string, { path = {}, query, body, headers = {}, as = 'root' }: RowCall) => {
    const [method = '', pattern = ''] = operation.split(' ');
    const plain = pattern.replace(/\{([^}]+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ''));
    const target = query === undefined ? plain : `${plain}?${query}`;
    const response = await send(gateway.url, method, target, {
      headers: { ...(as === null ? {} : { Authorization: basic(as) }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    documented(method, target, response);
    return response;
  };
  const made = async (operation: string, body: unknown) => {
    const response = await call(operation, { body });
    if (response.status !== 200) throw new Error(`${operation}: ${response.status} ${response.text}`);
    return response.text === '' ? null : response.json();
  };
  await made('POST /gateway/backend/modify/add', cluster('c1'));
  const { resourceGroupId: base } = await made('POST /engine/resourcegroup/create', group('base'));
  const { resourceGroupId: usedGroup } = await made('POST /engine/resourcegroup/create', group('used'));
  await made('POST /engine/selector/create', { resourceGroupId: usedGroup, priority: 5 });
  await made('POST /engine/globalproperty/create', { name: 'cpu_quota_period', value: '1h' });
  const { data } = await made('POST /login', { username: 'root', password: 'secret' });
  const responseTo = async (begun: Answer) => ({
    query: (await provider.login(begun.json().data, 'grace')).search.slice(1),
    cookie: begun.headers['set-cookie']?.[0]?.split(';')[0] ?? '',
  });
  const callback = await responseTo(await call('POST /sso', {}));
  const namedCallback = await responseTo(await call('POST /sso/{provider}', { path: { provider: 'oauth' } }));
  return {
    document,
    call,
    known: {
      group: base,
      usedGroup,
      otherDatabase: elsewhere.jdbcUrl.split('/').at(-1) ?? '',
      systemDatabase: family.name === 'mysql' ? 'mysql' : 'template1',
      callback,
      namedCallback,
      session: data.token,
    },
    tables: async () => {
      const { total } = await store.history.find({}, { offset: 0, limit: 0 });
      const { selectors, groups } = await stores.use(null, (own) => own.read());
      return {
        query_history: total,
        selectors: selectors.some(({ resourceGroupId }) => resourceGroupId === usedGroup),
        groups: groups.some(({ resourceGroupId }) => resourceGroupId === base),
        resources: (await store.resources.all()).some(({ registryName }) => registryName === 'c1'),
      };
    },
    dispose: async () => {
      await gateway.stop();
      await store.close();
      await server.dispose();
      await provider.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
