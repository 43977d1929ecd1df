/** `npm start`: the gateway with its embedded database, and three simulated engine clusters to send queries to. */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fleetNames, fleetPorts } from '../demo/fleet.ts';
import { ChildProcessFailed, ManagedProcess } from '../demo/managedProcess.ts';
import { copyManifests, setAddresses } from '../demo/manifests.ts';
import { isPortFree, parsePort } from '../demo/ports.ts';
import { isLoopback } from '../src/config/openAccess.ts';

const usage = `npm start [-- OPTIONS]
  --port N                the gateway's port; PORT in the environment, else 8080
  --host ADDRESS          address the gateway listens on; 127.0.0.1 without it. There is no login: anyone who reaches
                          another address may change clusters and rules
  --engine-ports A,B,C    ports of the three simulated engines; else ${fleetPorts.join(',')}
  --logs                  show the logs here instead of writing them to data/`;

const root = resolve(import.meta.dirname, '..');
process.chdir(root);
const manifests = 'data/demo-manifests';

/** A mistake of the user: printed without a stack. */
class StartError extends Error {}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: 'string', default: process.env.PORT ?? '8080' },
        host: { type: 'string', default: '127.0.0.1' },
        'engine-ports': { type: 'string', default: fleetPorts.join(',') },
        logs: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    const enginePorts = values['engine-ports'].split(',').map((port) => parsePort(port, '--engine-ports'));
    if (enginePorts.length !== fleetNames.length || new Set(enginePorts).size !== fleetNames.length) {
      throw new Error(
        `--engine-ports: ${fleetNames.length} different ports are needed, such as ${fleetPorts.join(',')}`,
      );
    }
    return { ...values, port: parsePort(values.port, '--port'), enginePorts };
  } catch (error) {
    throw new StartError(`${error instanceof Error ? error.message : error}\n\n${usage}`);
  }
}

async function requirePorts(host: string, port: number, enginePorts: readonly number[]): Promise<void> {
  if (!(await isPortFree(port, host))) {
    throw new StartError(
      `Port ${port} is taken. Stop the program that listens there, or choose another: npm start -- --port ${port + 1}`,
    );
  }
  for (const enginePort of enginePorts) {
    if (enginePort !== port && (await isPortFree(enginePort, '127.0.0.1'))) continue;
    const others = fleetNames.map((_, i) => 28_461 + i).join(',');
    throw new StartError(
      `Port ${enginePort}, for a simulated engine, is taken. Stop the program that listens there, or choose others: npm start -- --engine-ports ${others}`,
    );
  }
}

/** Waits until the gateway answers that it is ready. */
async function waitUntilReady(base: string, gateway: ManagedProcess): Promise<void> {
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
    if (deadline.aborted) throw new StartError('The gateway was not ready within 30 s; see data/gateway.log');
    await new Promise((next) => setTimeout(next, 50));
  }
}

async function run(): Promise<number> {
  const options = readOptions();
  await requirePorts(options.host, options.port, options.enginePorts);
  // `npm ci` has built it; this is for sources that changed since.
  execFileSync(process.execPath, ['scripts/buildUi.ts', '--if-stale'], { stdio: 'inherit' });
  const copied = await copyManifests('manifests/demo', manifests);
  const urls = new Map(fleetNames.map((name, i) => [name as string, `http://127.0.0.1:${options.enginePorts[i]}`]));
  await setAddresses(manifests, urls);

  const logFile = (name: string) => (options.logs ? undefined : `data/${name}.log`);
  const engines = new ManagedProcess('engines', ['demo/engines.ts', '--ports', options.enginePorts.join(',')], {
    logFile: logFile('engines'),
  });
  const gateway = new ManagedProcess('gateway', ['src/main.ts', 'serve', '--config', 'demo/gateway.yaml'], {
    logFile: logFile('gateway'),
    environment: { DEMO_PORT: String(options.port), DEMO_HOST: options.host },
  });
  const children = [gateway, engines];
  const stopped = stopOnSignal(children);
  try {
    const base = `http://${options.host === '0.0.0.0' || options.host === '127.0.0.1' ? 'localhost' : options.host}:${options.port}`;
    await Promise.race([waitUntilReady(base, gateway), stopped]);
    if (!children.some((child) => child.stopping)) announce(base, options.host, urls, copied, options.logs);
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
  });
}

function announce(base: string, host: string, urls: ReadonlyMap<string, string>, copied: boolean, logs: boolean): void {
  const groups = new Map([...urls.keys()].map((name) => [name, name.replace(/-\d+$/, '')]));
  const reach = isLoopback(host)
    ? `no login; reached from this machine alone (${host})`
    : `WARNING: no login, and it listens on ${host}: anyone who reaches that address may change clusters and rules`;
  const engineLines = [...urls].map(([name, url]) => `  ${name.padEnd(10)} ${url}   routing group ${groups.get(name)}`);
  console.log(`
Engine Gateway runs. Ctrl-C stops everything.

  gateway    ${base}   SQL, REST API, and pages for a browser at /engine-gateway
  access     ${reach}
${engineLines.join('\n')}
  resources  ${manifests}/*.yaml, ${copied ? 'just copied from manifests/demo' : 'copied from manifests/demo at the first start'}:
             edit them while it runs; REST calls write into them, too
  database   data/gateway.db${logs ? '' : '\n  logs       data/gateway.log, data/engines.log'}

Try it:

  curl -s -X POST ${base}/v1/statement -H 'X-Engine-User: me' -d 'SELECT node_id FROM system.runtime.nodes'

The answer is QUEUED and holds a nextUri. GET it, and the next one, until an answer has none: rows are in "data".
This does so, and sends the query to the routing group etl:

  npm run -s query -- --url ${base} --group etl 'SELECT node_id FROM system.runtime.nodes'

Further: ${base}/gateway/backend/all lists the clusters. The engines know tpch.tiny.nation, arithmetic,
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
