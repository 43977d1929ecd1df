/** The engines of the demonstration: names, groups and ports, as in manifests/demo. */
import { createServer, type Server } from 'node:http';
import { text } from 'node:stream/consumers';
import { type EngineState, type SimulatedEngine, startSimulatedEngine } from './simulatedEngine.ts';

/** Clusters of the demonstration, in the order of their ports. */
export const fleetNames = ['adhoc-1', 'adhoc-2', 'etl-1'] as const;
/** Ports when none are given. */
export const fleetPorts: readonly number[] = [18_461, 18_462, 18_463];

export interface FleetOptions {
  readonly ports: readonly number[];
  readonly productName: string;
  /** Port of the control endpoint; none without it. */
  readonly controlPort?: number;
}

export interface Fleet {
  readonly engines: readonly SimulatedEngine[];
  /** URL of the control endpoint. */
  readonly controlUrl: string | undefined;
  close(): Promise<void>;
}

/** Starts the engines and, where asked for, their control endpoint, all on 127.0.0.1. */
export async function startFleet({ ports, productName, controlPort }: FleetOptions): Promise<Fleet> {
  const engines: SimulatedEngine[] = [];
  let control: Server | undefined;
  const close = async () => {
    control?.closeAllConnections();
    control?.close();
    await Promise.all(engines.map((engine) => engine.close()));
  };
  try {
    for (const [i, name] of fleetNames.entries()) {
      engines.push(await startSimulatedEngine({ name, productName, port: ports[i] ?? 0 }));
    }
    if (controlPort !== undefined) control = await startControl(engines, controlPort);
  } catch (error) {
    await close();
    throw error;
  }
  const address = control?.address();
  const controlUrl =
    address !== null && typeof address === 'object' ? `http://127.0.0.1:${address.port}/engines` : undefined;
  return { engines, controlUrl, close };
}

/**
 * The control endpoint: `GET /engines` lists them, `POST /engines/NAME` with a JSON EngineState, whole or in part,
 * changes how one behaves, `POST /engines/NAME/restart` starts it as a new coordinator.
 */
async function startControl(engines: readonly SimulatedEngine[], port: number): Promise<Server> {
  const server = createServer((request, response) => {
    const respond = (status: number, body: object) => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
    };
    control(engines, request.method ?? 'GET', request.url ?? '/', () => text(request)).then(
      ({ status, body }) => respond(status, body),
      (error: unknown) => respond(500, { error: String(error) }),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return server;
}

const describeEngine = ({ name, url, suffix, state, queries }: SimulatedEngine) => ({
  name,
  url,
  suffix,
  state,
  queries: queries.length,
});

async function control(
  engines: readonly SimulatedEngine[],
  method: string,
  url: string,
  body: () => Promise<string>,
): Promise<{ status: number; body: object }> {
  const [, root, name, action] = url.split('/');
  if (root !== 'engines') return { status: 404, body: { error: 'the control endpoint is /engines' } };
  if (name === undefined || name === '') return { status: 200, body: engines.map(describeEngine) };
  const engine = engines.find((each) => each.name === name);
  if (engine === undefined) return { status: 404, body: { error: `there is no engine "${name}"` } };
  if (method === 'POST' && action === 'restart') await engine.restart();
  else if (method === 'POST') {
    const change = readState(await body(), engine.state);
    if (typeof change === 'string') return { status: 400, body: { error: change } };
    engine.setState(change);
  }
  return { status: 200, body: describeEngine(engine) };
}

/** The wanted change of state, or what is wrong with it. */
function readState(json: string, current: EngineState): Partial<EngineState> | string {
  let change: unknown;
  try {
    change = JSON.parse(json);
  } catch {
    return 'the body must be a JSON object such as {"starting": true}';
  }
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return 'the body must be a JSON object';
  for (const [key, value] of Object.entries(change)) {
    if (!Object.hasOwn(current, key)) return `${key}: unknown; known are ${Object.keys(current).join(', ')}`;
    const expectedType = typeof current[key as keyof EngineState];
    if (typeof value !== expectedType) return `${key}: must be a ${expectedType}`;
  }
  return change as Partial<EngineState>;
}
