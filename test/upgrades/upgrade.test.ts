/** Five hundred queries of TPC-H replayed between real Trino servers: 476 against 476, and against 470, which lacks syntax. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installDistribution, installServer, missingTools, TRINO_VERSION } from '../engine/distribution.ts';
import { startTrino, type TrinoServer } from '../engine/trinoServer.ts';
import { requireComponent } from '../support/components.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { declare, manifest } from '../support/queueing.ts';
import { runQuery } from '../support/statementClient.ts';
import { call, ready } from '../support/world.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

const OLD = '470';
const QUERIES = 500;
const asTrino = { productName: 'Trino', user: 'ann' };

const revenue = 'sum(extendedprice * (1 - discount))';
/** Queries like those of TPC-H, with a parameter. */
const templates: readonly ((schema: string, n: number) => string)[] = [
  (s, n) =>
    `SELECT returnflag, linestatus, sum(quantity), avg(extendedprice), avg(discount), count(*) FROM ${s}.lineitem WHERE shipdate <= DATE '1998-12-01' - INTERVAL '${60 + n}' DAY GROUP BY 1, 2 ORDER BY 1, 2`,
  (s, n) =>
    `SELECT l.orderkey, ${revenue} AS revenue, o.orderdate FROM ${s}.customer c JOIN ${s}.orders o ON c.custkey = o.custkey JOIN ${s}.lineitem l ON l.orderkey = o.orderkey WHERE c.mktsegment = 'BUILDING' AND o.orderdate < DATE '1995-03-${10 + (n % 20)}' GROUP BY l.orderkey, o.orderdate ORDER BY revenue DESC, l.orderkey LIMIT 10`,
  (s, n) =>
    `SELECT orderpriority, count(*) FROM ${s}.orders o WHERE orderdate >= DATE '199${3 + (n % 4)}-07-01' AND EXISTS (SELECT 1 FROM ${s}.lineitem l WHERE l.orderkey = o.orderkey AND l.commitdate < l.receiptdate) GROUP BY 1 ORDER BY 1`,
  (s, n) =>
    `SELECT n.name, ${revenue} FROM ${s}.lineitem l JOIN ${s}.supplier s ON l.suppkey = s.suppkey JOIN ${s}.nation n ON s.nationkey = n.nationkey WHERE n.regionkey = ${n % 5} GROUP BY 1`,
  (s, n) =>
    `SELECT sum(extendedprice * discount) FROM ${s}.lineitem WHERE discount BETWEEN 0.05 AND 0.07 AND quantity < ${n}`,
  (s, n) =>
    `SELECT c_count, count(*) FROM (SELECT c.custkey, count(o.orderkey) FROM ${s}.customer c LEFT JOIN ${s}.orders o ON c.custkey = o.custkey AND o.comment NOT LIKE '%special%' GROUP BY c.custkey) AS t (custkey, c_count) WHERE c_count > ${n % 10} GROUP BY 1`,
  (s, n) =>
    `SELECT 100e0 * sum(CASE WHEN p.type LIKE 'PROMO%' THEN l.extendedprice ELSE 0 END) / sum(l.extendedprice) FROM ${s}.lineitem l JOIN ${s}.part p ON l.partkey = p.partkey WHERE l.quantity > ${n % 40}`,
  (s, n) =>
    `SELECT custkey, name, acctbal, phone FROM ${s}.customer WHERE nationkey = ${n % 25} ORDER BY acctbal DESC, custkey`,
  (s, n) =>
    `SELECT array_agg(name ORDER BY name), map_agg(nationkey, regionkey), max_by(name, nationkey) FROM ${s}.nation WHERE regionkey < ${1 + (n % 5)}`,
  (s, n) =>
    `SELECT orderkey, row_number() OVER (PARTITION BY custkey ORDER BY orderdate, orderkey), sum(totalprice) OVER (PARTITION BY custkey) FROM ${s}.orders WHERE custkey < ${10 + n}`,
  (s, n) =>
    `SELECT nationkey, stddev(acctbal), corr(acctbal, custkey), approx_distinct(phone) FROM ${s}.customer WHERE custkey > ${n} GROUP BY 1`,
  (s, n) =>
    `SELECT regionkey, name, count(*) FROM ${s}.nation WHERE nationkey <> ${n % 25} GROUP BY GROUPING SETS ((regionkey), (regionkey, name), ())`,
  (s, n) =>
    `SELECT orderdate, date_trunc('month', orderdate), totalprice, CAST(totalprice AS real), json_format(CAST(ROW(orderkey, orderstatus) AS JSON)) FROM ${s}.orders WHERE orderkey < ${100 + n}`,
];

