import type { IncomingMessage, ServerResponse } from 'node:http';
import { startServer } from './gateway.ts';

/** Content of the next new page of each query; `rows` is followed by the end. */
export type MortalPage = 'queued' | 'columns' | 'rows' | 'segment' | 'failed';

/** A cluster whose queries do what the test says, until it dies. */
export interface MortalEngine {
  readonly url: string;
  readonly port: number;
  /** Texts of its submissions. */
  readonly texts: readonly string[];
  readonly headers: readonly IncomingMessage['headers'][];
  /** Ids of cancelled queries. */
  readonly cancelled: readonly string[];
  page: MortalPage;
  columns: readonly object[];
  /** Warnings of each page. */
  warnings: readonly object[];
  /** Name of the error of failed queries. */
  errorName: string;
  /** Accepts submissions, and ends their connections without a response. */
  isDumb: boolean;
  /** Columns of first responses; none by default. */
  firstPage: MortalPage;
  /** Refuses connections from now on. */
  die(): Promise<void>;
  /** As a coordinator that was started again: it knows no query. */
  forget(suffix: string): void;
}

/** @param suffix five characters that its query ids end in */
export async function startMortalEngine(suffix: string, value: string): Promise<MortalEngine> {
  let count = 0;
  let ending = suffix;
  const pages = new Map<string, string>();
  const engine = {
    url: '',
    port: 0,
    texts: [] as string[],
    headers: [] as IncomingMessage['headers'][],
    cancelled: [] as string[],
    page: 'queued' as MortalPage,
    isDumb: false,
    firstPage: 'queued' as MortalPage,
    columns: [{ name: 'a', type: 'varchar' }] as readonly object[],
    warnings: [] as readonly object[],
    errorName: 'CLUSTER_OUT_OF_MEMORY',
    die: () => Promise.resolve(),
    forget: (next: string) => {
      ending = next;
      pages.clear();
    },
  };
  const contentOf = (page: MortalPage) => {
    const { columns } = engine;
    if (page === 'columns') return { columns };
    if (page === 'rows') return { columns, data: [[value]] };
    if (page === 'segment')
      return { columns, data: { encoding: 'json', segments: [{ type: 'inline', data: 'W10=' }] } };
    return page === 'failed'
      ? {
          error: {
            message: 'too large',
            errorCode: 131076,
            errorName: engine.errorName,
            errorType: 'INSUFFICIENT_RESOURCES',
          },
        }
      : {};
  };
  const respond = (request: IncomingMessage, response: ServerResponse, body: string) => {
    response.setHeader('content-type', 'application/json');
    response.end(body);
    request.resume();
  };
  const server = await startServer((request, response) => {
    const { host, 'x-forwarded-host': name, 'x-forwarded-port': port } = request.headers;
    const base = name === undefined ? `http://${host}` : `http://${String(name).split(':')[0]}:${port}`;
    const textOf = (id: string, token: number, page: MortalPage | 'end') => {
      const isLast = page === 'end' || page === 'failed';
      const next = isLast ? {} : { nextUri: `${base}/v1/statement/executing/${id}/x/${token + 1}` };
      const state = { stats: { state: isLast ? 'FINISHED' : 'RUNNING' }, warnings: engine.warnings };
      return JSON.stringify({
        id,
        infoUri: `${base}/ui/${id}`,
        ...next,
        ...(page === 'end' ? {} : contentOf(page)),
        ...state,
      });
    };
    if (request.method === 'POST') {
      let text = '';
      request.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      request.on('end', () => {
        engine.texts.push(text);
        engine.headers.push(request.headers);
        if (engine.isDumb) {
          request.socket.destroy();
          return;
        }
        const id = `20261127_000000_${String(count++).padStart(5, '0')}_${ending}`;
        pages.set(`${id}/0`, engine.firstPage);
        respond(request, response, textOf(id, 0, engine.firstPage));
      });
      return;
    }
    if (request.url === '/v1/info') {
      respond(request, response, '{"starting":false}');
      return;
    }
    const [, , , , id = '', , last = ''] = (request.url ?? '').split(/[/?]/);
    const token = Number(last);
    if (!pages.has(`${id}/0`)) {
      response.writeHead(404).end('Query not found');
      return;
    }
    if (request.method === 'DELETE') {
      engine.cancelled.push(id);
      response.writeHead(204).end();
      return;
    }
    const hadRows = /^(rows|segment)/.test(pages.get(`${id}/${token - 1}`) ?? '');
    const page = pages.get(`${id}/${token}`) ?? (hadRows ? 'end' : engine.page);
    pages.set(`${id}/${token}`, page);
    respond(request, response, textOf(id, token, page as MortalPage | 'end'));
  });
  engine.url = server.url;
  engine.port = server.port;
  engine.die = server.close;
  return engine;
}
