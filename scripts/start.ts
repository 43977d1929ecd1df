/** `npm start`: the gateway with its embedded database, and three simulated engine clusters to send queries to. */
import { execFileSync, spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fleetNames, fleetPorts } from '../demo/fleet.ts';
import { ChildProcessFailed, ManagedProcess } from '../demo/managedProcess.ts';
import { copyManifests, setAddresses } from '../demo/manifests.ts';
import { freePort, isPortFree, parsePort } from '../demo/ports.ts';
import { isLoopback } from '../src/config/openAccess.ts';

const usage = `npm start [-- OPTIONS]
  --port N                the gateway's port; PORT in the environment, else 8080
  --host ADDRESS          address the gateway listens on; 127.0.0.1 without it. There is no login: anyone who reaches
                          another address may change clusters and rules
  --engine-ports A,B,C    ports of the three simulated engines; else ${fleetPorts.join(',')}, or free ones
  --logs                  show the logs here instead of writing them to demo/data/PORT/`;

const root = resolve(import.meta.dirname, '..');
process.chdir(root);

/** A mistake of the user: printed without a stack. */
class StartError extends Error {}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: 'string', default: process.env.PORT ?? '8080' },
        host: { type: 'string', default: '127.0.0.1' },
        'engine-ports': { type: 'string' },
        logs: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    const enginePorts = values['engine-ports']?.split(',').map((port) => parsePort(port, '--engine-ports'));
    if (
      enginePorts !== undefined &&
      (enginePorts.length !== fleetNames.length || new Set(enginePorts).size !== fleetNames.length)
    ) {
      throw new Error(
        `--engine-ports: ${fleetNames.length} different ports are needed, such as ${fleetPorts.join(',')}`,
      );
    }
    return { ...values, port: parsePort(values.port, '--port'), enginePorts };
  } catch (error) {
    throw new StartError(`${error instanceof Error ? error.message : error}\n\n${usage}`);
  }
}

async function requirePort(host: string, port: number): Promise<void> {
  if (!(await isPortFree(port, host))) {
    throw new StartError(
      `Port ${port} is taken. Stop the program that listens there, or choose another: npm start -- --port ${port + 1}`,
    );
  }
}

/** Returns the ports of the engines: those of the option, else the usual ones, each replaced by a free port if it is taken. */
async function chooseEnginePorts(port: number, chosen: readonly number[] | undefined): Promise<readonly number[]> {
  const ports: number[] = [];
  for (const enginePort of chosen ?? fleetPorts) {
    if (enginePort !== port && (await isPortFree(enginePort, '127.0.0.1'))) {
      ports.push(enginePort);
      continue;
    }
    if (chosen === undefined) {
      ports.push(await freePort());
      continue;
    }
    const others = fleetNames.map((_, i) => 28_461 + i).join(',');
    throw new StartError(
      `Port ${enginePort}, for a simulated engine, is taken. Stop the program that listens there, or choose others: npm start -- --engine-ports ${others}`,
    );
  }
  return ports;
}

/** Waits until the gateway answers that it is ready. */
async function waitUntilReady(base: string, gateway: ManagedProcess, data: string): Promise<void> {
  const deadline = AbortSignal.any([AbortSignal.timeout(30_000), gateway.ended]);
  for (;;) {
    const ready = await fetch(`${base}/readyz`, { signal: deadline }).then(
      async (response) => {
        await response.arrayBuffer();
        return response.ok;
      },
      () => false,
    );
    if (ready) return;
    if (gateway.ended.aborted) throw new ChildProcessFailed(gateway);
    if (deadline.aborted) throw new StartError(`The gateway was not ready within 30 s; see ${data}/gateway.log`);
    await new Promise((next) => setTimeout(next, 50));
  }
}

