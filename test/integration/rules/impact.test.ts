import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { RuleImpact } from '../../../src/api/rules.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { QueryRecord } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { worldOf } from '../../support/world.ts';

const bySource = (source: string) => `request.getHeader("X-Engine-Source") == "${source}"`;
const byTag = 'request.getHeader("X-Engine-Client-Tags") == "team=x"';
const byTable = 'engineQueryProperties.tablesContains("hive.web.events")';
const byAddress = 'request.getRemoteAddr() == "127.0.0.1"';
const byTeam = 'request.getHeader("X-Team") == "red"';
const byKey = 'request.getHeader("X-Api-Key") == "sesame"';
const to = (routingGroup: string) => ({ routeTo: { routingGroup } });

/** Rules in force. */
const present: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  etl: { condition: bySource('airflow'), priority: 10, ...to('b') },
  teams: { condition: byTeam, priority: 20, ...to('b') },
  tables: { condition: byTable, priority: 30, ...to('b') },
  keys: { condition: byKey, priority: 40, ...to('b') },
  local: { condition: `${byAddress} && engineRequestUser.userExistsAndEquals("nobody")`, priority: 50, ...to('b') },
  forbidden: { condition: 'engineRequestUser.userExistsAndEquals("mallory")', priority: 60, deny: { message: 'no' } },
};

/** Queries with what is kept of their requests: 8 of them, and 3 of a gateway before. */
const submissions: readonly (readonly [sql: string, headers: Readonly<Record<string, string>>])[] = [
  ['select 1', { 'X-Engine-User': 'ann', 'X-Engine-Source': 'airflow' }],
  ['select 2', { 'X-Engine-User': 'ann', 'X-Engine-Source': 'airflow' }],
  ['select 3', { 'X-Engine-User': 'ann', 'X-Engine-Source': 'cli', 'X-Engine-Client-Tags': 'team=x' }],
  ['select * from web.events', { 'X-Engine-User': 'bob', 'X-Engine-Catalog': 'hive' }],
  ['insert into events select 1', { 'X-Engine-User': 'bob', 'X-Engine-Catalog': 'hive', 'X-Engine-Schema': 'web' }],
  ['select 5', { 'X-Engine-User': 'cid', 'X-Team': 'red' }],
  ['select 6', { 'X-Engine-User': 'cid', 'X-Api-Key': 'sesame', 'X-Engine-Extra-Credential': 'password=hush' }],
  [`select '${'x'.repeat(3_000)}' from hive.web.events`, { 'X-Engine-User': 'dan' }],
];
const before = (queryId: string, more: Partial<QueryRecord>): QueryRecord => ({
  ...{ queryId, queryText: 'select 7', user: 'eve', source: null, created: Date.now(), routingGroup: 'a' },
  ...{ backendUrl: 'http://gone:8080', externalUrl: null, cluster: 'a', decision: null },
  ...more,
});
const earlier = [
  before('20200101_000000_00001_aaaaa', { source: 'airflow' }),
  before('20200101_000000_00002_aaaaa', { queryText: 'select * from events' }),
  before('20200101_000000_00003_aaaaa', { queryText: 'select * from hive.web.events' }),
];
/** Queries that a cluster took, and one that a rule denied, of which the same is kept. */
const taken = submissions.length + earlier.length;
const all = taken + 1;

interface Change {
  readonly name: string;
  readonly rule: Readonly<Record<string, unknown>> | null;
}
interface Expected {
  readonly moved: number;
  readonly unknown?: number;
  /** `from -> to` with the number of queries. */
  readonly moves?: Readonly<Record<string, number>>;
  readonly users?: Readonly<Record<string, number>>;
  /** Rules that could not be replayed: number of queries, and what they read. */
  readonly unreplayed?: Readonly<Record<string, readonly [queries: number, unknown: number, reads: string]>>;
}

const changed = (name: string, more: Readonly<Record<string, unknown>>): Change => ({
  name,
  rule: { ...present[name], ...more },
});
const added = (condition: string, more: Readonly<Record<string, unknown>> = to('b')): Change => ({
  name: 'new',
  rule: { condition, ...more },
});

