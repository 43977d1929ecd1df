import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { certificateFolder } from '../support/certificates.ts';
import { type Answer, type Step, send, sendHttp2 } from './client.ts';
import { type Engine, type EngineRequest, type EngineResponse, startEngine } from './engine.ts';
import { manifestsFor } from './manifests.ts';
import { type Gateway, type Program, startProgram } from './program.ts';
import { scrub } from './scrub.ts';
import { http2Transcripts, plainTranscripts, queueTranscripts, type Transcripts } from './transcripts.ts';

/** Records requests, what of them reaches the clusters, and the responses: all transcripts of all gateways. */
export async function recordProtocol(program: Program): Promise<Record<string, unknown>> {
  return {
    ...(await record(program, 'Engine', 'plain', {}, plainTranscripts())),
    ...(await record(program, 'Trino', 'plain', {}, plainTranscripts())),
    ...(await record(program, 'Engine', 'errors by status', { routing: { statementErrors: 'http' } }, rejected())),
    ...(await recordQueue(program)),
    ...(await recordHttp2(program)),
  };
}

/** Transcripts that end in a rejection by the gateway. */
function rejected(): Transcripts {
  const isRejected = /^rule for|nowhere|zzzzz|nonsense|secret|prepared|default catalog/;
  return Object.fromEntries(Object.entries(plainTranscripts()).filter(([name]) => isRejected.test(name)));
}

const manifests = (engine: string, other: string, limits = ''): string => {
  const head = (kind: string, name: string) =>
    `---\napiVersion: enginegateway.dev/v1\nkind: ${kind}\nmetadata: {name: ${name}}\n`;
  const rule = (name: string, fields: string) =>
    `${head('RoutingRule', name)}spec: {condition: 'request.getHeader("X-P-Source") == "${name}"', ${fields}}\n`;
  return [
    `${head('EngineCluster', 'a')}spec: {proxyTo: "${engine}", routingGroup: adhoc}\n`,
    `${head('EngineCluster', 'b')}spec: {proxyTo: "${other}", routingGroup: etl}\n`,
    rule('etl', 'routeTo: {routingGroup: etl}'),
    rule('pinned', 'routeTo: {cluster: b}'),
    rule('reject', 'routeTo: {routingGroup: nowhere, onUnavailable: reject}'),
    rule('deny', 'deny: {message: "not today"}'),
    rule('tags', 'actions: ["result.put(\\"routingGroup\\", \\"etl\\")"]'),
    `${head('RoutingRule', 'secret')}spec: {condition: 'pQueryProperties.tablesContains("hive.secret.t")', deny: {message: "secret table"}}\n`,
    limits === '' ? '' : `${head('RoutingGroup', 'adhoc')}spec: ${limits}\n`,
  ].join('');
};

type Send = (base: string, step: Step) => Promise<Answer>;

/** A gateway before two scripted engines, with a way to send to it. */
interface Setup {
  readonly product: 'Engine' | 'Trino';
  readonly gateway: Gateway;
  readonly engines: readonly Engine[];
  readonly send: Send;
}

async function withSetup<Result>(
  program: Program,
  product: Setup['product'],
  config: Readonly<Record<string, unknown>>,
  {
    limits = '',
    sendBy = send,
    base = (gateway: Gateway) => gateway.url,
  }: { limits?: string; sendBy?: Send; base?: (gateway: Gateway) => string },
  use: (setup: Setup) => Promise<Result>,
): Promise<Result> {
  const engines = [await startEngine('aaaaa', scriptedResponse), await startEngine('bbbbb', scriptedResponse)];
  const folder = mkdtempSync(join(tmpdir(), 'baseline-protocol-'));
  const [first, second] = engines;
  const text = manifestsFor(program, manifests(first?.url ?? '', second?.url ?? '', limits));
  writeFileSync(join(folder, 'all.yaml'), named(text, product));
  try {
    const gateway = await startProgram(program, {
      protocol: { productName: product },
      authentication: 'none',
      requestAnalyzerConfig: { analyzeRequest: true },
      resources: { source: 'directory', directory: folder },
      ...config,
    });
    try {
      const address = base(gateway);
      return await use({ product, gateway, engines, send: (_base, step) => sendBy(address, step) });
    } finally {
      await gateway.stop();
    }
  } finally {
    for (const engine of engines) await engine.stop();
    rmSync(folder, { recursive: true });
  }
}

