import { json } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { openTelemetryTracing, type TracingOptions } from '../../../src/gateway/tracing/openTelemetry.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { freePort } from '../../support/freePort.ts';
import {
  capturingLogger,
  closeAll,
  closing,
  clusterAt,
  startGateway,
  startServer,
  type TestGatewayOptions,
  until,
} from '../../support/gateway.ts';
import { valuesOf } from '../../support/rawHttp.ts';
import { follow, submit } from '../../support/statementClient.ts';

afterEach(closeAll);

/** A span as OTLP in JSON has it, its attributes as a record. */
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly status: { readonly code?: number; readonly message?: string };
  readonly attributes: Readonly<Record<string, unknown>>;
}
type Attribute = { key: string; value: Record<string, unknown> };

/** A receiver of OTLP over HTTP. */
async function startReceiver() {
  const spans: Span[] = [];
  const resources: Record<string, unknown>[] = [];
  const paths = new Set<string>();
  const record = (attributes: Attribute[]) =>
    Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
  const { url } = await startServer((request, response) => {
    paths.add(`${request.method} ${request.url} ${request.headers['content-type']}`);
    void json(request).then((body) => {
      const { resourceSpans } = body as {
        resourceSpans: {
          resource: { attributes: Attribute[] };
          scopeSpans: { spans: (Omit<Span, 'attributes'> & { attributes: Attribute[] })[] }[];
        }[];
      };
      for (const { resource, scopeSpans } of resourceSpans) {
        resources.push(record(resource.attributes));
        for (const scope of scopeSpans) {
          for (const span of scope.spans) spans.push({ ...span, attributes: record(span.attributes) });
        }
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  return { url, spans, resources, paths };
}

async function traced(endpoint: string, options: TestGatewayOptions, more: Partial<TracingOptions> = {}) {
  const log: Record<string, unknown>[] = [];
  const tracing = openTelemetryTracing({
    endpoint,
    samplingRatio: 1,
    serviceName: 'engine-gateway',
    version: '1.2.3',
    instance: 'replica-1',
    logger: capturingLogger(log),
    clock: systemClock,
    ...more,
  });
  closing({ close: () => tracing.close() });
  return { gateway: await startGateway({ ...options, tracing }), tracing, log };
}

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const fromClient = { traceparent: `00-${traceId}-${parentId}-01`, tracestate: 'vendor=a,other=b' };
const tracingHeaders = (request: { readonly rawHeaders: readonly string[] } | undefined) => ({
  traceparent: valuesOf(request!.rawHeaders, 'traceparent'),
  tracestate: valuesOf(request!.rawHeaders, 'tracestate'),
});

test("a submission goes on in its client's trace, step by step, to the cluster", async () => {
  const receiver = await startReceiver();
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
  const gone = clusterAt('b', `http://127.0.0.1:${await freePort()}`);
  const { gateway, tracing } = await traced(receiver.url, {
    clusters: [clusterAt('a', engine.url), gone],
    // The last of the two is taken first.
    random: () => 0.99,
  });
  const first = await submit(gateway.url, 'SELECT 1', { headers: fromClient });
  await follow(first.nextUri!);
  await until(() => engine.requests.length === 2, 'both requests');
  await tracing.close();

  expect([...receiver.paths]).toEqual(['POST /v1/traces application/json']);
  expect(receiver.resources[0]).toMatchObject({
    'service.name': 'engine-gateway',
    'service.version': '1.2.3',
    'service.instance.id': 'replica-1',
  });
  const ours = receiver.spans.filter((span) => span.traceId === traceId);
  const root = ours.find((span) => span.name === 'POST submission')!;
  expect(root).toMatchObject({ kind: 2, parentSpanId: parentId });
  expect(root.attributes).toEqual({
    'http.request.method': 'POST',
    'http.response.status_code': 200,
    'engine_gateway.request.kind': 'submission',
    'engine_gateway.routing_group': 'adhoc',
    'engine_gateway.decided_by': 'default',
    'engine_gateway.query_digest': 'f8ae09aedd50f21d',
    'engine_gateway.query_id': first.id,
    'engine_gateway.attempts': 2,
  });
  const steps = ours.filter((span) => span !== root);
  expect(steps.every((span) => span.parentSpanId === root.spanId)).toBe(true);
  expect(steps.map((span) => span.name)).toEqual(['analysis', 'choice', 'cluster', 'choice', 'cluster']);
  const [refused, answered] = steps.filter((span) => span.name === 'cluster');
  expect(refused).toMatchObject({ kind: 3, status: { code: 2, message: 'connection refused' } });
  expect(answered!.attributes).toEqual({
    'engine_gateway.cluster': 'a',
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(engine.url).port),
    'http.response.status_code': 200,
  });
  expect(tracingHeaders(engine.requests[0])).toEqual({
    traceparent: [`00-${traceId}-${answered!.spanId}-01`],
    tracestate: [fromClient.tracestate],
  });

  const polled = receiver.spans.find((span) => span.name === 'GET follow_up')!;
  expect(polled.traceId).not.toBe(traceId);
  expect(polled.attributes).toMatchObject({ 'engine_gateway.query_id': first.id });
  expect(tracingHeaders(engine.requests[1]).traceparent[0]).toMatch(
    new RegExp(`^00-${polled.traceId}-[0-9a-f]{16}-01$`),
  );
  const text = JSON.stringify(receiver.spans);
  expect(text).not.toContain('SELECT');
});

test('a refused query has an error', async () => {
  const receiver = await startReceiver();
  const { gateway, tracing } = await traced(`${receiver.url}/own/path`, { clusters: [] });
  await submit(gateway.url, 'SELECT 1');
  await tracing.close();
  expect([...receiver.paths]).toEqual(['POST /own/path application/json']);
  expect(receiver.spans.map((span) => [span.name, span.status.message])).toEqual([
    ['analysis', undefined],
    ['choice', 'no_cluster'],
    ['POST submission', undefined],
  ]);
});

test.each<[string, Record<string, string>, number, RegExp]>([
  [
    'its client says so',
    { traceparent: `00-${traceId}-${parentId}-00` },
    1,
    new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`),
  ],
  ['no share is', {}, 0, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/],
])('a trace that is not sampled, as %s, is passed on and not sent', async (_name, headers, samplingRatio, passed) => {
  const receiver = await startReceiver();
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
  const clusters = [clusterAt('a', engine.url)];
  const { gateway, tracing } = await traced(receiver.url, { clusters }, { samplingRatio });
  await submit(gateway.url, 'SELECT 1', { headers });
  await tracing.close();
  expect(receiver.spans).toEqual([]);
  expect(tracingHeaders(engine.requests[0]).traceparent[0]).toMatch(passed);
});

test('a traceparent that is none begins a new trace', async () => {
  const receiver = await startReceiver();
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
  const { gateway, tracing } = await traced(receiver.url, { clusters: [clusterAt('a', engine.url)] });
  await submit(gateway.url, 'SELECT 1', { headers: { traceparent: 'nonsense', tracestate: 'vendor=a' } });
  await tracing.close();
  expect(receiver.spans.find((span) => span.name === 'POST submission')).not.toHaveProperty('parentSpanId');
  expect(tracingHeaders(engine.requests[0])).toMatchObject({
    traceparent: [expect.stringMatching(/^00-/)],
    tracestate: [],
  });
});

test('while traces are off, their headers pass untouched', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
  const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
  await submit(gateway.url, 'SELECT 1', { headers: { ...fromClient, traceparent: 'as it is' } });
  expect(tracingHeaders(engine.requests[0])).toEqual({
    traceparent: ['as it is'],
    tracestate: [fromClient.tracestate],
  });
});

test('a receiver that is unavailable is logged once, and queries run', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'a' }));
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  const { gateway, tracing, log } = await traced(endpoint, { clusters: [clusterAt('a', engine.url)] });
  expect((await submit(gateway.url, 'SELECT 1')).nextUri).toBeDefined();
  await tracing.close();
  const warned = () => log.filter((line) => line.msg === 'failed to send traces');
  await until(() => warned().length > 0, 'the warning', 15_000);
  expect(warned()).toMatchObject([{ endpoint: `${endpoint}/v1/traces` }]);
});