async function run(): Promise<number> {
  const options = readOptions();
  await requirePort(options.host, options.port);
  // `npm ci` has built it; this is for sources that changed since.
  execFileSync(process.execPath, ['scripts/buildUi.ts', '--if-stale'], { stdio: 'inherit' });
  const enginePorts = await chooseEnginePorts(options.port, options.enginePorts);
  // Demos on other ports, and gateways that run from this folder, have other files.
  const data = `demo/data/${options.port}`;
  const copied = await copyManifests('manifests/demo', `${data}/manifests`);
  const urls = new Map(fleetNames.map((name, i) => [name as string, `http://127.0.0.1:${enginePorts[i]}`]));
  await setAddresses(`${data}/manifests`, urls);

  const logFile = (name: string) => (options.logs ? undefined : `${data}/${name}.log`);
  const engines = new ManagedProcess('engines', ['demo/engines.ts', '--ports', enginePorts.join(',')], {
    logFile: logFile('engines'),
  });
  const gateway = new ManagedProcess('gateway', ['src/main.ts', 'serve', '--config', 'demo/gateway.yaml'], {
    logFile: logFile('gateway'),
    environment: { DEMO_PORT: String(options.port), DEMO_HOST: options.host, DEMO_DATA: data },
  });
  const children = [gateway, engines];
  const stopped = stopOnSignal(children);
  try {
    const base = `http://${options.host === '0.0.0.0' || options.host === '127.0.0.1' ? 'localhost' : options.host}:${options.port}`;
    await Promise.race([waitUntilReady(base, gateway, data), stopped]);
    if (!children.some((child) => child.stopping)) announce(base, options.host, urls, data, copied, options.logs);
    const failed = await Promise.race([stopped, ...children.map((child) => child.done.then(() => child))]);
    if (failed !== 'stopped' && !failed.stopping) throw new ChildProcessFailed(failed);
    await stopped;
    return 0;
  } finally {
    await Promise.all(children.map((child) => child.stop()));
  }
}

/** Ends when a signal has come and all children are stopped; a second signal ends them the hard way. */
function stopOnSignal(children: readonly ManagedProcess[]): Promise<'stopped'> {
  return new Promise((resolveStopped) => {
    let signals = 0;
    const stop = () => {
      signals += 1;
      if (signals > 1) {
        for (const child of children) child.kill();
        return;
      }
      console.log('\nStopping …');
      Promise.all(children.map((child) => child.stop())).then(
        () => resolveStopped('stopped'),
        () => resolveStopped('stopped'),
      );
    };
    process.on('SIGINT', stop).on('SIGTERM', stop).on('SIGHUP', stop);
    const starters = startersOf();
    const watch = setInterval(() => {
      if (starters.every(isRunning)) return;
      clearInterval(watch);
      if (signals === 0) stop();
    }, 500).unref();
  });
}

/** Returns the ids of npm and of its shell if npm started this process: they do not pass it on that they were killed. */
function startersOf(): readonly number[] {
  if (process.env.npm_lifecycle_event !== 'start') return [];
  const shell = process.ppid;
  const { stdout } = spawnSync('ps', ['-o', 'ppid=,comm=', '-p', String(shell)], { encoding: 'utf8' });
  const [, npm] = /^ *(\d+) +(?:.*\/)?sh$/m.exec(stdout ?? '') ?? [];
  return npm === undefined ? [shell] : [shell, Number(npm)];
}

function isRunning(id: number): boolean {
  try {
    return process.kill(id, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function announce(
  base: string,
  host: string,
  urls: ReadonlyMap<string, string>,
  data: string,
  copied: boolean,
  logs: boolean,
): void {
  const groups = new Map([...urls.keys()].map((name) => [name, name.replace(/-\d+$/, '')]));
  const reach = isLoopback(host)
    ? `no login; reachable from this machine only (${host})`
    : `WARNING: no login, and it listens on ${host}: anyone who reaches that address may change clusters and rules`;
  const engineLines = [...urls].map(([name, url]) => `  ${name.padEnd(10)} ${url}   routing group ${groups.get(name)}`);
  const url = base === 'http://localhost:8080' ? '' : `--url ${base} `;
  console.log(`
Engine Gateway runs. Ctrl-C stops everything.

  gateway    ${base}   SQL, REST API, and pages for a browser at /engine-gateway
  access     ${reach}
${engineLines.join('\n')}
  resources  ${data}/manifests/*.yaml, ${copied ? 'just copied from manifests/demo' : 'copied from manifests/demo at the first start'}:
             edit them while it runs; REST calls write into them, too
  database   ${data}/gateway.db${logs ? '' : `\n  logs       ${data}/gateway.log, ${data}/engines.log`}

Try it: a query with its rows, another one in the routing group etl, and the command line of Trino.

  npm run -s query -- ${url}'SELECT name FROM tpch.tiny.nation LIMIT 3'
  npm run -s query -- ${url}--group etl 'SELECT node_id FROM system.runtime.nodes'
  trino --server ${base} --user me --execute 'SELECT name FROM tpch.tiny.nation LIMIT 3'

npm run query prints the page of its query, which shows the cluster that ran it and the reason.

Further: ${base}/gateway/backend/all lists the clusters. The engines know SQL of SQLite, tpch.tiny.nation,
TABLE(sequence(start => 1, stop => 100000)), TABLE(slow(seconds => 20)) and more: docs/demo.md.
`);
}

try {
  process.exitCode = await run();
} catch (error) {
  const plain = error instanceof StartError || error instanceof ChildProcessFailed;
  console.error(plain ? error.message : error);
  process.exitCode = 1;
}
