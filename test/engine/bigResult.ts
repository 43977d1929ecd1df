import { readFile } from 'node:fs/promises';
import { Agent, request as httpRequest } from 'node:http';

/** What was fetched of a result that nobody could hold in memory. */
export interface Fetched {
  /** Of all answers, as they came over the connection. */
  readonly bytes: number;
  readonly answers: number;
  readonly state: string | undefined;
}

/** The URL that comes before the data of an answer lies within this many bytes. */
const HEAD_BYTES = 16_384;

/** Runs a query and fetches its result without keeping it, and without compression. */
export async function fetchAll(url: string, sql: string): Promise<Fetched> {
  const agent = new Agent({ keepAlive: true });
  let bytes = 0;
  let answers = 0;
  try {
    let page = await ask(agent, 'POST', `${url}/v1/statement`, sql);
    for (;;) {
      bytes += page.bytes;
      answers += 1;
      const next = /"nextUri":"([^"]+)"/.exec(page.start)?.[1];
      if (next === undefined) return { bytes, answers, state: /"state":"(\w+)"/.exec(page.start)?.[1] };
      page = await ask(agent, 'GET', next, '');
    }
  } finally {
    agent.destroy();
  }
}

function ask(agent: Agent, method: string, url: string, body: string): Promise<{ start: string; bytes: number }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { agent, method, headers: { 'X-Trino-User': 'suite' } }, (response) => {
      let start = '';
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        if (bytes < HEAD_BYTES) start += chunk.toString('latin1', 0, HEAD_BYTES - bytes);
        bytes += chunk.length;
      });
      response.on('error', reject).on('end', () => {
        if (response.statusCode === 200) resolve({ start, bytes });
        else reject(new Error(`${url} answered ${response.statusCode}: ${start}`));
      });
    });
    sent.on('error', reject).end(body);
  });
}

/** Largest resident memory of a process so far, in megabytes. */
export async function peakMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  if (kilobytes === undefined) throw new Error(`no VmHWM in the status of process ${pid}`);
  return Number(kilobytes) / 1024;
}