function record(
  program: Program,
  product: Setup['product'],
  kind: string,
  config: Readonly<Record<string, unknown>>,
  transcripts: Transcripts,
): Promise<Record<string, unknown>> {
  return withSetup(program, product, config, {}, (setup) => play(setup, `${product}, ${kind}`, transcripts));
}

/** Each transcript of the queue has a gateway of its own, as queries that run stay. */
async function recordQueue(program: Program): Promise<Record<string, unknown>> {
  const recording: Record<string, unknown> = {};
  for (const [name, steps] of Object.entries(queueTranscripts)) {
    const config = { admission: { secret: 'a secret of the queue for recordings' } };
    const limits = '{maxRunningQueries: 1, queue: {maxQueued: 2, maxWait: 1m}}';
    Object.assign(
      recording,
      await withSetup(program, 'Engine', config, { limits }, (setup) =>
        play(setup, 'Engine, queue', { [name]: steps }),
      ),
    );
  }
  return recording;
}

async function recordHttp2(program: Program): Promise<Record<string, unknown>> {
  const folder = certificateFolder();
  try {
    const authority = folder.authority('clients');
    const keystore = authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file;
    const serverConfig = {
      'http-server.https.enabled': true,
      'http-server.https.port': 0,
      'http-server.https.keystore.path': keystore,
    };
    const sendBy: Send = (base, step) => sendHttp2(base, authority.cert, step);
    const base = ({ log }: Gateway) => String(log.find((line) => line.msg === 'listening')?.httpsUrl);
    return await withSetup(program, 'Engine', { serverConfig }, { sendBy, base }, (setup) =>
      play(setup, 'Engine, HTTP/2', http2Transcripts),
    );
  } finally {
    folder.dispose();
  }
}

/** Plays transcripts one after the other. */
async function play(setup: Setup, kind: string, transcripts: Transcripts): Promise<Record<string, unknown>> {
  const recording: Record<string, unknown> = {};
  for (const [name, steps] of Object.entries(transcripts)) recording[`${kind}: ${name}`] = await playOne(setup, steps);
  return recording;
}

async function playOne({ product, gateway, engines, send: sendStep }: Setup, steps: readonly Step[]): Promise<unknown> {
  const played: unknown[] = [];
  let page: { id?: string; nextUri?: string } = {};
  let last = '';
  let first = '';
  for (const step of steps) {
    const nextPath = page.nextUri === undefined ? '/v1/statement/none' : pathOf(page.nextUri);
    const path =
      { NEXT: nextPath, SAME: last, FIRST: first }[step.path ?? ''] ??
      (step.path ?? '/v1/statement').replace('ID', page.id ?? '');
    const headers = (step.headers ?? []).map(
      ([header, value]) => [named(header, product), named(value, product)] as const,
    );
    last = path;
    const reached = engines.map(({ requests }) => requests.length);
    const response = await sendStep(gateway.url, { ...step, path: named(path, product), headers }).catch(
      (error: Error) => error,
    );
    const received = engines.map(({ requests }, index) => requests.slice(reached[index]).map(shownRequest));
    if (response instanceof Error) {
      played.push({ request: `${step.method ?? 'POST'} ${shownPath(path)}`, failed: true });
      continue;
    }
    page = asPage(response.text) ?? page;
    first ||= page.nextUri === undefined ? '' : pathOf(page.nextUri);
    played.push({
      request: `${step.method ?? 'POST'} ${shownPath(path)}`,
      status: response.status,
      headers: shownHeaders(response.headers),
      body: shownBody(response.text),
      received: { a: received[0], b: received[1] },
    });
  }
  return played;
}

function named(text: string, product: string): string {
  return text
    .replaceAll('X-P-', `X-${product}-`)
    .replace(/\bpQuery/, `${product.toLowerCase()}Query`)
    .replace('/p/', `/${product.toLowerCase()}/`)
    .replace('P-UI-', `${product}-UI-`);
}