/** Changes and what they move, worked out by hand. The rules teams and keys may send each earlier query to b, as their headers are not known. */
const edits: readonly (readonly [what: string, changes: readonly Change[], expected: Expected])[] = [
  ['the same rule', [changed('etl', {})], { moved: 0 }],
  [
    'another text that says the same',
    [changed('etl', { condition: `"airflow".equals(request.getHeader("X-Engine-Source"))` })],
    { moved: 0 },
  ],
  [
    'another group',
    [changed('etl', to('c'))],
    { moved: 2, unknown: 1, moves: { 'group b -> group c': 2 }, users: { ann: 2, eve: 0 } },
  ],
  [
    'another group, overruled',
    [changed('etl', to('c')), added('engineRequestUser.userExistsAndEquals("ann")')],
    { moved: 1, unknown: 1, moves: { 'group a -> group b': 1 } },
  ],
  [
    'a cluster by name',
    [changed('etl', { routeTo: { cluster: 'b' } })],
    { moved: 2, unknown: 1, moves: { 'group b -> cluster b': 2 } },
  ],
  ['deleted', [{ name: 'etl', rule: null }], { moved: 2, unknown: 1, moves: { 'group b -> group a': 2 } }],
  ['suspended', [changed('etl', { suspend: true })], { moved: 2, unknown: 1, moves: { 'group b -> group a': 2 } }],
  // The earlier query goes to b by this rule or by another one, and is denied in any case.
  [
    'denied',
    [added(bySource('airflow'), { deny: { message: 'no more' } })],
    { moved: 3, moves: { 'group b -> denied': 3 } },
  ],
  [
    'by a user',
    [added('engineRequestUser.userExistsAndEquals("cid")', to('c'))],
    { moved: 2, moves: { 'group b -> group c': 2 } },
  ],
  [
    'asked before others',
    [added('engineRequestUser.userExistsAndEquals("ann")', { priority: 1, ...to('c') })],
    { moved: 1, moves: { 'group a -> group c': 1 } },
  ],
  // Two of the earlier queries go to b already, whatever their tags are.
  [
    'a header that is kept',
    [added(byTag)],
    { moved: 1, unknown: 1, unreplayed: { new: [3, 1, 'header x-engine-client-tags'] } },
  ],
  [
    'a header that rules read',
    [changed('teams', to('c'))],
    { moved: 1, unknown: 2, unreplayed: { teams: [3, 2, 'header x-team'] } },
  ],
  // How the same condition came out is in the traces of the others.
  [
    'a header that is never kept',
    [changed('keys', to('c'))],
    { moved: 1, unknown: 3, unreplayed: { keys: [3, 3, 'header x-api-key'] } },
  ],
  ['the same header in a condition of its own', [added(`${byKey} && true`, to('c'))], { moved: 0, unknown: taken }],
  [
    'the address of clients',
    [added(byAddress, to('c'))],
    { moved: 0, unknown: taken, unreplayed: { new: [taken, taken, "the client's address"] } },
  ],
  [
    'the address, with a user beside it',
    [added(`${byAddress} && engineRequestUser.userExistsAndEquals("bob")`, to('c'))],
    { moved: 0, unknown: 2 },
  ],
  ['chance', [added('Math.random() < 0.5', to('c'))], { moved: 0, unknown: taken }],
  // Of the text that is cut the trace says that the rule fired; not of the earlier ones.
  ['a table', [changed('tables', to('c'))], { moved: 3, unknown: 2, moves: { 'group b -> group c': 3 } }],
  [
    'the type of a statement',
    [added('engineQueryProperties.getResourceGroupQueryType() == "INSERT"', to('c'))],
    { moved: 1, unknown: 1 },
  ],
  ['the time', [added('new Date().getTime() > 0', to('c'))], { moved: taken }],
  ['a rule that denied', [{ name: 'forbidden', rule: null }], { moved: 1, moves: { 'denied -> group b': 1 } }],
  [
    'a rule that denied, by a header that rules read',
    [
      changed('forbidden', {
        condition: `engineRequestUser.userExistsAndEquals("mallory") && ${byTeam.replace('red', 'blue')}`,
      }),
    ],
    { moved: 1, moves: { 'denied -> group b': 1 } },
  ],
  // Without rules the routing group header decides, which is not known of the earlier queries.
  ['all at once', Object.keys(present).map((name) => ({ name, rule: null })), { moved: 8, unknown: 3 }],
];

const target = ({ kind, name }: { readonly kind: string; readonly name: string | null }) =>
  name === null ? kind : `${kind} ${name}`;

