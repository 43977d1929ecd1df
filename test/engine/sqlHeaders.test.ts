/**
 * The gateway reads the headers that a statement depends on as a real Trino does: what its deny rules see of 300 generated
 * requests is what the engine reads when it gets the same request.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { requireComponent } from '../support/components.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { manifest } from '../support/manifest.ts';
import { send } from '../support/rawHttp.ts';
import { shareOf } from '../support/sharedServer.ts';
import { missingTools } from './distribution.ts';
import type { SharedTrino, TrinoPair } from './sharedTrinos.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

const SEED = 476;
const COMBINATIONS = 300;
/** Requests that are sent at the same time. */
const CONCURRENCY = 6;

/** Tables by name, with the length of their only column: DESCRIBE INPUT shows no more of them. */
const tables = new Map([
  ['memory.s1.t', 21],
  ['memory.s2.t', 22],
  ['memory.ü.t', 23],
]);
/** Message of the deny rule that reads the statement, and never matches. */
const UNREADABLE = 'unreadable';

/** A generated request. */
interface Combination {
  readonly headers: readonly string[];
  readonly body: string;
}

/** Result of a request: the table that the engine reads, a denial, an error, or a success that shows no table. */
interface Outcome {
  readonly table?: string;
  readonly denied?: string;
  readonly error?: string;
  /** True for results of EXPLAIN and DESCRIBE. */
  readonly isDescription?: boolean;
}

/** A request, and its results. */
interface Compared {
  readonly of: Combination;
  /** Of the engine. */
  readonly engine: Outcome;
  /** Of the gateway, without deny rules. */
  readonly through: Outcome;
  /** Of the gateway, with deny rules. */
  readonly judged: Outcome;
}

/** Errors of the engine for a header that it cannot read, and for a prepared statement that is missing. */
const CANNOT_BE_READ =
  /Invalid X-Trino-Prepared-Statement header(: .*URLDecoder.*)?$|Multiple entries with same key|^NOT_FOUND Prepared statement/;

const plus = (text: string): string => encodeURIComponent(text).replaceAll('%20', '+');
const compressed = (text: string): string => `$zstd:${zstdCompressSync(text).toString('base64url')}`;
const skippableFrame = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7]);

const weighted = <T>(...choices: readonly (readonly [number, readonly T[]])[]): fc.Arbitrary<T> =>
  fc.oneof(...choices.map(([weight, values]) => ({ weight, arbitrary: fc.constantFrom(...values) })));

