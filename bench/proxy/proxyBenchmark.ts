import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import { folderOf } from '../../test/support/serverProcess.ts';
import { startNginxProxy, startRulesService, startStubCluster } from './nginx.ts';
import { measureOutcomes } from './outcomes.ts';
import { measurePlain } from './plain.ts';
import { divideProcessors } from './processors.ts';
import { measureTls } from './tls.ts';
import { measureVariants } from './variants.ts';

const FOLLOW_UP = '/v1/statement/executing/20261121_015745_00001_bench/y1a2b3/1';
const SUBMIT_SCRIPT = `wrk.method = "POST"
wrk.headers["Content-Type"] = "text/plain"
wrk.headers["X-Engine-User"] = "bench"
wrk.headers["X-Engine-Source"] = "wrk"
wrk.headers["X-Engine-Catalog"] = "tpch"
local count = 0
-- Another text each time, also in the next run and in the other thread: no analysis may be one of an earlier request.
math.randomseed(os.time() + tonumber(tostring({}):match("%x+$"), 16) % 1000000)
local base = math.random(1000, 9999) * 1000000
request = function()
  count = count + 1
  return wrk.format(nil, nil, nil, "SELECT n.name, count(*) FROM tpch.tiny.nation n JOIN tpch.tiny.region r ON n.regionkey = r.regionkey WHERE n.nationkey <> " .. base + count .. " GROUP BY 1")
end
`;

const help = `usage: npm run bench -- proxy [--seconds 10] [--rounds 3] [--million] [--plain-only | --rules-only | --outcomes-only]
  --seconds N   length of a measurement
  --rounds N    measurements of each; gateways are restarted every 8, and the mean of the starts' medians counts
  --plain-only  without analysis and rules, the external rules service, and TLS
  --rules-only  what analysis and rules add, and nothing else
  --outcomes-only  what noting how queries end adds to a follow-up, and nothing else; --rounds is how often gateways start
  --million     afterwards a million follow-ups and submissions; resident memory must stay flat`;

/** Measures the gateway beside nginx as a reverse proxy, in turns, against one stub cluster. */
export async function runProxyBenchmark(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: 'string', default: '10' },
      rounds: { type: 'string', default: '3' },
      million: { type: 'boolean', default: false },
      'plain-only': { type: 'boolean', default: false },
      'rules-only': { type: 'boolean', default: false },
      'outcomes-only': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(help);
    return 0;
  }
  for (const program of ['nginx', 'wrk']) {
    if (folderOf([program], ['/usr/sbin']) !== null) continue;
    console.error(`${program} is missing: install the package ${program}`);
    return 1;
  }
  if (!hasPostgresql()) return 1;
  const divided = divideProcessors();
  console.log(
    divided ? 'each proxy alone on a processor, load and database on another\n' : 'all share the processors\n',
  );
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => Promise<unknown>)[] = [async () => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const cluster = await startStubCluster(directory);
    stops.push(cluster.stop);
    if (values['outcomes-only']) {
      return await measureOutcomes({
        directory,
        cluster: cluster.url,
        database: () => postgresql.createDatabase(),
        followUp: FOLLOW_UP,
        seconds: Number(values.seconds),
        starts: Number(values.rounds),
      });
    }
    const nginx = await startNginxProxy(directory, cluster.url);
    stops.push(nginx.stop);
    const script = path.join(directory, 'submit.lua');
    writeFileSync(script, SUBMIT_SCRIPT);
    const measureRules = (rulesService: string | null) =>
      measureVariants({
        directory,
        cluster: cluster.url,
        nginx,
        rulesService,
        database: () => postgresql.createDatabase(),
        script,
        seconds: Number(values.seconds),
        rounds: Number(values.rounds),
      });
    if (values['rules-only']) return await measureRules(null);
    const plain = await measurePlain({
      directory,
      cluster: cluster.url,
      nginx,
      database: () => postgresql.createDatabase(),
      followUp: FOLLOW_UP,
      script,
      seconds: Number(values.seconds),
      rounds: Number(values.rounds),
      million: values.million,
    });
    if (values['plain-only']) return plain;
    const rulesService = await startRulesService(directory);
    stops.push(rulesService.stop);
    const variants = await measureRules(rulesService.url);
    const tls = await measureTls({
      directory,
      cluster: cluster.url,
      database: () => postgresql.createDatabase(),
      followUp: FOLLOW_UP,
      script,
      seconds: Number(values.seconds),
      rounds: Number(values.rounds),
    });
    return Math.max(plain, variants, tls);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}
