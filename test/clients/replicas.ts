import { type Front, startFront } from '../engine/front.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { startPostgresql } from '../support/postgresql.ts';
import { startRoundRobin } from './roundRobin.ts';

/** Files of gateways that serve HTTPS. */
export interface ReplicaCertificates {
  /** PKCS#12 file of the certificate that clients are shown. */
  readonly own: string;
  readonly password: string;
  /** PEM file of the authority of the clusters' certificates. */
  readonly clusters: string;
}

/** Two replicas of the gateway that share a PostgreSQL database. */
export interface Replicas {
  /**
   * Gives them a server as a cluster of a group of its own.
   * @returns the front by which requests come to it, the next replica at each; once both take queries for it
   */
  add(server: string): Promise<Front>;
  /**
   * Makes a server the only cluster of the default group.
   * @returns `https://localhost:PORT`: the next replica at each connection; once both take queries for it
   */
  replaceOverHttps(server: string): Promise<string>;
  stop(): Promise<void>;
}

/** Lines of a log that an error shows. */
const SHOWN_LINES = 20;
const READY_MILLIS = 90_000;

const config = {
  protocol: { productName: 'Trino' },
  resources: { source: 'database' },
  monitor: { taskDelay: '1s', timeout: '10s' },
};

export async function startReplicas(certificates?: ReplicaCertificates): Promise<Replicas> {
  const database = await startPostgresql();
  const dataStore = await database.createDatabase();
  const serverConfig =
    certificates === undefined
      ? {}
      : {
          'http-server.https.enabled': true,
          'http-server.https.port': 0,
          'http-server.https.keystore.path': certificates.own,
          'http-server.https.keystore.key': certificates.password,
          'proxy.http-client.trust-store-path': certificates.clusters,
          'monitor.http-client.trust-store-path': certificates.clusters,
        };
  const gateways = await Promise.all([1, 2].map(() => startGateway({ ...config, dataStore, serverConfig })));
  const [first] = gateways as [GatewayProcess];
  const fronts: Front[] = [];
  const securePorts = gateways.flatMap(({ listening }) =>
    listening.httpsUrl === undefined ? [] : [Number(new URL(String(listening.httpsUrl)).port)],
  );
  const secureFront = await startRoundRobin(securePorts);
  let clusters = 0;
  const addCluster = async (proxyTo: string, routingGroup?: string): Promise<string> => {
    clusters += 1;
    const name = `trino-${clusters}`;
    const cluster = { name, proxyTo, active: true, routingGroup: routingGroup ?? name };
    await post(first, '/gateway/backend/modify/add', cluster);
    await untilEach(
      async (gateway) => (await stateOf(gateway, name)).includes('"HEALTHY"'),
      `takes queries for ${name}`,
    );
    return name;
  };
  const untilEach = async (condition: (gateway: GatewayProcess) => Promise<boolean>, what: string) => {
    for (const gateway of gateways) {
      await until(() => condition(gateway), `${gateway.url} ${what}`, READY_MILLIS).catch((error: unknown) => {
        const log = gateway.log.slice(-SHOWN_LINES).map((line) => JSON.stringify(line));
        throw new Error(`${error}; the last lines of its log:\n${log.join('\n')}`);
      });
    }
  };
  let overHttps: string | null = null;
  return {
    add: async (server) => {
      const name = await addCluster(server);
      const front = await startFront(
        gateways.map(({ url }) => url),
        false,
        ['X-Trino-Routing-Group', name],
      );
      fronts.push(front);
      return front;
    },
    replaceOverHttps: async (server) => {
      const before = overHttps;
      if (before !== null) {
        await post(first, '/gateway/backend/modify/delete', before);
        await untilEach(async (gateway) => (await stateOf(gateway, before)).startsWith('404'), `forgets ${before}`);
      }
      overHttps = await addCluster(server, 'adhoc');
      return `https://localhost:${secureFront.port}`;
    },
    stop: async () => {
      await Promise.all([...fronts, secureFront].map((front) => front.close()));
      await Promise.all(gateways.map((gateway) => gateway.stop()));
      await database.dispose();
    },
  };
}

async function post({ url }: GatewayProcess, path: string, content: unknown): Promise<void> {
  const headers = { 'Content-Type': 'application/json' };
  const body = typeof content === 'string' ? content : JSON.stringify(content);
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} of ${body} is answered ${response.status}: ${text}`);
}

/** The status of a cluster and what the gateway says of it. */
async function stateOf({ url }: GatewayProcess, name: string): Promise<string> {
  const response = await fetch(`${url}/api/public/backends/${name}/state`);
  return `${response.status} ${await response.text()}`;
}