const text = weighted(
  [6, ['SELECT id FROM memory.s1.t', 'SELECT id FROM memory.s2.t', 'SELECT id FROM t']],
  [3, ['SELECT id FROM memory."ü".t', "SELECT id FROM memory.s2.t WHERE 'a+b' <> '%41'"]],
  [2, ['EXPLAIN (TYPE IO) EXECUTE q', 'DESCRIBE OUTPUT q', 'EXECUTE q', 'SELECT 1']],
);
const encodings: readonly (readonly [number, readonly ((text: string) => string)[]])[] = [
  [12, [plus, encodeURIComponent]],
  [6, [(sql) => plus(compressed(sql)), compressed, (sql) => plus(`${compressed(sql)}==`)]],
  [6, [(sql) => ` ${plus(sql)}\t`, (sql) => `\u00a0${plus(sql)}\u0085`, (sql) => sql.replaceAll('%', '%25')]],
  [
    3,
    [
      (sql) => `$zstd:${Buffer.concat([zstdCompressSync(sql), skippableFrame]).toString('base64url')}`,
      (sql) => [...Buffer.from(sql)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
    ],
  ],
  [
    1,
    [
      ...['', '%zz', '$zstd:AAAA', 'nonsense', '%FF'].map((value) => () => value),
      ...[(sql: string) => `${plus(sql)}=`, (sql: string) => `${plus(sql)}%4`, (sql: string) => plus(plus(sql))],
    ],
  ],
];
const value = fc.tuple(text, weighted(...encodings)).map(([sql, encode]) => encode(sql));
const name = weighted(
  [16, ['p', 'q']],
  [8, [' p', 'p ', '\tp', '\u00a0p', 'q\u0085']],
  [2, ['%70', 'P', 'p+', '%20p', 'ü', '%C3%BC', '', 'r']],
);
const pair = fc.oneof(
  { weight: 40, arbitrary: fc.tuple(name, value).map((sides) => sides.join('=')) },
  { weight: 1, arbitrary: fc.constantFrom('', ' ', 'p', 'p==q', '=', '%=SELECT+1') },
);
const pairs = fc.oneof(
  { weight: 5, arbitrary: fc.uniqueArray(pair, { minLength: 2, maxLength: 4, selector: nameOf }) },
  { weight: 2, arbitrary: fc.array(pair, { minLength: 1, maxLength: 4 }) },
);
/** Pairs in one line or several. */
const prepared = pairs.chain((parts) =>
  fc.tuple(...parts.map(() => fc.constantFrom(',', ', ', ' ,', ',,', '\n'))).map((separators) =>
    parts
      .map((part, index) => `${part}${separators[index]}`)
      .join('')
      .split('\n'),
  ),
);
const body = weighted(
  [16, ['EXECUTE p', 'EXECUTE q']],
  [2, ['EXECUTE "p"', 'EXECUTE P', 'EXECUTE " p"', 'EXECUTE "ü"', "EXECUTE p USING 'x'"]],
  [8, ['EXPLAIN (TYPE IO) EXECUTE p', 'DESCRIBE OUTPUT p', 'DESCRIBE INPUT p']],
  [
    6,
    [
      "EXECUTE IMMEDIATE 'SELECT id FROM t'",
      "EXPLAIN (TYPE IO) EXECUTE IMMEDIATE 'SELECT id FROM memory.s2.t'",
      'SELECT id FROM t',
      'SELECT id FROM s2.t',
      'SELECT id FROM TABLE(sequence(1, 1)), memory.s2.t',
    ],
  ],
);
const catalogs = weighted<readonly string[]>(
  [12, [['memory'], ['MEMORY'], [' memory ']]],
  [
    6,
    [
      ['memory', 'tpch'],
      ['memory', ''],
      ['memory', 'memory, tpch'],
    ],
  ],
  [1, [[], ['', 'memory'], ['mem\u00f6ry'], ['memory, tpch'], ['tpch', 'memory']]],
);
const schemas = weighted<readonly string[]>(
  [12, [['s1'], ['S2'], ['\ts1 ']]],
  [6, [['s1', 's2'], ['s2', 's1'], ['\u00fc'], ['Ü', 's1']]],
  [1, [[], ['', 's1'], ['"s1"'], ['\u00a0s1'], ['s1,s2'], ['\u00c3\u00bc']]],
);
const sessions = weighted<readonly string[]>(
  [20, [[], ['query_max_run_time=1h'], ['query_max_run_time=zz, query_max_run_time=1h']]],
  [1, [['nope'], ['a=b=c']]],
);
const spelling = fc.constantFrom<(key: string) => string>(
  (key) => key,
  (key) => key.toLowerCase(),
  (key) => key.toUpperCase(),
);

const combination: fc.Arbitrary<Combination> = fc
  .record({
    catalogs,
    schemas,
    sessions,
    spelling,
    body,
    prepared,
  })
  .map(({ catalogs, schemas, sessions, prepared, spelling, body }) => {
    const lines = (key: string, values: readonly string[]) => values.flatMap((each) => [spelling(key), each]);
    return {
      headers: [
        ...lines('X-Trino-Catalog', catalogs),
        ...lines('X-Trino-Prepared-Statement', prepared),
        ...lines('X-Trino-Schema', schemas),
        ...lines('X-Trino-Session', sessions),
      ],
      body,
    };
  });

/** Name of a pair as it is sent, trimmed. */
function nameOf(pair: string): string {
  return (pair.split('=')[0] ?? '').replaceAll(/^[\s\x85]+|[\s\x85]+$/g, '');
}

/** True if a name has several prepared statements. */
function hasRepeatedName({ headers }: Combination): boolean {
  const names = headers
    .filter((_, index) => headers[index - 1]?.toLowerCase() === 'x-trino-prepared-statement')
    .flatMap((each) => each.split(','))
    .filter((each) => each.includes('='))
    .map(nameOf);
  return new Set(names).size < names.length;
}

/** The table that a result shows: as a value of its column, or as EXPLAIN and DESCRIBE name it. */
function tableOf(rows: readonly unknown[]): string | undefined {
  const shown = rows.flat().join(' ').replaceAll(/[\s"]/g, '');
  for (const [table, length] of tables) {
    const [, schema, relation] = table.split('.');
    const forms = [table, `schema:${schema},table:${relation}`, `varchar(${length})`];
    if (forms.some((form) => shown.includes(form))) return table;
  }
  return undefined;
}

describe.skipIf(!available)('headers of statements', () => {
  let trino: SharedTrino;
  let gateway: GatewayProcess;
  let folder: string;

  beforeAll(async () => {
    [trino] = (await shareOf<TrinoPair>('trinoPair')).trinos;
    for (const schema of ['s1', 's2', 'ü'])
      expect(await outcome(trino.url, { headers: [], body: `CREATE SCHEMA memory."${schema}"` })).toEqual({});
    for (const [table, length] of tables) {
      const [, schema] = table.split('.');
      const created = await outcome(trino.url, {
        headers: [],
        body: `CREATE TABLE memory."${schema}".t AS SELECT CAST('${table}' AS varchar(${length})) id`,
      });
      expect(created).toEqual({});
    }
    folder = await mkdtemp(join(tmpdir(), 'sql-headers-'));
    const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));
    const denied = (name: string, reads: string, message: string) =>
      resource('RoutingRule', name, {
        condition: `request.getHeader("X-Trino-Source") == "judged" && ${reads}`,
        deny: { message, whenError: 'Skip' },
      });
    const manifests = [
      resource('EngineCluster', 'a', { proxyTo: trino.url, routingGroup: 'adhoc' }),
      denied('a-first', 'trinoQueryProperties.getTables().size() > 1000', UNREADABLE),
      ...[...tables.keys()].map((table, index) =>
        denied(`table-${index}`, `trinoQueryProperties.tablesContains("${table}")`, table),
      ),
    ];
    await writeFile(join(folder, 'resources.yaml'), manifests.join('---\n'));
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: folder },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      requestAnalyzerConfig: { analyzeRequest: true },
      monitor: { taskDelay: '1s', timeout: '10s' },
    });
    const state = async () => (await fetch(`${gateway.url}/api/public/backends/a/state`)).text();
    await until(async () => (await state()).includes('"HEALTHY"'), 'the cluster to be healthy', 120_000);
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** Sends a statement and asks for its pages. */
  async function outcome(url: string, { headers, body }: Combination, source = 'open'): Promise<Outcome> {
    const own = ['X-Trino-User', 'headers', 'X-Trino-Source', source];
    // Node sends header lines as latin1 only if the body is no text.
    let response = await send(url, '/v1/statement', {
      method: 'POST',
      headers: [...own, ...headers],
      body: Buffer.from(body),
    });
    const rows: unknown[] = [];
    let isDescription = false;
    for (;;) {
      if (response.status !== 200) return { error: `${response.status} ${response.text.split('\n')[0]}` };
      const page = JSON.parse(response.text) as {
        readonly columns?: readonly { readonly name: string }[];
        readonly data?: readonly unknown[];
        readonly nextUri?: string;
        readonly error?: { readonly message: string; readonly errorName: string };
      };
      if (page.error !== undefined) {
        const { message, errorName } = page.error;
        return message === UNREADABLE || tables.has(message)
          ? { denied: message }
          : { error: `${errorName} ${message}` };
      }
      rows.push(...(page.data ?? []));
      isDescription ||= page.columns?.some(({ name }) => /^(Query Plan|Column Name|Position)$/.test(name)) === true;
      if (page.nextUri === undefined) break;
      response = await send(url, new URL(page.nextUri).pathname, { headers: own });
    }
    const table = tableOf(rows);
    return { ...(table === undefined ? {} : { table }), ...(isDescription ? { isDescription } : {}) };
  }

  test(`of ${COMBINATIONS} generated requests, rules see what the engine reads`, { timeout: 540_000 }, async () => {
    const combinations = fc.sample(combination, { seed: SEED, numRuns: COMBINATIONS });
    const compared: Compared[] = [];
    let next = 0;
    const work = async () => {
      for (let of = combinations[next++]; of !== undefined; of = combinations[next++]) {
        const engine = await outcome(trino.url, of);
        const [through, judged] = [await outcome(gateway.url, of), await outcome(gateway.url, of, 'judged')];
        compared.push({ of, engine, through, judged });
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
    expect(compared.length).toBe(COMBINATIONS);
    const wrong = compared.filter(
      (each) => JSON.stringify(each.through) !== JSON.stringify(each.engine) || !isRight(each),
    );
    const count = (is: (outcome: Outcome) => boolean) => compared.filter(({ engine }) => is(engine)).length;
    console.log(
      `${COMBINATIONS} requests: ${count(({ table }) => table !== undefined)} read a table, ${count(({ error }) => /^[45]00 /.test(error ?? ''))} have a header that the engine rejects, ${count(({ error }) => error?.startsWith('NOT_FOUND') === true)} name no prepared statement, ${wrong.length} differ`,
    );
    expect(wrong).toEqual([]);
  });

  /** True if an outcome behind the deny rules is right for what the engine does. */
  function isRight({ of, engine, judged }: Compared): boolean {
    const isUnreadable = judged.denied === UNREADABLE;
    if (hasRepeatedName(of)) return isUnreadable;
    if (engine.table !== undefined) return judged.denied === engine.table;
    const isSame = JSON.stringify(judged) === JSON.stringify(engine);
    const { error } = engine;
    // The result of EXPLAIN or DESCRIBE may show nothing of what is explained or described.
    if (error === undefined) return isSame || (engine.isDescription === true && judged.denied !== UNREADABLE);
    if (CANNOT_BE_READ.test(error)) return isUnreadable;
    // The engine looks at nothing further: rules may know the table, or not read a statement that is not executed.
    if (/^[45]00 |^INVALID_PARAMETER_USAGE |^STACK_OVERFLOW /.test(error)) return true;
    return isSame;
  }
});