function pathOf(url: string): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

function asPage(text: string): { id?: string; nextUri?: string } | undefined {
  try {
    const value = JSON.parse(text) as { id?: string };
    return typeof value.id === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Headers that differ from run to run or say nothing. */
const omitted = new Set(['date', 'content-length', 'keep-alive', 'etag', 'last-modified', 'server']);

/** Header lines by name, so that their order does not count. */
function shownHeaders(headers: readonly (readonly [string, string])[]): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, value] of headers.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (omitted.has(name)) continue;
    const text = name === 'x-forwarded-port' && value !== '8443' ? 'PORT' : shownText(value);
    shown[name] = name in shown ? `${shown[name]} | ${text}` : text;
  }
  return shown;
}

function shownRequest({ method, path, headers, body }: EngineRequest): unknown {
  return { request: `${method} ${shownPath(path)}`, headers: shownHeaders(headers), body: shownText(body) };
}

function shownBody(text: string): unknown {
  try {
    return JSON.parse(shownText(text)) as unknown;
  } catch {
    return shownText(text).slice(0, 2_000);
  }
}

const shownPath = (path: string): string => shownText(path);

function shownText(text: string): string {
  return scrub(text)
    .replace(/\b20\d{6}_\d{6}_\d{5}_(refused|queued)_\w+/g, 'QUERY_$1')
    .replace(/\b20\d{6}_\d{6}_\d+_queue\b/g, 'QUERY_queue')
    .replace(/\b20\d{6}_\d{6}_\d{5}_(?!zzzzz)(\w{5})\b/g, 'QUERY_$1')
    .replace(/QUERY_(?!aaaaa|bbbbb|refused|queued)\w{5}\b/g, 'QUERY_own')
    .replace(/("(?:elapsed|queued)TimeMillis":)\d+/g, '$1"N"')
    .replace(/\/x[0-9a-f]{20,}|\/[A-Za-z0-9_-]{30,}/g, '/TOKEN');
}

/** Responses of the scripted engine to statements that name one. */
function scriptedResponse({ method, body }: EngineRequest, base: string): EngineResponse | undefined {
  if (method !== 'POST') return undefined;
  const id = '20260101_000000_99999_aaaaa';
  const page = (extra: object) => ({
    id,
    infoUri: `${base}/ui/query.html?${id}`,
    stats: { state: 'FINISHED' },
    ...extra,
  });
  const [, status] = /^status (\d+)$/.exec(body) ?? [];
  if (status !== undefined)
    return { status: Number(status), headers: { 'content-type': 'text/plain' }, body: `answer ${status}` };
  const error = (errorType: string) =>
    page({ error: { message: 'broken', errorCode: 1, errorName: 'X', errorType }, stats: { state: 'FAILED' } });
  const responses: Readonly<Record<string, EngineResponse>> = {
    redirect: { status: 307, headers: { location: `${base}/v1/elsewhere` }, body: '' },
    text: { headers: { 'content-type': 'text/plain' }, body: 'hello' },
    empty: { body: '' },
    broken: { body: '{"id":"' },
    error: { body: error('INTERNAL_ERROR') },
    'user error': { body: error('USER_ERROR') },
    cookie: {
      headers: { 'set-cookie': 'engine=1; Path=/; HttpOnly' },
      body: page({ nextUri: `${base}/v1/statement/executing/${id}/y2/2` }),
    },
    'session headers': {
      headers: { 'x-trino-set-session': 'a=b', 'x-trino-set-catalog': 'hive', 'x-engine-set-session': 'a=b' },
      body: page({}),
    },
    transaction: {
      headers: {
        'x-trino-started-transaction-id': '11111111-0000-4000-8000-000000000000',
        'x-engine-started-transaction-id': '11111111-0000-4000-8000-000000000000',
      },
      body: page({}),
    },
    gzip: { headers: { 'content-encoding': 'gzip' }, body: gzipSync(JSON.stringify(page({}))) },
    warning: { body: page({ warnings: [{ warningCode: { code: 1, name: 'W' }, message: 'careful' }] }) },
  };
  return responses[body];
}
