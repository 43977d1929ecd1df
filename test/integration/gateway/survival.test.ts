import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { RequestAnalyzer } from '../../../src/gateway/proxiedRequest.ts';
import { QueueKey } from '../../../src/gateway/queue/queueKey.ts';
import { productNames } from '../../../src/model/names.ts';
import type { SurvivalPolicy } from '../../../src/routing/admissionPolicy.ts';
import { requestAnalysis } from '../../../src/sql/analyzeRequest.ts';
import { statementDigests } from '../../../src/sql/statementDigests.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import { headerUserAnalyzer, unwatchedOutcomes } from '../../support/defaults.ts';
import { closeAll, clusterAt, startGateway, type TestGatewayOptions } from '../../support/gateway.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { type MortalEngine, startMortalEngine } from '../../support/mortalEngine.ts';
import { cancel, follow, type QueryResults, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('test');
const names = productNames('Engine');
let store: KnexStore;
let engines: readonly [MortalEngine, MortalEngine];

beforeEach(async () => {
  store = await world.store();
  engines = [await startMortalEngine('aaaaa', 'of a'), await startMortalEngine('bbbbb', 'of b')];
});
afterEach(closeAll);

const analysis = requestAnalysis({ names, maxBodySize: 1_000_000, clientsUseV2Format: false, cacheBytes: 0 });
const headerUsers = headerUserAnalyzer(names);
const analyzer: RequestAnalyzer = {
  user: headerUsers.user,
  analyze: async (proxied, body) => ({
    user: await headerUsers.user(proxied),
    queryProperties: analysis({
      method: 'POST',
      isSubmission: true,
      headers: proxied.request.rawHeaders,
      body: body?.bytes ?? null,
    }),
  }),
};

let replicas = 0;
const survives: SurvivalPolicy = {
  reasons: ['ClusterLost'],
  maxAttempts: 2,
  to: [],
  exceptRules: [],
  retriesPerMinute: 60,
};

/** Replicas of a gateway whose group `adhoc` survives its clusters; new queries go to `a` until `b` is healthy too. */
async function replicasWith(
  count: number,
  policy: Partial<SurvivalPolicy> | null = {},
  more: Partial<TestGatewayOptions> = {},
) {
  const started = [];
  for (let index = 0; index < count; index++) {
    const gateway = await startGateway({
      store,
      clusters: [clusterAt('a', engines[0].url), clusterAt('b', engines[1].url)],
      queue: {
        ...{ repository: store.queuedQueries, quarantine: store.quarantine },
        ...{ key: new QueueKey('a secret'), replica: `survivor${++replicas}` },
      },
      analyzer,
      settings: { ownerGoneAfter: 50 },
      healthy: false,
      ...more,
    });
    gateway.setHealthy('a');
    const survival = policy === null ? null : { ...survives, ...policy };
    gateway.table.setInputs({ admission: { groups: groupsOf(groupPolicy('adhoc', { survival })), limits: [] } });
    started.push(gateway);
  }
  return started;
}

/** The URI at another replica. */
const at = (uri: string | undefined, { url }: { readonly url: string }) => {
  const { pathname, search } = new URL(uri ?? '');
  return `${url}${pathname}${search}`;
};

/** Follows a query to its end, as clients do, at replicas in turn. */
async function finish(first: QueryResults, urls: readonly { readonly url: string }[]) {
  const rows: unknown[] = [];
  const warnings: string[] = [];
  let page = first;
  for (let turn = 0; page.nextUri !== undefined; turn++) {
    page = await follow(at(page.nextUri, urls[turn % urls.length] as { url: string }));
    rows.push(...(Array.isArray(page.data) ? page.data : []));
    for (const { message } of page.warnings ?? []) warnings.push(message);
  }
  return { rows, page, warnings };
}

async function loseA(gateways: readonly { setHealthy(name: string): void }[]): Promise<void> {
  for (const gateway of gateways) gateway.setHealthy('b');
  engines[1].page = 'rows';
  await engines[0].die();
}

const states = () => store.database.knex('eg_queued_queries').select('state', 'request').orderBy('id');

describe('a read of a group with survival', () => {
  test('continues on another cluster, at any replica, with its headers', async () => {
    const retried: unknown[] = [];
    const outcomes = { ...unwatchedOutcomes, retry: (...call: unknown[]) => void retried.push(call) };
    const gateways = await replicasWith(2, {}, { outcomes });
    const first = await submit(gateways[0]!.url, 'SELECT a FROM c.s.t', {
      headers: { Authorization: 'Bearer secret-token' },
    });
    expect(first.nextUri).toContain('eg_survival=');
    expect(JSON.stringify(await store.database.knex('eg_queued_queries'))).not.toMatch(/secret-token|c\.s\.t/);
    const second = await follow(at(first.nextUri, gateways[1]!));
    await loseA(gateways);
    let uri = at(second.nextUri, gateways[1]!);
    let continued = await fetch(uri);
    while (continued.headers.get('x-engine-continued-from') === null) {
      // A page of the queue, or 503: the next attempt is not sent yet.
      if (continued.status === 200) uri = at(((await continued.json()) as QueryResults).nextUri, gateways[1]!);
      continued = await fetch(uri);
    }
    expect(continued.headers.get('x-engine-continued-from')).toBe(`a ${first.id}`);
    const { rows, page, warnings } = await finish((await continued.json()) as QueryResults, gateways.toReversed());
    expect(rows).toEqual([['of b']]);
    expect(page.error).toBeUndefined();
    expect(page.id).toMatch(/_bbbbb$/);
    // The list of warnings of the protocol only grows: a warning of one page would have to be on all later ones.
    expect(warnings).toEqual([]);
    const [row] = await store.database.knex('eg_queued_queries').select('id', 'engine_id');
    expect(row.engine_id).toBe(page.id);
    expect(retried).toEqual([[first.id, 'a', expect.objectContaining({ message: expect.stringContaining(row.id) })]]);
    const record = gateways.flatMap(({ records }) => records).find(({ queryId }) => queryId === page.id);
    expect(JSON.parse(record?.decision ?? '')).toMatchObject({
      queuedAs: row.id,
      attempts: [{ cluster: 'a', error: expect.stringContaining(first.id) }],
    });
    expect(engines[1].texts).toEqual(['SELECT a FROM c.s.t']);
    expect(engines[1].headers[0]).toMatchObject({ authorization: 'Bearer secret-token' });
    await expect.poll(states).toEqual([{ state: 'submitted', request: null }]);
  });

  test('continues after the coordinator was restarted', async () => {
    const gateways = await replicasWith(1);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    engines[0].forget('ccccc');
    gateways[0]!.setHealthy('b');
    engines[1].page = 'rows';
    expect((await finish(first, gateways)).rows).toEqual([['of b']]);
  });

  test('is sent once more, however many polls see the loss, and each gets the same query', async () => {
    const gateways = await replicasWith(2);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    await loseA(gateways);
    const polls = await Promise.all(Array.from({ length: 6 }, (_, index) => finish(first, [gateways[index % 2]!])));
    expect(engines[1].texts).toHaveLength(1);
    for (const { rows } of polls) expect(rows).toEqual([['of b']]);
    const later = await finish(first, gateways);
    expect(later.rows).toEqual([['of b']]);
    expect(engines[1].texts).toHaveLength(1);
  });

  test('goes on when its replica ends with its cluster', async () => {
    const gateways = await replicasWith(2);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    await loseA(gateways);
    await gateways[0]!.close();
    expect((await finish(first, [gateways[1]!])).rows).toEqual([['of b']]);
  });

  test('ends with its cluster after its first row, or its first segment', async () => {
    for (const page of ['rows', 'segment'] as const) {
      const gateways = await replicasWith(1);
      engines[0].page = page;
      const first = await submit(gateways[0]!.url, 'SELECT 1');
      const second = await follow(first.nextUri ?? '');
      expect(second.data).toBeDefined();
      expect(second.nextUri).not.toContain('eg_survival');
      engines[0].forget('ccccc');
      gateways[0]!.setHealthy('b');
      const { page: last } = await finish(second, gateways);
      expect(last.error).toMatchObject({ errorName: 'REMOTE_HOST_GONE' });
      expect(engines[1].texts).toEqual([]);
      await expect.poll(async () => (await states()).every(({ state }) => state === 'submitted')).toBe(true);
    }
  });

  test('continues after columns only if they are equal', async () => {
    const gateways = await replicasWith(1);
    engines[0].page = 'columns';
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    const second = await follow(first.nextUri ?? '');
    expect(second.columns).toHaveLength(1);
    await loseA(gateways);
    expect((await finish(second, gateways)).rows).toEqual([['of b']]);
    engines[1].columns = [{ name: 'a', type: 'bigint' }];
  });

  test('gets the first error if the columns are others, and the next attempt is cancelled', async () => {
    const gateways = await replicasWith(1);
    engines[0].page = 'columns';
    engines[1].columns = [{ name: 'a', type: 'bigint' }];
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    const second = await follow(first.nextUri ?? '');
    await loseA(gateways);
    const { rows, page } = await finish(second, gateways);
    expect(rows).toEqual([]);
    expect(page.error?.message).toContain(`${first.id} was lost with its cluster "a"`);
    await expect.poll(() => engines[1].cancelled).toHaveLength(1);
  });

  test('gets the first error if the first response has other columns, and that query is cancelled', async () => {
    const gateways = await replicasWith(1);
    engines[0].page = 'columns';
    engines[1].columns = [{ name: 'a', type: 'bigint' }];
    engines[1].firstPage = 'columns';
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    const second = await follow(first.nextUri ?? '');
    await loseA(gateways);
    const { page } = await finish(second, gateways);
    expect(page.error?.message).toContain(`${first.id} was lost with its cluster "a"`);
    await expect.poll(() => engines[1].cancelled).toHaveLength(1);
  });

  test('continues if its cluster ends the connection of the submission, in another group as well', async () => {
    const gateways = await replicasWith(1, { to: ['spare'] }, { settings: { retrySubmissions: 'untilSent' } });
    const [a, b] = [clusterAt('a', engines[0].url), { ...clusterAt('b', engines[1].url), routingGroup: 'spare' }];
    gateways[0]!.table.setInputs({ clusters: [a, b] });
    gateways[0]!.setHealthy('b');
    engines[0].isDumb = true;
    engines[1].page = 'rows';
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    expect((await finish(first, gateways)).rows).toEqual([['of b']]);
    await expect(submit(gateways[0]!.url, 'INSERT INTO c.s.t SELECT 1')).rejects.toThrow('502');
    expect(engines.map(({ texts }) => texts.length)).toEqual([2, 1]);
    engines[1].isDumb = true;
    await expect(submit(gateways[0]!.url, 'SELECT 2')).rejects.toThrow('502');
    expect(engines.map(({ texts }) => texts.length)).toEqual([3, 2]);
  });

  test('ends with both attempts when its client cancels it', async () => {
    const gateways = await replicasWith(2);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    expect(await cancel(at(first.nextUri, gateways[1]!))).toBe(204);
    expect(engines[0].cancelled).toEqual([first.id]);
    expect(await states()).toEqual([]);
    const other = await submit(gateways[0]!.url, 'SELECT 2');
    for (const gateway of gateways) gateway.setHealthy('b');
    await engines[0].die();
    const page = await follow(other.nextUri ?? '');
    await expect.poll(() => engines[1].texts).toHaveLength(1);
    expect(await cancel(at(other.nextUri, gateways[1]!))).toBe(204);
    await expect.poll(() => engines[1].cancelled).toHaveLength(1);
    expect(page.error).toBeUndefined();
    await expect.poll(states).toEqual([]);
  });
});

describe('a read that is too large for its cluster', () => {
  const reasons = ['InsufficientResources'] as const;
  const failAtA = async (policy: Partial<SurvivalPolicy>, errorName = 'CLUSTER_OUT_OF_MEMORY') => {
    const retried: unknown[] = [];
    const ended: unknown[] = [];
    const outcomes = {
      ...unwatchedOutcomes,
      retry: (...call: unknown[]) => void retried.push(call),
      end: (...call: unknown[]) => void ended.push(call[0]),
    };
    const gateways = await replicasWith(1, policy, { outcomes });
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    engines[0].page = 'failed';
    engines[0].errorName = errorName;
    gateways[0]!.setHealthy('b');
    return { ...(await finish(first, gateways)), first, retried, ended };
  };

  test('is cancelled, and continues on another cluster', async () => {
    engines[1].page = 'rows';
    const { rows, first, retried, ended, page } = await failAtA({ reasons });
    expect(rows).toEqual([['of b']]);
    expect(engines[0].cancelled).toEqual([first.id]);
    expect(retried).toEqual([[first.id, 'a', expect.objectContaining({ name: 'CLUSTER_OUT_OF_MEMORY' })]]);
    expect(ended).toEqual([page.id]);
  });

  test('gets the error of its cluster if no other one can take it', async () => {
    const { page, first, ended } = await failAtA({ reasons, to: ['other'] });
    expect(page.error).toMatchObject({ errorName: 'CLUSTER_OUT_OF_MEMORY', message: 'too large' });
    expect(engines[0].cancelled).toEqual([]);
    expect(ended).toEqual([first.id]);
    await expect.poll(states).toEqual([{ state: 'submitted', request: null }]);
  });

  test.each([
    ['of a group that retries lost queries only', { reasons: ['ClusterLost'] }, 'CLUSTER_OUT_OF_MEMORY'],
    ['with an error of time', { reasons }, 'EXCEEDED_TIME_LIMIT'],
    ['with an error of its user', { reasons }, 'DIVISION_BY_ZERO'],
  ] as const)('does not continue %s', async (_what, policy, errorName) => {
    const { page } = await failAtA(policy, errorName);
    expect(page.error).toMatchObject({ errorName, message: 'too large' });
    expect(engines[1].texts).toEqual([]);
  });

  test('gets the first error if the other cluster has other columns', async () => {
    engines[1].columns = [{ name: 'b', type: 'varchar' }];
    const gateways = await replicasWith(1, { reasons });
    engines[0].page = 'columns';
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    const second = await follow(first.nextUri ?? '');
    engines[0].page = 'failed';
    engines[1].page = 'rows';
    gateways[0]!.setHealthy('b');
    const { page, rows } = await finish(second, gateways);
    expect(rows).toEqual([]);
    expect(page).toMatchObject({ id: first.id, error: { errorName: 'CLUSTER_OUT_OF_MEMORY', message: 'too large' } });
  });
});

describe('a statement that loses clusters', () => {
  const text = 'SELECT a FROM c.s.t WHERE b = 1';
  const schema = { headers: { 'X-Engine-Catalog': 'c', 'X-Engine-Schema': 's' } };

  /** Runs a statement until both clusters are lost. */
  const loseBoth = async (gateways: Awaited<ReturnType<typeof replicasWith>>, user = 'ann', sql = text) => {
    const first = await submit(gateways[0]!.url, sql, { headers: { ...schema.headers, 'X-Engine-User': user } });
    for (const gateway of gateways) gateway.setHealthy('b');
    engines[1].page = 'queued';
    await engines[0].die();
    const second = await follow(first.nextUri ?? '');
    await expect.poll(() => engines[1].texts.includes(sql)).toBe(true);
    await engines[1].die();
    return await finish(second, gateways);
  };

  /** Replaces the dead clusters. */
  const restart = async (gateways: Awaited<ReturnType<typeof replicasWith>>) => {
    engines = [await startMortalEngine('ddddd', 'of a'), await startMortalEngine('eeeee', 'of b')];
    for (const gateway of gateways) {
      gateway.table.setInputs({ clusters: [clusterAt('a', engines[0].url), clusterAt('b', engines[1].url)] });
      gateway.setHealthy('a');
    }
  };

  test('is rejected by all replicas after two of them, with a reason and a link, until it is released', async () => {
    const notes: string[] = [];
    const gateways = await replicasWith(
      2,
      { maxAttempts: 3 },
      { onQuarantined: (...note) => void notes.push(note.join(' ')) },
    );
    const { page } = await loseBoth(gateways);
    expect(page.error).toMatchObject({ errorName: 'REMOTE_HOST_GONE' });
    const [entry, ...others] = await store.quarantine.active();
    expect(others).toEqual([]);
    expect(entry).toMatchObject({ group: 'adhoc', clusters: ['a', 'b'], users: ['ann'], qualifier: 'c.s' });
    expect(notes).toEqual([expect.stringContaining(`adhoc statement ${entry?.exactDigest}`)]);
    await restart(gateways);
    const count = () => gateways[0]!.registry.getSingleMetricAsString('engine_gateway_quarantines_total');
    for (const { url } of gateways) {
      const rejected = await submit(url, `${text.replace('SELECT', 'select')} -- again`, schema);
      expect(rejected.error).toMatchObject({ errorName: 'QUERY_REJECTED', errorType: 'USER_ERROR' });
      expect(rejected.error?.message).toContain(`clusters a, b were lost while they ran it`);
      expect(rejected.error?.message).toContain(
        `release digest ${entry?.exactDigest} at ${url}/engine-gateway/workload`,
      );
      // Others of its shape, and the same text in another schema, run.
      for (const [sql, more] of [
        [text.replace('1', '2'), schema],
        [text, {}],
      ] as const)
        expect((await submit(url, sql, more)).error).toBeUndefined();
    }
    expect(await count()).toContain('engine_gateway_quarantines_total 1');
    expect(await store.quarantine.release('adhoc', entry?.exactDigest ?? '')).toBe(2);
    for (const { url } of gateways)
      await expect.poll(async () => (await submit(url, text, schema)).error).toBeUndefined();
  });

  test('is not rejected if it succeeded within the hour, or if its clusters only do not know it', async () => {
    const gateways = await replicasWith(1, { maxAttempts: 3 });
    const { exact, shape } = statementDigests(text, null);
    const ended = { query_id: 'q1', state: 'FINISHED', digest: shape, exact_digest: exact, created: Date.now() };
    const counts = { last_seen: Date.now(), pages: 1, result_bytes: 0, refused: 0, certainty: 1 };
    await store.database.knex('eg_query_outcomes').insert({ ...ended, ...counts });
    await loseBoth(gateways);
    expect(await store.database.knex('eg_lost_queries').select('cluster').orderBy('cluster')).toEqual([
      { cluster: 'a' },
      { cluster: 'b' },
    ]);
    expect(await store.quarantine.active()).toEqual([]);
    await store.database.knex('eg_lost_queries').delete();
    await restart(gateways);
    // As a client that asks with a wrong URL.
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    engines[0].forget('fffff');
    gateways[0]!.setHealthy('b');
    const second = await follow(first.nextUri ?? '');
    await expect.poll(() => engines[1].texts).toHaveLength(1);
    engines[1].forget('ggggg');
    await finish(second, gateways);
    expect(await store.database.knex('eg_lost_queries')).toEqual([]);
  });
});

describe('what ends with its cluster', () => {
  const lost = async (policy: Partial<SurvivalPolicy> | null, sql: string, headers: Record<string, string> = {}) => {
    const gateways = await replicasWith(1, policy);
    const first = await submit(gateways[0]!.url, sql, { headers });
    await loseA(gateways);
    return await finish(first, gateways);
  };
  const gone = { errorName: 'REMOTE_HOST_GONE' };

  test.each([
    'INSERT INTO c.s.t SELECT 1',
    'CREATE TABLE c.s.t AS SELECT 1 a',
    'CALL c.s.p()',
    'SET SESSION a = 1',
    'EXPLAIN ANALYZE INSERT INTO c.s.t SELECT 1',
    "SELECT * FROM TABLE(c.system.query(query => 'delete from t'))",
    'SELEC 1',
  ])('%s', async (sql) => {
    const gateways = await replicasWith(1);
    const first = await submit(gateways[0]!.url, sql);
    expect(first.nextUri).not.toContain('eg_survival');
    expect(await states()).toEqual([]);
  });

  test('a query of a group without survival, which costs no statement', async () => {
    const gateways = await replicasWith(1, null);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    expect(first.nextUri).not.toContain('eg_survival');
    expect(await states()).toEqual([]);
  });

  test('a query of which the client has a warning', async () => {
    const gateways = await replicasWith(1);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    engines[0].warnings = [{ warningCode: { code: 1, name: 'W' }, message: 'w' }];
    const second = await follow(first.nextUri ?? '');
    expect(second.nextUri).not.toContain('eg_survival');
    await expect.poll(states).toEqual([{ state: 'submitted', request: null }]);
  });

  test('a query beyond the budget of its group', async () => {
    const gateways = await replicasWith(1, { retriesPerMinute: 1 });
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    const other = await submit(gateways[0]!.url, 'SELECT 2');
    await loseA(gateways);
    expect((await finish(first, gateways)).rows).toEqual([['of b']]);
    expect((await finish(other, gateways)).page.error).toMatchObject(gone);
  });

  test('a query that no declared group can take', async () => {
    expect((await lost({ to: ['other'] }, 'SELECT 1')).page.error).toMatchObject(gone);
    expect(engines[1].texts).toEqual([]);
  });

  test('a query with an invented mark', async () => {
    const gateways = await replicasWith(1);
    const first = await submit(gateways[0]!.url, 'SELECT 1');
    engines[0].forget('ccccc');
    gateways[0]!.setHealthy('b');
    const forged = (first.nextUri ?? '').replace(/(eg_survival=[^.]+\.)[0-9a-f]{4}/, '$10000');
    expect(forged).not.toBe(first.nextUri);
    expect((await follow(forged)).error).toMatchObject(gone);
    expect(engines[1].texts).toEqual([]);
  });
});
