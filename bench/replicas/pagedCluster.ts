import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

/** A cluster in a thread of its own: each query has two pages after the response to its submission. */
export async function startPagedCluster(): Promise<{ readonly url: string; readonly stop: () => Promise<unknown> }> {
  const worker = new Worker(import.meta.filename);
  const [port] = (await once(worker, 'message')) as [number];
  return { url: `http://127.0.0.1:${port}`, stop: () => worker.terminate() };
}

function serve(): void {
  let count = 0;
  const stats = {
    nodes: 1,
    totalSplits: 1,
    elapsedTimeMillis: 4,
    queuedTimeMillis: 1,
    cpuTimeMillis: 2,
    processedRows: 1,
  };
  const result = { columns: [{ name: '_col0', type: 'integer' }], data: [[1]] };
  const server = createServer((request, response) => {
    request.resume();
    const { 'x-forwarded-host': forwarded, 'x-forwarded-port': port, host } = request.headers;
    const base = forwarded === undefined ? `http://${host}` : `http://${String(forwarded).split(':')[0]}:${port}`;
    const [, , , , id = '', , page] = request.url?.split('/') ?? [];
    const isNew = request.method === 'POST';
    const time = new Date().toISOString().replace(/[-:]/g, '').replace('T', '_').slice(0, 15);
    const queryId = isNew ? `${time}_${String(count++ % 100_000).padStart(5, '0')}_bench` : id;
    const next = isNew ? 1 : page === '1' ? 2 : null;
    const nextUri = `${base}/v1/statement/executing/${queryId}/x/${next}`;
    const state = isNew ? 'QUEUED' : next === null ? 'FINISHED' : 'RUNNING';
    const body = {
      ...{ id: queryId, infoUri: base, stats: { state, ...stats } },
      ...(next === null ? {} : { nextUri }),
      ...(next === 2 ? result : {}),
    };
    response.setHeader('content-type', 'application/json');
    if (request.headers['x-engine-transaction-id'] === 'NONE')
      response.setHeader('x-engine-started-transaction-id', queryId);
    response.end(JSON.stringify(request.url === '/v1/info' ? { starting: false } : body));
  });
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
}

if (!isMainThread) serve();