for (const { name, available, start } of databases) {
  describe.skipIf(!available())(`impact of a change of rules, ${name}`, () => {
    const world = worldOf('suite');
    let database: TestDatabase;
    let settings: Awaited<ReturnType<TestDatabase['create']>>;
    let gateway: GatewayProcess;

    const post = (body: unknown, signal: AbortSignal | null = null) =>
      fetch(`${gateway.url}/api/rules/impact`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal,
      });
    const impact = async (question: Readonly<Record<string, unknown>>): Promise<RuleImpact> => {
      const response = await post(question);
      const body = await response.text();
      expect(response.status, body).toBe(200);
      return JSON.parse(body) as RuleImpact;
    };

    beforeAll(async () => {
      database = await start();
      settings = await database.create();
      const engines = await Promise.all(['a', 'b', 'c'].map((engine) => world.engine({ name: engine })));
      await world.declare(
        ...engines.map((engine) =>
          manifest('EngineCluster', engine.name, { proxyTo: engine.url, routingGroup: engine.name }),
        ),
        ...Object.entries(present).map(([rule, spec]) => manifest('RoutingRule', rule, spec)),
      );
      gateway = await world.startReady({
        dataStore: settings,
        queryHistory: { maxTextSize: '2000B', writeBeforeAnswer: true },
        routing: { defaultRoutingGroup: 'a' },
        requestAnalyzerConfig: { analyzeRequest: true },
      });
      for (const [body, headers] of submissions) {
        const response = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', body, headers });
        expect(response.status).toBe(200);
      }
      // The gateway answers before its database has all tables: wait for them.
      const store = await openStore({ ...settings, runMigrations: true, logger: pino({ level: 'silent' }) });
      const headers = { 'X-Engine-User': 'mallory', 'X-Team': 'red' };
      await fetch(`${gateway.url}/v1/statement`, { method: 'POST', body: 'select 8', headers });
      await vi.waitFor(
        async () => expect(await store.database.knex('eg_query_outcomes').where('refused', 1)).toHaveLength(1),
        { timeout: 10_000 },
      );
      await store.history.insert(earlier);
      await store.close();
    });
    afterAll(() => database?.dispose());

    test('its methods are not those of a rule of its name', async () => {
      const { status, headers } = await fetch(`${gateway.url}/api/rules/impact`, { method: 'OPTIONS' });
      expect([status, headers.get('allow')]).toEqual([204, 'OPTIONS, POST']);
    });

    test('a table of changes moves what it should, and what is not known is never unmoved', async () => {
      // What differs among databases is how the history is read.
      const chosen = name === 'sqlite' ? edits : edits.slice(0, 3);
      const outcomes: unknown[] = [];
      for (const [what, changes, { moves, users, unreplayed }] of chosen) {
        const found = await impact({ changes });
        outcomes.push({
          ...{ what, queries: found.queries, moved: found.moved, unknown: found.unknown, unmoved: found.unmoved },
          ...(moves && {
            moves: Object.fromEntries(
              found.moves.map((move) => [`${target(move.from)} -> ${target(move.to)}`, move.queries]),
            ),
          }),
          ...(users && { users: Object.fromEntries(found.users.map((user) => [user.name, user.moved])) }),
          ...(unreplayed && {
            unreplayed: Object.fromEntries(
              found.unreplayed
                .filter((each) => each.rule in unreplayed)
                .map((each) => [each.rule, [each.queries, each.unknown, each.reads.join()]]),
            ),
          }),
        });
      }
      expect(outcomes).toEqual(
        chosen.map(([what, , { moved, unknown = 0, moves, users, unreplayed }]) => ({
          ...{ what, queries: all, moved, unknown, unmoved: all - moved - unknown },
          ...(moves && { moves }),
          ...(users && { users }),
          ...(unreplayed && { unreplayed }),
        })),
      );
    });

    test('examples have both traces, and ranges and filters hold', async () => {
      const changes = [changed('etl', to('c'))];
      const { examples, cutBy, oldest, from, to: end } = await impact({ changes, user: 'ann' });
      expect(examples).toHaveLength(2);
      expect(examples[0]).toMatchObject({
        ...{ user: 'ann', source: 'airflow', queryText: 'select 2', assumed: [] },
        from: { kind: 'group', name: 'b' },
        to: { kind: 'group', name: 'c' },
      });
      const traced = (trace: RuleImpact['examples'][number]['before'] = []) =>
        trace.filter(({ outcome }) => outcome === 'fired').map(({ rule, put }) => [rule, put]);
      expect(traced(examples[0]?.before)).toEqual([['etl', { routingGroup: 'b' }]]);
      expect(traced(examples[0]?.after)).toEqual([['etl', { routingGroup: 'c' }]]);
      expect(examples[0]?.before.map(({ rule }) => rule)).toEqual(Object.keys(present));
      expect([cutBy, Date.parse(end) - Date.parse(from)]).toEqual([null, 86_400_000]);
      expect(Date.parse(oldest ?? '')).toBeGreaterThan(Date.parse(from));

      expect(await impact({ changes, source: 'airflow' })).toMatchObject({ queries: 3, moved: 2, unknown: 1 });
      expect(await impact({ changes, user: 'nobody' })).toMatchObject({ queries: 0, moved: 0, oldest: null });
      expect(await impact({ changes, to: '2020-01-01T00:00:00Z' })).toMatchObject({ queries: 0 });
      expect(await impact({ changes, queries: 4 })).toMatchObject({ queries: 4, cutBy: 'queries' });
      const bounded = await impact({ changes, examples: 1, top: 1 });
      expect([bounded.examples.length, bounded.users.length]).toEqual([1, 1]);
    });

    test('mistakes say what to do', async () => {
      const rule = { condition: 'true', ...to('b') };
      const mistakes: readonly (readonly [body: unknown, status: number, field: string, message: RegExp])[] = [
        [{}, 400, 'changes', /required/],
        [{ changes: [] }, 400, 'changes', /./],
        [{ changes: [added('request.getHeader(')] }, 400, 'changes[0].rule.condition', /./],
        [{ changes: [changed('etl', {}), added('true', {})] }, 400, 'changes[1].rule.actions', /only one of them/],
        [{ changes: [{ name: 'nosuch', rule: null }] }, 400, 'changes[0].name', /no rule/],
        [{ changes: [added('true'), added('true')] }, 400, 'changes[1].name', /twice/],
        [{ changes: [{ name: 'new', rule }], from: 'yesterday' }, 400, 'from', /RFC 3339/],
        [
          { changes: [{ name: 'new', rule }], from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' },
          400,
          'from',
          /before/,
        ],
        [{ changes: [{ name: 'new', rule }], queries: 1_000_000 }, 400, 'queries', /100000/],
      ];
      for (const [body, status, field, message] of mistakes) {
        const response = await post(body);
        const { error } = (await response.json()) as { error: { field: string; message: string } };
        expect([response.status, error.field], JSON.stringify(body)).toEqual([status, field]);
        expect(error.message).toMatch(message);
      }
    });

    test('what is kept of a request has no secret', async () => {
      const { examples } = await impact({ changes: [added('engineRequestUser.userExistsAndEquals("cid")', to('c'))] });
      const kept = await Promise.all(
        examples.map(async ({ queryId }) => await (await fetch(`${gateway.url}/api/queries/${queryId}`)).json()),
      );
      expect(kept).toMatchObject([
        { decision: { request: { text: 8, headers: { 'x-engine-user': 'cid', 'x-team': null } } } },
        { decision: { request: { text: 8, headers: { 'x-engine-user': 'cid', 'x-team': 'red' } } } },
      ]);
      expect(JSON.stringify(kept)).not.toMatch(/sesame|hush/);
    });

    // The replay is computed in the gateway, whatever its database.
    if (name === 'sqlite')
      test('a second call while one runs is refused, and a call whose client is gone ends', async () => {
        const store = await openStore({ ...settings, runMigrations: false, logger: pino({ level: 'silent' }) });
        // So many that a call takes a while.
        const many = Array.from({ length: 8_000 }, (_, index) => before(`20200102_000000_${index}_aaaaa`, {}));
        for (let at = 0; at < many.length; at += 500) await store.history.insert(many.slice(at, at + 500));
        await store.close();
        const question = { changes: [changed('etl', to('c'))] };
        const responses = await Promise.all([post(question), post(question), post(question)]);
        expect(responses.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
        const refused = responses.find(({ status }) => status === 409);
        expect(await refused?.json()).toMatchObject({
          error: { code: 'EG_CONFLICT', message: expect.stringMatching(/wait until/) },
        });
        const caller = new AbortController();
        const left = post(question, caller.signal).catch(() => 'gone');
        await expect.poll(async () => (await post(question)).status).toBe(409);
        caller.abort();
        expect(await left).toBe('gone');
        await expect.poll(async () => (await post(question)).status).toBe(200);
      });
  });
}