/** Statements that 470 does not run as 476 does, with verdict and reason. */
const differences: Readonly<Record<string, readonly [verdict: string, reason: RegExp]>> = {
  'SELECT nationkey, name FROM tpch.tiny.nation UNION CORRESPONDING SELECT name, regionkey AS nationkey FROM tpch.tiny.region':
    ['FailedOnCandidate', /^SYNTAX_ERROR: .*mismatched input 'CORRESPONDING'/],
  'SELECT name FROM tpch.tiny.nation EXCEPT CORRESPONDING SELECT name FROM tpch.tiny.region': [
    ...(['FailedOnCandidate', /^SYNTAX_ERROR: .*mismatched input 'CORRESPONDING'/] as const),
  ],
  'SELECT regionkey, count(*) FROM tpch.tiny.nation GROUP BY AUTO': [
    ...(['FailedOnCandidate', /^COLUMN_NOT_FOUND: .*'auto' cannot be resolved/] as const),
  ],
  // Of clients without the capability PARAMETRIC_DATETIME.
  'SELECT CAST(orderdate AS timestamp(6)) AS t FROM tpch.tiny.orders WHERE orderkey < 100': [
    ...(['Different', /^the columns are \(t timestamp\) and \(t timestamp\(6\)\)$/] as const),
  ],
};

interface Report {
  readonly replay: {
    readonly progress: {
      readonly state: string;
      readonly verified: boolean;
      readonly verdicts: Readonly<Record<string, number>>;
    };
  };
  readonly digests: readonly {
    readonly verdict: string;
    readonly reason: string;
    readonly example: { readonly queryId: string };
  }[];
}

describe.skipIf(!available)('replays before an upgrade', () => {
  let folder: string;
  let gateway: GatewayProcess;
  const trinos: TrinoServer[] = [];
  /** Recorded statements, by query id. */
  const recorded = new Map<string, string>();

  beforeAll(async () => {
    const distribution = await installDistribution();
    const old = { java: distribution.java, server: await installServer(OLD) };
    trinos.push(
      ...(await Promise.all([
        startTrino('control', distribution),
        startTrino('equal', distribution),
        startTrino('old', old, {}, {}, {}, []),
      ])),
    );
    folder = await mkdtemp(join(tmpdir(), 'upgrades-'));
    await mkdir(join(folder, 'resources'));
    await declare(
      join(folder, 'resources'),
      ...trinos.map(({ name, url }) =>
        manifest('EngineCluster', name, { proxyTo: url, routingGroup: 'adhoc', active: name === 'control' }),
      ),
    );
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: join(folder, 'resources') },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      queryHistory: { spillDirectory: join(folder, 'spill') },
      monitor: { taskDelay: '1s', timeout: '10s' },
      routing: { defaultRoutingGroup: 'adhoc' },
      requestAnalyzerConfig: { analyzeRequest: true },
    });
    await ready(gateway);
    const schemas = ['tpch.tiny', 'tpch.tiny', 'tpch.tiny', 'tpch."sf0.1"', 'tpch.sf1'] as const;
    const statements = Array.from({ length: QUERIES }, (_, n) => {
      // Of the largest data only those that take less than a second.
      const schema = schemas[n % 7 === 6 && n % templates.length === 7 ? 4 : n % 7 === 5 ? 3 : 0];
      return templates[n % templates.length]?.(schema ?? 'tpch.tiny', n) ?? '';
    });
    // Classes of a server that has just started are not compiled yet, which costs processor time.
    for (const { url } of trinos)
      for (const template of templates) await runQuery(url, template('tpch.tiny', 1), asTrino);
    const work = [...statements, ...Object.keys(differences)].values();
    const runNext = async () => {
      for (const sql of work) {
        const { id, error } = await runQuery(gateway.url, sql, asTrino);
        expect(error, sql).toBeUndefined();
        recorded.set(id, sql);
      }
    };
    await Promise.all(Array.from({ length: 4 }, runNext));
  }, 1_200_000);
  afterAll(async () => {
    await gateway?.stop();
    await Promise.all(trinos.map((trino) => trino.kill()));
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** Replays what was recorded on a candidate. */
  async function replay(candidate: string): Promise<Report> {
    const path = `/api/replays/default/${candidate}`;
    const put = await call(gateway, 'PUT', path, {
      ...{ control: 'control', candidate, from: { history: { last: '2h', perDigest: 100 } } },
      ...{ replayAs: { username: 'replay' }, limits: { concurrency: 4 } },
    });
    expect(put.status, put.text).toBe(200);
    const report = async (): Promise<Report> => (await call(gateway, 'GET', `${path}/report`)).json;
    const state = async () => (await report()).replay.progress?.state;
    await expect.poll(state, { timeout: 1_100_000, interval: 1_000 }).toBe('done');
    return await report();
  }
  const failures = ({ digests }: Report) =>
    digests
      .filter(({ verdict }) => verdict !== 'Same')
      .map(({ verdict, reason, example }) => ({ verdict, reason, sql: recorded.get(example.queryId) }));

  test(`${TRINO_VERSION} against ${TRINO_VERSION}: no difference`, async () => {
    const report = await replay('equal');
    expect(failures(report)).toEqual([]);
    expect(report.replay.progress).toMatchObject({
      verified: true,
      verdicts: { Same: QUERIES + Object.keys(differences).length },
    });
  });

  test(`${TRINO_VERSION} against ${OLD}: the known differences, each with its reason`, async () => {
    const report = await replay('old');
    expect(report.replay.progress.verified).toBe(false);
    const found = failures(report);
    expect(found.map(({ sql }) => sql).sort()).toEqual(Object.keys(differences).sort());
    for (const { verdict, reason, sql = '' } of found) {
      const [expected, text] = differences[sql] ?? [];
      expect([verdict, reason], sql).toEqual([expected, expect.stringMatching(text ?? /^$/)]);
    }
  });
});
