import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { mariadb, postgresql, type TestDatabase } from '../support/databases.ts';
import { closeAll, startServer, until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { manifest } from '../support/manifest.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';
import { pathOf, type QueryResults } from '../support/statementClient.ts';

const LIMIT = 5;

/** A cluster that counts how often each statement came and how many run, each for a moment after it was followed. */
async function startCluster() {
  const submissions = new Map<string, number>();
  const running = new Set<string>();
  let most = 0;
  let count = 0;
  const cluster = await startServer((request, response) => {
    let body = '';
    const answer = (value: object) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      const base = `http://${request.headers['x-forwarded-host']}:${request.headers['x-forwarded-port']}`;
      if (request.url === '/v1/info') answer({ starting: false });
      else if (request.method === 'POST') {
        submissions.set(body, (submissions.get(body) ?? 0) + 1);
        const id = `20261121_000000_${String(++count).padStart(5, '0')}_abcde`;
        answer({ id, infoUri: base, nextUri: `${base}/v1/statement/executing/${id}/x/1`, stats: { state: 'RUNNING' } });
      } else {
        const id = request.url?.split('/')[4] ?? '';
        // As engines do: a query that was lost with its replica is never followed, and never runs.
        running.add(id);
        most = Math.max(most, running.size);
        setTimeout(() => {
          running.delete(id);
          answer({ id, infoUri: base, stats: { state: 'FINISHED' } });
        }, 50);
      }
    });
  });
  return { url: cluster.url, submissions, most: () => most };
}

for (const database of [postgresql, mariadb]) {
  describe.skipIf(!database.available())(`the queue of two replicas on ${database.name}`, () => {
    let server: TestDatabase;
    let folder: string;
    let replicas: GatewayProcess[] = [];

    beforeAll(async () => {
      server = await database.start();
    });
    afterEach(async () => {
      await Promise.all(replicas.splice(0).map((replica) => replica.stop('SIGKILL')));
      await closeAll();
      await rm(folder, { recursive: true, force: true });
    });
    afterAll(() => server?.dispose());

    test('100 clients end right though a replica is killed: none runs twice, never more than the limit', async () => {
      const cluster = await startCluster();
      folder = await mkdtemp(join(tmpdir(), 'queue-'));
      const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));
      await writeFile(
        join(folder, 'resources.yaml'),
        [
          resource('EngineCluster', 'one', { proxyTo: cluster.url, routingGroup: 'adhoc', maxRunningQueries: LIMIT }),
          resource('RoutingGroup', 'adhoc', { queue: { hold: '100ms', maxWait: '5m' } }),
        ].join('---\n'),
      );
      const dataStore = await server.create();
      const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
      const keyPair = { privateKeyRsa, publicKeyRsa };
      replicas = await Promise.all(
        [0, 1].map(() =>
          startGateway({
            dataStore,
            authentication: {
              defaultType: 'form',
              form: { selfSignKeyPair: keyPair },
            },
            presetUsers: { admin: { password: 'password', privileges: 'ADMIN' } },
            resources: { source: 'directory', directory: folder },
          }),
        ),
      );
      const urls = replicas.map(({ url }) => url);
      for (const url of urls) await until(async () => (await fetch(`${url}/readyz`)).status === 200, 'readiness');
      let ended = 0;
      const errors: string[] = [];
      /** Runs a statement as clients do: what fails on the way is asked again, at the next replica. */
      const client = async (number: number) => {
        let turn = number;
        const ask = async (path: string, body?: string): Promise<QueryResults> => {
          for (;;) {
            try {
              const method = body === undefined ? 'GET' : 'POST';
              const headers = { 'X-Engine-User': `user${number % 7}`, Authorization: 'Basic secret-credential' };
              const response = await fetch(`${urls[turn % 2]}${path}`, { method, headers, body: body ?? null });
              if (response.status === 200) return (await response.json()) as QueryResults;
              await response.text();
            } catch {
              // Of a submission nobody knows whether it came: such a client would end with an error.
              if (body !== undefined) throw new Error('the replica of a submission ended');
            }
            turn++;
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
        };
        let page = await ask('/v1/statement', `SELECT ${number}`);
        while (page.nextUri !== undefined) page = await ask(pathOf(page.nextUri));
        if (page.error !== undefined) errors.push(page.error.message);
        ended++;
      };
      const clients = Promise.all(Array.from({ length: 100 }, (_, number) => client(number)));
      await until(() => ended >= 20, 'the first queries');
      await replicas[1]?.stop('SIGKILL');
      await clients;
      expect(ended).toBe(100);
      for (const message of errors) expect(message).toContain('may have run');
      expect([...cluster.submissions.values()].filter((times) => times > 1)).toEqual([]);
      expect(cluster.most()).toBeLessThanOrEqual(LIMIT);
    }, 120_000);
  });
}
